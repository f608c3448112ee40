#include "lock/janitor.h"

#include "base/mem.h"
#include "lock/takeover.h"
#include "store/table.h"

#include <stdlib.h>

enum {
  IDS_MAX = 16384, /* sessions at `/`; of more, the first ones are root_looked_at at */
  STRAYS_MAX = 1024,
  WATCH_LEAST = 64, /* sessions that one round watches anew */
  WATCH_MOST = 1024,
  SHARE = 4,          /* how many of the living watch each session, on average */
  LISTINGS = 8,       /* looks of all the living for each listing without a cause, at most */
  LITTER_MAX = 65536, /* entries of one page of the listing */
  PATHS_ROOM = 64 << 20,
  REST = 2, /* how much longer a pause is than the request before it */
  LIST_PAGE = 500,
  HURRY_MS = 200,
};

static const mt_slice root_path = {"/", 1};

/* ---- Requests ------------------------------------------------------------------------------- */

static void go_to_step(mt_manager *m, mt_janitor_step step, int64_t after_ms) {
  m->janitor->step = step;
  m->janitor->due_ms = mt_manager_now(m) + after_ms;
}

/* The next step comes after a pause that is longer than the last request took, so that others'
 * requests find the table free most of the time. */
static void rest_until(mt_manager *m, mt_janitor_step step, int64_t times) {
  int64_t took = mt_manager_now(m) - m->janitor->sent_ms, most = m->lease_ms / 16;
  if (m->janitor->hurried) most = 0;
  go_to_step(m, step, took * times < most ? took * times : most);
}

static mt_req janitor_request(mt_manager *m, mt_done_fn *done, bool idempotent) {
  mt_janitor *j = m->janitor;
  j->busy = true;
  j->sent_ms = mt_manager_now(m);
  m->stats.janitor++;
  int64_t ms = m->store->request_ms < m->lease_ms / 2 ? m->store->request_ms : m->lease_ms / 2;
  return (mt_req){.done = done, .ctx = m, .deadline_ms = j->sent_ms + ms, .idempotent = idempotent};
}

static void drop_janitor_listing(mt_manager *m) {
  mt_janitor *j = m->janitor;
  if (j->list.listing) m->store->locks->list_close(m->store, j->list.listing);
  j->list.listing = NULL;
  mt_lock_list_deinit(&j->list);
}

/* Ends a round. Where sessions have fallen silent the next one comes sooner. */
static void end_round(mt_manager *m) {
  mt_janitor *j = m->janitor;
  size_t again = j->moved + j->still;
  if (again) j->alive = 1 + j->others.n * j->moved / again;
  drop_janitor_listing(m);
  bool soon = j->suspects || j->still;
  int64_t pause = mt_manager_jitter(m, m->lease_ms / (soon ? 8 : 2));
  go_to_step(m, MT_JANITOR_LOOK, j->hurried && pause > HURRY_MS ? HURRY_MS : pause);
}

/* After an answer: true if it failed, and the round with it. */
static bool janitor_answered(mt_manager *m, const mt_req *req) {
  m->janitor->busy = false;
  mt_manager_soon(m);
  if (!req->error.code) return false;
  end_round(m);
  return true;
}

/* ---- Who is there --------------------------------------------------------------------------- */

static int by_session_id(const void *a, const void *b) {
  return memcmp(a, b, MT_SESSION_ID);
}

static bool is_among(const mt_ids *ids, const char *id) {
  return ids->n && bsearch(id, ids->id, ids->n, MT_SESSION_ID, by_session_id);
}

static bool add_session_id(mt_ids *ids, const char *id, size_t most) {
  if (!mt_grow((void **)&ids->id, &ids->cap, ids->n + 1, MT_SESSION_ID, most)) return false;
  memcpy(ids->id[ids->n++], id, MT_SESSION_ID);
  return true;
}

/* May the entry go if its session is dead? */
static bool is_litter(const mt_manager *m, const mt_lock_entry *e) {
  if (e->damaged || mt_lock_entry_guards(e)) return false;
  return !m->holds || memcmp(e->session, m->holds->session.id, MT_SESSION_ID) != 0;
}

static void note_others(mt_manager *m, mt_json entries, bool queued) {
  mt_lock_entry e;
  for (mt_json_iter it = mt_json_items(entries); mt_json_next(&it);) {
    mt_entry_read_json(it.value, queued, &e);
    if (is_litter(m, &e) && !add_session_id(&m->janitor->others, e.session, IDS_MAX)) return;
  }
}

static bool has_been_silent(const mt_manager *m, const mt_seen *s) {
  return mt_manager_now(m) - s->since_ms >= s->lease_ms + m->margin_ms;
}

/* A session that lives beats every sixth of its lease: so long after one reading, another tells more. */
static bool tells_more(const mt_manager *m, const mt_seen *s) {
  return mt_manager_now(m) - s->read_ms >= s->lease_ms / 5;
}

static bool is_suspect(const mt_seen *s) {
  return s->known && !s->dead && s->read_ms - s->since_ms >= s->lease_ms / 5;
}

/* Whoever must be read for a verdict comes first, the others at random. */
static size_t choose_watch(mt_manager *m, const mt_ids *from, size_t must) {
  mt_ids *watch = &m->janitor->watch;
  for (size_t i = 0; i < from->n; i++) {
    const mt_seen *s = mt_takeover_seen(m, from->id[i]);
    if (s && s->dead) {
      mt_takeover_found_again(m, from->id[i]);
      continue;
    }
    m->janitor->suspects += s && is_suspect(s);
    if (s && s->known && !tells_more(m, s) && !has_been_silent(m, s)) continue;
    if (!add_session_id(watch, from->id[i], 2 * IDS_MAX)) break;
    if (!s || !s->known || !has_been_silent(m, s)) continue;
    char id[MT_SESSION_ID];
    memcpy(id, watch->id[must], sizeof id);
    memcpy(watch->id[must++], watch->id[watch->n - 1], sizeof id);
    memcpy(watch->id[watch->n - 1], id, sizeof id);
  }
  return must;
}

/* How many of the others this session watches: its share, if all that live do the same. */
static size_t watch_share(const mt_janitor *j) {
  size_t n = SHARE * (j->others.n + j->strays.n) / (j->alive ? j->alive : 1);
  return n < WATCH_LEAST ? WATCH_LEAST : n > WATCH_MOST ? WATCH_MOST : n;
}

static void shuffle_ids(mt_manager *m, mt_ids *ids, size_t first) {
  for (size_t i = ids->n; i > first + 1; i--) {
    size_t k = first + (size_t)(m->env->random(m->env->ctx) % (i - first));
    char id[MT_SESSION_ID];
    memcpy(id, ids->id[i - 1], sizeof id);
    memcpy(ids->id[i - 1], ids->id[k], sizeof id);
    memcpy(ids->id[k], id, sizeof id);
  }
}

static void choose_round(mt_manager *m) {
  mt_janitor *j = m->janitor;
  j->watch.n = j->at = j->moved = j->still = j->suspects = 0;
  size_t must = choose_watch(m, &j->others, 0);
  must = choose_watch(m, &j->strays, must);
  shuffle_ids(m, &j->watch, must);
  size_t most = j->hurried ? j->watch.n : must + watch_share(j);
  if (j->watch.n > most) j->watch.n = most;
}

static void root_looked_at(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_janitor *j = m->janitor;
  mt_json root;
  j->others.n = 0;
  bool good = !janitor_answered(m, req);
  if (good && !mt_json_parse(mt_slice_of(j->look.json), "the root's entries", &root, NULL))
    for (mt_json_iter it = mt_json_items(root); mt_json_next(&it);) {
      note_others(m, mt_json_get(it.value, "holders"), false);
      note_others(m, mt_json_get(it.value, "queue"), true);
    }
  mt_lock_read_deinit(&j->look);
  if (!good) return;
  if (j->others.n) qsort(j->others.id, j->others.n, MT_SESSION_ID, by_session_id);
  choose_round(m);
  rest_until(m, MT_JANITOR_WATCH, 1);
}

static void look_at_root(mt_manager *m) {
  mt_janitor *j = m->janitor;
  j->look = (mt_lock_read){
      .req = janitor_request(m, root_looked_at, true), .ns = m->ns, .paths = &root_path, .n = 1};
  m->store->locks->lock_read(m->store, &j->look);
}

/* ---- Who is dead ---------------------------------------------------------------------------- */

static void note_session(mt_manager *m, const mt_session_doc *doc) {
  mt_janitor *j = m->janitor;
  const mt_seen *s = mt_takeover_seen(m, doc->session);
  if (s && s->known && !s->dead && tells_more(m, s)) {
    bool same = mt_version_equal(s->version, doc->version);
    j->still += same;
    j->moved += !same;
  }
  mt_takeover_note(m, doc);
}

static void some_watched(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_janitor *j = m->janitor;
  bool good = !janitor_answered(m, req);
  for (size_t i = 0; good && i < j->read.n; i++) note_session(m, &j->read.docs[i]);
  mt_session_read_deinit(&j->read);
  j->expiring = 0;
  if (good) rest_until(m, MT_JANITOR_EXPIRE, REST);
}

/* Goes through the whole namespace, to find what the dead left elsewhere: when one was proven dead,
 * and now and then without a cause, for entries whose session has none at `/` any more. */
static void begin_sweep(mt_manager *m) {
  mt_janitor *j = m->janitor;
  size_t dead = mt_takeover_sweep_begin(m);
  if (!j->looks)
    j->looks = 1 + (size_t)(m->env->random(m->env->ctx) % (LISTINGS * (1 + j->others.n)));
  if (--j->looks && !dead && !j->hurried) {
    end_round(m);
    return;
  }
  j->strays.n = 0;
  j->failed = false;
  j->list = (mt_lock_list){.ns = m->ns, .page = LIST_PAGE};
  go_to_step(m, MT_JANITOR_LIST, 0);
}

static void watch_some(mt_manager *m) {
  mt_janitor *j = m->janitor;
  size_t n = j->watch.n - j->at;
  j->n_ids = n < MT_JANITOR_READ ? n : MT_JANITOR_READ;
  for (size_t i = 0; i < j->n_ids; i++) j->ids[i] = j->watch.id[j->at + i];
  j->at += j->n_ids;
  if (!j->n_ids) {
    begin_sweep(m);
    return;
  }
  j->read = (mt_session_read){
      .req = janitor_request(m, some_watched, true), .ns = m->ns, .ids = j->ids, .n = j->n_ids};
  m->store->locks->session_read(m->store, &j->read);
}

/* A session that has ended already is left to the one who ended it for a while. */
static bool is_anothers(mt_manager *m, const char *id, const mt_session_write *w) {
  bool ended = w->verb == MT_SESSION_PROVE || !w->if_version.term;
  if (m->janitor->hurried) return false;
  return ended && mt_manager_now(m) - mt_takeover_seen(m, id)->since_ms < m->lease_ms / 4;
}

static void expired_one(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_takeover_answered(m, m->janitor->writes);
  if (!janitor_answered(m, req)) rest_until(m, MT_JANITOR_EXPIRE, 1);
}

static void expired_all(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_janitor *j = m->janitor;
  for (size_t i = 0; i < j->ending.n; i++) mt_takeover_answered(m, &j->writes[i]);
  if (!janitor_answered(m, req)) rest_until(m, MT_JANITOR_EXPIRE, REST);
}

/* The writes that prove the dead dead: of all that were read together, or of the next one. */
static size_t choose_ending(mt_manager *m, size_t most) {
  mt_janitor *j = m->janitor;
  size_t n = 0;
  while (j->expiring < j->n_ids && n < most) {
    const char *id = j->ids[j->expiring++];
    mt_session_write w = {.ns = m->ns, .session = id};
    if (mt_takeover_verdict(m, id, &w) && !is_anothers(m, id, &w)) j->writes[n++] = w;
  }
  return n;
}

static void expire_dead(mt_manager *m) {
  mt_janitor *j = m->janitor;
  const mt_locks_ops *locks = m->store->locks;
  size_t n = choose_ending(m, locks->session_batch ? MT_JANITOR_READ : 1);
  if (!n) {
    go_to_step(m, MT_JANITOR_WATCH, 0);
  } else if (locks->session_batch) {
    j->ending = (mt_session_batch){
        .req = janitor_request(m, expired_all, false), .ns = m->ns, .writes = j->writes, .n = n};
    locks->session_batch(m->store, &j->ending);
  } else {
    j->writes->req = janitor_request(m, expired_one, false);
    locks->session(m->store, j->writes);
  }
}

/* ---- What they left ------------------------------------------------------------------------- */

static void add_litter(mt_manager *m, mt_slice path, const mt_lock_entry *e) {
  mt_janitor *j = m->janitor;
  if (!mt_takeover_dead(m, e->session)) {
    bool known = is_among(&j->others, e->session);
    for (size_t i = 0; !known && i < j->strays.n; i++)
      known = memcmp(j->strays.id[i], e->session, MT_SESSION_ID) == 0;
    if (!known) add_session_id(&j->strays, e->session, STRAYS_MAX);
    return;
  }
  if (!mt_grow((void **)&j->litter, &j->cap_litter, j->n_litter + 1, sizeof *j->litter,
               LITTER_MAX)) {
    j->failed = true;
    return;
  }
  mt_litter *l = &j->litter[j->n_litter++];
  *l = (mt_litter){.path_at = j->paths.n - path.n, .path_n = path.n};
  memcpy(l->session, e->session, sizeof l->session);
}

static void collect_document(mt_manager *m, mt_json doc) {
  mt_janitor *j = m->janitor;
  size_t before = j->paths.n, had = j->n_litter;
  mt_lock_entry e;
  if (!mt_json_text(mt_json_get(doc, "path"), &j->paths) || j->paths.failed) return;
  mt_slice path = {j->paths.p + before, j->paths.n - before};
  for (int queued = 0; queued < 2; queued++) {
    mt_json_iter it = mt_json_items(mt_json_get(doc, queued ? "queue" : "holders"));
    while (mt_json_next(&it)) {
      mt_entry_read_json(it.value, queued, &e);
      if (is_litter(m, &e)) add_litter(m, path, &e);
    }
  }
  if (j->n_litter == had) mt_buf_cut(&j->paths, before);
}

/* Without the right to list, at least what stands at `/`. */
static void collect_root(mt_manager *m) {
  mt_janitor *j = m->janitor;
  mt_lock_entry e = {0};
  mt_buf_addslice(&j->paths, root_path);
  for (size_t i = 0; !j->paths.failed && i < j->others.n; i++) {
    memcpy(e.session, j->others.id[i], sizeof e.session);
    if (mt_takeover_dead(m, e.session)) add_litter(m, root_path, &e);
  }
}

static void next_of_listing(mt_manager *m) {
  mt_janitor *j = m->janitor;
  if (j->list.listing) {
    rest_until(m, MT_JANITOR_LIST, REST);
    return;
  }
  if (!j->failed) mt_takeover_sweep_end(m);
  end_round(m);
}

static void all_listed(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_janitor *j = m->janitor;
  mt_json root;
  if (!j->paths.max) mt_buf_init(&j->paths, PATHS_ROOM);
  mt_buf_clear(&j->paths);
  j->n_litter = j->cleared = j->tries = 0;
  bool good = !janitor_answered(m, req);
  if (good && !mt_json_parse(mt_slice_of(j->list.json), "the list of locks", &root, NULL))
    for (mt_json_iter it = mt_json_items(root); mt_json_next(&it);) collect_document(m, it.value);
  if (!good) collect_root(m);
  j->failed |= !good || j->paths.failed;
  mt_lock_list_deinit(&j->list);
  if (good || j->n_litter) rest_until(m, MT_JANITOR_CLEAR, REST);
}

static void list_all(mt_manager *m) {
  mt_janitor *j = m->janitor;
  j->list.req = janitor_request(m, all_listed, false);
  m->store->locks->list(m->store, &j->list);
}

/* What met another write is sent again, within bounds. */
static void litter_cleared(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_janitor *j = m->janitor;
  size_t begin = j->cleared, n = j->batch.n;
  j->cleared += n;
  for (size_t i = n; i-- > 0;) {
    mt_lock_result result = j->items[i].result;
    m->stats.cleared += result == MT_LOCK_ACKED;
    bool again = result == MT_LOCK_CONFLICT || result == MT_LOCK_BUSY;
    j->failed |= result != MT_LOCK_ACKED && result != MT_LOCK_ABSENT && !again;
    if (!again) continue;
    mt_litter later = j->litter[begin + i];
    j->cleared--;
    j->litter[begin + i] = j->litter[j->cleared];
    j->litter[j->cleared] = later;
  }
  mt_lock_batch_deinit(&j->batch);
  if (!janitor_answered(m, req)) rest_until(m, MT_JANITOR_CLEAR, REST);
}

static void clear_litter(mt_manager *m) {
  mt_janitor *j = m->janitor;
  size_t n = j->n_litter - j->cleared;
  if (n > MT_JANITOR_EVICT) n = MT_JANITOR_EVICT;
  bool tired = j->tries++ > 16 + 4 * j->n_litter / MT_JANITOR_EVICT;
  if (!n || tired) {
    j->failed |= n > 0;
    next_of_listing(m);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    const mt_litter *l = &j->litter[j->cleared + i];
    j->items[i] = (mt_lock_item){.verb = MT_LOCK_EVICT,
                                 .place.path = {j->paths.p + l->path_at, l->path_n},
                                 .session = l->session};
  }
  memcpy(j->self, m->holds->session.id, sizeof j->self);
  j->batch = (mt_lock_batch){.req = janitor_request(m, litter_cleared, true),
                             .ns = m->ns,
                             .session = j->self,
                             .items = j->items,
                             .n = n};
  m->store->locks->batch(m->store, &j->batch);
}

/* ---- The tick ------------------------------------------------------------------------------- */

/* Only beside an open session, so that it ends with it. */
static bool janitor_works(const mt_manager *m) {
  return m->phase == MT_OPEN && !m->closing && !m->janitor->busy && m->store->locks->list;
}

int64_t mt_janitor_due(const mt_manager *m) {
  return janitor_works(m) ? m->janitor->due_ms : INT64_MAX;
}

void mt_janitor_tick(mt_manager *m) {
  static void (*const steps[])(mt_manager * m) = {look_at_root, watch_some, expire_dead, list_all,
                                                  clear_litter};
  mt_janitor *j = m->janitor;
  if (!janitor_works(m)) return;
  if (!j->due_ms) go_to_step(m, MT_JANITOR_LOOK, mt_manager_jitter(m, m->lease_ms / 2));
  while (janitor_works(m) && mt_manager_now(m) >= j->due_ms) steps[j->step](m);
}

void mt_janitor_hurry(mt_manager *m) {
  m->janitor->hurried = true;
  m->janitor->due_ms = mt_manager_now(m);
  mt_manager_soon(m);
}

static void cancel_janitor(mt_manager *m) {
  mt_janitor *j = m->janitor;
  mt_req *write = m->store->locks->session_batch ? &j->ending.req : &j->writes->req;
  mt_req *const reqs[] = {&j->look.req, &j->read.req, write, &j->list.req, &j->batch.req};
  if (j->busy) mt_store_cancel(m->store, reqs[j->step]);
  j->busy = false;
}

void mt_janitor_deinit(mt_manager *m) {
  mt_janitor *j = m->janitor;
  cancel_janitor(m);
  drop_janitor_listing(m);
  mt_lock_read_deinit(&j->look);
  mt_session_read_deinit(&j->read);
  mt_lock_batch_deinit(&j->batch);
  mt_free(j->others.id);
  mt_free(j->strays.id);
  mt_free(j->watch.id);
  mt_free(j->litter);
  if (j->paths.max) mt_buf_deinit(&j->paths);
  *j = (mt_janitor){0};
}
