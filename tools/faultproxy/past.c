#include "past.h"

enum { ANSWER_MAX = 1 << 20 };

void fault_past_init(fault_past *past) {
  past->n = 0;
  for (size_t i = 0; i < FAULT_PAST; i++) {
    mt_buf_init(&past->all[i].path, ANSWER_MAX);
    mt_buf_init(&past->all[i].ids, ANSWER_MAX);
    mt_buf_init(&past->all[i].answer, ANSWER_MAX);
  }
}

void fault_past_deinit(fault_past *past) {
  for (size_t i = 0; i < FAULT_PAST; i++) {
    mt_buf_deinit(&past->all[i].path);
    mt_buf_deinit(&past->all[i].ids);
    mt_buf_deinit(&past->all[i].answer);
  }
}

static mt_slice without_query(mt_slice path) {
  const char *end = path.n ? memchr(path.p, '?', path.n) : NULL;
  return (mt_slice){path.p, end ? (size_t)(end - path.p) : path.n};
}

/* Each `"_id":"..."` of a bulk. */
static void add_ids(mt_buf *out, mt_slice body) {
  const char *p = body.p, *end = p + body.n, *stop;
  while (p && p < end && (p = memmem(p, (size_t)(end - p), "\"_id\":\"", 7))) {
    stop = memchr(p + 7, '"', (size_t)(end - p - 7));
    if (!stop) return;
    mt_buf_add(out, p, (size_t)(stop - p));
    p = stop;
  }
}

void fault_past_add(fault_past *past, mt_slice path, mt_slice body, mt_slice answer) {
  struct fault_past_one *one = &past->all[past->n++ % FAULT_PAST];
  mt_buf_clear(&one->path);
  mt_buf_clear(&one->ids);
  mt_buf_clear(&one->answer);
  mt_buf_addslice(&one->path, without_query(path));
  add_ids(&one->ids, body);
  mt_buf_addslice(&one->answer, answer);
  if (one->answer.failed || one->ids.failed) mt_buf_clear(&one->answer);
}

/* 0: nothing in common. */
static int likeness(const struct fault_past_one *one, mt_slice path, mt_slice ids) {
  if (!mt_slice_eq(mt_buf_slice(&one->path), without_query(path))) return 0;
  return mt_slice_eq(mt_buf_slice(&one->ids), ids) ? 2 : 1;
}

mt_slice fault_past_find(const fault_past *past, mt_slice path, mt_slice body) {
  mt_buf ids;
  mt_slice best = {0};
  int most = -1;
  mt_buf_init(&ids, ANSWER_MAX);
  add_ids(&ids, body);
  for (size_t back = 1; back <= past->n && back <= FAULT_PAST; back++) {
    const struct fault_past_one *one = &past->all[(past->n - back) % FAULT_PAST];
    int like = likeness(one, path, mt_buf_slice(&ids));
    if (!one->answer.n || like <= most) continue;
    most = like;
    best = mt_buf_slice(&one->answer);
  }
  mt_buf_deinit(&ids);
  return best;
}
