#include "lock/holds.h"

#include "base/mem.h"
#include "base/must.h"

#include <stdlib.h>

enum { BUCKETS_MIN = 64 };

/* ---- The table ------------------------------------------------------------------------------ */

/* FNV-1a, 64 bits: paths share long prefixes, and it spreads differences at the end well. */
static uint64_t hash_place(mt_place place) {
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < place.path.n; i++)
    h = (h ^ (unsigned char)place.path.p[i]) * 1099511628211u;
  return (h ^ h >> 29) + place.stripe;
}

mt_holds *mt_holds_new(const mt_env *env, const char *ns, uint64_t address, int64_t lease_ms, int64_t margin_ms) {
  mt_holds *t = mt_calloc(1, sizeof *t);
  mt_hold **bucket = mt_calloc(BUCKETS_MIN, sizeof(mt_hold *));
  if (!t || !bucket) {
    mt_free(t);
    mt_free(bucket);
    return NULL;
  }
  mt_session_init(&t->session, env, ns, address, lease_ms, margin_ms);
  t->bucket = bucket;
  t->buckets = BUCKETS_MIN;
  t->refs = 1;
  return t;
}

void mt_holds_ref(mt_holds *t) {
  t->refs++;
}

void mt_holds_unref(mt_holds *t) {
  if (!t || --t->refs) return;
  for (size_t i = 0; i < t->buckets; i++) {
    while (t->bucket[i]) {
      mt_hold *h = t->bucket[i];
      t->bucket[i] = h->next_in_bucket;
      mt_free(h->successors);
      mt_free(h);
    }
  }
  mt_session_deinit(&t->session);
  mt_free(t->bucket);
  mt_free(t);
}

/* `buckets` is a power of two. */
static void widen(mt_holds *t, size_t buckets) {
  mt_hold **bucket = mt_calloc(buckets, sizeof(mt_hold *));
  if (!bucket) return; /* only the chains grow longer */
  for (size_t i = 0; i < t->buckets; i++) {
    while (t->bucket[i]) {
      mt_hold *h = t->bucket[i];
      t->bucket[i] = h->next_in_bucket;
      h->next_in_bucket = bucket[h->hash & (buckets - 1)];
      bucket[h->hash & (buckets - 1)] = h;
    }
  }
  mt_free(t->bucket);
  t->bucket = bucket;
  t->buckets = buckets;
}

void mt_holds_expect(mt_holds *t, size_t more) {
  size_t buckets = t->buckets;
  while (buckets / 2 < t->n + more && buckets < SIZE_MAX / 16) buckets *= 2;
  if (buckets > t->buckets) widen(t, buckets);
}

static mt_hold *find_hold(const mt_holds *t, mt_place place, uint64_t hash) {
  mt_hold *h = t->bucket[hash & (t->buckets - 1)];
  while (h && (h->hash != hash || !mt_place_equal(mt_hold_place(h), place))) h = h->next_in_bucket;
  return h;
}

mt_hold *mt_holds_at(const mt_holds *t, mt_place place) {
  return find_hold(t, place, hash_place(place));
}

mt_hold *mt_holds_get(mt_holds *t, mt_place place) {
  mt_slice path = place.path;
  uint64_t hash = hash_place(place);
  mt_hold *known = find_hold(t, place, hash);
  if (known) return known;
  if (t->n >= t->buckets) widen(t, t->buckets * 2);
  mt_hold *h = mt_calloc(1, sizeof *h + path.n + 1);
  if (!h) return NULL;
  h->hash = hash;
  h->left_n = t->last_n;
  h->stripe = place.stripe;
  h->path_n = path.n;
  memcpy(h->path, path.p, path.n);
  h->next_in_bucket = t->bucket[hash & (t->buckets - 1)];
  t->bucket[hash & (t->buckets - 1)] = h;
  t->n++;
  return h;
}

mt_hold *mt_holds_find(const mt_holds *t, uint64_t hash) {
  mt_hold *h = t->bucket[hash & (t->buckets - 1)];
  while (h && h->hash != hash) h = h->next_in_bucket;
  return h;
}

void mt_holds_drop_if_idle(mt_holds *t, mt_hold *h) {
  if (h->in.first || h->line.first || h->asks || h->send || h->state) return;
  mt_hold **link = &t->bucket[h->hash & (t->buckets - 1)];
  while (*link != h) link = &(*link)->next_in_bucket;
  *link = h->next_in_bucket;
  t->n--;
  mt_free(h->successors);
  mt_free(h);
}

/* ---- What the store has ----------------------------------------------------------------------- */

bool mt_hold_is_unsure(const mt_hold *h) {
  return h->state >= MT_HOLD_UNSURE;
}

void mt_hold_doubt(mt_hold *h) {
  if (!mt_hold_is_unsure(h)) h->state = MT_HOLD_UNSURE;
}

void mt_hold_touched(mt_hold *h) {
  if (h->state == MT_HOLD_CREATED) h->state = MT_HOLD_WRITTEN;
}

void mt_hold_clear(mt_hold *h) {
  h->state = MT_HOLD_NONE;
  h->mode = MT_NL;
  h->contended = false;
}

/* ---- Parts ---------------------------------------------------------------------------------- */

static void append_part(mt_parts *list, mt_part *part) {
  MT_MUST(!part->prev && list->first != part);
  part->prev = list->last;
  part->next = NULL;
  if (list->last)
    list->last->next = part;
  else
    list->first = part;
  list->last = part;
}

static void take_out(mt_parts *list, mt_part *part) {
  if (part->prev)
    part->prev->next = part->next;
  else
    list->first = part->next;
  if (part->next)
    part->next->prev = part->prev;
  else
    list->last = part->prev;
  part->prev = part->next = NULL;
}

static bool conflicts(mt_mode mode, const uint32_t counts[MT_MODES]) {
  for (mt_mode m = MT_IS; m <= MT_X; m++)
    if (counts[m] && !mt_mode_compatible(m, mode)) return true;
  return false;
}

static bool related(const mt_part *holder, const mt_part *part, const mt_kin *kin) {
  uint64_t a = holder->task, b = part->task;
  return a == b || (kin->inherits && kin->inherits(kin->ctx, a, b));
}

static bool holds_related(const mt_hold *h, const mt_part *part, const mt_kin *kin) {
  for (const mt_part *p = h->in.first; p; p = p->next)
    if (related(p, part, kin)) return true;
  return false;
}

static bool shares_allow(const mt_hold *h, const mt_part *part, const mt_kin *kin) {
  if (!conflicts(part->mode, h->counts)) return true;
  for (const mt_part *p = h->in.first; p; p = p->next)
    if (!mt_mode_compatible(p->mode, part->mode) && !related(p, part, kin)) return false;
  return true;
}

/* Looks at the parts in line before `part`, or at all if it is not in line. */
static bool line_allows(const mt_hold *h, const mt_part *part) {
  for (const mt_part *p = h->line.first; p && p != part; p = p->next)
    if (!mt_mode_compatible(p->mode, part->mode)) return false;
  return true;
}

/* It will be given back before another task gets in. A guard is not given back. */
static bool is_shut(const mt_hold *h) {
  return h->contended && h->mode && !h->guard;
}

bool mt_hold_admits(const mt_hold *h, const mt_part *part, const mt_kin *kin) {
  if (!shares_allow(h, part, kin)) return false;
  bool must_line_up = is_shut(h) || !line_allows(h, part);
  return !must_line_up || holds_related(h, part, kin);
}

void mt_hold_enter(mt_part *part) {
  if (part->state == MT_PART_LINED) take_out(&part->hold->line, part);
  append_part(&part->hold->in, part);
  part->hold->counts[part->mode]++;
  part->state = MT_PART_IN;
}

void mt_hold_line_up(mt_part *part) {
  append_part(&part->hold->line, part);
  part->state = MT_PART_LINED;
}

void mt_hold_leave(mt_part *part) {
  if (part->state == MT_PART_LINED) take_out(&part->hold->line, part);
  if (part->state >= MT_PART_IN) {
    take_out(&part->hold->in, part);
    part->hold->counts[part->mode]--;
  }
  part->state = MT_PART_OUT;
  part->hold = NULL;
}

mt_part *mt_hold_next(const mt_hold *h, const mt_kin *kin) {
  for (mt_part *p = h->line.first; p; p = p->next)
    if (mt_hold_admits(h, p, kin)) return p;
  return NULL;
}

mt_mode mt_hold_shared_mode(const mt_hold *h) {
  mt_mode mode = MT_NL;
  for (mt_mode m = MT_IS; m <= MT_X; m++)
    if (h->counts[m]) mode = mt_mode_join(mode, m);
  return mode;
}

mt_mode mt_hold_held_mode(const mt_hold *h) {
  mt_mode mode = MT_NL;
  for (const mt_part *p = h->in.first; p; p = p->next)
    if (p->state == MT_PART_HELD) mode = mt_mode_join(mode, p->mode);
  return mode;
}

mt_blocking mt_blocking_begin(const mt_part *part, const mt_kin *kin) {
  const mt_hold *h = part->hold;
  mt_blocking b = {.kin = kin, .part = part, .next = h->in.first, .in = true};
  b.must_line_up = !holds_related(h, part, kin);
  b.all = b.must_line_up && is_shut(h);
  return b;
}

const mt_part *mt_blocking_next(mt_blocking *b) {
  for (;;) {
    if (!b->next && b->in && b->must_line_up) {
      b->in = false;
      b->next = b->part->hold->line.first;
    }
    const mt_part *p = b->next;
    if (!p || p == b->part) return NULL;
    b->next = p->next;
    bool clash = !mt_mode_compatible(p->mode, b->part->mode);
    if (b->in ? b->all || (clash && !related(p, b->part, b->kin)) : clash) return p;
  }
}
