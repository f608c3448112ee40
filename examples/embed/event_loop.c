/* mortise in a program that has an event loop of its own, here libuv's: two hosts and a bare client beside a timer, on one
 * thread. The scripts of both hosts take turns at one path; the client asks for it, too, and gets it after them.
 *
 *   event_loop STORE PATH */
#include <lua.h>
#include <mortise/host.h>
#include <mortise/mortise.h>
#include <stdio.h>
#include <uv.h>

/* ---- The bridge: what a loop needs ------------------------------------------------------------- */

typedef struct bridge {
  mortise_loop *loop;
  uv_poll_t ready;      /* the descriptor has something */
  uv_timer_t due;       /* or a time has come */
  uv_prepare_t waiting; /* libuv is about to wait: until when? */
} bridge;

static void step(bridge *b) {
  mortise_error err;
  if (mortise_loop_step(b->loop, &err)) fprintf(stderr, "event_loop: %s\n", err.message);
}

static void on_ready(uv_poll_t *handle, int status, int events) {
  (void)status;
  (void)events;
  step(handle->data);
}

static void on_due(uv_timer_t *handle) {
  step(handle->data);
}

static void on_waiting(uv_prepare_t *handle) {
  bridge *b = handle->data;
  int ms = mortise_loop_timeout_ms(b->loop);
  if (ms < 0)
    uv_timer_stop(&b->due);
  else
    uv_timer_start(&b->due, on_due, (uint64_t)ms, 0);
}

static void build_bridge(bridge *b, mortise_loop *loop) {
  b->loop = loop;
  uv_poll_init(uv_default_loop(), &b->ready, mortise_loop_fd(loop));
  uv_timer_init(uv_default_loop(), &b->due);
  uv_prepare_init(uv_default_loop(), &b->waiting);
  b->ready.data = b->due.data = b->waiting.data = b;
  uv_poll_start(&b->ready, UV_READABLE, on_ready);
  uv_prepare_start(&b->waiting, on_waiting);
}

static void burn_bridge(bridge *b) {
  uv_close((uv_handle_t *)&b->ready, NULL);
  uv_close((uv_handle_t *)&b->due, NULL);
  uv_close((uv_handle_t *)&b->waiting, NULL);
}

/* ---- The program ------------------------------------------------------------------------------- */

static const char script[] =
    "local path, who = ...\n"
    "return mortise.with_tree_lock(path, function(lock)\n"
    "  mortise.sleep '200ms' lock:check()\n"
    "  return who .. ' had ' .. path\n"
    "end)\n";

static bridge mine;
static uv_timer_t ticking;
static int running, ticks, failed;

static void one_less(void) {
  if (--running) return;
  uv_close((uv_handle_t *)&ticking, NULL);
  burn_bridge(&mine); /* nothing is left to wait for: uv_run returns */
}

static void script_ended(void *ctx, mortise_host *host, int nresults, const mortise_error *error) {
  (void)ctx;
  if (error->code) {
    fprintf(stderr, "event_loop: %s\n", mortise_host_traceback(host));
    failed = mortise_status_exit(error->code);
  } else if (nresults) {
    printf("%s\n", lua_tostring(mortise_host_state(host), -1));
  }
  one_less();
}

static void lock_had(void *ctx, const mortise_outcome *outcome) {
  if (outcome->lock) {
    printf("the client has %s, with fence %llu\n", (const char *)ctx,
           (unsigned long long)mortise_lock_fence(outcome->lock));
    mortise_lock_release(outcome->lock, NULL); /* in a callback it does not wait */
  } else {
    fprintf(stderr, "event_loop: %s\n", outcome->error.message);
    failed = mortise_status_exit(outcome->error.code);
  }
  one_less();
}

static void on_tick(uv_timer_t *handle) {
  (void)handle;
  ticks++; /* the loop is never held up */
}

static int start(mortise_options *options, const char *path) {
  mortise_error err;
  mortise_client *client = mortise_client_open(options, &err);
  if (!client) return fprintf(stderr, "event_loop: %s\n", err.message), mortise_status_exit(err.code);
  for (int i = 0; i < 2; i++) {
    mortise_host *host = mortise_host_new(options, &err);
    const char *const arguments[] = {path, i ? "the second host" : "the first host"};
    if (!host || !mortise_host_start_string(host, script, "=script", arguments, 2, script_ended, NULL, &err))
      return fprintf(stderr, "event_loop: %s\n", err.message), mortise_status_exit(err.code);
  }
  mortise_lock_request request;
  mortise_lock_request_init(&request);
  request.paths = &path;
  request.n = 1;
  if (!mortise_lock_acquire_start(client, &request, lock_had, (void *)path, &err))
    return fprintf(stderr, "event_loop: %s\n", err.message), mortise_status_exit(err.code);
  running = 3;
  return 0;
}

int main(int argc, char **argv) {
  mortise_error err;
  mortise_options options;
  if (argc != 3) return fprintf(stderr, "usage: event_loop STORE PATH\n"), 2;
  mortise_options_init(&options);
  options.store = argv[1];
  options.program = "event_loop";
  options.loop = mortise_loop_new(&err);
  if (!options.loop) return fprintf(stderr, "event_loop: %s\n", err.message), mortise_status_exit(err.code);
  int status = start(&options, argv[2]);
  if (!status) {
    build_bridge(&mine, options.loop);
    uv_timer_init(uv_default_loop(), &ticking);
    uv_timer_start(&ticking, on_tick, 10, 10);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    status = failed;
    if (!status) printf("the timer ticked %d times meanwhile\n", ticks);
  }
  mortise_loop_free(options.loop); /* with its hosts and its client */
  uv_loop_close(uv_default_loop());
  return status;
}
