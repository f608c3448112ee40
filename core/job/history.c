#include "job/history.h"

#include "base/buf.h"

enum { TURNS_BYTES_MAX = 64 << 10 };

void mt_job_history_init(mt_job_history *h) {
  h->n = h->n_turns = 0;
  h->last_attempt = 0;
  h->last_undoing = false;
  mt_buf_init(&h->turns, TURNS_BYTES_MAX);
}

void mt_job_history_deinit(mt_job_history *h) {
  mt_buf_deinit(&h->turns);
  mt_job_history_init(h);
}

/* ---- Noting ---------------------------------------------------------------------------------- */

/* Every other one goes, but not the first of a turn, nor the last. */
static void thin_points(mt_job_history *h) {
  size_t n = 0;
  for (size_t i = 0; i < h->n; i++) {
    const mt_job_point *p = &h->points[i], *before = i ? p - 1 : NULL;
    bool begins = !before || before->attempt != p->attempt || before->undoing != p->undoing;
    if (begins || i % 2 == 0 || i + 1 == h->n) h->points[n++] = *p;
  }
  if (n == h->n) { /* only first ones: the oldest goes */
    memmove(h->points, h->points + 1, (n - 1) * sizeof *h->points);
    n--;
  }
  h->n = n;
}

/* A hundredth of the time that it took so far. */
static bool is_too_soon(const mt_job_history *h, const mt_job_point *now) {
  const mt_job_point *before = &h->points[h->n - 1];
  if (before->attempt != now->attempt || before->undoing != now->undoing) return false;
  return now->at_ms - before->at_ms < (now->at_ms - h->points[0].at_ms) / 100;
}

static void add_turn(mt_job_history *h, const mt_job_point *now, const char *by) {
  if (h->n_turns == MT_JOB_TURNS_MAX) return; /* who began it, and the first of those who went on */
  if (h->n_turns) mt_buf_addc(&h->turns, ',');
  mt_buf_adds(&h->turns, "{\"at\":");
  mt_buf_addi(&h->turns, now->at_ms);
  mt_json_add_key(&h->turns, "attempt");
  mt_buf_addu(&h->turns, now->attempt);
  mt_buf_adds(&h->turns, now->undoing ? ",\"undoing\":true" : ",\"undoing\":false");
  mt_json_add_key(&h->turns, "by");
  mt_buf_adds(&h->turns, by ? by : "{}");
  mt_buf_addc(&h->turns, '}');
  h->n_turns++;
}

void mt_job_history_note(mt_job_history *h, const mt_job_point *now, const char *by, bool last) {
  if (!h->n_turns || h->last_attempt != now->attempt || h->last_undoing != now->undoing) add_turn(h, now, by);
  h->last_attempt = now->attempt;
  h->last_undoing = now->undoing;
  if (h->n && !last && is_too_soon(h, now)) return;
  if (h->n == MT_JOB_POINTS_MAX) thin_points(h);
  h->points[h->n++] = *now;
}

/* ---- In the document -------------------------------------------------------------------------- */

void mt_job_history_encode(const mt_job_history *h, mt_buf *out) {
  if (!h->n || h->turns.failed) return;
  mt_json_add_key(out, "points");
  mt_buf_addc(out, '[');
  for (size_t i = 0; i < h->n; i++) {
    const mt_job_point *p = &h->points[i];
    mt_buf_adds(out, i ? ",[" : "[");
    mt_buf_addi(out, p->at_ms);
    mt_buf_addc(out, ',');
    mt_buf_addu(out, p->attempt);
    mt_buf_addc(out, ',');
    mt_buf_addu(out, p->done);
    mt_buf_addc(out, ',');
    mt_buf_addu(out, p->aside);
    mt_buf_adds(out, p->undoing ? ",1]" : ",0]");
  }
  mt_buf_addc(out, ']');
  mt_json_add_key(out, "turns");
  mt_buf_addc(out, '[');
  mt_buf_addslice(out, mt_buf_slice(&h->turns));
  mt_buf_addc(out, ']');
}

static bool take_point(mt_json list, mt_job_point *p) {
  uint64_t undoing = 0;
  mt_json_iter it = mt_json_items(list);
  bool good = mt_json_next(&it) && mt_json_int(it.value, &p->at_ms) && mt_json_next(&it) &&
              mt_json_uint(it.value, &p->attempt) && mt_json_next(&it) && mt_json_uint(it.value, &p->done) &&
              mt_json_next(&it) && mt_json_uint(it.value, &p->aside) && mt_json_next(&it) &&
              mt_json_uint(it.value, &undoing);
  p->undoing = undoing != 0;
  return good;
}

void mt_job_history_decode(mt_job_history *h, mt_json body) {
  for (mt_json_iter it = mt_json_items(mt_json_get(body, "points")); h->n < MT_JOB_POINTS_MAX && mt_json_next(&it);)
    if (take_point(it.value, &h->points[h->n])) h->n++;
  for (mt_json_iter it = mt_json_items(mt_json_get(body, "turns")); h->n_turns < MT_JOB_TURNS_MAX && mt_json_next(&it);) {
    if (it.value.type != MT_JSON_OBJECT) continue;
    if (h->n_turns) mt_buf_addc(&h->turns, ',');
    mt_buf_addslice(&h->turns, it.value.raw);
    h->n_turns++;
  }
  if (!h->n) return;
  h->last_attempt = h->points[h->n - 1].attempt;
  h->last_undoing = h->points[h->n - 1].undoing;
}
