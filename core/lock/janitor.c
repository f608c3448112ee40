#include "lock/janitor.h"

#include "base/mem.h"
#include "lock/takeover.h"
#include "store/table.h"

#include <stdlib.h>

enum {
  IDS_MAX = 16384, /* sessions that one look finds; of more, the first ones */
  STRAYS_MAX = 1024,
  WATCH_LEAST = 16, /* sessions that one round watches */
  WATCH_MOST = 1024,
  SHARE = 4,             /* how many of the living watch each session, at least on average */
  CROWD = 128,           /* so many that live: each looks the more rarely, the more there are */
  RARELY = 4,            /* but at least so many half leases apart */
  LISTINGS = 8,          /* looks of all the living for each page that is listed without a cause */
  LITTER_MAX = 65536,    /* entries of one page of the listing */
  EVICT_IDS = 4096,      /* of one request */
  BUCKETS_LOOKED = 1024, /* for ancestors of our own */
  PATHS_ROOM = 64 << 20,
  PLACES_ROOM = 64 << 10,
  LIST_PAGE = 1000,
  HURRY_MS = 200,
  PURGE_EVERY_MS = 600000, /* one of all the living, on average */
};

/* ---- What is known of a session ------------------------------------------------------------- */

/* When it has been silent for long enough to be expired, if it stays so. */
static int64_t verdict_ms(const mt_manager *m, const mt_seen *s) {
  return s->since_ms + s->lease_ms + m->margin_ms;
}

/* It did not beat between two readings, though who lives beats every sixth of its lease. */
static bool is_suspect(const mt_seen *s) {
  bool ended = s->state != MT_SESSION_LIVE && s->state != MT_SESSION_BROKEN;
  return s->known && !s->dead && !s->damaged && !ended &&
         s->read_ms - s->since_ms >= s->lease_ms / 5;
}

/* So long after one reading, another tells more. */
static bool tells_more(const mt_manager *m, const mt_seen *s) {
  return mt_manager_now(m) - s->read_ms >= s->lease_ms / 5;
}

/* What falls silent is read once more, then when it may be judged. */
static bool is_worth_reading(const mt_manager *m, const mt_seen *s) {
  if (!s || !s->known) return true;
  return is_suspect(s) ? mt_manager_now(m) >= verdict_ms(m, s) : tells_more(m, s);
}

/* ---- Requests ------------------------------------------------------------------------------- */

static void go_to_step(mt_manager *m, mt_janitor_step step, int64_t after_ms) {
  m->janitor->step = step;
  m->janitor->due_ms = mt_manager_now(m) + after_ms;
}

/* The next step comes after a pause as long as the last request took, so that others' requests find
 * the table free at least half of the time. */
static void rest_until(mt_manager *m, mt_janitor_step step) {
  int64_t took = mt_manager_now(m) - m->janitor->sent_ms, most = m->lease_ms / 16;
  if (m->janitor->hurried) most = 0;
  go_to_step(m, step, took < most ? took : most);
}

/* A random time up to `most`. */
static int64_t some_time(const mt_manager *m, int64_t most) {
  return (int64_t)(m->env->random(m->env->ctx) % (uint64_t)(most + 1));
}

/* Once in so many times. */
static bool by_chance(const mt_manager *m, uint64_t times) {
  return times <= 1 || !(m->env->random(m->env->ctx) % times);
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

/* When the first of those that have fallen silent may be judged. */
static int64_t next_verdict_ms(const mt_manager *m) {
  const mt_janitor *j = m->janitor;
  int64_t first = INT64_MAX;
  for (size_t i = 0; i < j->others.n; i++) {
    const mt_seen *s = mt_takeover_seen(m, j->others.id[i]);
    if (s && is_suspect(s) && verdict_ms(m, s) < first) first = verdict_ms(m, s);
  }
  return first;
}

/* How many times half a lease there are in the time in which all the living purge once. */
static bool shall_purge(const mt_manager *m) {
  const mt_janitor *j = m->janitor;
  if (j->hurried || j->no_purge || !m->store->locks->session_purge) return false;
  uint64_t alive = j->alive ? j->alive : 1 + j->others.n;
  return j->purge_more || by_chance(m, alive * 2 * PURGE_EVERY_MS / (uint64_t)m->lease_ms);
}

/* The document of `/` grows with the crowd, and so does the number of those who read it: half leases between two looks
 * of each. */
static int64_t rounds_apart(const mt_janitor *j) {
  size_t n = 1 + j->alive / CROWD;
  return n < RARELY ? (int64_t)n : RARELY;
}

/* Ends a round. The next one comes at random, sooner where sessions may be judged then, where most have fallen silent
 * and some were not watched, and where a second reading tells what a first one could only guess. */
static void end_round(mt_manager *m) {
  mt_janitor *j = m->janitor;
  size_t again = j->moved + j->still;
  bool guessed = !j->alive && j->left_out;
  if (again) j->alive = 1 + j->others.n * j->moved / again;
  drop_janitor_listing(m);
  bool many = j->still > j->moved && j->left_out;
  int64_t pause = mt_manager_jitter(m, many ? m->lease_ms / 16 : rounds_apart(j) * m->lease_ms / 2);
  if (guessed && !many) pause = m->lease_ms / 5 + some_time(m, m->lease_ms / 16);
  int64_t verdict = next_verdict_ms(m) - mt_manager_now(m), least = m->lease_ms / 32;
  if (verdict < least) verdict = least;
  if (verdict < pause) pause = verdict + some_time(m, m->lease_ms / 16);
  bool purge = shall_purge(m);
  go_to_step(m, purge ? MT_JANITOR_PURGE : MT_JANITOR_LOOK,
             j->hurried && pause > HURRY_MS ? HURRY_MS : pause);
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

static bool is_own(const mt_manager *m, const char *session) {
  return m->holds && !memcmp(session, m->holds->session.id, MT_SESSION_ID);
}

/* May the entry go if its session is dead? */
static bool is_litter(const mt_manager *m, const mt_lock_entry *e) {
  if (e->damaged || mt_lock_entry_guards(e)) return false;
  return !is_own(m, e->session);
}

static void note_others(mt_manager *m, mt_json entries, bool queued) {
  mt_lock_entry e;
  for (mt_json_iter it = mt_json_items(entries); mt_json_next(&it);) {
    mt_entry_read_json(it.value, queued, &e);
    if (is_litter(m, &e) && !add_session_id(&m->janitor->others, e.session, IDS_MAX)) return;
  }
}

static void sort_ids(mt_ids *ids) {
  size_t n = 0;
  if (ids->n) qsort(ids->id, ids->n, MT_SESSION_ID, by_session_id);
  for (size_t i = 0; i < ids->n; i++)
    if (!i || memcmp(ids->id[i], ids->id[n - 1], MT_SESSION_ID) != 0)
      memmove(ids->id[n++], ids->id[i], MT_SESSION_ID);
  ids->n = n;
}

static void swap_ids(mt_ids *ids, size_t a, size_t b) {
  char id[MT_SESSION_ID];
  memcpy(id, ids->id[a], sizeof id);
  memmove(ids->id[a], ids->id[b], sizeof id);
  memcpy(ids->id[b], id, sizeof id);
}

/* The first of them whose id comes after our own. */
static size_t place_in_ring(const mt_manager *m, const mt_ids *sorted) {
  size_t i = 0;
  while (m->holds && i < sorted->n &&
         memcmp(sorted->id[i], m->holds->session.id, MT_SESSION_ID) < 0)
    i++;
  return i;
}

/* Of a ring of all ids, each session watches those who follow it: always the same, so that a second reading tells
 * whether they beat, and others where it is others' turn. Who is known to be dead leaves the ring. Whoever must be
 * read for a verdict comes first. */
static void choose_watch(mt_manager *m, const mt_ids *ring, size_t share) {
  mt_janitor *j = m->janitor;
  mt_ids *watch = &j->watch;
  size_t first = place_in_ring(m, ring), alive = 0;
  for (size_t i = 0; i < ring->n; i++) {
    const char *id = ring->id[(first + i) % ring->n];
    const mt_seen *s = mt_takeover_seen(m, id);
    if (s && s->dead) {
      mt_takeover_found_again(m, id);
      continue;
    }
    bool suspect = s && is_suspect(s);
    if (++alive > share && !suspect) continue;
    if (!is_worth_reading(m, s)) continue;
    if (!add_session_id(watch, id, 2 * IDS_MAX)) break;
    if (suspect) swap_ids(watch, j->must++, watch->n - 1);
  }
  j->left_out |= alive > share;
}

/* How many of the others this session watches: its share, if all that live do the same. Before it knows how many live
 * it watches few: a thousand that begin together would read one another a million times. */
static size_t watch_share(const mt_janitor *j) {
  size_t n = j->alive ? SHARE * (j->others.n + j->strays.n) / j->alive : 0;
  return n < WATCH_LEAST ? WATCH_LEAST : n > WATCH_MOST ? WATCH_MOST : n;
}

static void choose_round(mt_manager *m) {
  mt_janitor *j = m->janitor;
  size_t share = j->hurried ? SIZE_MAX : watch_share(j);
  j->watch.n = j->at = j->moved = j->still = j->must = 0;
  j->left_out = false;
  sort_ids(&j->strays);
  choose_watch(m, &j->others, share);
  choose_watch(m, &j->strays, share);
}

static void places_looked_at(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_janitor *j = m->janitor;
  mt_json found;
  j->others.n = 0;
  bool good = !janitor_answered(m, req);
  if (good && !mt_json_parse(mt_slice_of(j->look.json), "what stands there", &found, NULL))
    for (mt_json_iter it = mt_json_items(found); mt_json_next(&it);) {
      note_others(m, mt_json_get(it.value, "holders"), false);
      note_others(m, mt_json_get(it.value, "queue"), true);
    }
  mt_lock_read_deinit(&j->look);
  if (!good) return;
  sort_ids(&j->others);
  choose_round(m);
  rest_until(m, MT_JANITOR_WATCH);
}

/* All of `/` stands first, which is an ancestor of all, then some at random on which we have an intention: there
 * others may stand who have nothing at `/`. */
static void choose_places(mt_manager *m) {
  mt_janitor *j = m->janitor;
  const mt_holds *own = m->holds;
  size_t first = (size_t)(m->env->random(m->env->ctx) % own->buckets);
  mt_slice root = mt_slice_of("/");
  size_t of_root = mt_place_stripes(root, m->stripes), most = of_root + MT_JANITOR_LOOK_AT - 1;
  for (j->look.n = 0; j->look.n < of_root; j->look.n++)
    j->places[j->look.n] = (mt_place){root, (uint32_t)j->look.n};
  if (!j->place_text.max) mt_buf_init(&j->place_text, PLACES_ROOM);
  mt_buf_clear(&j->place_text);
  for (size_t i = 0; i < own->buckets && i < BUCKETS_LOOKED && j->look.n < most; i++) {
    const mt_hold *h = own->bucket[(first + i) % own->buckets];
    if (!h || h->path_n <= 1 || (h->mode != MT_IS && h->mode != MT_IX)) continue;
    size_t at = j->place_text.n;
    mt_buf_addslice(&j->place_text, mt_hold_place(h).path);
    if (j->place_text.failed) break;
    j->places[j->look.n++] = (mt_place){{NULL, j->place_text.n - at}, h->stripe};
  }
  for (size_t i = of_root, at = 0; i < j->look.n; at += j->places[i++].path.n)
    j->places[i].path.p = j->place_text.p + at;
}

static void look_at_places(mt_manager *m) {
  mt_janitor *j = m->janitor;
  choose_places(m);
  j->look = (mt_lock_read){.req = janitor_request(m, places_looked_at, true),
                           .ns = m->ns,
                           .places = j->places,
                           .n = j->look.n};
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

/* A first reading tells by the times of the beats, next to our own, who seems to live. It proves nothing, and only says
 * how many to watch. */
static void guess_alive(const mt_manager *m, const mt_session_read *r) {
  int64_t newest = 0;
  for (size_t i = 0; i < r->n; i++)
    if (r->docs[i].beat_ms > newest) newest = r->docs[i].beat_ms;
  for (size_t i = 0; i < r->n; i++) {
    const mt_session_doc *doc = &r->docs[i];
    if (is_own(m, doc->session)) continue;
    bool beats = doc->state == MT_SESSION_LIVE && newest - doc->beat_ms < doc->lease_ms / 3;
    m->janitor->moved += beats;
    m->janitor->still += !beats;
  }
}

static void some_watched(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_janitor *j = m->janitor;
  bool good = !janitor_answered(m, req);
  if (good && !j->alive) guess_alive(m, &j->read);
  for (size_t i = 0; good && i < j->read.n; i++)
    if (!is_own(m, j->read.docs[i].session)) note_session(m, &j->read.docs[i]);
  mt_session_read_deinit(&j->read);
  j->expiring = 0;
  if (good) rest_until(m, MT_JANITOR_EXPIRE);
}

/* Goes through the namespace, to find what the dead left elsewhere: when one was proven dead, and now
 * and then without a cause, for entries whose session stands at none of the places looked at. The more
 * pages that takes, the more rarely. */
static void begin_sweep(mt_manager *m) {
  mt_janitor *j = m->janitor;
  bool anything = j->hurried;
  j->dead.n = 0;
  mt_takeover_sweep_begin(m, &j->dead);
  if (!j->looks)
    j->looks =
        1 + (size_t)some_time(m, LISTINGS * (int64_t)(1 + j->others.n)) + LISTINGS * j->pages;
  if (!--j->looks) {
    anything = true;
    j->pages = 0;
  }
  if (!anything && !j->dead.n) {
    end_round(m);
    return;
  }
  j->strays.n = 0;
  j->failed = false;
  j->list = (mt_lock_list){.ns = m->ns, .page = LIST_PAGE};
  if (!anything) {
    j->list.holders = j->dead.id;
    j->list.n_holders = j->dead.n;
  }
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
  size_t all = j->n_ids;
  if (!j->alive && m->holds) j->ids[all++] = m->holds->session.id;
  j->read = (mt_session_read){
      .req = janitor_request(m, some_watched, true), .ns = m->ns, .ids = j->ids, .n = all};
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
  if (!janitor_answered(m, req)) rest_until(m, MT_JANITOR_EXPIRE);
}

static void expired_all(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_janitor *j = m->janitor;
  for (size_t i = 0; i < j->ending.n; i++) mt_takeover_answered(m, &j->writes[i]);
  if (!janitor_answered(m, req)) rest_until(m, MT_JANITOR_EXPIRE);
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
  size_t most = locks->session_batch ? MT_JANITOR_READ : 1;
  if (!j->writes) j->writes = mt_calloc(most, sizeof *j->writes);
  if (!j->writes) {
    end_round(m);
    return;
  }
  size_t n = choose_ending(m, most);
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

static void add_stray(mt_janitor *j, const char *id) {
  bool known = is_among(&j->others, id);
  for (size_t i = 0; !known && i < j->strays.n; i++)
    known = memcmp(j->strays.id[i], id, MT_SESSION_ID) == 0;
  if (!known) add_session_id(&j->strays, id, STRAYS_MAX);
}

static void add_litter(mt_manager *m, const mt_lock_entry *e) {
  mt_janitor *j = m->janitor;
  if (!mt_takeover_dead(m, e->session))
    add_stray(j, e->session);
  else if (!add_session_id(&j->left, e->session, LITTER_MAX))
    j->failed = true;
}

/* The sessions in `left` from `first` on are to be evicted at a place whose path ends `paths`. */
static void add_littered(mt_janitor *j, mt_place place, size_t first) {
  for (size_t i = first; i < j->left.n; i += MT_JANITOR_EVICT) {
    size_t n = j->left.n - i < MT_JANITOR_EVICT ? j->left.n - i : MT_JANITOR_EVICT;
    if (!mt_grow((void **)&j->litter, &j->cap_litter, j->n_litter + 1, sizeof *j->litter,
                 LITTER_MAX)) {
      j->failed = true;
      return;
    }
    j->litter[j->n_litter++] =
        (mt_litter){place.stripe, j->paths.n - place.path.n, place.path.n, i, n};
  }
}

static void collect_document(mt_manager *m, mt_json doc) {
  mt_janitor *j = m->janitor;
  size_t before = j->paths.n, had = j->left.n;
  mt_lock_entry e;
  mt_place place;
  if (!mt_place_read_json(doc, &j->paths, &place)) return;
  for (int queued = 0; queued < 2; queued++) {
    mt_json_iter it = mt_json_items(mt_json_get(doc, queued ? "queue" : "holders"));
    while (mt_json_next(&it)) {
      mt_entry_read_json(it.value, queued, &e);
      if (is_litter(m, &e)) add_litter(m, &e);
    }
  }
  add_littered(j, place, had);
  if (j->left.n == had) mt_buf_cut(&j->paths, before);
}

/* Without the right to list, at least what stands at `/`. */
static void collect_root(mt_manager *m) {
  mt_janitor *j = m->janitor;
  mt_slice root = mt_slice_of("/");
  mt_buf_addslice(&j->paths, root);
  for (size_t i = 0; !j->paths.failed && i < j->others.n; i++)
    if (mt_takeover_dead(m, j->others.id[i]))
      j->failed |= !add_session_id(&j->left, j->others.id[i], LITTER_MAX);
  uint32_t stripes = mt_place_stripes(root, m->stripes);
  for (uint32_t i = 0; i < stripes; i++) add_littered(j, (mt_place){root, i}, 0);
}

static void next_of_listing(mt_manager *m) {
  mt_janitor *j = m->janitor;
  if (j->list.listing) {
    rest_until(m, MT_JANITOR_LIST);
    return;
  }
  if (!j->failed) mt_takeover_sweep_end(m);
  end_round(m);
}

static void page_listed(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_janitor *j = m->janitor;
  mt_json found;
  if (!j->paths.max) mt_buf_init(&j->paths, PATHS_ROOM);
  mt_buf_clear(&j->paths);
  j->n_litter = j->cleared = j->tries = j->left.n = 0;
  j->pages++;
  bool good = !janitor_answered(m, req);
  if (good && !mt_json_parse(mt_slice_of(j->list.json), "the list of locks", &found, NULL))
    for (mt_json_iter it = mt_json_items(found); mt_json_next(&it);) collect_document(m, it.value);
  if (!good) collect_root(m);
  j->failed |= !good || j->paths.failed;
  mt_lock_list_deinit(&j->list);
  if (good || j->n_litter) rest_until(m, MT_JANITOR_CLEAR);
}

static void list_page(mt_manager *m) {
  mt_janitor *j = m->janitor;
  j->list.req = janitor_request(m, page_listed, false);
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
    if (result == MT_LOCK_ACKED) m->stats.cleared += j->litter[begin + i].n;
    bool again = result == MT_LOCK_CONFLICT || result == MT_LOCK_BUSY;
    j->failed |= result != MT_LOCK_ACKED && result != MT_LOCK_ABSENT && !again;
    if (!again) continue;
    mt_litter later = j->litter[begin + i];
    j->litter[begin + i] = j->litter[--j->cleared];
    j->litter[j->cleared] = later;
  }
  mt_lock_batch_deinit(&j->batch);
  if (!janitor_answered(m, req)) rest_until(m, MT_JANITOR_CLEAR);
}

/* All that one document has of the dead goes in one write. */
static mt_lock_item eviction(mt_janitor *j, const mt_litter *l) {
  return (mt_lock_item){.verb = MT_LOCK_EVICT,
                        .place = {{j->paths.p + l->path_at, l->path_n}, l->stripe},
                        .session = j->left.id[l->first],
                        .others = &j->left.id[l->first + 1],
                        .n_others = l->n - 1};
}

static size_t choose_evictions(mt_janitor *j) {
  size_t n = 0, ids = 0;
  while (n < MT_JANITOR_ITEMS && ids < EVICT_IDS && j->cleared + n < j->n_litter) {
    const mt_litter *l = &j->litter[j->cleared + n];
    j->items[n++] = eviction(j, l);
    ids += l->n;
  }
  return n;
}

static void clear_litter(mt_manager *m) {
  mt_janitor *j = m->janitor;
  size_t n = choose_evictions(j);
  bool tired = j->tries++ > 16 + 4 * j->n_litter / MT_JANITOR_ITEMS;
  if (!n || tired) {
    j->failed |= n > 0;
    next_of_listing(m);
    return;
  }
  memcpy(j->self, m->holds->session.id, sizeof j->self);
  j->batch = (mt_lock_batch){.req = janitor_request(m, litter_cleared, true),
                             .ns = m->ns,
                             .session = j->self,
                             .items = j->items,
                             .n = n};
  m->store->locks->batch(m->store, &j->batch);
}

/* ---- Documents of sessions that ended long ago ---------------------------------------------- */

static void sessions_purged(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_janitor *j = m->janitor;
  j->busy = false;
  j->no_purge = req->error.code == MORTISE_AUTH;
  j->purge_more = !req->error.code && j->purge.more;
  rest_until(m, MT_JANITOR_LOOK);
  mt_manager_soon(m);
}

static void purge_ended_sessions(mt_manager *m) {
  mt_janitor *j = m->janitor;
  j->purge = (mt_session_purge){.req = janitor_request(m, sessions_purged, false)};
  m->store->locks->session_purge(m->store, &j->purge);
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
  static void (*const steps[])(mt_manager * m) = {
      look_at_places, watch_some, expire_dead, list_page, clear_litter, purge_ended_sessions};
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
  mt_req *write = m->store->locks->session_batch ? &j->ending.req
                  : j->writes                    ? &j->writes->req
                                                 : NULL;
  mt_req *const reqs[] = {&j->look.req, &j->read.req,  write,
                          &j->list.req, &j->batch.req, &j->purge.req};
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
  mt_free(j->dead.id);
  mt_free(j->left.id);
  mt_free(j->litter);
  mt_free(j->writes);
  if (j->paths.max) mt_buf_deinit(&j->paths);
  if (j->place_text.max) mt_buf_deinit(&j->place_text);
  *j = (mt_janitor){0};
}
