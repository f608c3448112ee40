#include "access/fetch.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

enum {
  RENEW_MS = 5 * 60 * 1000, /* before its end */
  RETRY_MS = 10 * 1000,     /* between two tries while the old one is still good */
  SETTLED_MS = 5 * 1000,    /* one that is refused so soon after it was fetched is no good; another will not be, either */
};

struct mt_secret {
  mt_loop *loop;
  mt_log log;
  mt_secret_config config;
  char *command;                /* owned */
  char **env;                   /* owned, as are its texts */
  size_t n_env;
  mt_credentials now;
  bool has, refused;
  int64_t fetched_ms, next_try_ms;
  mortise_error error;          /* of the last fetch */
  /* the thread's, until `fetched` runs */
  bool fetching;
  pthread_t thread;
  atomic_bool stop;
  mt_post fetched;
  mt_credentials next;
  mortise_error next_error;
};

static bool is_good(const mt_secret *s, int64_t wall_ms) {
  return s->has && !s->refused && (!s->now.expires_ms || wall_ms < s->now.expires_ms);
}

/* ---- The thread ----------------------------------------------------------------------------- */

static void *fetch_secret(void *ctx) {
  mt_secret *s = ctx;
  const mt_fetch f = {.stop = &s->stop, .command = s->command, .env = (const char *const *)s->env};
  mt_error_clear(&s->next_error);
  if (s->config.aws)
    mt_fetch_aws(&f, &s->next, &s->next_error);
  else
    mt_fetch_command(&f, &s->next, &s->next_error);
  mt_loop_post(s->loop, &s->fetched);
  return NULL;
}

static void on_fetched(void *ctx) {
  mt_secret *s = ctx;
  pthread_join(s->thread, NULL);
  s->fetching = false;
  s->error = s->next_error;
  s->fetched_ms = mt_loop_now(s->loop);
  s->next_try_ms = s->fetched_ms + RETRY_MS;
  if (!s->error.code) {
    s->next.round = s->now.round + 1;
    s->now = s->next;
    s->has = true;
    s->refused = false;
  } else if (is_good(s, mt_clock_wall_ms())) { /* else those that wait for it say so */
    mt_log_write(&s->log, MORTISE_LOG_WARNING, "%s", s->error.message);
  }
  explicit_bzero(&s->next, sizeof s->next);
  if (s->config.changed) s->config.changed(s->config.ctx);
}

static mortise_status start_fetch(mt_secret *s, mortise_error *err) {
  s->next = (mt_credentials){0};
  int failed = mt_thread_start(&s->thread, fetch_secret, s);
  if (failed) return mt_error_set(err, MORTISE_UNAVAILABLE, "no thread can be started: %s", strerror(failed));
  s->fetching = true;
  return MORTISE_OK;
}

/* ---- What the loop asks --------------------------------------------------------------------- */

mortise_status mt_secret_get(mt_secret *s, const mt_credentials **out, mortise_error *err) {
  int64_t wall_ms = mt_clock_wall_ms();
  bool good = is_good(s, wall_ms);
  bool ends = good && s->now.expires_ms && wall_ms >= s->now.expires_ms - RENEW_MS &&
              mt_loop_now(s->loop) >= s->next_try_ms;
  *out = good ? &s->now : NULL;
  if ((good && !ends) || s->fetching) return MORTISE_OK;
  mortise_status status = start_fetch(s, err);
  return good ? MORTISE_OK : status;
}

const mortise_error *mt_secret_error(const mt_secret *s) {
  return &s->error;
}

bool mt_secret_refused(mt_secret *s, uint64_t round) {
  if (round != s->now.round) return true; /* there is another already */
  if (mt_loop_now(s->loop) < s->fetched_ms + SETTLED_MS) return false;
  s->refused = true;
  return true;
}

/* ---- Its life ------------------------------------------------------------------------------- */

/* Of the environment now, since another thread may change it later. */
static mortise_status copy_env(mt_secret *s, mortise_error *err) {
  while (mt_aws_names[s->n_env]) s->n_env++;
  s->env = mt_calloc(s->n_env + 1, sizeof *s->env);
  if (!s->env) return mt_error_memory(err);
  for (size_t i = 0; i < s->n_env; i++) {
    const char *value = mt_aws_env(i);
    if (value && !(s->env[i] = mt_strdup(value))) return mt_error_memory(err);
  }
  return MORTISE_OK;
}

mt_secret *mt_secret_new(mt_loop *loop, const mt_secret_config *config, const mt_log *log, mortise_error *err) {
  mt_secret *s = mt_calloc(1, sizeof *s);
  if (!s) {
    mt_error_memory(err);
    return NULL;
  }
  s->loop = loop;
  s->config = *config;
  s->config.command = NULL;
  if (log) s->log = *log;
  s->fetched = (mt_post){.run = on_fetched, .ctx = s};
  mortise_status status = config->aws ? copy_env(s, err) : MORTISE_OK;
  if (!status && config->command && !(s->command = mt_strdup(config->command))) status = mt_error_memory(err);
  if (!status) return s;
  mt_secret_free(s);
  return NULL;
}

void mt_secret_free(mt_secret *s) {
  if (!s) return;
  atomic_store(&s->stop, true);
  if (s->fetching) pthread_join(s->thread, NULL);
  mt_loop_unpost(s->loop, &s->fetched);
  for (size_t i = 0; s->env && i < s->n_env; i++) mt_free_secret(s->env[i]);
  mt_free(s->env);
  mt_free(s->command);
  explicit_bzero(s, sizeof *s);
  mt_free(s);
}
