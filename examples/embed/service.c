/* A small HTTP service that renames directories on request, under tree locks, its handlers in Lua (service.lua): one host,
 * one thread, hundreds of requests at once, each waiting for its lock as long as its client does.
 *
 *   service STORE PORT [HANDLERS.lua]
 *   curl -X POST 'http://127.0.0.1:PORT/rename?index=fs&from=/a&to=/b'
 *
 * A handler is a function of the script's table, by the path's name: it gets a table of the query's arguments and returns
 * what is answered. A request whose client goes away is cancelled: its locks are given back, and what a rename has not
 * finished stays a job that can be resumed. */
#include <lauxlib.h>
#include <lua.h>
#include <microhttpd.h>
#include <mortise/host.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS_MAX = 900 }; /* at once; the rest waits in the queue of the listening socket */

typedef struct request {
  struct MHD_Connection *connection;
  mortise_run *run;
  int socket;
  unsigned status; /* of the answer; 0: under way */
  char *answer;    /* owned */
  struct request *before, *next;
} request;

static mortise_host *host;
static request *requests; /* whose scripts run */
static int unanswered;    /* all that came, until their answers are sent */
static volatile sig_atomic_t stopping;

/* ---- A request ---------------------------------------------------------------------------------- */

static void unlink_request(request *r) {
  if (r->next) r->next->before = r->before;
  if (r->before)
    r->before->next = r->next;
  else if (requests == r)
    requests = r->next;
  r->before = r->next = NULL;
}

/* Its handler has ended: the connection goes on, and is answered by `handle`. */
static void answer_with(request *r, unsigned status, const char *text) {
  unlink_request(r);
  r->run = NULL;
  r->status = status;
  r->answer = malloc(strlen(text) + 2);
  if (r->answer) sprintf(r->answer, "%s\n", text);
  MHD_resume_connection(r->connection);
}

static unsigned status_of(mortise_status code) {
  switch (code) {
  case MORTISE_OK: return MHD_HTTP_OK;
  case MORTISE_SCRIPT_ERROR:
  case MORTISE_INVALID_ARGUMENT: return MHD_HTTP_BAD_REQUEST;
  case MORTISE_NOT_FOUND: return MHD_HTTP_NOT_FOUND;
  case MORTISE_LOCK_TIMEOUT:
  case MORTISE_DEADLOCK: return MHD_HTTP_CONFLICT;
  case MORTISE_UNAVAILABLE:
  case MORTISE_LOCK_LOST:
  case MORTISE_INTERRUPTED: return MHD_HTTP_SERVICE_UNAVAILABLE;
  default: return MHD_HTTP_INTERNAL_SERVER_ERROR;
  }
}

static void handler_ended(void *ctx, mortise_host *of, int nresults, const mortise_error *error) {
  const char *text = nresults ? luaL_tolstring(mortise_host_state(of), -nresults, NULL) : "done";
  answer_with(ctx, status_of(error->code), error->code ? error->message : text);
}

static enum MHD_Result add_argument(void *ctx, enum MHD_ValueKind kind, const char *key, const char *value) {
  (void)kind;
  lua_State *L = ctx;
  lua_pushstring(L, value ? value : "");
  lua_setfield(L, -2, key);
  return MHD_YES;
}

/* Calls the handler of this name: nothing of it runs yet. */
static void start_handler(request *r, const char *name) {
  mortise_error err;
  lua_State *L = mortise_host_state(host);
  lua_getglobal(L, "handlers");
  if (lua_getfield(L, -1, name) != LUA_TFUNCTION) {
    lua_pop(L, 2);
    answer_with(r, MHD_HTTP_NOT_FOUND, "there is no such handler");
    return;
  }
  lua_remove(L, -2);
  lua_newtable(L);
  MHD_get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, add_argument, L);
  r->run = mortise_host_start_call(host, 1, handler_ended, r, &err);
  if (!r->run) {
    answer_with(r, MHD_HTTP_INTERNAL_SERVER_ERROR, err.message);
    return;
  }
  r->next = requests;
  if (requests) requests->before = r;
  requests = r;
}

static enum MHD_Result reply(request *r) {
  const char *text = r->answer ? r->answer : "";
  struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
  enum MHD_Result result = MHD_queue_response(r->connection, r->status, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **mine) {
  (void)ctx, (void)version, (void)data;
  request *r = *mine;
  if (!r) { /* its head has come */
    r = *mine = calloc(1, sizeof *r);
    if (!r) return MHD_NO;
    unanswered++;
    r->connection = connection;
    r->socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    return MHD_YES;
  }
  if (*size) { /* a body is not used */
    *size = 0;
    return MHD_YES;
  }
  if (r->status) return reply(r);
  MHD_suspend_connection(connection);
  if (strcmp(method, MHD_HTTP_METHOD_POST) != 0)
    answer_with(r, MHD_HTTP_METHOD_NOT_ALLOWED, "POST it");
  else
    start_handler(r, url + 1);
  return MHD_YES;
}

static void forget_request(void *ctx, struct MHD_Connection *connection, void **mine, enum MHD_RequestTerminationCode why) {
  (void)ctx, (void)connection, (void)why;
  request *r = *mine;
  if (!r) return;
  unanswered--;
  unlink_request(r);
  mortise_run_cancel(r->run);
  free(r->answer);
  free(r);
}

/* ---- The loop ------------------------------------------------------------------------------------ */

enum { LOOK_MS = 200 };

/* What is waited for: mortise, the server, and whether somebody hangs up whose request is under way. */
static void wait_for_all(mortise_loop *loop, struct MHD_Daemon *server) {
  static struct pollfd fds[2 + REQUESTS_MAX];
  static request *at[2 + REQUESTS_MAX];
  nfds_t n = 2;
  MHD_UNSIGNED_LONG_LONG soon;
  int ms = mortise_loop_timeout_ms(loop);
  fds[0] = (struct pollfd){.fd = mortise_loop_fd(loop), .events = POLLIN};
  fds[1] = (struct pollfd){.fd = MHD_get_daemon_info(server, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, .events = POLLIN};
  for (request *r = requests; r && n < 2 + REQUESTS_MAX; r = r->next) {
    at[n] = r;
    fds[n++] = (struct pollfd){.fd = r->socket, .events = POLLRDHUP};
  }
  if (MHD_get_timeout(server, &soon) == MHD_YES && (ms < 0 || (long long)soon < ms)) ms = (int)soon;
  if (ms < 0 || ms > LOOK_MS) ms = LOOK_MS; /* the server does not say that it has resumed one within its own turn */
  if (poll(fds, n, ms) < 0) return;
  for (nfds_t i = 2; i < n; i++)
    if (fds[i].revents) {
      mortise_run_cancel(at[i]->run);
      answer_with(at[i], MHD_HTTP_SERVICE_UNAVAILABLE, "its client has gone");
    }
}

static void stop(int number) {
  (void)number;
  stopping = 1; /* it interrupts poll */
}

static void serve(mortise_loop *loop, struct MHD_Daemon *server) {
  struct sigaction action = {.sa_handler = stop};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  while (!stopping) {
    wait_for_all(loop, server);
    mortise_loop_step(loop, NULL);
    MHD_run(server);
  }
  while (requests) { /* no more are taken; those under way are told */
    request *r = requests;
    mortise_run_cancel(r->run);
    answer_with(r, MHD_HTTP_SERVICE_UNAVAILABLE, "the service is being stopped");
  }
  for (int i = 0; unanswered && i < 200; i++) { /* one that does not read is waited for for two seconds */
    MHD_run(server);
    poll(NULL, 0, 10);
  }
}

int main(int argc, char **argv) {
  mortise_error err;
  mortise_options options;
  if (argc < 3) return fprintf(stderr, "usage: service STORE PORT [HANDLERS.lua]\n"), 2;
  mortise_options_init(&options);
  options.store = argv[1];
  options.program = "service";
  options.loop = mortise_loop_new(&err);
  host = options.loop ? mortise_host_new(&options, &err) : NULL;
  mortise_status status = host ? mortise_host_run_file(host, argc > 3 ? argv[3] : "service.lua", NULL, 0, &err) : err.code;
  struct MHD_Daemon *server = NULL;
  if (!status) {
    server = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, (unsigned short)atoi(argv[2]), NULL, NULL, handle, NULL,
                              MHD_OPTION_NOTIFY_COMPLETED, forget_request, NULL, MHD_OPTION_CONNECTION_LIMIT, REQUESTS_MAX,
                              MHD_OPTION_END);
    if (!server) mortise_status_exit(status = MORTISE_UNAVAILABLE), snprintf(err.message, sizeof err.message, "port %s", argv[2]);
  }
  if (status) {
    fprintf(stderr, "service: %s\n", err.message);
  } else {
    printf("it serves at http://127.0.0.1:%s\n", argv[2]);
    fflush(stdout);
    serve(options.loop, server);
    MHD_stop_daemon(server);
  }
  mortise_loop_free(options.loop); /* with its host */
  return mortise_status_exit(status);
}
