/* mortise/job.h: declared jobs and migrations from C, waited for and in a loop. */
#include "lock_fixture.h"

#include <mortise/job.h>

#include <stdio.h>
#include <string.h>

static mt_test_place place; /* of the running group */

enum { PATIENCE_MS = MT_TEST_PATIENCE_MS, DOCS = 3000 };

static char index_name[64], other_name[64];

static mortise_host *host_in(mortise_loop *loop) {
  mortise_error err;
  const mortise_options options = mt_test_options(&place, loop);
  mortise_host *host = mortise_host_new(&options, &err);
  MT_CHECK(host, "%s", err.message);
  return host;
}

static void run_code(mortise_host *host, const char *code) {
  mortise_error err;
  const char *args[] = {index_name, other_name};
  if (mortise_host_run_string(host, code, "=test", args, 2, &err)) fail_msg("%s", mortise_host_traceback(host));
}

/* All documents below /old, with `n` 1. */
static void fill(mortise_host *host) {
  snprintf(index_name, sizeof index_name, "%s-from", place.prefix);
  snprintf(other_name, sizeof other_name, "%s-to", place.prefix);
  run_code(host, "local index, other = ...\n"
                 "pcall(mortise.drop_index, index) pcall(mortise.drop_index, other)\n"
                 "mortise.create_index(index, {mappings = {properties = {path = {type = 'keyword'}, n = {type = 'long'}}},\n"
                 "  aliases = {[index .. '-alias'] = {}}})\n"
                 "local items = {}\n"
                 "for i = 1, 3000 do items[i] = {id = tostring(i), doc = {path = '/old/' .. i % 7, n = 1}} end\n"
                 "for _, each in ipairs(mortise.bulk(index, items)) do assert(each.result == 'applied') end\n"
                 "mortise.refresh(index)");
}

static void expect_n(mortise_host *host, int n) {
  char code[256];
  snprintf(code, sizeof code, "local index = ... mortise.refresh(index)\n"
                              "local n = mortise.count(index, {term = {n = %d}})\n"
                              "assert(n == 3000, n .. ' documents')", n);
  run_code(host, code);
}

static char spec_text[512];

static mortise_job_request request_of(mortise_job_verb verb, const char *id) {
  mortise_job_request request;
  mortise_job_request_init(&request);
  request.verb = verb;
  request.id = id;
  snprintf(spec_text, sizeof spec_text, "{\"id\":\"raise\",\"index\":\"%s\",\"lock\":\"/old\",\"change\":[{\"set\":{\"field\":\"n\",\"value\":2}}],\"batch\":100}",
           index_name);
  if (!id) request.spec = spec_text;
  return request;
}

typedef struct seen {
  unsigned calls;
  bool over, ended;
  char id[64], result[2000];
  uint64_t done, total;
  mortise_error error;
  mortise_host *interrupts; /* once it is under way */
  mortise_run *cancels;
} seen;

static void note_progress(void *ctx, const mortise_job_progress *progress) {
  seen *s = ctx;
  s->calls++;
  assert_false(s->over);
  assert_true(progress->done <= progress->total);
  s->over = progress->over;
  s->done = progress->done;
  s->total = progress->total;
  snprintf(s->id, sizeof s->id, "%s", progress->id);
  if (progress->done) mortise_host_interrupt(s->interrupts);
  if (progress->done && s->cancels) {
    mortise_run_cancel(s->cancels);
    s->cancels = NULL;
  }
}

static char *carry_out(mortise_host *host, mortise_job_request request, seen *s, mortise_status expected) {
  mortise_error err;
  char *result = NULL;
  if (s) {
    request.progress = note_progress;
    request.progress_ctx = s;
  }
  mortise_status status = mortise_job_run(host, &request, &result, &err);
  MT_CHECK(status == expected, "%s: %s", mortise_status_name(status), err.message);
  assert_true(!result == (status != MORTISE_OK));
  return result;
}

static void expect_result(char *result, const char *part) {
  MT_CHECK(result && strstr(result, part), "%s is not in %s", part, result ? result : "NULL");
  mortise_job_result_free(result);
}

/* ---- Waiting -------------------------------------------------------------------------------------- */

static void test_its_life(void **state) {
  (void)state;
  seen s = {0};
  mortise_host *host = host_in(NULL);
  fill(host);
  expect_result(carry_out(host, request_of(MORTISE_JOB_PLAN, NULL), NULL, MORTISE_OK), "\"matched\":3000");
  expect_result(carry_out(host, request_of(MORTISE_JOB_STATUS, NULL), NULL, MORTISE_OK), "null");
  expect_result(carry_out(host, request_of(MORTISE_JOB_RUN, NULL), &s, MORTISE_OK), "\"changed\":3000");
  assert_true(s.over && s.done == DOCS && s.total == DOCS);
  assert_string_equal(s.id, "raise");
  expect_n(host, 2);
  expect_result(carry_out(host, request_of(MORTISE_JOB_STATUS, "raise"), NULL, MORTISE_OK), "\"state\":\"done\"");
  expect_result(carry_out(host, request_of(MORTISE_JOB_ROLLBACK, "raise"), NULL, MORTISE_OK), "\"state\":\"undone\"");
  expect_n(host, 1);
  mortise_host_free(host);
}

static void test_interrupted_and_resumed(void **state) {
  (void)state;
  mortise_host *host = host_in(NULL);
  fill(host);
  seen s = {.interrupts = host};
  mortise_job_request request = request_of(MORTISE_JOB_RUN, NULL);
  snprintf(spec_text, sizeof spec_text,
           "{\"id\":\"cut-off\",\"index\":\"%s\",\"lock\":\"/old\",\"change\":[{\"set\":{\"field\":\"n\",\"value\":2}}],\"batch\":100,\"rate\":1000}", index_name);
  carry_out(host, request, &s, MORTISE_INTERRUPTED);
  assert_true(s.done > 0 && s.done < DOCS);
  mortise_job_request throttle = request_of(MORTISE_JOB_RESUME, "cut-off");
  char *result = carry_out(host, throttle, NULL, MORTISE_OK);
  expect_result(result, "\"state\":\"done\"");
  expect_n(host, 2);
  expect_result(carry_out(host, request_of(MORTISE_JOB_ROLLBACK, "cut-off"), NULL, MORTISE_OK), "undone");
  mortise_host_free(host);
}

static void test_a_migration(void **state) {
  (void)state;
  seen s = {0};
  mortise_host *host = host_in(NULL);
  fill(host);
  char text[512];
  snprintf(text, sizeof text, "{\"id\":\"moved\",\"from\":\"%s\",\"to\":\"%s\",\"alias\":\"%s-alias\",\"cutover\":\"auto\"}", index_name,
           other_name, index_name);
  mortise_job_request request = request_of(MORTISE_JOB_RUN, NULL);
  request.kind = MORTISE_JOB_MIGRATION;
  request.spec = text;
  expect_result(carry_out(host, request, &s, MORTISE_OK), "\"state\":\"done\"");
  assert_true(s.over && s.done == s.total && s.total >= DOCS);
  run_code(host, "local index = ... assert(mortise.count(index .. '-alias') == 3000)");
  request = request_of(MORTISE_JOB_FINISH, "moved");
  request.options = "{\"delete\":true}";
  char *result = NULL;
  mortise_error err;
  mortise_job_run(host, &request, &result, &err); /* without --keep-old-in-step there may be nothing to finish */
  mortise_job_result_free(result);
  mortise_host_free(host);
}

/* ---- In a loop ------------------------------------------------------------------------------------ */

static void note_end(void *ctx, mortise_host *host, const char *result, const mortise_error *error) {
  seen *s = ctx;
  assert_non_null(host);
  assert_true(!result == (error->code != MORTISE_OK));
  s->ended = true;
  s->error = *error;
  snprintf(s->result, sizeof s->result, "%s", result ? result : "");
}

static mortise_run *start_job(mortise_host *host, mortise_job_request request, seen *s) {
  mortise_error err;
  request.progress = note_progress;
  request.progress_ctx = s;
  mortise_run *run = mortise_job_start(host, &request, note_end, s, &err);
  MT_CHECK(run, "%s", err.message);
  assert_false(s->ended);
  return run;
}

/* Given orders by its id, from beside it. */
static void test_steered(void **state) {
  (void)state;
  mortise_error err;
  mortise_host *setup = host_in(NULL);
  fill(setup);
  mortise_loop *loop = mortise_loop_new(&err);
  mortise_host *host = host_in(loop);
  seen works = {0}, paused = {0}, goes_on = {0};
  mortise_job_request request = request_of(MORTISE_JOB_RUN, NULL);
  snprintf(spec_text, sizeof spec_text,
           "{\"id\":\"steered\",\"index\":\"%s\",\"lock\":\"/old\",\"change\":[{\"set\":{\"field\":\"n\",\"value\":2}}],\"batch\":100,\"rate\":500}", index_name);
  start_job(host, request, &works);
  bool never = false;
  for (int i = 0; i < 200 && !works.done; i++) mt_test_poll_until(loop, &never, 50, NULL);
  assert_true(works.done > 0 && !works.ended);
  mortise_job_request order = request_of(MORTISE_JOB_THROTTLE, "steered");
  order.options = "{\"rate\":0}";
  start_job(host, order, &paused);
  assert_true(mt_test_poll_until(loop, &paused.ended, PATIENCE_MS, NULL));
  MT_CHECK(!paused.error.code, "%s", paused.error.message);
  assert_true(mt_test_poll_until(loop, &works.ended, PATIENCE_MS, NULL));
  MT_CHECK(!works.error.code, "%s", works.error.message);
  assert_non_null(strstr(works.result, "\"changed\":3000"));
  start_job(host, request_of(MORTISE_JOB_ROLLBACK, "steered"), &goes_on);
  assert_true(mt_test_poll_until(loop, &goes_on.ended, PATIENCE_MS, NULL));
  MT_CHECK(!goes_on.error.code, "%s", goes_on.error.message);
  expect_n(setup, 1);
  mortise_loop_free(loop);
  mortise_host_free(setup);
}

static void test_cancelled(void **state) {
  (void)state;
  mortise_error err;
  mortise_host *setup = host_in(NULL);
  fill(setup);
  mortise_loop *loop = mortise_loop_new(&err);
  mortise_host *host = host_in(loop);
  seen s = {0};
  mortise_job_request request = request_of(MORTISE_JOB_RUN, NULL);
  snprintf(spec_text, sizeof spec_text,
           "{\"id\":\"cancelled\",\"index\":\"%s\",\"lock\":\"/old\",\"change\":[{\"set\":{\"field\":\"n\",\"value\":2}}],\"batch\":100,\"rate\":500}", index_name);
  s.cancels = start_job(host, request, &s);
  bool never = false;
  for (int i = 0; i < 200 && s.cancels; i++) mt_test_poll_until(loop, &never, 50, NULL);
  assert_null(s.cancels);
  mortise_loop_free(loop); /* with what it still does */
  assert_false(s.ended);
  expect_result(carry_out(setup, request_of(MORTISE_JOB_ROLLBACK, "cancelled"), NULL, MORTISE_OK), "undone");
  expect_n(setup, 1);
  mortise_host_free(setup);
}

/* ---- Refused -------------------------------------------------------------------------------------- */

static void refuse(mortise_host *host, mortise_job_request request, const char *why) {
  mortise_error err;
  char *result = (char *)&err;
  mortise_status status = mortise_job_run(host, &request, &result, &err);
  MT_CHECK(status == MORTISE_INVALID_ARGUMENT && strstr(err.message, why), "%s: %s", mortise_status_name(status), err.message);
  assert_null(result);
}

static void test_refused(void **state) {
  (void)state;
  mortise_error err;
  mortise_host *host = host_in(NULL);
  fill(host);
  mortise_job_request request = request_of(MORTISE_JOB_RUN, "both");
  request.spec = "{}";
  refuse(host, request, "either a spec or an id");
  request.id = NULL;
  refuse(host, request, "index");
  request.spec = "{\"index\":";
  refuse(host, request, "the spec of a job request");
  request.spec = "[]";
  refuse(host, request, "");
  request.spec = "3";
  refuse(host, request, "is a JSON object");
  request = request_of(MORTISE_JOB_CUTOVER, NULL);
  refuse(host, request, "a job has no cutover");
  request = request_of((mortise_job_verb)99, NULL);
  refuse(host, request, "verb 99");
  request = request_of(MORTISE_JOB_RUN, NULL);
  request.size = 0;
  refuse(host, request, "mortise_job_request_init");
  request = request_of(MORTISE_JOB_RUN, NULL);
  assert_int_equal(mortise_job_run(NULL, &request, NULL, &err), MORTISE_INVALID_ARGUMENT);
  assert_null(mortise_job_start(host, &request, note_end, NULL, &err)); /* it has no loop */
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  carry_out(host, request_of(MORTISE_JOB_RUN, "unheard-of"), NULL, MORTISE_NOT_FOUND);
  assert_int_equal(mortise_host_state(host) != NULL, 1);
  mortise_host_free(host);
}

static int init_declared_table(void **state) {
  (void)state;
  mortise_error err;
  const mortise_options options = mt_test_options(&place, NULL);
  mortise_client *client = mortise_client_open(&options, &err);
  mortise_status status = client ? mortise_client_init_tables(client, 0, &err) : err.code;
  if (status) print_error("%s\n", err.message);
  mortise_client_free(client);
  return status ? -1 : 0;
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_its_life),   cmocka_unit_test(test_interrupted_and_resumed),
      cmocka_unit_test(test_a_migration), cmocka_unit_test(test_steered),
      cmocka_unit_test(test_cancelled),  cmocka_unit_test(test_refused),
  };
  return mt_test_each_place(&place, "declared", tests, sizeof tests / sizeof tests[0], init_declared_table);
}
