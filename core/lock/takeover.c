#include "lock/takeover.h"

#include "base/mem.h"
#include "lock/wait.h"

/* Where it stands, or would, in the order of the ids. */
static size_t seen_place(const mt_takeover *k, const char *id) {
  size_t from = 0, to = k->n;
  while (from < to) {
    size_t middle = from + (to - from) / 2;
    if (memcmp(k->seen[middle].id, id, MT_SESSION_ID) < 0)
      from = middle + 1;
    else
      to = middle;
  }
  return from;
}

static mt_seen *seen_find(const mt_takeover *k, const char *id) {
  size_t i = seen_place(k, id);
  return i < k->n && memcmp(k->seen[i].id, id, MT_SESSION_ID) == 0 ? &k->seen[i] : NULL;
}

/* Of two sessions, the one that is less worth remembering. */
static bool is_worth_less(const mt_seen *a, const mt_seen *b) {
  return a->swept != b->swept ? a->swept : a->read_ms < b->read_ms;
}

static void forget_oldest(mt_takeover *k) {
  size_t oldest = 0;
  for (size_t i = 1; i < k->n; i++)
    if (is_worth_less(&k->seen[i], &k->seen[oldest])) oldest = i;
  mt_free(k->seen[oldest].owner);
  memmove(&k->seen[oldest], &k->seen[oldest + 1], (--k->n - oldest) * sizeof *k->seen);
}

static mt_seen *begin_to_watch(mt_takeover *k, const char *id) {
  mt_seen *s = seen_find(k, id);
  if (s) return s;
  if (k->n == MT_SEEN_MAX) forget_oldest(k); /* its observation will start over */
  if (!mt_grow((void **)&k->seen, &k->cap, k->n + 1, sizeof *k->seen, MT_SEEN_MAX)) return NULL;
  s = &k->seen[seen_place(k, id)];
  memmove(s + 1, s, (size_t)(&k->seen[k->n++] - s) * sizeof *s);
  *s = (mt_seen){0};
  memcpy(s->id, id, MT_SESSION_ID);
  return s;
}

bool mt_takeover_busy(const mt_manager *m) {
  return m->takeover->busy;
}

bool mt_takeover_dead(const mt_manager *m, const char *session) {
  const mt_seen *s = seen_find(m->takeover, session);
  return s && s->dead;
}

bool mt_takeover_damaged(const mt_manager *m, const char *session) {
  const mt_seen *s = seen_find(m->takeover, session);
  return s && s->known && s->damaged;
}

const char *mt_takeover_owner(const mt_manager *m, const char *session) {
  const mt_seen *s = seen_find(m->takeover, session);
  return s ? s->owner : NULL;
}

bool mt_takeover_known(const mt_manager *m, const mt_lock_entry *entries, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const mt_seen *s = seen_find(m->takeover, entries[i].session);
    if (!entries[i].damaged && (!s || !s->known)) return false;
  }
  return true;
}

const mt_seen *mt_takeover_seen(const mt_manager *m, const char *session) {
  return seen_find(m->takeover, session);
}

/* ---- What an answer means ------------------------------------------------------------------- */

void mt_takeover_note(mt_manager *m, const mt_session_doc *doc) {
  mt_seen *s = begin_to_watch(m->takeover, doc->session);
  if (!s || s->dead) return;
  s->read_ms = mt_manager_now(m);
  bool same = s->known && mt_version_equal(s->version, doc->version) && s->state == doc->state;
  if (!same) s->since_ms = mt_manager_now(m);
  s->known = true;
  s->version = doc->version;
  s->state = doc->state;
  s->lease_ms = doc->lease_ms;
  s->damaged = doc->damaged;
  if (s->owner || !doc->owner) return;
  s->owner = mt_strdup(doc->owner);
}

static bool verdict(mt_manager *m, const mt_seen *s, mt_session_write *w) {
  if (!s->known || s->dead || s->damaged) return false;
  w->verb = MT_SESSION_PROVE;
  if (s->state == MT_SESSION_EXPIRED || s->state == MT_SESSION_CLOSED) return true;
  w->verb = MT_SESSION_EXPIRE;
  w->if_version = s->version;
  w->lease_ms = s->lease_ms;
  if (s->state == MT_SESSION_MISSING) {
    w->if_version = (mt_version){0};
    w->lease_ms = m->lease_ms;
    return true;
  }
  bool silent = mt_manager_now(m) - s->since_ms >= s->lease_ms + m->margin_ms;
  return silent ||
         (s->owner && m->config.known_dead && m->config.known_dead(m->config.ctx, s->owner));
}

bool mt_takeover_verdict(mt_manager *m, const char *session, mt_session_write *w) {
  const mt_seen *s = seen_find(m->takeover, session);
  return s && verdict(m, s, w);
}

void mt_takeover_answered(mt_manager *m, const mt_session_write *w) {
  mt_seen *s = seen_find(m->takeover, w->session);
  if (s && w->result == MT_SESSION_ACKED) {
    s->dead = true;
    if (w->verb == MT_SESSION_EXPIRE) m->stats.takeovers++;
    mt_log_write(&m->store->log, MORTISE_LOG_INFO, "session %s is dead: its locks may be taken",
                 s->id);
  } else if (s) {
    s->known = false; /* it changed or the outcome is unknown: read it again */
  }
}

/* ---- Looking -------------------------------------------------------------------------------- */

static void next_write(mt_manager *m);

static void finish_look(mt_manager *m) {
  mt_takeover *k = m->takeover;
  mt_session_read_deinit(&k->read);
  k->busy = false;
  int64_t pause = m->lease_ms / 8;
  k->next_ms = mt_manager_now(m) + (pause < 50 ? 50 : pause > 1000 ? 1000 : pause);
  m->hooks->ended(m);
}

static void expiry_written(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  (void)req;
  mt_takeover_answered(m, &m->takeover->write);
  m->takeover->at++;
  next_write(m);
}

static void next_write(mt_manager *m) {
  mt_takeover *k = m->takeover;
  for (; k->at < k->n_ids; k->at++) {
    const mt_seen *s = seen_find(k, k->ids[k->at]);
    k->write = (mt_session_write){
        .req = {.done = expiry_written, .ctx = m}, .ns = m->ns, .session = k->ids[k->at]};
    if (!s || !verdict(m, s, &k->write)) continue;
    m->store->locks->session(m->store, &k->write);
    return;
  }
  finish_look(m);
}

static void suspects_read(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_takeover *k = m->takeover;
  for (size_t i = 0; !req->error.code && i < k->read.n; i++) mt_takeover_note(m, &k->read.docs[i]);
  k->at = 0;
  if (req->error.code) k->n_ids = 0;
  next_write(m);
}

static void add_suspect(mt_manager *m, const mt_lock_entry *entry) {
  mt_takeover *k = m->takeover;
  const char *id = entry->session;
  if (entry->damaged || k->n_ids == MT_LOOK_MAX || mt_takeover_dead(m, id)) return;
  if (memcmp(id, m->holds->session.id, MT_SESSION_ID) == 0) return;
  for (size_t i = 0; i < k->n_ids; i++)
    if (memcmp(k->ids[i], id, MT_SESSION_ID) == 0) return;
  memcpy(k->id_text[k->n_ids], id, MT_SESSION_ID);
  k->ids[k->n_ids] = k->id_text[k->n_ids];
  k->n_ids++;
}

void mt_takeover_look(mt_manager *m, const mt_lock_entry *entries, size_t n, bool at_once) {
  mt_takeover *k = m->takeover;
  if (k->busy || !m->holds || (!at_once && mt_manager_now(m) < k->next_ms)) return;
  k->n_ids = 0;
  for (size_t i = 0; i < n; i++) add_suspect(m, &entries[i]);
  /* Adds the blockers of other tasks' waits, so that one look serves all. */
  for (const mt_wait *w = m->waits->first; w; w = w->next)
    for (size_t i = 0; i < w->n_blockers; i++) add_suspect(m, &w->blockers[i]);
  if (!k->n_ids) return;
  k->busy = true;
  k->read = (mt_session_read){.req = {.done = suspects_read, .ctx = m, .idempotent = true},
                              .ns = m->ns,
                              .ids = k->ids,
                              .n = k->n_ids};
  m->store->locks->session_read(m->store, &k->read);
}

/* ---- For the janitor ------------------------------------------------------------------------ */

void mt_takeover_sweep_begin(mt_manager *m, mt_ids *dead) {
  const mt_takeover *k = m->takeover;
  for (size_t i = 0; i < k->n; i++) {
    mt_seen *s = &k->seen[i];
    s->sweeping =
        s->dead && !s->swept &&
        mt_grow((void **)&dead->id, &dead->cap, dead->n + 1, sizeof *dead->id, MT_SEEN_MAX);
    if (s->sweeping) memcpy(dead->id[dead->n++], s->id, sizeof s->id);
  }
}

void mt_takeover_sweep_end(mt_manager *m) {
  mt_takeover *k = m->takeover;
  for (size_t i = 0; i < k->n; i++) k->seen[i].swept |= k->seen[i].sweeping;
}

void mt_takeover_found_again(mt_manager *m, const char *session) {
  mt_seen *s = seen_find(m->takeover, session);
  if (s) s->swept = false;
}

void mt_takeover_deinit(mt_manager *m) {
  mt_takeover *k = m->takeover;
  if (k->busy) {
    mt_store_cancel(m->store, &k->read.req);
    mt_store_cancel(m->store, &k->write.req);
    mt_session_read_deinit(&k->read);
  }
  for (size_t i = 0; i < k->n; i++) mt_free(k->seen[i].owner);
  mt_free(k->seen);
  *k = (mt_takeover){0};
}
