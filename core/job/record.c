#include "job/record.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

enum { FORMAT = 1, TEXT_MAX = 16 << 20 };

/* ---- States --------------------------------------------------------------------------------- */

static const char *const names[] = {
    [MT_JOB_NONE] = "none",       [MT_JOB_RUNNING] = "running", [MT_JOB_STOPPED] = "stopped",
    [MT_JOB_DONE] = "done",       [MT_JOB_UNDOING] = "undoing", [MT_JOB_UNDONE] = "undone",
    [MT_JOB_REMOVED] = "removed",
};
enum { STATES = sizeof names / sizeof *names };

static const struct {
  mt_job_state from, to;
} moves[] = {
    {MT_JOB_NONE, MT_JOB_RUNNING},    {MT_JOB_NONE, MT_JOB_UNDONE}, /* it was not born */
    {MT_JOB_RUNNING, MT_JOB_RUNNING}, /* taken over */
    {MT_JOB_RUNNING, MT_JOB_STOPPED}, {MT_JOB_RUNNING, MT_JOB_DONE},
    {MT_JOB_RUNNING, MT_JOB_UNDONE}, /* refused, before anything was written */
    {MT_JOB_RUNNING, MT_JOB_UNDOING}, {MT_JOB_STOPPED, MT_JOB_RUNNING},
    {MT_JOB_STOPPED, MT_JOB_UNDOING}, {MT_JOB_DONE, MT_JOB_UNDOING},
    {MT_JOB_UNDOING, MT_JOB_UNDOING}, /* taken over, or continued */
    {MT_JOB_UNDOING, MT_JOB_UNDONE},  {MT_JOB_UNDONE, MT_JOB_RUNNING}, /* mt_job_record_may */
    {MT_JOB_DONE, MT_JOB_REMOVED},    {MT_JOB_UNDONE, MT_JOB_REMOVED},
};

const char *mt_job_state_name(mt_job_state state) {
  return names[state];
}

bool mt_job_state_may(mt_job_state from, mt_job_state to) {
  for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
    if (moves[i].from == from && moves[i].to == to) return true;
  return false;
}

bool mt_job_record_began(const mt_job_record *r) {
  for (size_t i = 0; i < r->attempts; i++)
    if (r->batches[i]) return true;
  return r->n_also > 0 || r->inverse || r->work.n > 0;
}

bool mt_job_record_may(const mt_job_record *r, mt_job_state to) {
  bool again = r->state == MT_JOB_UNDONE && to == MT_JOB_RUNNING;
  return mt_job_state_may(r->state, to) && !(again && mt_job_record_began(r));
}

/* ---- Counts --------------------------------------------------------------------------------- */

void mt_job_count_anew(mt_job_record *r) {
  r->counts.matched += r->counts.unsure - r->counts.conflicts - r->counts.rejected;
  r->counts.conflicts = r->counts.unsure;
  r->counts.rejected = 0;
  r->aside[0] = '\0';
}

void mt_job_count_earlier(mt_job_record *r, uint64_t matched) {
  r->counts.changed = r->total > matched ? r->total - matched : 0;
  r->counts.unchanged = 0;
}

void mt_job_balance(mt_job_record *r, bool is_list) {
  uint64_t done = r->counts.changed + r->counts.deleted + r->counts.conflicts + r->counts.rejected;
  if (is_list) r->counts.unchanged = r->total > done ? r->total - done : 0;
  r->counts.matched = done + r->counts.unchanged;
}

void mt_job_record_note(mt_job_record *r) {
  if (!r->updated_ms || !r->attempts) return;
  bool undoing = r->state == MT_JOB_UNDOING || r->state == MT_JOB_UNDONE;
  bool works = r->state == MT_JOB_RUNNING || r->state == MT_JOB_UNDOING;
  mt_job_point now = {.at_ms = r->updated_ms, .attempt = r->attempts, .undoing = undoing};
  now.done = undoing ? r->counts.restored + r->counts.left : r->counts.matched + r->swept;
  now.aside = r->counts.conflicts + r->counts.rejected;
  if (r->state != MT_JOB_REMOVED) mt_job_history_note(&r->history, &now, r->by, !works);
}

/* ---- Ids ------------------------------------------------------------------------------------ */

mortise_status mt_job_check_id(mt_slice id, mortise_error *err) {
  static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  size_t i = 0;
  while (i < id.n && memchr(good, id.p[i], sizeof good - 1)) i++;
  if (id.n && id.n <= MT_JOB_NAME_MAX && i == id.n) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                      "a job's id has 1 to %d of A-Z, a-z, 0-9, '.', '_' and '-'", MT_JOB_NAME_MAX);
}

void mt_job_record_id(mt_buf *out, const char *ns, const char *id) {
  mt_buf_addf(out, "%s:%s", ns, id);
}

void mt_job_mark(char out[MT_JOB_MARK_MAX], uint64_t attempt, uint32_t look) {
  snprintf(out, MT_JOB_MARK_MAX, "run:%" PRIu64 ":%" PRIu32, attempt, look);
}

/* ---- Writing -------------------------------------------------------------------------------- */

static void add_record_numbers(mt_buf *out, const char *key, const uint64_t *numbers, size_t n) {
  mt_json_add_key(out, key);
  mt_buf_addc(out, '[');
  for (size_t i = 0; i < n; i++) {
    if (i) mt_buf_addc(out, ',');
    mt_buf_addu(out, numbers[i]);
  }
  mt_buf_addc(out, ']');
}

/* The members of `counts`, both for writing and for reading. */
enum { COUNTS = 9 };
static const char *const count_names[COUNTS] = {
    "matched", "changed", "deleted", "unchanged", "conflicts", "rejected", "restored", "left", "unsure"};
static uint64_t *record_count(mt_job_record *r, size_t i) {
  uint64_t *all[COUNTS] = {&r->counts.matched,   &r->counts.changed,   &r->counts.deleted,
                           &r->counts.unchanged, &r->counts.conflicts, &r->counts.rejected,
                           &r->counts.restored,  &r->counts.left,      &r->counts.unsure};
  return all[i];
}

/* The gate is what tasks look for (store.h's mt_gate). */
static void add_strategy(mt_buf *out, const mt_job_record *r) {
  mt_json_add_text(out, "strategy", mt_slice_of(r->strategy));
  mt_json_add_text(out, "strategy_why", mt_slice_of(r->strategy_why));
  if (r->gate) mt_buf_addf(out, ",\"gate\":{\"a%" PRIu64 "\":[\"*\"]}", r->gate);
  if (!r->sweeps) return;
  mt_buf_adds(out, ",\"sweeps\":true");
  mt_json_add_text(out, "task", mt_slice_of(r->task));
  mt_json_add_key(out, "not_after");
  mt_buf_addi(out, r->not_after_ms);
  mt_json_add_int(out, "swept", (int64_t)r->swept);
}

void mt_job_record_encode(const mt_job_record *r, mt_buf *out) {
  mt_buf_adds(out, "{\"kind\":\"job\"");
  mt_json_add_int(out, "format", FORMAT);
  mt_json_add_text(out, "ns", mt_slice_of(r->ns));
  mt_json_add_text(out, "job", mt_slice_of(r->id));
  mt_json_add_text(out, "state", mt_slice_of(mt_job_state_name(r->state)));
  mt_json_add_int(out, "created", r->created_ms);
  mt_json_add_int(out, "updated", r->updated_ms);
  mt_buf_adds(out, ",\"body\":{");
  mt_json_add_text(out, "session", mt_slice_of(r->session));
  if (r->by) {
    mt_json_add_key(out, "by");
    mt_buf_adds(out, r->by);
  }
  mt_json_add_text(out, "reason", mt_slice_of(r->reason));
  mt_json_add_text(out, "waits", mt_slice_of(r->waits));
  mt_json_add_text(out, "aside", mt_slice_of(r->aside));
  mt_json_add_int(out, "orders", (int64_t)r->orders);
  add_record_numbers(out, "batches", r->batches, r->attempts);
  add_record_numbers(out, "also", r->also, r->n_also);
  add_record_numbers(out, "undo", (uint64_t[]){r->undo_attempt, r->undo_number}, 2);
  mt_json_add_text(out, "undo_by", mt_slice_of(r->inverse ? "inverse" : "journal"));
  mt_json_add_text(out, "halted", mt_slice_of(r->halted));
  mt_buf_adds(out, r->loose ? ",\"loose\":true" : ",\"loose\":false");
  mt_json_add_key(out, "total");
  mt_buf_addu(out, r->total);
  mt_json_add_int(out, "speed", (int64_t)r->speed);
  add_strategy(out, r);
  mt_buf_adds(out, ",\"counts\":{");
  for (size_t i = 0; i < COUNTS; i++) {
    mt_json_add_key(out, count_names[i]);
    mt_buf_addu(out, *record_count((mt_job_record *)(uintptr_t)r, i));
  }
  mt_buf_adds(out, "}");
  mt_json_add_key(out, "spec");
  mt_buf_addslice(out, r->spec.n ? r->spec : MT_SLICE("{}"));
  mt_job_history_encode(&r->history, out);
  if (r->work.n) {
    mt_json_add_key(out, "work");
    mt_buf_addslice(out, mt_buf_slice(&r->work));
  }
  mt_buf_adds(out, "}}");
}

/* ---- Reading -------------------------------------------------------------------------------- */

void mt_job_record_init(mt_job_record *r) {
  *r = (mt_job_record){0};
  mt_buf_init(&r->text, TEXT_MAX);
  mt_buf_init(&r->work, TEXT_MAX);
  mt_job_history_init(&r->history);
}

void mt_job_record_deinit(mt_job_record *r) {
  mt_free(r->batches);
  mt_buf_deinit(&r->text);
  mt_buf_deinit(&r->work);
  mt_job_history_deinit(&r->history);
  mt_job_record_init(r);
}

static bool add_batches(mt_job_record *r, uint64_t n) {
  uint64_t *more = r->attempts < MT_JOB_ATTEMPTS_MAX
                       ? mt_realloc(r->batches, (r->attempts + 1) * sizeof *more)
                       : NULL;
  if (!more) return false;
  r->batches = more;
  r->batches[r->attempts++] = n;
  return true;
}

mortise_status mt_job_record_attempt(mt_job_record *r, mortise_error *err) {
  if (r->attempts == MT_JOB_ATTEMPTS_MAX)
    return mt_error_set(err, MORTISE_REJECTED, "job %s was begun %d times: it is of no use", r->id,
                        MT_JOB_ATTEMPTS_MAX);
  if (!add_batches(r, 0)) return mt_error_memory(err);
  r->n_also = 0;
  return MORTISE_OK;
}

static bool take_state(mt_json value, mt_job_state *out) {
  for (size_t i = 1; i < STATES; i++) {
    if (!mt_json_is(value, names[i])) continue;
    *out = (mt_job_state)i;
    return true;
  }
  return false;
}

static bool take_batches(mt_job_record *r, mt_json list) {
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);) {
    uint64_t n = 0;
    if (!mt_json_uint(it.value, &n) || !add_batches(r, n)) return false;
  }
  return list.type == MT_JSON_ARRAY && r->attempts;
}

static bool take_also(mt_job_record *r, mt_json list) {
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);)
    if (r->n_also == MT_JOB_UNITS_MAX || !mt_json_uint(it.value, &r->also[r->n_also++]))
      return false;
  return list.type == MT_JSON_ARRAY;
}

static bool take_undo(mt_job_record *r, mt_json list) {
  mt_json_iter it = mt_json_items(list);
  return mt_json_next(&it) && mt_json_uint(it.value, &r->undo_attempt) && mt_json_next(&it) &&
         mt_json_uint(it.value, &r->undo_number) && r->undo_attempt <= r->attempts;
}

/* A count that is missing is 0, since an older version did not write it. */
static bool take_count(mt_json value, uint64_t *out) {
  *out = 0;
  return !value.type || mt_json_uint(value, out);
}

static bool take_counts(mt_job_record *r, mt_json counts) {
  for (size_t i = 0; i < COUNTS; i++)
    if (!take_count(mt_json_get(counts, count_names[i]), record_count(r, i))) return false;
  return counts.type == MT_JSON_OBJECT;
}

static bool take_body(mt_job_record *r, mt_json body) {
  mt_json spec = mt_json_get(body, "spec"), work = mt_json_get(body, "work");
  mt_json_copy(mt_json_get(body, "session"), r->session, sizeof r->session);
  mt_json_copy(mt_json_get(body, "reason"), r->reason, sizeof r->reason);
  mt_json_copy(mt_json_get(body, "waits"), r->waits, sizeof r->waits);
  mt_json_copy(mt_json_get(body, "aside"), r->aside, sizeof r->aside);
  mt_json_uint(mt_json_get(body, "orders"), &r->orders);
  r->spec = spec.raw;
  if (work.type == MT_JSON_OBJECT) mt_buf_addslice(&r->work, work.raw);
  r->inverse = mt_json_is(mt_json_get(body, "undo_by"), "inverse");
  mt_json_copy(mt_json_get(body, "halted"), r->halted, sizeof r->halted);
  mt_json_bool(mt_json_get(body, "loose"), &r->loose);
  mt_json_uint(mt_json_get(body, "total"), &r->total);
  mt_json_copy(mt_json_get(body, "strategy"), r->strategy, sizeof r->strategy);
  mt_json_copy(mt_json_get(body, "strategy_why"), r->strategy_why, sizeof r->strategy_why);
  mt_json_bool(mt_json_get(body, "sweeps"), &r->sweeps);
  mt_json_copy(mt_json_get(body, "task"), r->task, sizeof r->task);
  mt_json_int(mt_json_get(body, "not_after"), &r->not_after_ms);
  mt_json_uint(mt_json_get(body, "swept"), &r->swept);
  mt_job_history_decode(&r->history, body);
  return spec.type == MT_JSON_OBJECT && !mt_buf_status(&r->work, "how far a job is", NULL) && take_batches(r, mt_json_get(body, "batches")) &&
         take_also(r, mt_json_get(body, "also")) && take_undo(r, mt_json_get(body, "undo")) &&
         take_counts(r, mt_json_get(body, "counts"));
}

mortise_status mt_job_record_decode(mt_job_record *r, mt_slice source, mt_version version,
                                    mortise_error *err) {
  mt_json root;
  int64_t format = 0;
  mt_job_record_deinit(r);
  mt_buf_addslice(&r->text, source);
  mortise_status status = mt_buf_status(&r->text, "a job's document", err);
  if (status) return status;
  if (mt_json_parse(mt_buf_slice(&r->text), "a job's document", &root, err))
    return mt_error_set(err, MORTISE_CORRUPT_TABLE, "a job's document is no JSON");
  mt_json_copy(mt_json_get(root, "ns"), r->ns, sizeof r->ns);
  mt_json_copy(mt_json_get(root, "job"), r->id, sizeof r->id);
  if (!mt_json_is(mt_json_get(root, "kind"), "job") ||
      !mt_json_int(mt_json_get(root, "format"), &format) || format != FORMAT ||
      mt_job_check_id(mt_slice_of(r->id), NULL) ||
      !take_state(mt_json_get(root, "state"), &r->state) ||
      !mt_json_int(mt_json_get(root, "created"), &r->created_ms) ||
      !mt_json_int(mt_json_get(root, "updated"), &r->updated_ms) ||
      !take_body(r, mt_json_get(root, "body")))
    return mt_error_set(err, MORTISE_CORRUPT_TABLE,
                        "the document of job %s is not as this program writes it", r->id);
  r->version = version;
  return MORTISE_OK;
}

/* ---- The index ------------------------------------------------------------------------------ */

mt_slice mt_job_table(void) {
  return MT_SLICE(
      "{\"settings\":{\"index\":{\"number_of_shards\":1,\"auto_expand_replicas\":\"0-1\","
      "\"hidden\":true,\"translog.durability\":\"request\"}},\"mappings\":{\"dynamic\":"
      "\"strict\",\"properties\":{\"kind\":{\"type\":\"keyword\"},\"format\":{\"type\":"
      "\"integer\"},\"ns\":{\"type\":\"keyword\"},\"job\":{\"type\":\"keyword\"},"
      "\"state\":{\"type\":\"keyword\"},\"created\":{\"type\":\"date\",\"format\":"
      "\"epoch_millis\"},\"updated\":{\"type\":\"date\",\"format\":\"epoch_millis\"},"
      "\"body\":{\"type\":\"object\",\"enabled\":false},\"entries\":{\"type\":\"binary\"}"
      "}}}");
}
