#include "lock/breaking.h"

#include "base/mem.h"

#include <stdio.h>

enum {
  PEEK_MS = 1000,      /* how often the session is read while it is marked */
  PAUSE_MS = 200,      /* after a request that failed */
  PATIENCE_MS = 30000, /* how long requests may fail in a row */
  EVICT_ITEMS = MT_LIST_PAGE,
  ROUNDS_MAX = 100, /* of listing the namespace */
  REFUSALS_MAX = 100,
  PATHS_MAX = 64 << 20,
  MISSING_LEASE_MS = 60000,
};

static int64_t now_of(const mt_breaking *b) {
  return b->env->now_ms(b->env->ctx);
}

/* A hanging request must not take longer than the lease itself. */
static int64_t deadline(const mt_breaking *b) {
  int64_t ms = b->lease_ms > 1000 ? b->lease_ms : 1000;
  return now_of(b) + (ms < b->store->request_ms && b->lease_ms ? ms : b->store->request_ms);
}

static void enter_phase(mt_breaking *b, mt_breaking_phase phase, int64_t due_ms) {
  b->phase = phase;
  b->due_ms = due_ms;
}

static void fail_breaking(mt_breaking *b, const mortise_error *err) {
  b->error = *err;
  enter_phase(b, MT_BREAKING_FAILED, INT64_MAX);
}

static void mark_answered(mt_breaking *b) {
  b->busy = false;
}

static void tell_changed(mt_breaking *b) {
  if (b->config.changed) b->config.changed(b->config.ctx);
}

/* Did the request succeed? If not, schedules another try, or fails for good. An ambiguous outcome
 * needs no care: every step begins by reading the current state. */
static bool succeeded(mt_breaking *b, const mortise_error *err) {
  int64_t now = now_of(b);
  if (!err->code) {
    b->trouble_ms = 0;
    return true;
  }
  if (!b->trouble_ms) b->trouble_ms = now;
  bool passing =
      err->retryable || err->code == MORTISE_UNAVAILABLE || err->code == MORTISE_CONFLICT;
  if (!passing || now - b->trouble_ms >= PATIENCE_MS)
    fail_breaking(b, err);
  else
    enter_phase(b, b->phase == MT_BREAKING_EVICTING ? b->phase : MT_BREAKING_LOOKING,
                now + PAUSE_MS);
  return false;
}

/* ---- Evicting ------------------------------------------------------------------------------- */

static bool of_session(const mt_breaking *b, mt_json entries, bool guards) {
  for (mt_json_iter it = mt_json_items(entries); mt_json_next(&it);)
    if (mt_json_is(mt_json_get(it.value, "session"), b->session) &&
        (guards || mt_json_get(it.value, "job").type != MT_JSON_STRING))
      return true;
  return false;
}

/* Makes items of the page's documents that have entries of the session to be evicted. A place in a queue guards
 * nothing. */
static size_t collect_paths(mt_breaking *b, mt_json page) {
  size_t n = 0;
  mt_buf_clear(&b->paths);
  for (mt_json_iter it = mt_json_items(page); n < EVICT_ITEMS && mt_json_next(&it);) {
    if (!of_session(b, mt_json_get(it.value, "holders"), b->config.guards) &&
        !of_session(b, mt_json_get(it.value, "queue"), true))
      continue;
    mt_place place;
    if (!mt_place_read_json(it.value, &b->paths, &place)) continue;
    b->items[n++] = (mt_lock_item){.verb = MT_LOCK_EVICT,
                                   .place = place,
                                   .session = b->session,
                                   .guard = b->config.guards};
  }
  const char *at = b->paths.p; /* the buffer grows no more */
  for (size_t i = 0; i < n; at += b->items[i++].place.path.n) b->items[i].place.path.p = at;
  return n;
}

static void evicted(void *ctx, mt_req *req) {
  mt_breaking *b = ctx;
  mark_answered(b);
  for (size_t i = 0; i < b->batch.n; i++) b->evicted += b->items[i].result == MT_LOCK_ACKED;
  mt_lock_batch_deinit(&b->batch);
  /* The next listing finds items that met a version conflict again. */
  if (succeeded(b, &req->error)) enter_phase(b, MT_BREAKING_EVICTING, now_of(b));
  tell_changed(b);
}

static void evict(mt_breaking *b, size_t n) {
  b->batch = (mt_lock_batch){
      .req = {.done = evicted, .ctx = b, .deadline_ms = deadline(b), .idempotent = true},
      .ns = b->ns,
      .session = b->session,
      .items = b->items,
      .n = n};
  b->busy = true;
  b->store->locks->batch(b->store, &b->batch);
}

static void drop_listing(mt_breaking *b) {
  if (b->list.listing) b->store->locks->list_close(b->store, b->list.listing);
  b->list.listing = NULL;
  mt_lock_list_deinit(&b->list);
}

/* Evicts what a page shows before the next one is read. Done when a whole listing shows nothing. */
static void go_through(mt_breaking *b, size_t n) {
  bool last = !b->list.listing;
  b->found |= n > 0;
  if (last && (!b->found || ++b->rounds >= ROUNDS_MAX))
    enter_phase(b, MT_BREAKING_DONE, INT64_MAX);
  else if (n)
    evict(b, n);
  else
    enter_phase(b, MT_BREAKING_EVICTING, now_of(b));
}

static void listed(void *ctx, mt_req *req) {
  mt_breaking *b = ctx;
  mark_answered(b);
  mt_json root;
  mortise_error err = req->error;
  size_t n = 0;
  if (succeeded(b, &err)) {
    if (mt_json_parse(mt_slice_of(b->list.json), "the list of locks", &root, &err))
      fail_breaking(b, &err);
    else
      n = collect_paths(b, root);
    if (mt_buf_status(&b->paths, "the paths of its locks", &err)) fail_breaking(b, &err);
  }
  mt_lock_list_deinit(&b->list);
  if (err.code)
    drop_listing(b); /* a retry lists from the start */
  else if (b->phase == MT_BREAKING_EVICTING)
    go_through(b, n);
  tell_changed(b);
}

/* Fails the breaking and returns false without memory. */
static bool need_items(mt_breaking *b, size_t n) {
  if (!b->items) b->items = mt_calloc(n, sizeof *b->items);
  if (b->items) return true;
  mortise_error err;
  mt_error_memory(&err);
  fail_breaking(b, &err);
  tell_changed(b);
  return false;
}

/* Listing is only for cleaning up: an entry that it misses is evicted by the next session that it
 * blocks, since its own session has ended. It lists the whole namespace, because no search finds
 * one session's intention locks. */
static void list(mt_breaking *b) {
  if (!need_items(b, EVICT_ITEMS)) return;
  if (!b->list.listing) {
    b->list = (mt_lock_list){.ns = b->ns, .page = EVICT_ITEMS};
    b->found = false;
  }
  b->list.req = (mt_req){.done = listed, .ctx = b, .deadline_ms = deadline(b)};
  b->busy = true;
  b->store->locks->list(b->store, &b->list);
}

/* ---- The session's document ----------------------------------------------------------------- */

/* Counts from now: no beat was acknowledged after this version was written. */
static void wait_from_now(mt_breaking *b, mt_version version) {
  b->version = version;
  b->seen = b->marked = true;
  b->until_ms = now_of(b) + b->lease_ms + b->config.margin_ms;
}

/* The session changed meanwhile: read it again. A session has few states, so this ends. */
static void on_refusal(mt_breaking *b) {
  mortise_error err;
  if (++b->refusals < REFUSALS_MAX) {
    enter_phase(b, MT_BREAKING_LOOKING, now_of(b) + PAUSE_MS / 4);
    return;
  }
  mt_error_set(&err, MORTISE_CORRUPT_TABLE,
               "session %s: the lock table goes on refusing what its state allows: run `mortise "
               "init` again",
               b->session);
  fail_breaking(b, &err);
}

static void session_written(void *ctx, mt_req *req) {
  mt_breaking *b = ctx;
  mark_answered(b);
  if (succeeded(b, &req->error)) {
    if (b->write.result != MT_SESSION_ACKED) {
      on_refusal(b);
    } else if (b->write.verb == MT_SESSION_BREAK) {
      wait_from_now(b, b->write.version);
      enter_phase(b, MT_BREAKING_WAITING, now_of(b));
    } else {
      enter_phase(b, MT_BREAKING_EVICTING, now_of(b));
    }
  }
  tell_changed(b);
}

static void write_session_verb(mt_breaking *b, mt_session_verb verb) {
  bool missing = verb == MT_SESSION_EXPIRE && !b->version.term;
  b->write =
      (mt_session_write){.req = {.done = session_written, .ctx = b, .deadline_ms = deadline(b)},
                         .verb = verb,
                         .ns = b->ns,
                         .session = b->session,
                         .lease_ms = missing ? MISSING_LEASE_MS : b->lease_ms};
  if (verb == MT_SESSION_EXPIRE) b->write.if_version = b->version;
  if (verb == MT_SESSION_BREAK && b->config.by) b->write.by = mt_slice_of(b->config.by);
  if (verb != MT_SESSION_BREAK) b->phase = MT_BREAKING_ENDING;
  b->busy = true;
  b->store->locks->session(b->store, &b->write);
}

static void expire(mt_breaking *b, mt_version version) {
  b->version = version;
  write_session_verb(b, MT_SESSION_EXPIRE);
}

static int64_t peek_pause(const mt_breaking *b) {
  int64_t pause = b->lease_ms / 8;
  return pause < 50 ? 50 : pause > PEEK_MS ? PEEK_MS : pause;
}

/* The mark is ours or somebody else's; the wait for another's counts from when we first saw it. */
static void go_on_waiting(mt_breaking *b, const mt_session_doc *doc) {
  if (!b->seen || !mt_version_equal(b->version, doc->version)) wait_from_now(b, doc->version);
  int64_t now = now_of(b), peek = now + peek_pause(b);
  if (now >= b->until_ms)
    expire(b, doc->version);
  else
    enter_phase(b, MT_BREAKING_WAITING, peek < b->until_ms ? peek : b->until_ms);
}

static void session_judge(mt_breaking *b, const mt_session_doc *doc) {
  bool standing = doc->state == MT_SESSION_LIVE || doc->state == MT_SESSION_BROKEN;
  b->lease_ms = doc->lease_ms;
  b->marked = doc->state == MT_SESSION_BROKEN;
  b->gone = standing && doc->owner && b->config.known_dead &&
            b->config.known_dead(b->config.ctx, doc->owner);
  if (doc->state == MT_SESSION_MISSING)
    expire(b, (mt_version){0});
  else if (!standing)
    write_session_verb(b, MT_SESSION_PROVE);
  else if (b->gone || doc->damaged) /* no client relies on it, so there is no lease to wait for */
    expire(b, doc->version);
  else if (b->marked)
    go_on_waiting(b, doc);
  else
    write_session_verb(b, MT_SESSION_BREAK);
}

static void session_looked_at(void *ctx, mt_req *req) {
  mt_breaking *b = ctx;
  mark_answered(b);
  if (succeeded(b, &req->error)) session_judge(b, &b->read.docs[0]);
  mt_session_read_deinit(&b->read);
  tell_changed(b);
}

static void look_at_session(mt_breaking *b) {
  b->read = (mt_session_read){
      .req = {.done = session_looked_at, .ctx = b, .deadline_ms = deadline(b), .idempotent = true},
      .ns = b->ns,
      .ids = b->ids,
      .n = 1};
  b->busy = true;
  b->store->locks->session_read(b->store, &b->read);
}

/* ---- What is damaged at a path -------------------------------------------------------------- */

/* The acting session when a person removes damaged entries. */
static const char nobody[] = "00000000000000000000000000000000";

static void cleared(void *ctx, mt_req *req) {
  mt_breaking *b = ctx;
  mark_answered(b);
  mt_lock_result result = b->items[0].result;
  b->evicted += result == MT_LOCK_ACKED;
  mt_lock_batch_deinit(&b->batch);
  if (!succeeded(b, &req->error)) {
    tell_changed(b);
    return;
  }
  bool again = result == MT_LOCK_CONFLICT || result == MT_LOCK_BUSY;
  enter_phase(b, again ? MT_BREAKING_EVICTING : MT_BREAKING_DONE,
              again ? now_of(b) + PAUSE_MS / 4 : INT64_MAX);
  tell_changed(b);
}

static void clear_path(mt_breaking *b) {
  b->phase = MT_BREAKING_EVICTING;
  if (!need_items(b, 1)) return;
  b->items[0] =
      (mt_lock_item){.verb = MT_LOCK_EVICT, .place = mt_place_of_name(mt_slice_of(b->config.path))};
  evict(b, 1);
  b->batch.req.done = cleared;
}

/* ---- From outside --------------------------------------------------------------------------- */

void mt_breaking_init(mt_breaking *b, mt_store *store, const mt_env *env,
                      const mt_breaking_config *config) {
  memset(b, 0, sizeof *b);
  b->config = *config;
  b->store = store;
  b->env = env;
  snprintf(b->ns, sizeof b->ns, "%s", config->ns);
  snprintf(b->session, sizeof b->session, "%s", config->path ? nobody : config->session);
  b->ids[0] = b->session;
  mt_buf_init(&b->paths, PATHS_MAX);
}

int64_t mt_breaking_due(const mt_breaking *b) {
  return b->busy || mt_breaking_over(b) ? INT64_MAX : b->due_ms;
}

void mt_breaking_tick(mt_breaking *b) {
  if (now_of(b) < mt_breaking_due(b)) return;
  if (b->config.path)
    clear_path(b);
  else if (b->phase == MT_BREAKING_EVICTING)
    list(b);
  else
    look_at_session(b);
}

void mt_breaking_deinit(mt_breaking *b) {
  if (b->busy) {
    mt_store_cancel(b->store, &b->read.req);
    mt_store_cancel(b->store, &b->write.req);
    mt_store_cancel(b->store, &b->list.req);
    mt_store_cancel(b->store, &b->batch.req);
  }
  mt_session_read_deinit(&b->read);
  drop_listing(b);
  if (b->batch.items) mt_lock_batch_deinit(&b->batch);
  mt_free(b->items);
  mt_buf_deinit(&b->paths);
  b->busy = false;
}
