/* The servers' script decides as core/store/grant.c does, for all small documents: every
 * combination of the session's hold, another's, a queue of two, and every request. */
#include "conformance/conformance.h"

#include "base/json.h"
#include "store/grant.h"

#include <stdio.h>

enum {
  BLOCK = 720, /* documents in one request */
  N = 5,       /* of the request */
  DEAD = 1000, /* a time long ago: for expired places in the queue, and for every hold */
  MODES = 5,
  HOLDS = 3 + MODES, /* none; numbered larger; this very one; smaller, in each mode */
  OTHERS = 1 + MODES,
  QUEUES = 3 + 4 * MODES,
  ASKED = MODES * 2 * 2,
  ALL = HOLDS * OTHERS * QUEUES * ASKED,
};

static const int64_t alive = 9000000000000;

/* One of them, with its expected result. */
typedef struct small {
  char path[16], id[96];
  mt_lock_entry holders[3], queue[3]; /* room for my own new one */
  mt_lock_document doc;
  mt_grant_request request;
  mt_grant grant;
  uint32_t ahead;
  mt_buf text;
} small;

static unsigned digit(unsigned *rest, unsigned base) {
  unsigned d = *rest % base;
  *rest /= base;
  return d;
}

static void add(mt_lock_entry *list, size_t *n, const char *session, uint64_t number, mt_mode mode,
                int64_t until) {
  mt_lock_entry *e = &list[(*n)++];
  *e = (mt_lock_entry){.n = number, .mode = mode, .queued = until != 0, .until_ms = until};
  if (!until) e->since_ms = DEAD;
  snprintf(e->session, sizeof e->session, "%s", session);
}

static void add_hold(small *s, unsigned which, mt_mode asked) {
  size_t *n = &s->doc.n_holders;
  if (which == 1) add(s->holders, n, mt_a, N + 1, MT_S, 0);
  if (which == 2) add(s->holders, n, mt_a, N, asked, 0);
  if (which > 2) add(s->holders, n, mt_a, N - 1, (mt_mode)(MT_IS + which - 3), 0);
}

static void add_queue(small *s, unsigned which) {
  size_t *n = &s->doc.n_queue;
  mt_mode mode = which < 3 ? MT_S : (mt_mode)(MT_IS + (which - 3) % MODES);
  unsigned kind = which < 3 ? which : 3 + (which - 3) / MODES;
  if (kind == 1) add(s->queue, n, mt_a, N - 1, MT_S, alive);
  if (kind == 2) add(s->queue, n, mt_a, N + 1, MT_S, alive);
  if (kind == 3 || kind == 5) add(s->queue, n, mt_c, 1, mode, alive);
  if (kind == 4) add(s->queue, n, mt_c, 1, mode, DEAD);
  if (kind == 5 || kind == 6) add(s->queue, n, mt_a, N - 1, mode, alive);
  if (kind == 6) add(s->queue, n, mt_c, 1, mode, alive);
}

static void add_entries(mt_buf *out, const mt_lock_entry *list, size_t n) {
  mt_buf_addc(out, '[');
  for (size_t i = 0; i < n; i++)
    mt_buf_addf(out, "%s{\"session\":\"%s\",\"n\":%d,\"mode\":\"%s\",\"%s\":%lld}", i ? "," : "",
                list[i].session, (int)list[i].n, mt_mode_name(list[i].mode),
                list[i].queued ? "until" : "since",
                (long long)(list[i].queued ? list[i].until_ms : list[i].since_ms));
  mt_buf_addc(out, ']');
}

static void make(small *s, const mt_fixture *f, unsigned number) {
  unsigned rest = number;
  mt_buf_deinit(&s->text);
  *s = (small){0};
  mt_buf_init(&s->text, 4096);
  snprintf(s->path, sizeof s->path, "/g/%u", number);
  snprintf(s->id, sizeof s->id, "%s:%s", f->ns, s->path);
  mt_mode mode = (mt_mode)(MT_IS + digit(&rest, MODES));
  bool fresh = digit(&rest, 2), enqueue = digit(&rest, 2);
  add_hold(s, digit(&rest, HOLDS), mode);
  unsigned other = digit(&rest, OTHERS);
  if (other) add(s->holders, &s->doc.n_holders, mt_b, 1, (mt_mode)(MT_IS + other - 1), 0);
  add_queue(s, digit(&rest, QUEUES));
  s->doc.holders = s->holders;
  s->doc.queue = s->queue;
  s->request = (mt_grant_request){mt_a, N, mode, fresh, enqueue, alive / 2};
  s->grant = mt_grant_decide(&s->doc, &s->request);
  s->ahead = mt_grant_ahead(&s->doc, &s->request);
  mt_buf_addf(&s->text, "{\"kind\":\"lock\",\"path\":\"%s\",\"holders\":", s->path);
  add_entries(&s->text, s->holders, s->doc.n_holders);
  mt_buf_adds(&s->text, ",\"queue\":");
  add_entries(&s->text, s->queue, s->doc.n_queue);
  mt_buf_addc(&s->text, '}');
}

static void write_all(mt_fixture *f, small *all, size_t n) {
  static mt_write writes[BLOCK];
  for (size_t i = 0; i < n; i++) {
    writes[i] = mt_write_of(MT_WRITE_INDEX, all[i].id, "");
    writes[i].body = (mt_slice){all[i].text.p, all[i].text.n};
  }
  mt_bulk r = {.index = f->place->table, .items = writes, .n = n};
  f->s->docs->bulk(f->s, &r);
  MT_OK(f, r);
  for (size_t i = 0; i < n; i++)
    MT_CHECK(writes[i].result == MT_WRITE_APPLIED, "%s: %s", all[i].id, writes[i].reason);
}

/* ---- What is expected of one ---- */

static void check_blockers(const small *s, const mt_lock_item *item) {
  const mt_lock_entry *e = NULL;
  size_t n = 0;
  for (; (e = mt_grant_blocker(&s->doc, &s->request, e)); n++) {
    const mt_lock_entry *seen = n < item->n_blockers ? &item->blockers[n] : NULL;
    MT_CHECK(seen && !strcmp(seen->session, e->session) && seen->mode == e->mode &&
                 seen->queued == e->queued,
             "%.*s: blocker %zu of %zu", (int)s->text.n, s->text.p, n, item->n_blockers);
  }
  MT_CHECK(item->n_blockers == n, "%.*s: %zu blockers for %zu", (int)s->text.n, s->text.p,
           item->n_blockers, n);
}

static void check_answer(const small *s, const mt_lock_item *item) {
  MT_CHECK(item->result == s->grant.result, "%.*s asked for %s, fresh %d, enqueue %d: %s for %s",
           (int)s->text.n, s->text.p, mt_mode_name(item->mode), item->fresh, item->enqueue,
           mt_lock_result_name(item->result), mt_lock_result_name(s->grant.result));
  if (s->grant.result == MT_LOCK_ACKED)
    MT_CHECK(item->contended == mt_grant_contended(&s->doc, &s->request, s->grant.mode),
             "%.*s: contended %d", (int)s->text.n, s->text.p, item->contended);
  if (s->grant.result == MT_LOCK_QUEUED)
    MT_CHECK(item->ahead == s->ahead, "%.*s: %u ahead for %u", (int)s->text.n, s->text.p,
             item->ahead, s->ahead);
  if (s->grant.result == MT_LOCK_QUEUED || s->grant.result == MT_LOCK_DENIED)
    check_blockers(s, item);
}

static mt_lock_entry *mine_in(mt_lock_entry *list, size_t *n) {
  for (size_t i = 0; i < *n; i++)
    if (!strcmp(list[i].session, mt_a)) return &list[i];
  add(list, n, mt_a, N, MT_NL, alive);
  return &list[*n - 1];
}

static void drop_from_queue(small *s, bool mine) {
  size_t kept = 0;
  for (size_t i = 0; i < s->doc.n_queue; i++) {
    bool dead = s->queue[i].until_ms == DEAD;
    if (!dead && !(mine && !strcmp(s->queue[i].session, mt_a))) s->queue[kept++] = s->queue[i];
  }
  s->doc.n_queue = kept;
}

/* The document as the decision leaves it. */
static void apply(small *s) {
  mt_grant g = s->grant;
  if (g.result == MT_LOCK_ACKED && !g.again) {
    mt_lock_entry *e = mine_in(s->holders, &s->doc.n_holders);
    e->queued = false;
    e->n = N;
    e->mode = g.mode;
    e->since_ms = g.since_ms;
  }
  if (g.result == MT_LOCK_QUEUED) {
    mt_lock_entry *e = mine_in(s->queue, &s->doc.n_queue);
    e->queued = true;
    e->n = N;
    e->mode = s->request.mode;
    e->until_ms = alive;
  }
  if (g.result == MT_LOCK_ACKED || g.result == MT_LOCK_QUEUED)
    drop_from_queue(s, g.result == MT_LOCK_ACKED);
}

static void check_entries(const small *s, const mt_lock_entry *expected, size_t n, mt_json list) {
  size_t i = 0;
  MT_CHECK(mt_json_count(list) == n, "%.*s: %.*s", (int)s->text.n, s->text.p, (int)list.raw.n,
           list.raw.p);
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it); i++) {
    int64_t number, since;
    mt_json_int(mt_json_get(it.value, "n"), &number);
    MT_CHECK(mt_json_is(mt_json_get(it.value, "session"), expected[i].session) &&
                 number == (int64_t)expected[i].n &&
                 mt_json_is(mt_json_get(it.value, "mode"), mt_mode_name(expected[i].mode)),
             "%.*s: %.*s", (int)s->text.n, s->text.p, (int)list.raw.n, list.raw.p);
    if (!expected[i].queued && mt_json_int(mt_json_get(it.value, "since"), &since))
      MT_CHECK((since == DEAD) == (expected[i].since_ms == DEAD), "%.*s: since %lld",
               (int)s->text.n, s->text.p, (long long)since);
  }
}

static void check_left(mt_fixture *f, small *all, size_t n) {
  static mt_place places[BLOCK];
  mt_json root;
  for (size_t i = 0; i < n; i++) places[i] = (mt_place){mt_slice_of(all[i].path), 0};
  mt_lock_read r = {.ns = f->ns, .places = places, .n = n};
  f->s->locks->lock_read(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(!mt_json_parse(mt_slice_of(r.json), "the locks", &root, NULL), "%.200s", r.json);
  size_t i = 0;
  for (mt_json_iter it = mt_json_items(root); mt_json_next(&it); i++) {
    while (i < n && !mt_json_is(mt_json_get(it.value, "path"), all[i].path)) i++;
    MT_CHECK(i < n, "%.*s", (int)it.value.raw.n, it.value.raw.p);
    apply(&all[i]);
    check_entries(&all[i], all[i].holders, all[i].doc.n_holders, mt_json_get(it.value, "holders"));
    check_entries(&all[i], all[i].queue, all[i].doc.n_queue, mt_json_get(it.value, "queue"));
  }
  MT_CHECK(i == n, "%zu of %zu are there", i, n);
  mt_lock_read_deinit(&r);
}

static void run_block(mt_fixture *f, small *all, unsigned first, size_t n) {
  static mt_lock_item items[BLOCK];
  for (size_t i = 0; i < n; i++) make(&all[i], f, first + (unsigned)i);
  write_all(f, all, n);
  for (size_t i = 0; i < n; i++)
    items[i] = (mt_lock_item){.verb = MT_LOCK_SET,
                              .place.path = mt_slice_of(all[i].path),
                              .n = N,
                              .mode = all[i].request.mode,
                              .fresh = all[i].request.fresh,
                              .enqueue = all[i].request.enqueue,
                              .ask_queue = true};
  mt_lock_batch r = {.ns = f->ns, .session = mt_a, .items = items, .n = n};
  f->s->locks->batch(f->s, &r);
  MT_OK(f, r);
  for (size_t i = 0; i < n; i++) check_answer(&all[i], &items[i]);
  mt_lock_batch_deinit(&r);
  check_left(f, all, n);
}

static void small_documents(mt_fixture *f) {
  static small all[BLOCK];
  if (!f->place->elastic) return; /* it runs grant.c itself */
  for (unsigned first = 0; first < ALL; first += BLOCK)
    run_block(f, all, first, ALL - first < BLOCK ? ALL - first : BLOCK);
  for (size_t i = 0; i < BLOCK; i++) mt_buf_deinit(&all[i].text);
}

const mt_case mt_cases_grant[] = {{"grant: the script decides as grant.c", small_documents},
                                  {NULL, NULL}};
