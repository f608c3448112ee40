#include "elastic/elastic.h"

#include "base/mem.h"
#include "elastic/internal.h"

const mt_docs_ops mt_elastic_docs = {
    .describe = mt_elastic_describe,
    .index_create = mt_elastic_index_create,
    .index_drop = mt_elastic_index_drop,
    .settings = mt_elastic_settings,
    .block = mt_elastic_block,
    .unblock = mt_elastic_unblock,
    .aliases = mt_elastic_aliases,
    .alias_move = mt_elastic_alias_move,
    .mget = mt_elastic_mget,
    .bulk = mt_elastic_bulk,
    .count = mt_elastic_count,
    .refresh = mt_elastic_refresh,
    .search = mt_elastic_search,
    .scan_open = mt_elastic_scan_open,
    .scan_next = mt_elastic_scan_next,
    .scan_close = mt_elastic_scan_close,
    .shards = mt_elastic_shards,
    .intervals = mt_elastic_intervals,
    .range = mt_elastic_range,
    .range_end = mt_elastic_range_end,
    .update_by_query = mt_elastic_update_by_query,
    .task = mt_elastic_task,
    .task_find = mt_elastic_task_find,
    .raw = mt_elastic_raw,
};

const mt_locks_ops mt_elastic_locks = {
    .init = mt_elastic_init,
    .verify = mt_elastic_verify,
    .session = mt_elastic_session,
    .session_batch = mt_elastic_session_batch,
    .session_read = mt_elastic_session_read,
    .session_purge = mt_elastic_session_purge,
    .batch = mt_elastic_batch,
    .list = mt_elastic_list,
    .list_close = mt_elastic_list_close,
    .lock_read = mt_elastic_lock_read,
};

static mt_req *next_soon(const mt_elastic *e, const mt_req *req) {
  return req->op == e ? NULL : req->op;
}

static mt_req *take_soon(mt_elastic *e) {
  mt_req *req = e->soon;
  if (req) e->soon = next_soon(e, req);
  return req;
}

/* A `done` called here may submit or cancel other requests, but not close the store. */
static void run_soon(void *ctx) {
  mt_elastic *e = ctx;
  mt_req *last = e->soon;
  while (last && next_soon(e, last)) last = next_soon(e, last);
  for (mt_req *req; (req = take_soon(e));) {
    bool end = req == last;
    mt_req_finish(req);
    if (end) break;
  }
}

static bool forget_soon(mt_elastic *e, mt_req *req) {
  mt_req *before = NULL;
  for (mt_req *at = e->soon; at; before = at, at = next_soon(e, at)) {
    if (at != req) continue;
    if (before)
      before->op = req->op;
    else
      e->soon = next_soon(e, req);
    req->op = NULL;
    return true;
  }
  return false;
}

static bool cancel_request(mt_store *s, mt_req *req) {
  mt_elastic *e = mt_elastic_of(s);
  bool applied = false;
  if (forget_soon(e, req))
    applied = mt_req_applied(req);
  else if (!mt_scan_forget(e, req))
    applied = mt_call_cancel(req->op);
  req->op = NULL;
  return applied;
}

static void close_elastic(mt_store *s) {
  mt_elastic *e = mt_elastic_of(s);
  for (mt_req *req; (req = take_soon(e));) req->op = NULL;
  mt_scans_free(e);
  while (e->calls) mt_call_drop(e->calls);
  mt_listings_free(e);
  mt_timer_release(s->loop, &e->timer);
  mt_http_free(e->http);
  mt_free(e);
}

static mortise_status check_table(const char *table, mortise_error *err) {
  size_t n = strlen(table);
  bool fit = n && n <= MT_TABLE_MAX && !strchr("-_+.", *table);
  for (size_t i = 0; i < n && fit; i++)
    fit = (table[i] >= 'a' && table[i] <= 'z') || (table[i] >= '0' && table[i] <= '9') ||
          strchr("-_.", table[i]);
  if (fit) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                      "table: 1 to %d of a-z 0-9 - _ . that begin with a letter or digit, not "
                      "\"%.200s\"",
                      MT_TABLE_MAX, table);
}

mt_store *mt_elastic_open(mt_loop *loop, const mt_http_config *config, const char *table,
                          const mt_log *log, mortise_error *err) {
  if (!table) table = MT_TABLE_DEFAULT;
  if (check_table(table, err)) return NULL;
  mt_elastic *e = mt_calloc(1, sizeof *e);
  if (!e) {
    mt_error_memory(err);
    return NULL;
  }
  e->store =
      (mt_store){.docs = &mt_elastic_docs,
                 .locks = &mt_elastic_locks,
                 .cancel = cancel_request,
                 .close = close_elastic,
                 .loop = loop,
                 .log = log ? *log : (mt_log){0},
                 .request_ms = config->request_ms > 0 ? config->request_ms : MT_HTTP_REQUEST_MS};
  strcpy(e->table, table);
  e->timer = (mt_timer){.fire = run_soon, .ctx = e};
  e->http = mt_http_new(loop, config, &e->store.log, err);
  if (!e->http || mt_timer_reserve(loop, &e->timer, err)) {
    mt_http_free(e->http);
    mt_free(e);
    return NULL;
  }
  e->store.url = mt_http_url(e->http);
  return &e->store;
}
