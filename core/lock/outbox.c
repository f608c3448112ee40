#include "lock/outbox.h"

#include "base/mem.h"
#include "base/must.h"
#include "base/pump.h"
#include "base/utf8.h"
#include "lock/successor.h"
#include "lock/takeover.h"

#include <stdlib.h>

/* Concurrent tasks share batches (group commit): while BATCHES_MAX are in flight, further writes
 * gather. Each place has one write in flight at a time, so that none overtakes another. */
enum {
  BATCHES_MAX = 2,
  BATCH_ITEMS = 5000,
  TRIES_MAX = 200,
  BUSY_TRIES = 8, /* so often a busy store is asked even by who cannot wait */
  PAUSE_FIRST_MS = 50,
  PAUSE_MAX_MS = 2000,
};

typedef struct mt_batch {
  mt_lock_batch req;
  mt_manager *m;
  mt_holds *of;    /* of the session that sent it */
  mt_hold **holds; /* items[i] writes holds[i] */
  mt_lock_item *items;
  size_t n, room;
  struct mt_batch *prev, *next;
} mt_batch;

/* ---- What to write -------------------------------------------------------------------------- */

/* Moves the parts that a grant of `mode` satisfies from `asks` to `serving`. */
static void serve(mt_hold *h, mt_mode mode) {
  mt_part **link = &h->asks;
  h->last_ask = NULL;
  while (*link) {
    mt_part *part = *link;
    if (!mt_mode_covers(mode, part->mode)) {
      h->last_ask = part;
      link = &part->next_ask;
      continue;
    }
    *link = part->next_ask;
    part->next_ask = h->serving;
    h->serving = part;
    h->asked_enqueue |= part->enqueue;
  }
}

static void number_write(mt_holds *holds, mt_hold *h, mt_mode mode) {
  /* The same write keeps its number when it is repeated, after a lost answer or to keep a place in
   * the queue, so that the store recognises what it already applied. */
  bool again = mt_hold_is_unsure(h) && h->asked_mode == mode && h->n != h->released_n;
  if (!again) h->n = ++holds->last_n;
  h->asked_mode = mode;
  /* What the new mode does not cover is not relied on from before the write is sent; after a denial
   * the store may still list it. */
  if (mt_mode_covers(mode, h->mode)) return;
  h->mode = mt_hold_held_mode(h);
  h->state = MT_HOLD_UNSURE_SURPLUS;
}

static bool choose_grant(mt_holds *holds, mt_hold *h) {
  h->asked_enqueue = false;
  mt_mode mode = mt_mode_join(mt_hold_held_mode(h), h->asks->mode);
  number_write(holds, h, mode);
  serve(h, mode);
  bool none = h->state == MT_HOLD_NONE;
  bool plain = mode == MT_X && none && !h->asked_enqueue && h->serving->target;
  h->verb = plain ? MT_LOCK_CREATE : MT_LOCK_SET;
  return true;
}

static bool choose_release(mt_hold *h) {
  if (!h->state) return false;
  h->verb = h->state == MT_HOLD_CREATED ? MT_LOCK_DELETE : MT_LOCK_RELEASE;
  /* Not relied on from before it is sent, but remembered until it is acknowledged. */
  h->mode = MT_NL;
  mt_hold_doubt(h);
  h->released_n = h->n;
  return true;
}

/* Lowers the entry to what our tasks hold; no part waits for this write. */
static bool choose_lower(mt_holds *holds, mt_hold *h, mt_mode mode) {
  number_write(holds, h, mode);
  h->asked_enqueue = false;
  mt_hold_doubt(h);
  h->verb = MT_LOCK_SET;
  return true;
}

/* Never queue for more while the store lists a mode that no task needs: two sessions doing so block
 * each other for ever. */
static bool keeps_surplus(const mt_hold *h) {
  if (h->guard) return false;
  bool queues = false, surplus = h->state == MT_HOLD_UNSURE_SURPLUS;
  for (const mt_part *p = h->asks; p; p = p->next_ask) queues |= p->enqueue;
  return queues && (surplus || !mt_mode_covers(mt_hold_held_mode(h), h->mode));
}

static bool give_surplus_back(mt_holds *holds, mt_hold *h) {
  mt_mode mode = mt_hold_held_mode(h);
  h->state = MT_HOLD_UNSURE_SURPLUS;
  return mode ? choose_lower(holds, h, mode) : choose_release(h);
}

static bool somebody_comes(const mt_manager *m, const mt_hold *h) {
  for (const mt_part *p = h->in.first; p; p = p->next)
    if (p->state == MT_PART_IN && m->hooks->will_ask(p)) return true;
  return false;
}

/* Chooses the next write of a hold; false if none is needed. */
static bool choose_write(const mt_manager *m, mt_holds *holds, mt_hold *h) {
  if (h->evict[0] || h->serving)
    return true; /* the eviction comes first, or the same write again */
  h->tries = 0;
  if (h->asks) return keeps_surplus(h) ? give_surplus_back(holds, h) : choose_grant(holds, h);
  if (h->guard || somebody_comes(m, h)) return false;
  mt_mode mode = mt_hold_held_mode(h);
  if (!mode) return choose_release(h);
  if (mode == h->mode && !mt_hold_is_unsure(h)) return false;
  return choose_lower(holds, h, mode); /* gives back what no task needs, or leaves the queue */
}

/* A part with a single try cannot ask again, so its denial must name the blockers. */
static bool all_would_ask_again(const mt_hold *h) {
  for (const mt_part *p = h->serving; p; p = p->next_ask)
    if (p->once) return false;
  return h->serving != NULL;
}

static void item_fill(mt_lock_item *item, const mt_manager *m, const mt_hold *h) {
  *item =
      (mt_lock_item){.verb = h->verb, .place = mt_hold_place(h), .n = h->n, .mode = h->asked_mode};
  if (h->evict[0]) {
    item->verb = h->adopts ? MT_LOCK_ADOPT : MT_LOCK_EVICT;
    item->session = h->evict;
  } else if (h->verb == MT_LOCK_DELETE) {
    item->if_version = h->version;
  } else if (h->verb == MT_LOCK_SET || h->verb == MT_LOCK_CREATE) {
    item->fresh = h->mode == MT_NL;
    item->enqueue = h->asked_enqueue;
    item->place_ms = (uint32_t)m->place_ms;
    item->ask_queue = h->mode != MT_NL;
    item->brief = item->fresh && !item->enqueue && all_would_ask_again(h);
    item->leaf = h->serving && h->serving->target;
  }
}

/* ---- The line of what waits to be sent ------------------------------------------------------ */

void mt_outbox_kick(mt_manager *m, mt_hold *h) {
  if (h->send) return;
  h->send = MT_SEND_READY;
  h->next_out = NULL;
  mt_outbox *o = m->outbox;
  if (o->last)
    o->last->next_out = h;
  else
    o->first = h;
  o->last = h;
  mt_manager_soon(m);
}

void mt_outbox_ask(mt_manager *m, mt_part *part, bool enqueue, bool once) {
  mt_hold *h = part->hold;
  MT_MUST(!part->asking);
  part->asking = true;
  part->enqueue = enqueue;
  part->once = once;
  part->next_ask = NULL;
  if (h->last_ask)
    h->last_ask->next_ask = part;
  else
    h->asks = part;
  h->last_ask = part;
  mt_outbox_kick(m, h);
}

bool mt_outbox_adopt(mt_manager *m, mt_hold *h, const char *from) {
  if (h->send || h->serving || h->asks || h->evict[0]) return false;
  memcpy(h->evict, from, sizeof h->evict);
  h->adopts = h->guard = true;
  h->n = ++m->holds->last_n;
  h->asked_mode = MT_NL; /* so that the grant that follows is another write, with its own number */
  h->state = MT_HOLD_UNSURE_SURPLUS;
  mt_outbox_kick(m, h);
  return true;
}

static bool unlink_ask(mt_part **link, mt_part *part) {
  while (*link && *link != part) link = &(*link)->next_ask;
  if (!*link) return false;
  *link = part->next_ask;
  return true;
}

void mt_outbox_forget(mt_part *part) {
  mt_hold *h = part->hold;
  if (!part->asking) return;
  if (!unlink_ask(&h->serving, part)) unlink_ask(&h->asks, part);
  h->last_ask = NULL;
  for (mt_part *p = h->asks; p; p = p->next_ask) h->last_ask = p;
  part->next_ask = NULL;
  part->asking = false;
}

static mt_hold *pop_hold(mt_outbox *o) {
  mt_hold *h = o->first;
  if (!h) return NULL;
  o->first = h->next_out;
  if (!o->first) o->last = NULL;
  h->next_out = NULL;
  h->send = MT_SEND_IDLE;
  return h;
}

bool mt_outbox_idle(const mt_manager *m) {
  return !m->outbox->first && !m->outbox->in_flight;
}

void mt_pending_add(mt_pending_release *p, mt_hold *h) {
  h->pending_release = p;
  p->left++;
}

void mt_pending_done(mt_hold *h, const mortise_error *err) {
  mt_pending_release *p = h->pending_release;
  h->pending_release = NULL;
  if (!p) return;
  if (err && err->code && !p->error.code) p->error = *err;
  if (--p->left) return;
  mt_release *r = p->r;
  mortise_error error = p->error;
  mt_free(p);
  if (!r) return;
  if (!r->error.code) r->error = error;
  r->op = NULL;
  MT_FINISH(r);
}

static void settle_hold(mt_holds *holds, mt_hold *h) {
  mt_pending_done(h, NULL);
  mt_holds_drop_if_idle(holds, h);
}

/* ---- Answers -------------------------------------------------------------------------------- */

static void answer_all(mt_manager *m, mt_hold *h, const mt_lock_item *denied,
                       const mortise_error *err) {
  while (h->serving) {
    mt_part *part = h->serving;
    h->serving = part->next_ask;
    part->next_ask = NULL;
    part->asking = false;
    m->hooks->answered(part, denied, err);
  }
}

static void hold_granted(mt_manager *m, mt_hold *h, const mt_lock_item *item) {
  h->mode = h->asked_mode;
  h->version = item->version;
  h->written_ms = mt_manager_now(m);
  h->state = item->verb == MT_LOCK_CREATE ? MT_HOLD_CREATED : MT_HOLD_WRITTEN;
  h->contended = item->contended;
  if (!h->serving) mt_successors_tell(m, h); /* a weaker mode may let them in */
  for (mt_part *p = h->serving; p; p = p->next_ask) p->state = MT_PART_HELD;
  answer_all(m, h, NULL, NULL);
}

static void mark_for_eviction(mt_manager *m, mt_hold *h, const char *session) {
  if (h->evict[0]) return;
  memcpy(h->evict, session, sizeof h->evict);
  mt_outbox_kick(m, h);
}

/* The intention locks that a dead session left on ancestors rarely block anybody, so nobody else
 * would evict them soon; we evict them while we pass. */
static void evict_from_ancestors(mt_manager *m, const mt_part *part, const char *session) {
  for (const mt_part *up = part - part->index; up < part; up++) {
    uint32_t stripes = mt_place_stripes(up->place.path, m->stripes);
    if (!up->hold || up->target) continue;
    mt_place place = {up->place.path, mt_place_stripe_of(session, stripes)};
    mt_hold *h = mt_holds_get(m->holds, place);
    if (h) mark_for_eviction(m, h, session);
  }
}

/* Evicts a blocker that we proved dead; the same write follows again. */
static bool evict_dead_blocker(mt_manager *m, mt_hold *h, const mt_lock_item *item) {
  for (size_t i = 0; i < item->n_blockers && h->tries < TRIES_MAX; i++) {
    const char *session = item->blockers[i].session;
    if (mt_lock_entry_guards(&item->blockers[i]) || !mt_takeover_dead(m, session)) continue;
    memcpy(h->evict, session, sizeof h->evict);
    if (h->serving) evict_from_ancestors(m, h->serving, session);
    return true;
  }
  return false;
}

static void refuse_asks(mt_manager *m, mt_hold *h, mortise_status code, const char *why) {
  mortise_error err;
  const mt_slice path = mt_slice_of(h->path);
  mt_error_set(&err, code, MT_QUOTED ": %s", MT_QUOTED_OF(path), why);
  answer_all(m, h, NULL, &err);
}

/* Whoever has the document is in the way of X. So the next write joins the queue, unless that would let go of
 * what was granted after this place, or the caller would rather have an answer. */
static bool joins_queue(const mt_hold *h, const mt_lock_item *item) {
  bool last = item->brief;
  for (const mt_part *p = h->serving; p; p = p->next_ask) last &= p->last;
  return last;
}

/* This and release_answered return true if the hold must be written again at once. */
static bool grant_answered(mt_manager *m, mt_hold *h, const mt_lock_item *item) {
  switch (item->result) {
  case MT_LOCK_ACKED:
    hold_granted(m, h, item);
    return false;
  case MT_LOCK_EXISTS: /* it may be our own write that made it */
    h->verb = MT_LOCK_SET;
    if (!joins_queue(h, item)) return true; /* fall through */
  case MT_LOCK_QUEUED:
    mt_hold_doubt(h); /* fall through */
  case MT_LOCK_DENIED:
    m->stats.denials++;
    mt_hold_touched(h);
    if (evict_dead_blocker(m, h, item)) return true;
    answer_all(m, h, item, NULL);
    return false;
  case MT_LOCK_STALE:
    if (h->mode) {
      atomic_store(&m->holds->session.lost, true);
      return false;
    }
    refuse_asks(m, h, MORTISE_CORRUPT_TABLE, "the store holds a newer number of this session");
    return false;
  default:
    refuse_asks(m, h, MORTISE_REJECTED, "the store refuses the write");
    return false;
  }
}

static bool release_answered(mt_manager *m, mt_hold *h, const mt_lock_item *item) {
  if (item->verb == MT_LOCK_DELETE && item->result == MT_LOCK_CONFLICT)
    return true; /* still unsure, so the scripted release follows */
  if (item->result == MT_LOCK_FAILED) {
    mt_log_write(&m->store->log, MORTISE_LOG_WARNING,
                 "%s: a release was refused; it ends with the session", h->path);
    m->holds->replace = true;
    mortise_error err;
    const mt_slice path = mt_slice_of(h->path);
    mt_error_set(&err, MORTISE_REJECTED, MT_QUOTED ": the store refuses to take the lock back",
                 MT_QUOTED_OF(path));
    mt_pending_done(h, &err);
  }
  /* ABSENT may come from a stale primary and proves nothing. */
  if (item->result == MT_LOCK_ABSENT) m->holds->replace = true;
  mt_successors_tell(m, h);
  mt_hold_clear(h);
  return false;
}

/* Only an acknowledged write takes it over. CONFLICT: nothing of the dead one is left, so somebody else was
 * quicker. */
static void adopt_answered(mt_manager *m, mt_hold *h, const mt_lock_item *item) {
  static const struct refusal {
    mortise_status code;
    const char *why;
  } gone = {MORTISE_CONFLICT, "another session has taken that over"},
    newer = {MORTISE_CORRUPT_TABLE, "the store holds a newer number of this session"},
    refused = {MORTISE_REJECTED, "the store refuses to let that be taken over"};
  const struct refusal *r = item->result == MT_LOCK_ABSENT  ? &gone
                            : item->result == MT_LOCK_STALE ? &newer
                                                            : &refused;
  mortise_error err;
  const mt_slice path = mt_slice_of(h->path);
  mt_error_set(&err, r->code, MT_QUOTED ", held by session %s for job %s: %s", MT_QUOTED_OF(path),
               h->evict, m->job, r->why);
  h->evict[0] = '\0';
  h->adopts = false;
  m->hooks->adopted(m, h, item->result == MT_LOCK_ACKED ? NULL : &err);
}

static bool takes(const mt_lock_item *item) {
  return item->verb == MT_LOCK_SET || item->verb == MT_LOCK_CREATE;
}

/* It may still be on its way, whatever was answered: what it may have been granted is given back, even if no
 * part waits any more, and a late grant ends with the session. */
static void may_come_late(mt_holds *holds, mt_hold *h, const mt_lock_item *item) {
  if (takes(item)) mt_hold_doubt(h);
  if (takes(item) || item->verb == MT_LOCK_ADOPT) holds->replace = true;
}

/* The more failures in a row, the longer. */
static void pause_asking(mt_manager *m, uint32_t failures) {
  int64_t pause = PAUSE_FIRST_MS << (failures < 6 ? failures : 6);
  m->outbox->paused_ms =
      mt_manager_now(m) + mt_manager_jitter(m, pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS);
}

/* What the store said when it was busy, else that others were always faster. */
static void tired(mt_manager *m, mt_hold *h, const mt_lock_item *item, const mortise_error *busy) {
  if (item->result == MT_LOCK_BUSY && busy->code)
    answer_all(m, h, NULL, busy);
  else
    refuse_asks(m, h, MORTISE_UNAVAILABLE,
                item->result == MT_LOCK_BUSY ? "the store is too busy to take a lock"
                                             : "too many conflicting writes");
}

static void item_answered(mt_manager *m, mt_holds *holds, mt_hold *h, const mt_lock_item *item,
                          const mt_lock_batch *of) {
  bool again = false;
  h->send = MT_SEND_IDLE;
  if (!of->proven) may_come_late(holds, h, item);
  if (item->result == MT_LOCK_BUSY ||
      (item->result == MT_LOCK_CONFLICT && item->verb != MT_LOCK_DELETE)) {
    again = ++h->tries < TRIES_MAX;
    if (item->result == MT_LOCK_CONFLICT) m->stats.conflicts++;
    if (item->result == MT_LOCK_BUSY) pause_asking(m, h->tries / 2);
    if (!again && h->serving) tired(m, h, item, &of->busy);
    again |= !h->serving; /* a write that no part waits for is always retried */
  } else if (item->verb == MT_LOCK_EVICT) {
    h->evict[0] = '\0';
    h->tries++;
    again = true;
  } else if (item->verb == MT_LOCK_ADOPT) {
    adopt_answered(m, h, item);
  } else if (takes(item)) {
    again = grant_answered(m, h, item);
  } else {
    again = release_answered(m, h, item);
  }
  /* Parts in line may be admitted once nothing is held here or no other session waits. */
  if (!again && (!h->mode || !h->contended)) m->hooks->admit(m, h);
  if (!mt_manager_believes(m, holds)) return; /* a caller ended the session meanwhile */
  mt_outbox_kick(m, h);
}

/* ---- Batches -------------------------------------------------------------------------------- */

static void batch_free(mt_batch *b) {
  mt_outbox *o = b->m->outbox;
  if (b->prev) b->prev->next = b->next;
  if (b->next) b->next->prev = b->prev;
  if (o->batches == b) o->batches = b->next;
  mt_lock_batch_deinit(&b->req);
  mt_holds_unref(b->of);
  mt_free(b->holds);
  mt_free(b->items);
  mt_free(b);
}

/* A permanent error: fails the asking parts; what cannot be given back ends with the session. */
static void give_up_write(mt_manager *m, mt_holds *holds, mt_hold *h, const mortise_error *err) {
  bool evicting = h->evict[0], adopting = h->adopts;
  h->evict[0] = '\0';
  h->adopts = false;
  if (adopting) m->hooks->adopted(m, h, err);
  if (h->serving) {
    answer_all(m, h, NULL, err);
    return;
  }
  if (evicting) return; /* our own hold here is unchanged */
  mt_hold_clear(h);
  holds->replace = true;
}

/* A write may be repeated with its number, so a broken connection costs an acquisition only time;
 * the hook `trouble` fails those that are past their deadline or have a single try. Releases and
 * evictions are repeated until they are acknowledged or refused, since the session may live on for
 * long with other holds; but not while it is being closed, which gives back everything. */
static bool try_again(const mt_manager *m, const mt_hold *h, const mt_lock_item *item,
                      const mortise_error *err) {
  if (err->retryable) return true;
  if (!h->serving && err->code == MORTISE_OUT_OF_MEMORY) return true;
  if (m->closing || item->result == MT_LOCK_FAILED) return false;
  if (h->serving) return err->ambiguous && err->code == MORTISE_UNAVAILABLE;
  return item->result != MT_LOCK_NO_ANSWER || err->code == MORTISE_UNAVAILABLE ||
         err->code == MORTISE_CONFLICT;
}

/* A batch is not atomic: beside a refused item others may have been applied. They are not relied on
 * but given back. */
static void item_failed(mt_manager *m, mt_holds *holds, mt_hold *h, const mt_lock_item *item,
                        const mortise_error *err, bool proven) {
  bool answered = item->result != MT_LOCK_NO_ANSWER && item->result != MT_LOCK_FAILED;
  bool unsure = err->ambiguous || answered;
  h->send = MT_SEND_IDLE;
  if (unsure || !proven) may_come_late(holds, h, item);
  if (unsure) mt_hold_touched(h);
  if (h->pending_release) mt_pending_done(h, err);
  if (!try_again(m, h, item, err)) give_up_write(m, holds, h, err);
  if (mt_manager_believes(m, holds)) mt_outbox_kick(m, h);
}

/* The whole request failed. After a transient error the writes are repeated with their numbers
 * after a pause; a permanent error fails the asking parts. */
static void batch_failed(mt_manager *m, mt_batch *b) {
  mt_outbox *o = m->outbox;
  const mortise_error *err = &b->req.req.error;
  pause_asking(m, o->troubles++);
  for (size_t i = 0; i < b->n; i++)
    item_failed(m, b->of, b->holds[i], &b->items[i], err, b->req.proven);
  m->hooks->trouble(m, err);
}

/* A store that stays busy is trouble, as is one that fails: its disk may be too full. */
static bool stays_busy(const mt_batch *b) {
  bool stays = false;
  for (size_t i = 0; i < b->n && b->req.busy.code; i++)
    stays |= b->items[i].result == MT_LOCK_BUSY && b->holds[i]->tries >= BUSY_TRIES;
  return stays;
}

static void batch_done(void *ctx, mt_req *req) {
  mt_batch *b = ctx;
  mt_manager *m = b->m;
  m->outbox->in_flight--;
  if (!mt_manager_believes(m, b->of)) { /* this session was given up */
    batch_free(b);
    return;
  }
  mt_holds_ref(b->of);
  if (req->error.code) {
    batch_failed(m, b);
  } else {
    m->outbox->troubles = 0;
    m->outbox->paused_ms = 0;
    m->outbox->asked_ms = mt_manager_now(m);
    /* A grant counts only if the session is still alive now. */
    bool alive = mt_manager_session_alive(m), trouble = stays_busy(b);
    for (size_t i = 0; alive && i < b->n && mt_manager_believes(m, b->of); i++)
      item_answered(m, b->of, b->holds[i], &b->items[i], &b->req);
    if (trouble && alive && mt_manager_believes(m, b->of)) m->hooks->trouble(m, &b->req.busy);
  }
  mt_holds *holds = b->of;
  batch_free(b);
  if (mt_manager_believes(m, holds) && !mt_manager_session_alive(m)) m->hooks->session_lost(m);
  mt_holds_unref(holds);
  mt_manager_soon(m);
}

static int by_place(const void *a, const void *b) {
  return mt_place_cmp(mt_hold_place(*(mt_hold *const *)a), mt_hold_place(*(mt_hold *const *)b));
}

static void order(mt_batch *b, size_t givers) {
  bool sorted = true;
  for (size_t i = givers + 1; i < b->n && sorted; i++)
    sorted = by_place(&b->holds[i - 1], &b->holds[i]) <= 0;
  if (!sorted) qsort(b->holds + givers, b->n - givers, sizeof(mt_hold *), by_place);
}

/* Takes holds off the line into the batch: releases first, then grants in the total order. */
static void gather(mt_manager *m, mt_batch *b) {
  mt_hold *asking = NULL, **tail = &asking;
  size_t asks = 0;
  /* Callbacks in here may add to the line; never take more than there is room for. */
  while (m->outbox->first && b->n + asks < b->room) {
    mt_hold *h = pop_hold(m->outbox);
    if (!choose_write(m, b->of, h)) {
      settle_hold(b->of, h);
      continue;
    }
    h->send = MT_SEND_SENT;
    if (!h->serving && !h->evict[0] && h->verb != MT_LOCK_SET) {
      b->holds[b->n++] = h;
      continue;
    }
    /* The hold passes to another task, so its release is done; a mere lowering waits for the
     * answer. */
    if (h->pending_release && h->serving && !h->evict[0]) mt_pending_done(h, NULL);
    *tail = h;
    tail = &h->next_out;
    asks++;
  }
  *tail = NULL;
  size_t givers = b->n;
  while (asking) {
    b->holds[b->n++] = asking;
    mt_hold *h = asking;
    asking = h->next_out;
    h->next_out = NULL;
  }
  order(b, givers);
}

static mt_batch *batch_new(mt_manager *m) {
  mt_batch *b = mt_calloc(1, sizeof *b);
  if (!b) return NULL;
  for (mt_hold *h = m->outbox->first; h && b->room < BATCH_ITEMS; h = h->next_out) b->room++;
  b->holds = mt_calloc(b->room, sizeof *b->holds);
  b->items = mt_calloc(b->room, sizeof *b->items);
  if (!b->holds || !b->items) {
    mt_free(b->holds);
    mt_free(b->items);
    mt_free(b);
    return NULL;
  }
  b->m = m;
  b->of = m->holds;
  mt_holds_ref(b->of);
  b->next = m->outbox->batches;
  if (b->next) b->next->prev = b;
  m->outbox->batches = b;
  return b;
}

static void send_batch(mt_manager *m, mt_batch *b) {
  for (size_t i = 0; i < b->n; i++) item_fill(&b->items[i], m, b->holds[i]);
  int64_t deadline = mt_manager_now(m) + m->store->request_ms;
  int64_t lease = atomic_load(&b->of->session.deadline_ms);
  b->req = (mt_lock_batch){
      .req = {.done = batch_done, .ctx = b, .deadline_ms = deadline < lease ? deadline : lease},
      .ns = m->ns,
      .session = b->of->session.id,
      .job = m->job,
      .items = b->items,
      .n = b->n,
  };
  if (!m->outbox->in_flight && !m->outbox->troubles) m->outbox->asked_ms = mt_manager_now(m);
  m->outbox->in_flight++;
  m->stats.batches++;
  m->stats.items += b->n;
  m->store->locks->batch(m->store, &b->req);
}

void mt_outbox_flush(mt_manager *m) {
  mt_outbox *o = m->outbox;
  while (m->phase == MT_OPEN && o->first && o->in_flight < BATCHES_MAX) {
    if (o->paused_ms > mt_manager_now(m)) return;
    mt_batch *b = batch_new(m);
    if (!b) { /* out of memory: the holds stay in line */
      o->paused_ms = mt_manager_now(m) + PAUSE_FIRST_MS;
      return;
    }
    gather(m, b);
    if (b->n)
      send_batch(m, b);
    else
      batch_free(b);
  }
}

int64_t mt_outbox_due(const mt_manager *m) {
  const mt_outbox *o = m->outbox;
  return o->first && o->in_flight < BATCHES_MAX ? o->paused_ms : INT64_MAX;
}

int64_t mt_outbox_asked_ms(const mt_manager *m) {
  const mt_outbox *o = m->outbox;
  return o->in_flight || (o->troubles && o->first) ? o->asked_ms : 0;
}

void mt_outbox_abandon(mt_manager *m, const mortise_error *err) {
  while (pop_hold(m->outbox)) {
  }
  for (size_t i = 0; m->holds && i < m->holds->buckets; i++)
    for (mt_hold *h = m->holds->bucket[i]; h; h = h->next_in_bucket) mt_pending_done(h, err);
}

void mt_outbox_deinit(mt_manager *m) {
  mortise_error err;
  mt_error_set(&err, MORTISE_UNAVAILABLE, "the client ended before the lock was given back");
  mt_outbox_abandon(m, &err);
  while (m->outbox->batches) {
    mt_batch *b = m->outbox->batches;
    mt_store_cancel(m->store, &b->req.req);
    batch_free(b);
  }
}
