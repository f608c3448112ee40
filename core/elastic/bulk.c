/* Bulk writes of documents: building the request, and accounting for every item of the answer. */
#include "base/utf8.h"
#include "elastic/answer.h"
#include "elastic/internal.h"

#include <stdio.h>

void mt_bulk_add_filter(mt_buf *path) {
  mt_buf_adds(path, "filter_path=items.*._id,items.*.status,items.*._seq_no,items.*._primary_term,"
                    "items.*.result,items.*.error.type,items.*.error.reason,"
                    "items.*.error.caused_by");
}

static bool has_newline(mt_slice s) {
  return memchr(s.p, '\n', s.n) || memchr(s.p, '\r', s.n);
}

bool mt_bulk_add_body(mt_buf *out, mt_slice body) {
  if (!body.n) return false;
  if (!has_newline(body)) {
    mt_buf_addslice(out, body);
    return true;
  }
  /* In valid JSON newlines occur only between tokens. */
  mt_json value;
  if (mt_json_parse(body, "a document", &value, NULL) || value.type != MT_JSON_OBJECT) return false;
  size_t at = out->n;
  mt_buf_addslice(out, body);
  for (char *p = out->p + at; !out->failed && p < out->p + out->n; p++)
    if (*p == '\n' || *p == '\r') *p = ' ';
  return true;
}

/* ---- Building ------------------------------------------------------------------------------- */

static const mt_slice openings[] = {
    [MT_WRITE_CREATE] = MT_SLICE("{\"create\":{\"_id\":"),
    [MT_WRITE_INDEX] = MT_SLICE("{\"index\":{\"_id\":"),
    [MT_WRITE_UPDATE] = MT_SLICE("{\"update\":{\"_id\":"),
    [MT_WRITE_DELETE] = MT_SLICE("{\"delete\":{\"_id\":"),
};

static void write_refuse(mt_write *w, const char *type, const char *reason) {
  w->result = MT_WRITE_REJECTED;
  w->status = 400;
  snprintf(w->type, sizeof w->type, "%s", type);
  snprintf(w->reason, sizeof w->reason, "%s", reason);
}

static bool looks_like_object(mt_slice body) {
  size_t i = 0;
  while (i < body.n && strchr(" \t\r\n", body.p[i]) && body.p[i]) i++;
  return i < body.n && body.p[i] == '{';
}

/* Refuses items that would fail the whole request or be read as another line of it, and bodies that
 * are not objects, for which Elasticsearch 8 answers 500. */
static bool write_is_fit(const mt_bulk *r, mt_write *w) {
  mt_json value;
  const char *bad = "illegal_argument_exception";
  if (!w->index.n && !r->index)
    write_refuse(w, bad, "no index is given");
  else if (!w->id.n)
    write_refuse(w, bad, "an id is required");
  else if (w->id.n > MT_ID_MAX)
    write_refuse(w, bad, "an id may have 512 bytes at most");
  else if (mt_utf8_valid(w->id) != w->id.n || mt_utf8_valid(w->routing) != w->routing.n ||
           mt_utf8_valid(w->index) != w->index.n)
    write_refuse(w, bad, "an id, a routing or an index is no UTF-8");
  else if (w->kind == MT_WRITE_CREATE && w->if_version.term)
    write_refuse(w, bad, "a create compares with no version");
  else if (w->external && (w->if_version.term || (w->kind != MT_WRITE_CREATE && w->kind != MT_WRITE_DELETE)))
    write_refuse(w, bad, "only a create or a delete has an external version, and no other");
  else if (w->external_gte &&
           (w->if_version.term || w->external || (w->kind != MT_WRITE_INDEX && w->kind != MT_WRITE_DELETE)))
    write_refuse(w, bad, "only an index or a delete has an external_gte version, and no other");
  else if (w->kind != MT_WRITE_DELETE && !w->body.n)
    write_refuse(w, "mapper_parsing_exception", "a document is required");
  else if (w->kind != MT_WRITE_DELETE && mt_utf8_valid(w->body) != w->body.n)
    write_refuse(w, "mapper_parsing_exception",
                 "the document is no UTF-8"); /* some servers store it */
  else if (w->kind != MT_WRITE_DELETE && !looks_like_object(w->body))
    write_refuse(w, "mapper_parsing_exception", "the document is no JSON object");
  else if (w->kind == MT_WRITE_UPDATE &&
           (mt_json_parse(w->body, "an update", &value, NULL) || value.type != MT_JSON_OBJECT))
    write_refuse(w, bad, "an update's body is no JSON object");
  return w->result == MT_WRITE_NONE;
}

static void add_key_and_text(mt_buf *b, mt_slice key, mt_slice text) {
  mt_buf_addslice(b, key);
  mt_json_add_string(b, text);
}

/* A `create` takes no version, and an `index` whose version must exceed what stands there creates as well. */
static void add_action(mt_buf *b, const mt_write *w, bool all_copies) {
  bool sealed = w->kind == MT_WRITE_CREATE && w->external;
  add_key_and_text(b, openings[sealed ? MT_WRITE_INDEX : w->kind], w->id);
  if (w->index.n) add_key_and_text(b, MT_SLICE(",\"_index\":"), w->index);
  if (w->routing.p) add_key_and_text(b, MT_SLICE(",\"routing\":"), w->routing);
  if (w->if_version.term) {
    mt_buf_addslice(b, MT_SLICE(",\"if_seq_no\":"));
    mt_buf_addu(b, w->if_version.seq_no);
    mt_buf_addslice(b, MT_SLICE(",\"if_primary_term\":"));
    mt_buf_addu(b, w->if_version.term);
  }
  if (w->external) {
    mt_buf_addslice(b, MT_SLICE(",\"version_type\":\"external\",\"version\":"));
    mt_buf_addu(b, w->external);
  }
  if (w->external_gte) {
    mt_buf_addslice(b, MT_SLICE(",\"version_type\":\"external_gte\",\"version\":"));
    mt_buf_addu(b, w->external_gte);
  }
  bool indexes = w->kind == MT_WRITE_CREATE || w->kind == MT_WRITE_INDEX;
  if (w->skip_pipeline && indexes && !all_copies) mt_buf_addslice(b, MT_SLICE(",\"pipeline\":\"_none\""));
  mt_buf_addslice(b, MT_SLICE("}}\n"));
}

static void add_write(mt_buf *b, mt_write *w, bool all_copies) {
  size_t start = b->n;
  add_action(b, w, all_copies);
  if (w->kind != MT_WRITE_DELETE) {
    if (!mt_bulk_add_body(b, w->body)) {
      mt_buf_cut(b, start);
      write_refuse(w, "mapper_parsing_exception", "the document is no JSON object");
      return;
    }
    mt_buf_addc(b, '\n');
  }
}

/* Builds the body; returns its number of items. */
static size_t build_bulk(mt_bulk *r, mt_buf *b) {
  size_t sent = 0;
  for (size_t i = 0; i < r->n; i++) {
    mt_write *w = &r->items[i];
    w->result = MT_WRITE_NONE;
    w->status = 0;
    w->version = (mt_version){0};
    w->created = false;
    w->standing = 0;
    w->type[0] = w->reason[0] = '\0';
    if (write_is_fit(r, w)) add_write(b, w, r->copies);
    sent += w->result == MT_WRITE_NONE;
  }
  return sent;
}

/* ---- The answer ----------------------------------------------------------------------------- */

static mt_write_result classify_write(const mt_answer *a) {
  if (a->status < 300 && a->applied == MT_APPLIED_NOOP) return MT_WRITE_NOOP;
  if (a->status < 300 && a->applied == MT_APPLIED_NOT_FOUND) return MT_WRITE_MISSING;
  /* Without both the result and the version it is no answer. */
  if (a->status < 300 && (a->applied == MT_APPLIED_NONE || !a->version.term)) return MT_WRITE_NONE;
  if (a->status < 300) return MT_WRITE_APPLIED;
  if (mt_answer_busy(a) || mt_answer_blocked(a)) return MT_WRITE_BUSY;
  if (mt_answer_unsure(a)) return MT_WRITE_NONE;
  if (a->status == 409) return MT_WRITE_CONFLICT;
  bool missing =
      a->applied == MT_APPLIED_NOT_FOUND || mt_answer_is(a->type, "document_missing_exception");
  return missing ? MT_WRITE_MISSING : MT_WRITE_REJECTED;
}

/* "[ID]: version conflict, current version [2] is higher or equal to the one provided [1]". The id may say the same. */
static uint64_t standing_version(mt_slice reason) {
  static const char before[] = "current version [";
  uint64_t version = 0;
  for (const char *end = reason.p + reason.n, *p = reason.p;
       p && (p = memmem(p, (size_t)(end - p), before, sizeof before - 1)); p++) {
    version = 0;
    for (const char *d = p + sizeof before - 1; d < end && *d >= '0' && *d <= '9'; d++)
      version = version > UINT64_MAX / 10 - 1 ? 0 : version * 10 + (uint64_t)(*d - '0');
  }
  return version;
}

static void read_item(mt_write *w, const mt_answer *a) {
  w->result = classify_write(a);
  w->status = a->status;
  if (w->result == MT_WRITE_APPLIED || w->result == MT_WRITE_NOOP) {
    w->version = a->version;
    w->created = a->applied == MT_APPLIED_CREATED;
    return;
  }
  if ((w->external || w->external_gte) && w->result == MT_WRITE_CONFLICT) w->standing = standing_version(a->reason);
  mt_answer_text(a->type, w->type, sizeof w->type);
  mt_answer_text(a->reason, w->reason, sizeof w->reason);
  size_t n = strlen(w->reason);
  if (!a->cause_reason.n || n + 3 >= sizeof w->reason) return;
  memcpy(w->reason + n, ": ", 3);
  mt_answer_text(a->cause_reason, w->reason + n + 2, sizeof w->reason - n - 2);
}

static void say_unsure(mt_bulk *r, const mt_write *w, size_t unsure) {
  mortise_error *err = &r->req.error;
  mt_error_set(err, MORTISE_UNAVAILABLE, "%zu of %zu writes failed with status %d (%s: %s)", unsure,
               r->n, w->status, w->type, w->reason);
  err->http_status = w->status;
  err->ambiguous = true;
  err->retryable = false;
}

/* Discards the whole answer. */
static void disbelieve_bulk(mt_bulk *r, const char *why) {
  for (size_t i = 0; i < r->n; i++) r->items[i].result = MT_WRITE_NONE;
  mt_error_set(&r->req.error, MORTISE_UNAVAILABLE, "the answer to a bulk of %zu writes %s", r->n,
               why);
  r->req.error.ambiguous = true;
  r->req.error.retryable = false;
}

/* A write that compared with a version must have a later one. */
static bool is_new(const mt_write *w) {
  return w->result != MT_WRITE_APPLIED || !w->if_version.term ||
         mt_version_is_after(w->version, mt_version_fence(w->if_version));
}

/* False if the whole answer was discarded. */
static bool read_bulk_answer(mt_bulk *r, mt_slice text) {
  mt_answers answers;
  mt_answer a;
  mt_answers_init(&answers, text);
  size_t unsure = 0;
  const mt_write *first = NULL;
  for (size_t i = 0; i < r->n; i++) {
    mt_write *w = &r->items[i];
    if (w->result == MT_WRITE_REJECTED) continue; /* was not sent */
    if (!mt_answers_next(&answers, &a)) break;
    if (!mt_answer_is_of(&a, w->id)) {
      disbelieve_bulk(r, "speaks of other documents");
      return false;
    }
    read_item(w, &a);
    if (!is_new(w)) {
      disbelieve_bulk(r, "speaks of earlier writes");
      return false;
    }
    if (w->result == MT_WRITE_NONE && !unsure++) first = w;
  }
  size_t missing = 0;
  for (size_t i = 0; i < r->n; i++) missing += r->items[i].status == 0;
  bool good = false;
  if (answers.failed)
    disbelieve_bulk(r, "is not understood");
  else if (missing || mt_answers_next(&answers, &a) || answers.failed)
    disbelieve_bulk(r, "has another number of items");
  else
    good = true;
  if (good && unsure) say_unsure(r, first, unsure);
  return good;
}

static void on_bulk(mt_call *c) {
  mt_bulk *r = (mt_bulk *)c->req;
  if (!mt_call_ok(c, "bulk", r->index)) return;
  if (!read_bulk_answer(r, mt_buf_slice(&c->http.answer))) mt_call_distrust(c);
  mt_call_finish(c);
}

/* false: the call is over. */
static bool add_bulk_path(mt_call *c, const mt_bulk *r, bool each) {
  if (r->index && !mt_call_index(c, r->index, true)) return false;
  mt_buf_adds(&c->path, "/_bulk?");
  if (each)
    mt_bulk_add_filter(&c->path);
  else
    mt_buf_adds(&c->path, "filter_path=errors");
  if (r->copies) mt_buf_adds(&c->path, "&pipeline=_none");
  if (r->refresh) mt_buf_adds(&c->path, "&refresh=wait_for");
  mt_call_add_timeout(c, '&');
  return true;
}

/* Copies may be repeated. */
static void on_copies(mt_call *c) {
  mt_bulk *r = (mt_bulk *)c->req;
  mt_json root;
  bool errors = true;
  if (!mt_call_ok(c, "bulk", r->index)) return;
  if (!mt_json_parse(mt_buf_slice(&c->http.answer), "the answer", &root, NULL))
    mt_json_bool(mt_json_get(root, "errors"), &errors);
  if (errors) {
    mt_buf_clear(&c->path);
    if (add_bulk_path(c, r, true)) mt_call_send(c, "POST", on_bulk);
    return;
  }
  for (size_t i = 0; i < r->n; i++) {
    mt_write *w = &r->items[i];
    if (w->result != MT_WRITE_NONE) continue; /* was not sent */
    w->result = MT_WRITE_APPLIED;
    w->status = 200;
  }
  mt_call_finish(c);
}

void mt_elastic_bulk(mt_store *s, mt_bulk *r) {
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c || !add_bulk_path(c, r, !r->copies)) return;
  if (!build_bulk(r, &c->body)) {
    mt_call_finish_soon(c);
    return;
  }
  mt_call_send(c, "POST", r->copies ? on_copies : on_bulk);
}
