#include "bulk.h"

#include "base/json.h"

const char *fault_error_type(int status) {
  switch (status) {
  case 409:
    return "version_conflict_engine_exception";
  case 429:
    return "rejected_execution_exception";
  case 503:
    return "unavailable_shards_exception";
  case 504:
    return "process_cluster_event_timeout_exception";
  default:
    return "illegal_state_exception";
  }
}

static mt_slice line_at(const char *p, const char *end) {
  const char *stop = memchr(p, '\n', (size_t)(end - p));
  return (mt_slice){p, stop ? (size_t)(stop + 1 - p) : (size_t)(end - p)};
}

bool fault_bulk_item(mt_slice body, size_t i, mt_slice *out) {
  const char *p = body.p, *end = p + body.n;
  while (p < end) {
    mt_slice line = line_at(p, end);
    mt_slice item = line;
    if (!mt_slice_starts(line, MT_SLICE("{\"delete\"")) && p + line.n < end)
      item.n += line_at(p + line.n, end).n;
    if (!i--) {
      *out = item;
      return true;
    }
    p += item.n;
  }
  return false;
}

bool fault_bulk_find(mt_slice body, const char *text, size_t *i) {
  mt_slice item;
  for (*i = 0; fault_bulk_item(body, *i, &item); ++*i)
    if (!*text || memmem(item.p, item.n, text, strlen(text))) return true;
  return false;
}

/* {"update":{"_id":"...","status":409,"error":{...}}} */
static void add_failed(mt_slice item, int status, mt_buf *out) {
  mt_slice line = line_at(item.p, item.p + item.n);
  mt_json root;
  mt_json_iter it = {0};
  if (!mt_json_parse(line, "a bulk's line", &root, NULL)) it = mt_json_items(root);
  bool named = mt_json_next(&it);
  mt_slice verb = named ? it.key : MT_SLICE("update");
  mt_slice id = named ? mt_json_get(it.value, "_id").raw : (mt_slice){0};
  mt_buf_addf(out, "{\"%.*s\":{", (int)verb.n, verb.p);
  if (id.n) mt_buf_addf(out, "\"_id\":%.*s,", (int)id.n, id.p);
  mt_buf_addf(out, "\"status\":%d,\"error\":{\"type\":\"%s\",\"reason\":", status,
              fault_error_type(status));
  mt_buf_adds(out, "\"said by the fault proxy\"}}}");
}

bool fault_bulk_splice(mt_slice answer, mt_slice item, size_t i, int status, bool instead,
                       mt_buf *out) {
  mt_json root = {0};
  if (answer.n && mt_json_parse(answer, "a bulk's answer", &root, NULL)) return false;
  mt_json_iter it = mt_json_items(mt_json_get(root, "items"));
  mt_buf_adds(out, "{\"errors\":true,\"items\":[");
  size_t n = 0;
  for (bool more = true; more; n++) {
    bool failed = n == i;
    if (!failed || instead) more = mt_json_next(&it);
    if (!failed && !more) break;
    if (n) mt_buf_addc(out, ',');
    if (failed)
      add_failed(item, status, out);
    else
      mt_buf_addslice(out, it.value.raw);
  }
  mt_buf_adds(out, "]}");
  return n > i;
}
