#include "client/breaker.h"

#include "base/mem.h"
#include "client/identity.h"
#include "lock/path.h"
#include "store/table.h"

struct mt_breaker {
  mortise_client *client;
  mt_breaking breaking;
  mt_timer tick;
  char *path; /* owned; NULL: a session is being broken */
};

static void arm_breaker(void *ctx) {
  mt_breaker *k = ctx;
  int64_t due = mt_breaking_due(&k->breaking);
  mt_loop *loop = k->client->loop;
  if (due == INT64_MAX)
    mt_timer_stop(loop, &k->tick);
  else if (mt_timer_start(loop, &k->tick, due, &k->breaking.error))
    k->breaking.phase = MT_BREAKING_FAILED;
}

static void on_breaker_tick(void *ctx) {
  mt_breaker *k = ctx;
  mt_breaking_tick(&k->breaking);
  arm_breaker(k);
}

static bool breaker_knows_dead(void *ctx, const char *owner_json) {
  const mt_breaker *k = ctx;
  return mt_identity_gone(k->client->base.identity, owner_json);
}

static mt_breaker *start_breaker(mortise_client *client, const char *session, bool guards,
                                 const char *path, mortise_error *err) {
  if (!mt_client_manager(client, err)) return NULL; /* this also determines our identity */
  mt_breaker *k = mt_calloc(1, sizeof *k);
  if (k && path) k->path = mt_strdup(path);
  if (!k || (path && !k->path)) {
    mt_free(k);
    mt_error_memory(err);
    return NULL;
  }
  k->client = client;
  k->tick = (mt_timer){.fire = on_breaker_tick, .ctx = k};
  const mortise_options *o = mt_client_options(client);
  const mt_breaking_config config = {.ns = o->ns,
                                     .session = session,
                                     .guards = guards,
                                     .path = k->path,
                                     .by = client->base.identity->json,
                                     .margin_ms = o->margin_ms,
                                     .known_dead = breaker_knows_dead,
                                     .changed = arm_breaker,
                                     .ctx = k};
  mt_breaking_init(&k->breaking, client->store, mt_env_system(), &config);
  arm_breaker(k);
  return k;
}

mt_breaker *mt_breaker_start(mortise_client *client, const char *session, bool guards,
                             mortise_error *err) {
  if (mt_session_valid(session)) return start_breaker(client, session, guards, NULL, err);
  mt_error_set(err, MORTISE_INVALID_ARGUMENT, "`%.80s` is no session: 32 hex digits", session);
  return NULL;
}

mt_breaker *mt_breaker_clear(mortise_client *client, const char *path, mortise_error *err) {
  size_t n = strlen(path);
  if (n == 0 || n > MT_PATH_MAX) {
    mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a path of %zu bytes: 1 to %d are possible", n,
                 MT_PATH_MAX);
    return NULL;
  }
  return start_breaker(client, NULL, false, path, err);
}

const mt_breaking *mt_breaker_state(const mt_breaker *k) {
  return &k->breaking;
}

void mt_breaker_free(mt_breaker *k) {
  if (!k) return;
  mt_timer_stop(k->client->loop, &k->tick);
  mt_breaking_deinit(&k->breaking);
  mt_free(k->path);
  mt_free(k);
}
