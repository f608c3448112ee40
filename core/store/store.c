#include "store/table.h"

#include "base/mem.h"
#include "base/pump.h"

#include <stdio.h>

bool mt_req_applied(const mt_req *req) {
  return req->writes && (!req->error.code || req->error.ambiguous);
}

bool mt_store_cancel(mt_store *s, mt_req *req) {
  if (req->finished) return mt_req_applied(req);
  return req->op && s->cancel(s, req);
}

void mt_store_close(mt_store *s) {
  if (s) s->close(s);
}

mortise_status mt_store_wait(mt_store *s, mt_req *req, int64_t until_ms) {
  mortise_error err;
  if (mt_loop_pump(s->loop, &req->finished, until_ms, &err)) {
    mt_error_prefix(&err, "waiting for %s", s->url);
    err.ambiguous = mt_store_cancel(s, req);
    req->error = err;
    req->finished = true;
  }
  return req->error.code;
}

void mt_session_breaker(mt_json owner, char *out, size_t size) {
  char user[64], host[80], process[32] = "";
  int64_t pid = 0;
  mt_json by = mt_json_get(owner, "broken_by");
  mt_json_copy(mt_json_get(by, "user"), user, sizeof user);
  mt_json_copy(mt_json_get(by, "host"), host, sizeof host);
  if (mt_json_int(mt_json_get(by, "pid"), &pid))
    snprintf(process, sizeof process, ", pid %lld", (long long)pid);
  if (!*user && !*host) process[0] = '\0';
  snprintf(out, size, "%s%s%s%s", user, *user && *host ? "@" : "", host, process);
}

void mt_req_finish(mt_req *req) {
  req->op = NULL;
  if (!req->writes) req->error.ambiguous = false;
  MT_FINISH(req);
}

void mt_page_free(mt_page *page) {
  if (!page || page->shares--) return;
  mt_buf_deinit(&page->bytes);
  mt_buf_deinit(&page->text);
  mt_free(page->docs);
  mt_free(page);
}

static void drop_text(char **owned) {
  mt_free(*owned);
  *owned = NULL;
}

void mt_describe_deinit(mt_describe *r) {
  drop_text(&r->json);
}

void mt_aliases_deinit(mt_aliases *r) {
  drop_text(&r->json);
}

void mt_mget_deinit(mt_mget *r) {
  mt_page_free(r->page);
  r->page = NULL;
}

void mt_shards_deinit(mt_shards *r) {
  mt_free(r->shards);
  r->shards = NULL;
  r->n = 0;
}

void mt_intervals_deinit(mt_intervals *r) {
  mt_free(r->counts);
  r->counts = r->sums = NULL;
  r->n = 0;
}

mortise_status mt_span_width_check(const mt_intervals *r, mortise_error *err) {
  if (r->width <= 8 * MT_SPAN_ROW) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "numbers of %s: a row has at most %d", r->span.index,
                      8 * MT_SPAN_ROW);
}

mortise_status mt_intervals_alloc(mt_intervals *r, size_t rows, mortise_error *err) {
  r->counts = mt_calloc(2 * rows + 1, sizeof *r->counts);
  if (!r->counts) return mt_error_memory(err);
  r->sums = r->counts + rows;
  r->n = rows;
  return MORTISE_OK;
}

mortise_status mt_range_ids_check(const mt_range *r, mortise_error *err) {
  if (!r->ids || r->n_ids <= MT_SPAN_ROW) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "documents of %s: at most %d ids at once", r->span.index,
                      MT_SPAN_ROW);
}

void mt_range_deinit(mt_range *r) {
  mt_page_free(r->page);
  r->page = NULL;
}

void mt_search_deinit(mt_search *r) {
  drop_text(&r->answer);
}

void mt_server_task_find_deinit(mt_server_task_find *r) {
  mt_free(r->tasks);
  r->tasks = NULL;
  r->n = 0;
}

void mt_raw_deinit(mt_raw *r) {
  drop_text(&r->answer);
}

void mt_locks_admin_deinit(mt_locks_admin *r) {
  drop_text(&r->text);
}

void mt_lock_list_deinit(mt_lock_list *r) {
  drop_text(&r->json);
}

void mt_lock_read_deinit(mt_lock_read *r) {
  drop_text(&r->json);
}

void mt_session_read_deinit(mt_session_read *r) {
  for (size_t i = 0; r->docs && i < r->n; i++) mt_session_doc_deinit(&r->docs[i]);
  mt_free(r->docs);
  r->docs = NULL;
}

void mt_lock_batch_deinit(mt_lock_batch *r) {
  for (size_t i = 0; i < r->n; i++) {
    mt_free(r->items[i].blockers);
    r->items[i].blockers = NULL;
    r->items[i].n_blockers = 0;
  }
}
