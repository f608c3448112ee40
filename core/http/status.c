/* Turns a server's answer with a status of 300 or more into an error. */
#include "base/json.h"
#include "http/http.h"

#include <stdio.h>

static mortise_status code_of_status(int status) {
  switch (status) {
  case 401:
  case 403:
    return MORTISE_AUTH;
  case 404:
    return MORTISE_NOT_FOUND;
  case 409:
    return MORTISE_CONFLICT;
  case 408: /* a proxy's, for a request that came too late */
  case 429:
    return MORTISE_UNAVAILABLE;
  default:
    return status >= 500 ? MORTISE_UNAVAILABLE : MORTISE_REJECTED;
  }
}

/* A block forbids everybody the same, until it is lifted: that is no matter of rights. */
static bool is_block(const mt_http_req *req, const mortise_error *err) {
  return req->status == 403 && !strcmp(err->type, "cluster_block_exception");
}

static size_t put_text(char *out, size_t size, size_t n, const char *text) {
  for (; *text && n + 1 < size; text++) out[n++] = *text;
  out[n] = '\0';
  return n;
}

/* Appends ": TEXT", cut to fit. */
static void append_piece(char *out, size_t size, const char *text) {
  size_t n = strlen(out);
  if (n) n = put_text(out, size, n, ": ");
  put_text(out, size, n, text);
}

/* Reads the reason and its causes; a script's error appears only there. Repeated texts are left
 * out. */
static void read_reasons(mt_json cause, mortise_error *err) {
  char text[sizeof err->reason];
  for (int depth = 0; depth < 5 && cause.type == MT_JSON_OBJECT; depth++) {
    if (*mt_json_copy(mt_json_get(cause, "reason"), text, sizeof text) &&
        !strstr(err->reason, text))
      append_piece(err->reason, sizeof err->reason, text);
    cause = mt_json_get(cause, "caused_by");
  }
}

static mt_json first_of(mt_json list) {
  mt_json_iter it = mt_json_items(list);
  return !it.object && mt_json_next(&it) ? it.value : (mt_json){0};
}

/* A search that failed on all shards may give the cause only of each one; what has no cause at all
 * may have a root cause. */
static void read_answered_error(mt_json error, mortise_error *err) {
  if (error.type == MT_JSON_STRING) {
    mt_json_copy(error, err->reason, sizeof err->reason);
    return;
  }
  mt_json root = first_of(mt_json_get(error, "root_cause"));
  mt_json_copy(mt_json_get(error, "type"), err->type, sizeof err->type);
  if (!err->type[0]) mt_json_copy(mt_json_get(root, "type"), err->type, sizeof err->type);
  read_reasons(error, err);
  if (mt_json_get(error, "caused_by").type != MT_JSON_OBJECT)
    read_reasons(mt_json_get(first_of(mt_json_get(error, "failed_shards")), "reason"), err);
  read_reasons(root, err);
}

/* A gateway's, such as Amazon's, which checks signatures before the server sees a request. */
static void read_message(mt_json root, mortise_error *err) {
  mt_json message = mt_json_get(root, "message");
  mt_json_copy(message.type ? message : mt_json_get(root, "Message"), err->reason, sizeof err->reason);
}

/* Reads the first line of an answer that is not JSON, such as a proxy's page. */
static void read_first_line(mt_slice text, mortise_error *err) {
  size_t n = 0;
  for (size_t i = 0; i < text.n && n < 120; i++) {
    unsigned char c = (unsigned char)text.p[i];
    if (c == '\n' && n) break;
    if (c >= ' ' && c < 127) err->reason[n++] = (char)c;
  }
  err->reason[n] = '\0';
}

/* "action [A] is unauthorized ..., this action is granted by the index privileges [...]"
 * (Elasticsearch); "no permissions for [A] and User [...]" (OpenSearch). */
static void add_right(mortise_error *err) {
  static const char *const before[] = {"action [", "permissions for ["};
  for (size_t i = 0; i < 2; i++) {
    const char *start = strstr(err->reason, before[i]);
    if (!start) continue;
    start += strlen(before[i]);
    const char *end = strchr(start, ']'), *granted = strstr(err->reason, "granted by the ");
    if (!end) return;
    char right[sizeof err->message];
    snprintf(right, sizeof right, "missing right %.*s%s%.300s%s", (int)(end - start), start,
             granted ? " (" : "", granted ? granted : "", granted ? ")" : "");
    append_piece(err->message, sizeof err->message, right);
    return;
  }
  append_piece(err->message, sizeof err->message, err->reason);
}

static void say(const mt_http_req *req, const char *what, mortise_error *err) {
  snprintf(err->message, sizeof err->message, "%s: %s%s%d", what,
           req->node_url ? req->node_url : "", req->node_url ? " answered " : "status ",
           req->status);
  if (req->status < 400)
    append_piece(err->message, sizeof err->message, "a redirect, which is not followed");
  if (err->type[0]) append_piece(err->message, sizeof err->message, err->type);
  if (req->status == 403)
    add_right(err);
  else if (err->reason[0])
    append_piece(err->message, sizeof err->message, err->reason);
}

mortise_status mt_http_status(const mt_http_req *req, const char *what, mortise_error *err) {
  if (req->error.code) {
    if (err) *err = req->error;
    return req->error.code;
  }
  mortise_error unused;
  if (!err) err = &unused;
  mt_error_clear(err);
  if (req->status >= 200 && req->status < 300) return MORTISE_OK;
  err->code = code_of_status(req->status);
  err->http_status = req->status;
  mt_json root = {0};
  if (!mt_json_parse(mt_buf_slice(&req->answer), "the answer", &root, NULL))
    read_answered_error(mt_json_get(root, "error"), err);
  else
    read_first_line(mt_buf_slice(&req->answer), err);
  if (!err->reason[0]) read_message(root, err);
  if (is_block(req, err)) err->code = MORTISE_UNAVAILABLE;
  say(req, what, err);
  /* A failing server, or one that a proxy gave up on, may have done it or may still. */
  err->ambiguous = req->status >= 500 || req->status == 408;
  err->retryable = err->code == MORTISE_UNAVAILABLE && (!err->ambiguous || req->idempotent);
  return err->code;
}
