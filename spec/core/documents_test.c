/* The interface for documents: reading, scanning and writing under a lock, in calls that wait and as operations. */
#include "lock_fixture.h"

#include "base/mem.h"

#include <mortise/write.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static mt_test_place place; /* of the running group */

enum { PATIENCE_MS = MT_TEST_PATIENCE_MS };

static char index_name[64];

static mortise_client *open_client(mortise_loop *loop, int64_t lease_ms) {
  return mt_test_open(&place, loop, lease_ms);
}

static mortise_client *fresh_index(mortise_client *client) {
  mortise_error err;
  snprintf(index_name, sizeof index_name, "%s-docs", place.prefix);
  mortise_index_drop(client, index_name, NULL);
  mortise_status status = mortise_index_create(
      client, index_name, "{\"mappings\":{\"properties\":{\"path\":{\"type\":\"keyword\"}}}}", &err);
  MT_CHECK(!status, "%s", err.message);
  return client;
}

static mortise_lock *lock_path(mortise_client *client, const char *path, mortise_blockers *blockers) {
  mortise_lock_request request;
  mortise_lock_request_init(&request);
  request.paths = &path;
  request.n = 1;
  if (blockers) request.wait_ms = 0;
  mortise_error err;
  mortise_lock *lock = mortise_lock_acquire(client, &request, blockers, &err);
  MT_CHECK(lock || blockers, "%s", err.message);
  return lock;
}

static mortise_write item_of(mortise_write_kind kind, const char *id, const char *body) {
  mortise_write item;
  mortise_write_init(&item);
  item.kind = kind;
  item.id = mortise_view_of(id);
  item.body = mortise_view_of(body);
  return item;
}

static mortise_writer *writer_of(mortise_client *client, mortise_lock *lock, mortise_strength strength) {
  mortise_error err;
  mortise_writer_options options;
  mortise_writer_options_init(&options);
  options.index = index_name;
  options.strength = strength;
  mortise_writer *writer = lock ? mortise_lock_writer(lock, &options, &err) : mortise_client_writer(client, &options, &err);
  MT_CHECK(writer, "%s", err.message);
  return writer;
}

static mortise_write write_one(mortise_writer *writer, mortise_write item, mortise_status expected) {
  mortise_error err;
  mortise_status status = mortise_writer_write(writer, &item, 1, &err);
  MT_CHECK(status == expected, "%s: %s", mortise_status_name(status), err.message);
  return item;
}

static mortise_page *get_ids(mortise_client *client, const char *const *ids, size_t n, mortise_error *err) {
  mortise_view views[8];
  mortise_get_request request;
  mortise_get_request_init(&request);
  for (size_t i = 0; i < n; i++) views[i] = mortise_view_of(ids[i]);
  request.index = index_name;
  request.ids = views;
  request.n = n;
  return mortise_get(client, &request, err);
}

/* The member `n` of the document, or -1: it is not there. */
static int64_t number_of(mortise_client *client, const char *id) {
  mortise_error err;
  int64_t n = -1;
  mortise_page *page = get_ids(client, &id, 1, &err);
  MT_CHECK(page, "%s", err.message);
  mortise_doc_int(mortise_page_doc(page, 0), "n", &n);
  mortise_page_free(page);
  return n;
}

static bool is_text(mortise_view view, const char *text) {
  return view.n == strlen(text) && !memcmp(view.p, text, view.n);
}

/* ---- Calls that wait ---------------------------------------------------------------------------- */

static void expect_values(const mortise_doc *doc) {
  int64_t n = -1;
  double half = 0;
  char text[16];
  mortise_view json;
  assert_true(doc->found && is_text(doc->id, "one") && is_text(doc->index, index_name) && doc->term > 0);
  assert_true(mortise_doc_int(doc, "n", &n) && n == INT64_C(9007199254740993));
  assert_true(mortise_doc_double(doc, "deep.half", &half) && half == 0.5);
  assert_true(mortise_doc_text(doc, "deep.name", text, sizeof text));
  assert_string_equal(text, "a\"\xc3\xa9");
  assert_true(mortise_doc_value(doc, "deep", &json) && json.p[0] == '{' && json.p[json.n - 1] == '}');
  assert_true(mortise_doc_value(doc, "a.b", &json) && is_text(json, "[2.50]"));
  assert_false(mortise_doc_text(doc, "deep.name", text, 4)); /* it has four bytes and a NUL */
  assert_string_equal(text, "a\"\xc3\xa9");
  assert_false(mortise_doc_text(doc, "n", text, sizeof text));
  assert_false(mortise_doc_int(doc, "deep.half", &n));
  assert_false(mortise_doc_value(doc, "deep.none", &json) || mortise_doc_value(doc, "", &json));
  assert_false(mortise_doc_value(NULL, "n", &json) || mortise_doc_value(doc, NULL, &json));
}

static void test_what_is_written_is_read(void **state) {
  (void)state;
  mortise_error err;
  mortise_client *client = fresh_index(open_client(NULL, 0));
  mortise_lock *lock = lock_path(client, "/docs", NULL);
  mortise_writer *writer = writer_of(client, lock, MORTISE_CAS);
  mortise_write items[] = {
      item_of(MORTISE_WRITE_CREATE, "one",
              "{\"n\":9007199254740993,\n \"deep\":{\"half\":0.5,\"name\":\"a\\\"\\u00e9\"},\"a.b\":[2.50]}"),
      item_of(MORTISE_WRITE_INDEX, "two", "{\"n\":2}"),
      item_of(MORTISE_WRITE_DELETE, "none", NULL),
  };
  MT_CHECK(!mortise_writer_write(writer, items, 3, &err), "%s", err.message);
  MT_CHECK(items[0].outcome == MORTISE_WRITE_APPLIED, "%s: %s", items[0].type, items[0].reason);
  assert_true(items[0].created && items[0].term > 0);
  assert_int_equal(items[1].outcome, MORTISE_WRITE_APPLIED);
  assert_int_equal(items[2].outcome, MORTISE_WRITE_ALREADY);
  const char *ids[] = {"two", "missing", "one"};
  mortise_page *page = get_ids(client, ids, 3, &err);
  MT_CHECK(page, "%s", err.message);
  assert_int_equal(mortise_page_count(page), 3);
  assert_false(mortise_page_doc(page, 1)->found);
  assert_null(mortise_page_doc(page, 3));
  expect_values(mortise_page_doc(page, 2));
  assert_int_equal(mortise_page_doc(page, 2)->seq_no, items[0].seq_no);

  mortise_write update = item_of(MORTISE_WRITE_UPDATE, "two", "{\"doc\":{\"n\":3}}");
  update.if_seq_no = mortise_page_doc(page, 0)->seq_no;
  update.if_term = mortise_page_doc(page, 0)->term;
  assert_int_equal(write_one(writer, update, MORTISE_OK).outcome, MORTISE_WRITE_APPLIED);
  mortise_write late = write_one(writer, update, MORTISE_OK);
  assert_true(late.outcome == MORTISE_WRITE_CONFLICT || late.outcome == MORTISE_WRITE_ALREADY);
  assert_int_equal(write_one(writer, item_of(MORTISE_WRITE_CREATE, "two", "{\"n\":4}"), MORTISE_OK).outcome,
                   MORTISE_WRITE_CONFLICT);
  assert_int_equal(number_of(client, "two"), 3);
  mortise_client_free(client);
  expect_values(mortise_page_doc(page, 2)); /* it outlives the client */
  mortise_page_free(page);
}

enum { MANY = 2500 };

static void write_many(mortise_writer *writer) {
  static char ids[MANY][8], bodies[MANY][48];
  mortise_write *items = calloc(MANY, sizeof *items);
  assert_non_null(items);
  for (int i = 0; i < MANY; i++) {
    snprintf(ids[i], sizeof ids[i], "%d", i);
    snprintf(bodies[i], sizeof bodies[i], "{\"n\":%d,\"path\":\"/many/%d\"}", i, i % 5);
    items[i] = item_of(MORTISE_WRITE_INDEX, ids[i], bodies[i]);
  }
  mortise_error err;
  MT_CHECK(!mortise_writer_write(writer, items, MANY, &err), "%s", err.message);
  for (int i = 0; i < MANY; i++) assert_int_equal(items[i].outcome, MORTISE_WRITE_APPLIED);
  free(items);
}

static uint64_t sum_of_page(const mortise_page *page, uint64_t *sum) {
  for (size_t i = 0; i < mortise_page_count(page); i++) {
    int64_t n = 0;
    assert_true(mortise_doc_int(mortise_page_doc(page, i), "n", &n));
    *sum += (uint64_t)n;
  }
  return mortise_page_count(page);
}

static void test_scanning(void **state) {
  (void)state;
  mortise_error err;
  mortise_client *client = fresh_index(open_client(NULL, 0));
  mortise_writer *writer = writer_of(client, NULL, MORTISE_CAS);
  write_many(writer);
  mortise_writer_free(writer);
  MT_CHECK(!mortise_refresh(client, index_name, &err), "%s", err.message);
  mortise_scan_request request;
  mortise_scan_request_init(&request);
  request.index = index_name;
  request.page = 300;
  mortise_scan *scan = mortise_scan_new(client, &request, &err);
  uint64_t seen = 0, sum = 0;
  for (mortise_page *page; (page = mortise_scan_next(scan, &err)); mortise_page_free(page)) seen += sum_of_page(page, &sum);
  MT_CHECK(!err.code, "%s", err.message);
  assert_int_equal(seen, MANY);
  assert_int_equal(mortise_scan_total(scan), MANY);
  assert_int_equal(sum, (uint64_t)MANY * (MANY - 1) / 2);
  assert_null(mortise_scan_next(scan, &err)); /* it has ended */
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  mortise_scan_free(scan);

  request.query = "{\"term\":{\"path\":\"/many/3\"}}";
  request.no_source = true;
  scan = mortise_scan_new(client, &request, &err);
  mortise_page *page = mortise_scan_next(scan, &err);
  MT_CHECK(page, "%s", err.message);
  assert_int_equal(mortise_scan_total(scan), MANY / 5);
  assert_null(mortise_page_doc(page, 0)->source.p);
  mortise_page_free(page);
  mortise_scan_free(scan); /* in its middle */

  uint64_t count = 0;
  MT_CHECK(!mortise_count(client, index_name, request.query, &count, &err), "%s", err.message);
  assert_int_equal(count, MANY / 5);
  mortise_answer *answer = mortise_search(client, index_name, "{\"query\":{\"term\":{\"path\":\"/many/3\"}},\"size\":1}", &err);
  MT_CHECK(answer, "%s", err.message);
  assert_non_null(strstr(answer->body, "/many/3"));
  assert_int_equal(strlen(answer->body), answer->body_n);
  mortise_answer_free(answer);
  mortise_client_free(client);
}

static void test_raw_requests(void **state) {
  (void)state;
  mortise_error err;
  mortise_client *client = fresh_index(open_client(NULL, 0));
  mortise_raw_request request;
  mortise_raw_request_init(&request);
  request.method = "GET";
  char path[96];
  snprintf(path, sizeof path, "/%s/_doc/none", index_name);
  request.path = path;
  mortise_answer *answer = mortise_raw(client, &request, &err);
  if (place.elastic) {
    MT_CHECK(answer, "%s", err.message);
    assert_int_equal(answer->status, 404); /* that is an answer, too */
    assert_non_null(strstr(answer->body, "\"found\":false"));
    mortise_answer_free(answer);
    request.method = "POST";
    snprintf(path, sizeof path, "/%s/_count", index_name);
    request.body = mortise_view_of("{\"query\":{\"match_all\":{}}}");
    answer = mortise_raw(client, &request, &err);
    MT_CHECK(answer && answer->status == 200, "%s", err.message);
    mortise_answer_free(answer);
  } else {
    assert_null(answer);
    assert_int_equal(err.code, MORTISE_UNSUPPORTED);
  }
  mortise_client_free(client);
}

/* What a lock's writers have stamped, an earlier holder's leave alone. */
static void test_stamps(void **state) {
  (void)state;
  mortise_error err;
  mortise_client *client = fresh_index(open_client(NULL, 0));
  mortise_lock *early = lock_path(client, "/stamps/early", NULL), *late = lock_path(client, "/stamps/late", NULL);
  assert_true(mortise_lock_fence(early) < mortise_lock_fence(late));
  mortise_writer *first = writer_of(client, early, MORTISE_STAMP), *second = writer_of(client, late, MORTISE_STAMP);
  mortise_write item = item_of(MORTISE_WRITE_INDEX, "s", "{\"n\":1}");
  assert_int_equal(write_one(first, item, MORTISE_OK).outcome, MORTISE_WRITE_APPLIED);
  assert_int_equal(write_one(second, item_of(MORTISE_WRITE_INDEX, "s", "{\"n\":2}"), MORTISE_OK).outcome,
                   MORTISE_WRITE_APPLIED);
  item = write_one(first, item_of(MORTISE_WRITE_INDEX, "s", "{\"n\":3}"), MORTISE_OK);
  assert_int_equal(item.outcome, MORTISE_WRITE_CONFLICT);
  assert_string_equal(item.type, "stamped");
  const char *id = "s";
  char epoch[64];
  int64_t fence = 0;
  mortise_page *page = get_ids(client, &id, 1, &err);
  assert_true(mortise_doc_int(mortise_page_doc(page, 0), "mortise_stamp.fence", &fence));
  assert_true(mortise_doc_text(mortise_page_doc(page, 0), "mortise_stamp.epoch", epoch, sizeof epoch));
  assert_int_equal(fence, mortise_lock_fence(late));
  assert_string_equal(epoch, mortise_lock_epoch(late));
  mortise_page_free(page);
  assert_int_equal(number_of(client, "s"), 2);
  assert_null(mortise_client_writer(client, &(mortise_writer_options){.size = sizeof(mortise_writer_options), .strength = MORTISE_STAMP}, &err));
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  mortise_client_free(client);
}

/* Nothing is sent for a lock that was lost, and its releaser is not kept. */
static void test_a_lost_lock_writes_nothing(void **state) {
  (void)state;
  mortise_error err;
  mortise_blockers holder;
  mortise_client *client = fresh_index(open_client(NULL, 1000)), *other = open_client(NULL, 0);
  mortise_lock *lock = lock_path(client, "/lost", NULL);
  mortise_writer *writer = writer_of(client, lock, MORTISE_CAS);
  assert_null(lock_path(other, "/lost", &holder));
  mt_test_break(&place, holder.list[0].session);
  int64_t end = mt_test_ns() + (int64_t)PATIENCE_MS * 1000000;
  while (!mortise_lock_check(lock, NULL) && mt_test_ns() < end) mt_test_sleep_ms(20);
  mortise_write item = write_one(writer, item_of(MORTISE_WRITE_INDEX, "lost", "{\"n\":1}"), MORTISE_LOCK_LOST);
  assert_int_equal(item.outcome, MORTISE_WRITE_NONE);
  assert_false(item.dirty);
  assert_null(mortise_lock_writer(lock, NULL, &err));
  assert_int_equal(err.code, MORTISE_LOCK_LOST);
  assert_int_equal(number_of(client, "lost"), -1);
  mortise_lock_release(lock, NULL);
  assert_int_equal(mortise_writer_write(writer, &item, 1, &err), MORTISE_LOCK_LOST); /* its handle stays */
  mortise_writer_free(writer);
  mortise_client_free(client);
  mortise_client_free(other);
}

/* ---- From a loop ---------------------------------------------------------------------------------- */

typedef struct heard {
  unsigned n;
  bool over;
  mortise_error error;
  mortise_page *page;
  uint64_t count;
} heard;

static bool in_a_step;

static void hear(void *ctx, const mortise_outcome *outcome) {
  heard *h = ctx;
  assert_true(in_a_step);
  assert_null(outcome->lock);
  h->n++;
  h->over = true;
  h->error = outcome->error;
  h->page = outcome->page;
  h->count = outcome->count;
  mortise_answer_free(outcome->answer);
}

static void wait_heard(mortise_loop *loop, heard *h) {
  assert_true(mt_test_poll_until(loop, &h->over, PATIENCE_MS, &in_a_step));
  assert_int_equal(h->n, 1);
}

static void test_several_at_once(void **state) {
  (void)state;
  enum { BATCHES = 20, EACH = 50 };
  static char ids[BATCHES][EACH][12], bodies[BATCHES][EACH][24];
  static mortise_write items[BATCHES][EACH];
  static heard told[BATCHES];
  mortise_error err;
  mortise_client *setup = fresh_index(open_client(NULL, 0));
  mortise_loop *loop = mortise_loop_new(&err);
  mortise_client *client = open_client(loop, 0);
  mortise_writer *writer = writer_of(client, lock_path(client, "/several", NULL), MORTISE_CAS);
  for (int b = 0; b < BATCHES; b++) {
    for (int i = 0; i < EACH; i++) {
      snprintf(ids[b][i], sizeof ids[b][i], "%d.%d", b, i);
      snprintf(bodies[b][i], sizeof bodies[b][i], "{\"n\":%d}", b * EACH + i);
      items[b][i] = item_of(MORTISE_WRITE_INDEX, ids[b][i], bodies[b][i]);
    }
    told[b] = (heard){0};
    MT_CHECK(mortise_writer_write_start(writer, items[b], EACH, hear, &told[b], &err), "%s", err.message);
  }
  heard empty = {0}, counted = {0};
  assert_non_null(mortise_writer_write_start(writer, NULL, 0, hear, &empty, &err));
  assert_int_equal(empty.n, 0);
  for (int b = 0; b < BATCHES; b++) {
    wait_heard(loop, &told[b]);
    MT_CHECK(!told[b].error.code, "%s", told[b].error.message);
    for (int i = 0; i < EACH; i++) assert_int_equal(items[b][i].outcome, MORTISE_WRITE_APPLIED);
  }
  wait_heard(loop, &empty);
  assert_int_equal(empty.error.code, MORTISE_OK);
  assert_false(mortise_refresh(client, index_name, &err));
  assert_non_null(mortise_count_start(client, index_name, NULL, hear, &counted, &err));
  wait_heard(loop, &counted);
  assert_int_equal(counted.count, BATCHES * EACH);
  mortise_loop_free(loop);
  mortise_client_free(setup);
}

/* Each is told once, with its own reason, or not at all once it was cancelled. */
static void test_ends_of_writes(void **state) {
  (void)state;
  mortise_error err;
  mortise_client *setup = fresh_index(open_client(NULL, 0));
  mortise_loop *loop = mortise_loop_new(&err);
  mortise_client *client = open_client(loop, 0);
  mortise_write items[4];
  heard told[4] = {{0}};
  for (int i = 0; i < 4; i++) items[i] = item_of(MORTISE_WRITE_INDEX, &"abcd"[i], "{\"n\":1}");

  mortise_lock *lock = lock_path(client, "/ends", NULL);
  mortise_writer *writer = writer_of(client, lock, MORTISE_CAS);
  mortise_op *op = mortise_writer_write_start(writer, &items[0], 1, hear, &told[0], &err);
  assert_non_null(op);
  assert_non_null(mortise_writer_write_start(writer, &items[1], 1, hear, &told[1], &err));
  mortise_op_cancel(op); /* the writer ends with it */
  wait_heard(loop, &told[1]);
  assert_int_equal(told[1].error.code, MORTISE_INTERRUPTED);
  assert_int_equal(told[0].n, 0);
  assert_null(mortise_writer_write_start(writer, &items[1], 1, hear, &told[1], &err));
  assert_int_equal(err.code, MORTISE_INTERRUPTED);

  mortise_writer *another = writer_of(client, lock, MORTISE_CAS);
  assert_non_null(mortise_writer_write_start(another, &items[2], 1, hear, &told[2], &err));
  heard released = {0};
  assert_non_null(mortise_lock_release_start(lock, hear, &released, &err));
  wait_heard(loop, &told[2]);
  assert_int_equal(told[2].error.code, MORTISE_LOCK_LOST);
  wait_heard(loop, &released);
  mortise_writer_free(another);
  mortise_writer_free(writer);

  writer = writer_of(client, NULL, MORTISE_UNCOMPARED);
  assert_non_null(mortise_writer_write_start(writer, &items[3], 1, hear, &told[3], &err));
  mortise_writer_free(writer); /* cancels it */
  mt_test_poll_until(loop, &told[3].over, 50, &in_a_step);
  assert_int_equal(told[3].n, 0);
  mortise_loop_free(loop);
  mortise_client_free(setup);
}

static void free_its_writer(void *ctx, const mortise_outcome *outcome) {
  mortise_writer **writer = ctx;
  MT_CHECK(!outcome->error.code, "%s", outcome->error.message);
  mortise_writer_free(*writer);
  *writer = NULL;
}

static void test_freed_in_callbacks(void **state) {
  (void)state;
  mortise_error err;
  mortise_client *setup = fresh_index(open_client(NULL, 0));
  mortise_loop *loop = mortise_loop_new(&err);
  mortise_client *client = open_client(loop, 0);
  mortise_writer *writer = writer_of(client, lock_path(client, "/freed", NULL), MORTISE_CAS);
  mortise_write items[2] = {item_of(MORTISE_WRITE_INDEX, "x", "{\"n\":1}"), item_of(MORTISE_WRITE_INDEX, "y", "{\"n\":2}")};
  heard other = {0};
  assert_non_null(mortise_writer_write_start(writer, &items[0], 1, free_its_writer, &writer, &err));
  assert_non_null(mortise_writer_write_start(writer, &items[1], 1, hear, &other, &err));
  const bool never = false;
  for (int i = 0; writer && i < 1000; i++) mt_test_poll_until(loop, &never, 10, &in_a_step);
  assert_null(writer);
  assert_int_equal(items[0].outcome, MORTISE_WRITE_APPLIED);
  assert_true(other.n <= 1);
  mortise_loop_free(loop);
  mortise_client_free(setup);
}

/* A walk through everything that may be started, cancelled, freed and closed at any moment. */
enum { SLOTS = 12 };

typedef struct slot {
  heard told;
  mortise_op *op;
  mortise_write items[3];
} slot;

typedef struct walker {
  mt_test_random random;
  mortise_loop *loop;
  mortise_client *client;
  mortise_lock *lock;
  mortise_writer *writer;
  mortise_scan *scan;
  slot slots[SLOTS];
} walker;

static void start_something(walker *w, slot *s) {
  const mortise_view id = mortise_view_of("1");
  mortise_get_request get;
  mortise_get_request_init(&get);
  get.index = index_name;
  get.ids = &id;
  get.n = 1;
  s->told = (heard){0};
  switch (mt_test_below(&w->random, 5)) {
  case 0:
    s->op = mortise_get_start(w->client, &get, hear, &s->told, NULL);
    break;
  case 1:
    s->op = mortise_count_start(w->client, index_name, NULL, hear, &s->told, NULL);
    break;
  case 2:
    s->op = w->scan ? mortise_scan_next_start(w->scan, hear, &s->told, NULL) : NULL;
    break;
  default:
    for (int i = 0; i < 3; i++) s->items[i] = item_of(MORTISE_WRITE_INDEX, &"abc"[i], "{\"n\":1}");
    s->op = w->writer ? mortise_writer_write_start(w->writer, s->items, 3, hear, &s->told, NULL) : NULL;
  }
}

static void settle_slot(slot *s) {
  if (!s->told.over) return;
  assert_int_equal(s->told.n, 1);
  mortise_page_free(s->told.page);
  s->told = (heard){0};
  s->op = NULL;
}

static void change_something(walker *w) {
  mortise_scan_request request;
  mortise_scan_request_init(&request);
  request.index = index_name;
  request.page = 1;
  size_t what = mt_test_below(&w->random, 4);
  if (what == 0) {
    mortise_scan_free(w->scan);
    w->scan = mortise_scan_new(w->client, &request, NULL);
  } else if (what == 1) {
    mortise_writer_free(w->writer);
    w->writer = w->lock ? mortise_lock_writer(w->lock, NULL, NULL) : NULL;
    mortise_writer_free(w->writer);
    w->writer = writer_of(w->client, w->lock, MORTISE_CAS);
  } else if (what == 2 && w->lock) {
    mortise_lock_release_start(w->lock, NULL, NULL, NULL);
    w->lock = NULL;
  } else if (!w->lock) {
    w->lock = lock_path(w->client, "/walk", NULL);
  }
}

static void walk_once(walker *w) {
  slot *s = &w->slots[mt_test_below(&w->random, SLOTS)];
  size_t what = mt_test_below(&w->random, 10);
  if (what < 5 && !s->op) {
    start_something(w, s);
  } else if (what == 5 && s->op && !s->told.over) {
    mortise_op_cancel(s->op);
    s->op = NULL;
    assert_int_equal(s->told.n, 0);
  } else if (what == 6) {
    for (int i = 0; i < SLOTS; i++) /* whose operations go with what is freed; told ones stay told */
      if (w->slots[i].op && !w->slots[i].told.over) {
        mortise_op_cancel(w->slots[i].op);
        w->slots[i].op = NULL;
      }
    change_something(w);
  } else {
    mt_test_sleep_ms((int64_t)mt_test_below(&w->random, 4));
    in_a_step = true;
    assert_int_equal(mortise_loop_step(w->loop, NULL), MORTISE_OK);
    in_a_step = false;
  }
  for (int i = 0; i < SLOTS; i++) settle_slot(&w->slots[i]);
}

static void test_a_walk(void **state) {
  (void)state;
  enum { WALKS = 12, STEPS = 120 };
  static walker w;
  mortise_error err;
  mortise_client *setup = fresh_index(open_client(NULL, 0));
  w = (walker){.random = mt_test_random_for("walk")};
  for (int walk = 0; walk < WALKS; walk++) {
    w.loop = mortise_loop_new(&err);
    w.client = open_client(w.loop, 0);
    w.lock = NULL;
    w.writer = NULL;
    w.scan = NULL;
    for (int i = 0; i < STEPS; i++) walk_once(&w);
    heard closed = {0};
    assert_non_null(mortise_client_close_start(w.client, hear, &closed, &err));
    wait_heard(w.loop, &closed);
    for (int i = 0; i < SLOTS; i++) { /* whatever was under way was told that it ended */
      if (w.slots[i].op) assert_int_equal(w.slots[i].told.n, 1);
      settle_slot(&w.slots[i]);
    }
    mortise_loop_free(w.loop);
  }
  mortise_client_free(setup);
  mt_test_expect_empty(&place);
}

/* ---- Without memory -------------------------------------------------------------------------------- */

typedef struct scarcity {
  atomic_long left; /* allocations until one fails */
  atomic_bool failed;
} scarcity;

static bool allow_most(void *ctx, size_t size) {
  (void)size;
  scarcity *s = ctx;
  if (atomic_fetch_sub(&s->left, 1) != 1) return true;
  atomic_store(&s->failed, true);
  return false;
}

/* Everything once; how far it came. A call that fails says why, and what it gave before can be freed. */
static mortise_status live_once(mortise_error *err) {
  mortise_status status = MORTISE_OK;
  mortise_options options = mt_test_options(&place, NULL);
  options.lease_ms = 2000;
  mortise_client *client = mortise_client_open(&options, err);
  if (!client) return err->code;
  const char *path = "/scarce", *id = "scarce";
  mortise_lock_request request;
  mortise_lock_request_init(&request);
  request.paths = &path;
  request.n = 1;
  mortise_lock *lock = mortise_lock_acquire(client, &request, NULL, err);
  mortise_writer_options writes;
  mortise_writer_options_init(&writes);
  writes.index = index_name;
  mortise_writer *writer = lock ? mortise_lock_writer(lock, &writes, err) : NULL;
  mortise_write item = item_of(MORTISE_WRITE_INDEX, id, "{\"n\":1}");
  if (writer) status = mortise_writer_write(writer, &item, 1, err);
  if (writer && !status) assert_int_equal(item.outcome, MORTISE_WRITE_APPLIED);
  if (writer && !status) status = mortise_refresh(client, index_name, err);
  mortise_scan_request all;
  mortise_scan_request_init(&all);
  all.index = index_name;
  mortise_scan *scan = writer && !status ? mortise_scan_new(client, &all, err) : NULL;
  mortise_page *page = scan ? mortise_scan_next(scan, err) : NULL;
  mortise_page *got = page ? get_ids(client, &id, 1, err) : NULL;
  bool whole = got && mortise_page_doc(got, 0)->found;
  mortise_page_free(page);
  mortise_page_free(got);
  mortise_client_free(client); /* with all that it has still */
  assert_true(whole || err->code);
  return whole ? MORTISE_OK : err->code;
}

/* Each allocation fails once: one clear error, or none; nothing is lost (the sanitizer says so) or kept. */
static void test_no_memory(void **state) {
  (void)state;
  enum { RUNS_MAX = 4000 };
  mortise_error err;
  mortise_client_free(fresh_index(open_client(NULL, 0)));
  unsigned failures = 0, run = 1;
  for (bool failed = true; failed && run < RUNS_MAX; run += place.elastic ? 7 : 1) {
    scarcity s;
    atomic_init(&s.left, (long)run);
    atomic_init(&s.failed, false);
    mt_mem_hook(allow_most, &s);
    mortise_status status = live_once(&err);
    mt_mem_hook(NULL, NULL);
    failed = atomic_load(&s.failed);
    failures += status != MORTISE_OK;
    if (status) MT_CHECK(err.message[0], "status %d without a message", (int)status);
  }
  MT_CHECK(run < RUNS_MAX && failures > 20, "%u runs, %u failed", run, failures);
  print_message("# %s: an allocation failed in each of %u runs, %u were told\n", place.name, run, failures);
}

/* ---- Refused --------------------------------------------------------------------------------------- */

static void expect_refused(mortise_writer *writer, mortise_write item, const char *why) {
  mortise_error err;
  assert_int_equal(mortise_writer_write(writer, &item, 1, &err), MORTISE_INVALID_ARGUMENT);
  MT_CHECK(strstr(err.message, why), "%s", err.message);
  assert_int_equal(item.outcome, MORTISE_WRITE_NONE);
}

static void refuse_items(mortise_client *client, mortise_writer *writer) {
  mortise_error err;
  mortise_write item = item_of(MORTISE_WRITE_INDEX, "a", "{}");
  item.size = 8;
  expect_refused(writer, item, "mortise_write_init");
  item.size = 4 * sizeof item;
  expect_refused(writer, item, "later version");
  expect_refused(writer, item_of((mortise_write_kind)9, "a", "{}"), "kind");
  expect_refused(writer, item_of(MORTISE_WRITE_INDEX, NULL, "{}"), "no id");
  expect_refused(writer, item_of(MORTISE_WRITE_INDEX, "", "{}"), "no id");
  expect_refused(writer, item_of(MORTISE_WRITE_UPDATE, "a", NULL), "no body");
  expect_refused(writer, item_of(MORTISE_WRITE_DELETE, "a", "{}"), "no body");
  item = item_of(MORTISE_WRITE_INDEX, "a", "{}");
  item.if_seq_no = 3;
  expect_refused(writer, item, "if_term");
  assert_int_equal(mortise_writer_write(writer, NULL, 1, &err), MORTISE_INVALID_ARGUMENT);
  assert_int_equal(mortise_writer_write(NULL, &item, 1, &err), MORTISE_INVALID_ARGUMENT);
  mortise_writer *bare = mortise_client_writer(client, NULL, &err);
  assert_non_null(bare);
  expect_refused(bare, item_of(MORTISE_WRITE_INDEX, "a", "{}"), "index");
  item = write_one(writer, item_of(MORTISE_WRITE_INDEX, "a", "[1]"), MORTISE_OK); /* the store's to refuse */
  assert_int_equal(item.outcome, MORTISE_WRITE_REJECTED);
  assert_true(item.type[0] && item.reason[0]);
}

static void test_wrong_arguments(void **state) {
  (void)state;
  mortise_error err;
  mortise_client *client = fresh_index(open_client(NULL, 0));
  mortise_writer *writer = writer_of(client, NULL, MORTISE_UNCOMPARED);
  refuse_items(client, writer);
  mortise_writer_options options;
  mortise_writer_options_init(&options);
  options.in_flight = 17;
  assert_null(mortise_client_writer(client, &options, &err));
  MT_CHECK(strstr(err.message, "in_flight: 1 to 16"), "%s", err.message);
  options.size = 0;
  assert_null(mortise_client_writer(client, &options, &err));
  assert_null(mortise_lock_writer(NULL, NULL, &err));
  mortise_get_request get;
  mortise_get_request_init(&get);
  assert_null(mortise_get(client, &get, &err));
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  assert_null(mortise_get(client, NULL, &err));
  mortise_scan_request request;
  mortise_scan_request_init(&request);
  assert_null(mortise_scan_new(client, &request, &err));
  request.index = index_name;
  request.page = 10001;
  assert_null(mortise_scan_new(client, &request, &err));
  request.page = 0;
  request.query = "{\"nonsense\":1}";
  mortise_scan *scan = mortise_scan_new(client, &request, &err);
  assert_null(mortise_scan_next(scan, &err));
  assert_true(err.code == MORTISE_REJECTED || err.code == MORTISE_INVALID_ARGUMENT || err.code == MORTISE_UNSUPPORTED);
  assert_null(mortise_scan_next(NULL, &err));
  assert_null(mortise_scan_next_start(scan, hear, NULL, &err)); /* its client has no loop */
  assert_null(mortise_search(client, NULL, "{}", &err));
  assert_int_equal(mortise_count(client, index_name, NULL, NULL, &err), MORTISE_INVALID_ARGUMENT);
  assert_int_equal(mortise_index_create(client, index_name, NULL, &err), MORTISE_CONFLICT);
  assert_int_equal(mortise_index_drop(client, index_name, NULL), MORTISE_OK);
  assert_int_equal(mortise_index_drop(client, index_name, &err), MORTISE_NOT_FOUND);
  mortise_scan_free(NULL);
  mortise_writer_free(NULL);
  mortise_page_free(NULL);
  mortise_answer_free(NULL);
  mortise_client_free(client);
}

static int init_documents_table(void **state) {
  (void)state;
  return mt_test_init_table(&place);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_written_is_read),
      cmocka_unit_test(test_scanning),
      cmocka_unit_test(test_raw_requests),
      cmocka_unit_test(test_stamps),
      cmocka_unit_test(test_a_lost_lock_writes_nothing),
      cmocka_unit_test(test_several_at_once),
      cmocka_unit_test(test_ends_of_writes),
      cmocka_unit_test(test_freed_in_callbacks),
      cmocka_unit_test(test_a_walk),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_wrong_arguments),
  };
  return mt_test_each_place(&place, "documents", tests, sizeof tests / sizeof tests[0], init_documents_table);
}
