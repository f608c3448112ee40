/* Changes that a store makes by itself: what matches is changed, counted, and nothing else is. */
#include "conformance/conformance.h"

#include "transform/transform.h"

#include <stdio.h>
#include <stdlib.h>

static mt_transforms list_of(const char *json) {
  mt_transforms t;
  mortise_error err;
  MT_CHECK(!mt_transforms_parse(&t, mt_slice_of(json), &err), "%s", err.message);
  return t;
}

/* Until it has ended. */
static void follow(mt_fixture *f, mt_update_by_query *r) {
  if (!r->task[0])
    MT_CHECK(r->state.phase == MT_SERVER_TASK_ENDED, "phase %d", (int)r->state.phase);
  int64_t until = mt_test_ns() + INT64_C(60000000000);
  while (r->state.phase != MT_SERVER_TASK_ENDED && mt_test_ns() < until) {
    mt_server_task task = {.task = r->task};
    f->s->docs->task(f->s, &task);
    MT_OK(f, task);
    r->state = task.state;
    MT_CHECK(r->state.phase == MT_SERVER_TASK_RUNNING || r->state.phase == MT_SERVER_TASK_ENDED,
             "phase %d", (int)r->state.phase);
    mt_test_sleep_ms(20);
  }
  MT_CHECK(r->state.phase == MT_SERVER_TASK_ENDED, "%s hangs", r->task);
}

static mt_update_by_query start(mt_fixture *f, mt_update_by_query r) {
  if (!r.index) r.index = f->index;
  f->s->docs->update_by_query(f->s, &r);
  MT_OK(f, r);
  return r;
}

static mt_server_task_state run(mt_fixture *f, mt_update_by_query r) {
  r = start(f, r);
  follow(f, &r);
  mt_refresh_index(f);
  return r.state;
}

static void expect(const mt_server_task_state *s, uint64_t total, uint64_t updated) {
  MT_CHECK(s->complete && !s->type[0], "%s: %s", s->type, s->reason);
  MT_CHECK(
      s->total == total && s->updated == updated && s->noops == total - updated && !s->conflicts,
      "%llu of %llu, %llu noops, %llu conflicts", (unsigned long long)s->updated,
      (unsigned long long)s->total, (unsigned long long)s->noops, (unsigned long long)s->conflicts);
}

static void expect_source(mt_fixture *f, const char *id, const char *want) {
  mt_buf source;
  mt_buf_init(&source, 4096);
  MT_CHECK(mt_get(f, mt_slice_of(id), &source, NULL), "%s", id);
  MT_CHECK(mt_same_json(mt_buf_slice(&source), want), "%s: %s, not %s", id, source.p, want);
  mt_buf_deinit(&source);
}

static const char tag_is_t1[] = "{\"term\":{\"tag\":\"t1\"}}";
static const char tag_is_new[] = "{\"term\":{\"tag\":\"new\"}}";

/* 40 of 200 documents; again, when none has anything to change; and found by their new value. */
static void what_matches(mt_fixture *f) {
  mt_transforms t = list_of("[{\"set\":{\"field\":\"tag\",\"value\":\"new\"}},"
                            "{\"cast\":{\"field\":\"n\",\"to\":\"string\"}}]");
  mt_make_index(f, 3);
  mt_fill(f, 200);
  mt_version before, after;
  MT_CHECK(mt_get(f, MT_SLICE("d2"), NULL, &before), "d2");
  mt_update_by_query r = {.query = mt_slice_of(tag_is_t1), .transforms = &t, .batch = 7};
  mt_server_task_state s = run(f, r);
  expect(&s, 40, 40);
  MT_CHECK(mt_count_of(f, tag_is_new) == 40 && !mt_count_of(f, tag_is_t1), "by their new value");
  expect_source(f, "d1", "{\"path\":\"/dir/d1\",\"n\":\"1\",\"tag\":\"new\"}");
  MT_CHECK(mt_get(f, MT_SLICE("d2"), NULL, &after), "d2");
  MT_CHECK(mt_version_equal(before, after), "what does not match is not written");
  MT_CHECK(mt_get(f, MT_SLICE("d1"), NULL, &before), "d1");
  r.query = mt_slice_of(tag_is_new);
  s = run(f, r);
  expect(&s, 40, 0);
  MT_CHECK(mt_get(f, MT_SLICE("d1"), NULL, &after), "d1");
  MT_CHECK(mt_version_equal(before, after), "what has nothing to change is not written");
  s = run(f, (mt_update_by_query){.transforms = &t});
  expect(&s, 200, 160);
  mt_transforms_deinit(&t);
}

/* A value of the list that a later transform changes in one document is as it was for the next. */
static void values_are_copied(mt_fixture *f) {
  mt_transforms t = list_of("[{\"set\":{\"field\":\"x\",\"value\":{}}},"
                            "{\"copy_field\":{\"from\":\"y\",\"to\":\"x.y\"}},"
                            "{\"default\":{\"field\":\"z\",\"value\":{}}},"
                            "{\"copy_field\":{\"from\":\"y\",\"to\":\"z.y\"}}]");
  mt_make_index(f, 1);
  mt_write items[] = {mt_write_of(MT_WRITE_INDEX, "a", "{\"x\":0,\"y\":1}"),
                      mt_write_of(MT_WRITE_INDEX, "b", "{\"x\":0,\"y\":2}"),
                      mt_write_of(MT_WRITE_INDEX, "c", "{\"y\":3,\"z\":null}")};
  mt_bulk_run(f, items, 3);
  mt_refresh_index(f);
  mt_server_task_state s = run(f, (mt_update_by_query){.transforms = &t});
  expect(&s, 3, 3);
  expect_source(f, "a", "{\"x\":{\"y\":1},\"y\":1,\"z\":{\"y\":1}}");
  expect_source(f, "b", "{\"x\":{\"y\":2},\"y\":2,\"z\":{\"y\":2}}");
  expect_source(f, "c", "{\"x\":{\"y\":3},\"y\":3,\"z\":{\"y\":3}}");
  mt_transforms_deinit(&t);
}

/* Left as it is, and so it matches still. */
static void set_aside(mt_fixture *f) {
  mt_transforms t;
  mt_make_index(f, 1);
  MT_CHECK(!mt_transforms_prefix(&t, MT_SLICE("path"), MT_SLICE("/a/b"), MT_SLICE("/a"), NULL),
           "a prefix");
  mt_write items[] = {mt_write_of(MT_WRITE_INDEX, "x", "{\"path\":\"/a/b/c\"}"),
                      mt_write_of(MT_WRITE_INDEX, "y", "{\"path\":\"/a/b/b\"}")};
  mt_bulk_run(f, items, 2);
  mt_refresh_index(f);
  static const char below[] = "{\"prefix\":{\"path\":\"/a/b/\"}}";
  mt_server_task_state s =
      run(f, (mt_update_by_query){.query = mt_slice_of(below), .transforms = &t});
  expect(&s, 2, 1);
  MT_CHECK(mt_count_of(f, below) == 1, "it matches still");
  mt_transforms_deinit(&t);
}

static bool not_now(void *ctx) {
  (void)ctx;
  return false;
}

static void held_back(mt_fixture *f) {
  mt_transforms t = list_of("[{\"set\":{\"field\":\"tag\",\"value\":\"new\"}}]");
  mt_make_index(f, 1);
  mt_fill(f, 20);
  mt_update_by_query r = {.req = {.may_send = not_now}, .index = f->index, .transforms = &t};
  f->s->docs->update_by_query(f->s, &r);
  MT_EXPECT(f, r, MORTISE_LOCK_LOST);
  MT_CHECK(!r.task[0] && !r.state.complete && !r.state.updated, "a task %s", r.task);
  mt_test_sleep_ms(100);
  mt_refresh_index(f);
  MT_CHECK(!mt_count_of(f, tag_is_new), "nothing was changed");
  mt_transforms_deinit(&t);
}

static void too_late(mt_fixture *f) {
  mt_transforms t = list_of("[{\"set\":{\"field\":\"tag\",\"value\":\"new\"}}]");
  mt_make_index(f, 1);
  mt_fill(f, 20);
  mt_server_task_state s = run(f, (mt_update_by_query){.transforms = &t, .not_after_ms = 1000});
  MT_CHECK(!s.complete && !s.updated && strstr(s.reason, "not after"), "%s: %s", s.type, s.reason);
  MT_CHECK(!mt_count_of(f, tag_is_new), "nothing was changed");
  s = run(f, (mt_update_by_query){.transforms = &t, .not_after_ms = INT64_C(4102444800000)});
  expect(&s, 20, 20);
  mt_transforms_deinit(&t);
}

static void no_index(mt_fixture *f) {
  mt_transforms t = list_of("[{\"remove\":{\"field\":\"tag\"}}]");
  mt_make_index(f, 1);
  mt_update_by_query r =
      start(f, (mt_update_by_query){.index = "mt-is-not-there", .transforms = &t});
  follow(f, &r);
  MT_CHECK(!r.state.complete && !strcmp(r.state.type, "index_not_found_exception"), "%s: %s",
           r.state.type, r.state.reason);
  mt_transforms_deinit(&t);
}

/* It would change, or here refuse, what is written. */
static void no_pipeline(mt_fixture *f) {
  mt_transforms t = list_of("[{\"set\":{\"field\":\"tag\",\"value\":\"new\"}}]");
  mt_create_index(f, f->index,
                  "{\"settings\":{\"index\":{\"default_pipeline\":\"mt-is-not-there\"}}}");
  f->index_made = true;
  mt_write item = mt_write_of(MT_WRITE_INDEX, "a", "{\"tag\":\"old\"}");
  item.skip_pipeline = true;
  mt_bulk_run(f, &item, 1);
  mt_refresh_index(f);
  mt_server_task_state s = run(f, (mt_update_by_query){.transforms = &t});
  expect(&s, 1, 1);
  mt_transforms_deinit(&t);
}

static size_t running(mt_fixture *f, const char *name, char task[MT_SERVER_TASK_ID]) {
  mt_server_task_find r = {.name = name};
  f->s->docs->task_find(f->s, &r);
  MT_OK(f, r);
  size_t n = r.n;
  if (n) memcpy(task, r.tasks[0], MT_SERVER_TASK_ID);
  mt_server_task_find_deinit(&r);
  return n;
}

/* A slow one is found by its name, and by no other, until it was cancelled and has ended. */
static void cancelled(mt_fixture *f) {
  char task[MT_SERVER_TASK_ID] = "", name[96], other[112];
  mt_transforms t = list_of("[{\"set\":{\"field\":\"tag\",\"value\":\"new\"}}]");
  mt_make_index(f, 2);
  mt_fill(f, 100);
  snprintf(name, sizeof name, "job-%s", f->index);
  snprintf(other, sizeof other, "%s-2", name);
  mt_update_by_query r = start(f, (mt_update_by_query){.transforms = &t,
                                                       .name = name,
                                                       .slices = 2,
                                                       .batch = 5,
                                                       .per_second = f->place->elastic ? 2 : 0});
  if (r.task[0]) {
    MT_CHECK(running(f, name, task) == 1 && !strcmp(task, r.task), "%s is not %s", task, r.task);
    mt_server_task stop = {.task = r.task, .cancel = true};
    f->s->docs->task(f->s, &stop);
    MT_OK(f, stop);
    follow(f, &r);
    MT_CHECK(!r.state.complete && !strcmp(r.state.type, "canceled"), "%s", r.state.type);
    mt_refresh_index(f);
    uint64_t changed = mt_count_of(f, tag_is_new);
    MT_CHECK(r.state.updated <= changed && changed < 100, "%llu, of %llu",
             (unsigned long long)r.state.updated, (unsigned long long)changed);
    mt_test_sleep_ms(300);
    mt_refresh_index(f);
    MT_CHECK(mt_count_of(f, tag_is_new) == changed, "it changed more after its end");
    stop.req = (mt_req){0};
    f->s->docs->task(f->s, &stop); /* of one that has ended */
    MT_OK(f, stop);
    MT_CHECK(stop.state.phase == MT_SERVER_TASK_ENDED, "phase %d", (int)stop.state.phase);
  }
  MT_CHECK(!running(f, name, task) && !running(f, other, task), "none is running");
  mt_transforms_deinit(&t);
}

static void unknown_tasks(mt_fixture *f) {
  mt_server_task none = {.task = "0123456789012345678901:7"};
  f->s->docs->task(f->s, &none);
  MT_OK(f, none);
  MT_CHECK(none.state.phase == (f->place->elastic ? MT_SERVER_TASK_LOST : MT_SERVER_TASK_UNKNOWN),
           "phase %d", (int)none.state.phase);
}

static void put_gate(mt_fixture *f, const char *source) {
  mt_write item = mt_write_of(MT_WRITE_INDEX, "gate", source);
  mt_bulk_run(f, &item, 1);
}

/* It is looked for in real time: nothing is refreshed between its write and the task. */
static void gated(mt_fixture *f) {
  if (!f->place->elastic) return; /* nothing comes late there */
  mt_transforms t = list_of("[{\"set\":{\"field\":\"tag\",\"value\":\"new\"}}]");
  mt_gate gate = {f->index, "gate", "tag"}, absent = {f->index, "gate", "body.gate.a1"};
  mt_make_index(f, 3);
  mt_fill(f, 200);
  mt_update_by_query r = {.query = mt_slice_of(tag_is_t1), .transforms = &t, .gate = &gate};
  mt_server_task_state s = run(f, r);
  expect(&s, 0, 0); /* there is no such document */
  put_gate(f, "{\"tag\":[\"closed\"]}");
  s = run(f, r);
  expect(&s, 0, 0);
  put_gate(f, "{\"tag\":[\"*\"]}");
  r.gate = &absent;
  s = run(f, r);
  expect(&s, 0, 0);
  r.gate = &gate;
  s = run(f, r);
  expect(&s, 40, 40);
  put_gate(f, "{}");
  r.query = mt_slice_of(tag_is_new);
  s = run(f, r);
  expect(&s, 0, 0);
  mt_transforms_deinit(&t);
}

const mt_case mt_cases_by_query[] = {
    {"by query: what matches is changed and counted", what_matches},
    {"by query: a document does not get another's values", values_are_copied},
    {"by query: what is set aside is left as it is", set_aside},
    {"by query: held back at the last moment", held_back},
    {"by query: nothing is changed after its time", too_late},
    {"by query: nothing is found while its gate is closed", gated},
    {"by query: an index that is missing", no_index},
    {"by query: no pipeline takes part", no_pipeline},
    {"by query: found by name, cancelled", cancelled},
    {"by query: unknown tasks", unknown_tasks},
    {NULL, NULL},
};
