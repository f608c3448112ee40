#include "lock/adoption.h"

#include "base/mem.h"
#include "lock/takeover.h"
#include "store/table.h"

enum {
  READ_PLACES = 1000,
  LOOK_MS = 1000, /* between looks at sessions that live */
  AGAIN_MS = 20,  /* where something else is being written, or a request failed for now */
  SLOWER_MAX = 6, /* doublings of that pause where another one was quicker */
  PATH_ROOM = 16 << 10,
};

typedef enum step { STEP_READ, STEP_READING, STEP_WAIT, STEP_ADOPT, STEP_OVER } adoption_step;

/* An entry of the job at one of the places. */
typedef struct found {
  size_t place;
  mt_lock_entry entry;
  const mt_hold *hold; /* at which it is being adopted, or NULL */
  bool adopted;
} found;

struct mt_adoption {
  mt_lock *lock;
  mt_manager *m;
  adoption_step step;
  bool once; /* a single try */
  unsigned slower; /* how often another one has taken over what this one was about to */
  int64_t due_ms;
  mt_lock_read read;
  mt_place *places; /* all stripes of the parts' paths, owned: the dead may have used any */
  size_t n_places;
  size_t at;    /* those before it were read in this round */
  found *found; /* in the order of the places */
  size_t n, cap;
  mortise_error error;
};

/* Does this part begin a path? Its other stripes follow. */
static bool begins_path(const mt_lock *lock, size_t part) {
  return !part || !mt_slice_eq(lock->parts[part - 1].place.path, lock->parts[part].place.path);
}

static uint32_t stripes_of_part(const mt_lock *lock, size_t part) {
  return begins_path(lock, part) ? mt_place_stripes(lock->parts[part].place.path, lock->stripes)
                                 : 0;
}

mt_adoption *mt_adoption_new(mt_lock *lock, bool once) {
  mt_adoption *ad = mt_calloc(1, sizeof *ad);
  size_t n = 0;
  for (size_t i = 0; i < lock->n; i++) n += stripes_of_part(lock, i);
  if (ad) ad->places = mt_calloc(n, sizeof *ad->places);
  if (!ad || !ad->places) {
    mt_free(ad);
    return NULL;
  }
  ad->lock = lock;
  ad->once = once;
  ad->m = lock->manager;
  for (size_t i = 0; i < lock->n; i++)
    for (uint32_t stripe = 0; stripe < stripes_of_part(lock, i); stripe++)
      ad->places[ad->n_places++] = (mt_place){lock->parts[i].place.path, stripe};
  return ad;
}

void mt_adoption_settle(mt_lock *lock) {
  for (size_t i = 0; i < lock->n; i++)
    for (uint32_t stripe = 0; stripe < stripes_of_part(lock, i); stripe++) {
      mt_hold *h = mt_holds_at(lock->holds, (mt_place){lock->parts[i].place.path, stripe});
      if (!h || !h->guard) continue;
      h->guard = false;
      h->adopted = MT_NL;
      mt_outbox_kick(lock->manager, h);
    }
}

void mt_adoption_free(mt_adoption *ad) {
  if (!ad) return;
  if (ad->step == STEP_READING) mt_store_cancel(ad->m->store, &ad->read.req);
  mt_lock_read_deinit(&ad->read);
  mt_free(ad->places);
  mt_free(ad->found);
  mt_free(ad);
}

static void fail_adoption(mt_adoption *ad, const mortise_error *err) {
  ad->error = *err;
  ad->step = STEP_OVER;
}

static void begin_step(mt_adoption *ad, adoption_step step, int64_t after_ms) {
  ad->step = step;
  ad->due_ms = after_ms ? mt_manager_now(ad->m) + after_ms : 0;
}

static bool is_dead(const mt_adoption *ad, const found *f) {
  return mt_takeover_dead(ad->m, f->entry.session);
}

/* ---- What the job holds there --------------------------------------------------------------- */

static bool note_entry(mt_adoption *ad, size_t place, const mt_lock_entry *e) {
  bool own = memcmp(e->session, ad->lock->holds->session.id, MT_SESSION_ID) == 0;
  if (own || !mt_lock_entry_guards(e) || strcmp(e->job, ad->m->job) != 0) return true;
  if (!mt_grow((void **)&ad->found, &ad->cap, ad->n + 1, sizeof *ad->found, SIZE_MAX / 1024))
    return false;
  ad->found[ad->n++] = (found){.place = place, .entry = *e};
  return true;
}

/* Documents come in the order of the places that were asked for, those that are not there left out. */
static bool find_read_place(const mt_adoption *ad, mt_place place, size_t *at) {
  for (; *at < ad->n_places; ++*at)
    if (mt_place_equal(ad->places[*at], place)) return true;
  return false;
}

static bool note_document(mt_adoption *ad, mt_json doc, size_t *at) {
  mt_buf path;
  mt_place place;
  mt_buf_init(&path, PATH_ROOM);
  bool good = mt_place_read_json(doc, &path, &place) && find_read_place(ad, place, at);
  mt_buf_deinit(&path);
  mt_lock_entry e;
  for (mt_json_iter it = mt_json_items(mt_json_get(doc, "holders")); good && mt_json_next(&it);) {
    mt_entry_read_json(it.value, false, &e);
    good = note_entry(ad, *at, &e);
  }
  return good;
}

static void note_documents(mt_adoption *ad, mt_json list, mortise_error *err) {
  size_t at = ad->at - ad->read.n;
  for (mt_json_iter it = mt_json_items(list); !err->code && mt_json_next(&it);)
    if (!note_document(ad, it.value, &at))
      mt_error_set(err, MORTISE_CORRUPT_TABLE, "the documents of the job's locks cannot be read");
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* All was read: nothing is adopted before every session of it is proven dead. */
static void judge(mt_adoption *ad) {
  bool dead = true;
  for (size_t i = 0; i < ad->n; i++) dead &= is_dead(ad, &ad->found[i]);
  if (!ad->n)
    ad->step = STEP_OVER;
  else
    begin_step(ad, dead ? STEP_ADOPT : STEP_WAIT, dead ? 0 : LOOK_MS);
}

static void have_read(void *ctx, mt_req *req) {
  mt_adoption *ad = ctx;
  mt_json list;
  mortise_error err = req->error;
  bool passing = !ad->once && (err.retryable || err.code == MORTISE_UNAVAILABLE);
  if (!err.code && !mt_json_parse(mt_slice_of(ad->read.json), "the locks", &list, &err))
    note_documents(ad, list, &err);
  ad->step = STEP_READ;
  mt_lock_read_deinit(&ad->read);
  if (err.code && passing)
    begin_step(ad, STEP_READ, AGAIN_MS);
  else if (err.code)
    fail_adoption(ad, &err);
  else if (ad->at < ad->n_places)
    begin_step(ad, STEP_READ, 0);
  else
    judge(ad);
  if (err.code && passing) ad->at = 0;
  ad->m->hooks->adoption_moved(ad->lock);
}

static void read_some(mt_adoption *ad) {
  if (!ad->at) ad->n = 0;
  size_t left = ad->n_places - ad->at, n = left < READ_PLACES ? left : READ_PLACES;
  ad->step = STEP_READING;
  ad->read = (mt_lock_read){.req = {.done = have_read, .ctx = ad, .idempotent = true},
                            .ns = ad->m->ns,
                            .places = ad->places + ad->at,
                            .n = n};
  ad->at += n;
  ad->m->store->locks->lock_read(ad->m->store, &ad->read);
}

void mt_adoption_look(mt_adoption *ad) {
  if (ad->step == STEP_WAIT) ad->due_ms = 0;
}

/* ---- Adopting ------------------------------------------------------------------------------- */

/* False: not yet, something else is being written there. */
static bool begin_to_adopt(mt_adoption *ad, found *f) {
  mortise_error err;
  mt_hold *h = mt_holds_get(ad->lock->holds, ad->places[f->place]);
  if (!h) {
    mt_error_memory(&err);
    fail_adoption(ad, &err);
    return false;
  }
  if (!mt_outbox_adopt(ad->m, h, f->entry.session)) return false;
  h->adopted = mt_mode_join(h->adopted, f->entry.mode);
  f->hold = h;
  return true;
}

/* The first alone, then all that can be. */
static void adopt_more(mt_adoption *ad) {
  size_t n = ad->found[0].adopted ? ad->n : 1, left = 0;
  bool stuck = false;
  for (size_t i = 0; i < n && ad->step == STEP_ADOPT; i++) {
    found *f = &ad->found[i];
    if (f->adopted) continue;
    left++;
    if (!f->hold) stuck |= !begin_to_adopt(ad, f);
  }
  if (ad->step != STEP_ADOPT) return;
  if (!left) ad->step = STEP_OVER;
  ad->due_ms = stuck ? mt_manager_now(ad->m) + AGAIN_MS : INT64_MAX;
}

/* Another one has the job now: it ends it, or dies, and then this one comes. */
static void read_again(mt_adoption *ad) {
  ad->at = 0;
  begin_step(ad, STEP_READ, AGAIN_MS << ad->slower);
  if (ad->slower < SLOWER_MAX) ad->slower++;
}

void mt_adoption_answered(mt_adoption *ad, const mt_hold *h, const mortise_error *err) {
  for (size_t i = 0; ad->step == STEP_ADOPT && i < ad->n; i++) {
    found *f = &ad->found[i];
    if (f->hold != h || f->adopted) continue;
    f->adopted = !err;
    ad->due_ms = 0;
    if (err && err->code == MORTISE_CONFLICT && !ad->once)
      read_again(ad);
    else if (err)
      fail_adoption(ad, err);
    return;
  }
}

/* ---- From outside --------------------------------------------------------------------------- */

int64_t mt_adoption_due(const mt_adoption *ad) {
  return ad->step == STEP_READING ? INT64_MAX : ad->due_ms;
}

void mt_adoption_tick(mt_adoption *ad) {
  if (mt_manager_now(ad->m) < mt_adoption_due(ad)) return;
  if (ad->step == STEP_ADOPT) {
    adopt_more(ad);
  } else if (ad->step == STEP_READ || ad->step == STEP_WAIT) {
    if (ad->step == STEP_WAIT) ad->at = 0;
    read_some(ad);
  }
}

mt_adoption_state mt_adoption_state_of(const mt_adoption *ad) {
  if (ad->step == STEP_OVER) return ad->error.code ? MT_ADOPTION_FAILED : MT_ADOPTION_DONE;
  return ad->step == STEP_WAIT ? MT_ADOPTION_WAITS : MT_ADOPTION_BUSY;
}

const mortise_error *mt_adoption_error(const mt_adoption *ad) {
  return &ad->error;
}

/* The part there; where the lock has its intention in another stripe, that. */
static size_t part_of_place(const mt_lock *lock, mt_place place) {
  size_t of_path = lock->n, i = 0;
  for (; i < lock->n && !mt_place_equal(lock->parts[i].place, place); i++)
    if (mt_slice_eq(lock->parts[i].place.path, place.path)) of_path = i;
  return i < lock->n ? i : of_path;
}

size_t mt_adoption_living(const mt_adoption *ad, mt_lock_entry **entries, size_t *part,
                          uint32_t *stripe) {
  size_t n = 0;
  *entries = mt_calloc(ad->n ? ad->n : 1, sizeof **entries);
  for (size_t i = 0; *entries && i < ad->n; i++) {
    if (is_dead(ad, &ad->found[i])) continue;
    mt_place place = ad->places[ad->found[i].place];
    if (!n) *part = part_of_place(ad->lock, place);
    if (!n) *stripe = place.stripe;
    (*entries)[n++] = ad->found[i].entry;
  }
  return n;
}
