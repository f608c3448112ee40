/* Requests: which node each goes to, when it is given up, and what its owner is told. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/pump.h"
#include "http/internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

enum { CONNECTIONS = 8, CONNECTIONS_MAX = 1024, IDLE_OPS = 64, KEEP_BYTES = 1 << 20 };

/* ---- Lists of transfers --------------------------------------------------------------------- */

static void push_transfer(mt_transfer **list, mt_transfer *op) {
  op->prev = NULL;
  op->next = *list;
  if (*list) (*list)->prev = op;
  *list = op;
}

static void unlink_transfer(mt_transfer **list, mt_transfer *op) {
  if (op->prev)
    op->prev->next = op->next;
  else
    *list = op->next;
  if (op->next) op->next->prev = op->prev;
  op->prev = op->next = NULL;
}

static mt_transfer *take_op(struct mt_http *http, mortise_error *err) {
  mt_transfer *op = http->idle;
  if (!op) return mt_transfer_new(http, err);
  unlink_transfer(&http->idle, op);
  http->n_idle--;
  return op;
}

/* Ends the transfer and keeps its handle for the next request. */
static void put_op(mt_transfer *op) {
  struct mt_http *http = op->http;
  if (op->added) curl_multi_remove_handle(http->multi.handle, op->easy);
  op->added = false;
  mt_timer_stop(http->loop, &op->deadline);
  unlink_transfer(&http->active, op);
  op->req->op = NULL;
  op->req = NULL;
  if (op->gz.cap > KEEP_BYTES) mt_buf_deinit(&op->gz);
  if (http->n_idle >= IDLE_OPS) {
    mt_transfer_free(op);
    return;
  }
  push_transfer(&http->idle, op);
  http->n_idle++;
}

static void finish_transfer(mt_transfer *op) {
  mt_http_req *req = op->req;
  put_op(op);
  MT_FINISH(req);
}

/* ---- What became of an attempt -------------------------------------------------------------- */

static void deliver_soon(struct mt_http *http) {
  mt_timer_start(http->loop, &http->deliver, mt_loop_now(http->loop), NULL); /* it is reserved */
}

/* `done` is called from the loop, since the owner may still be inside mt_http_submit. */
static void fail_later(mt_transfer *op) {
  op->ready = true;
  mt_timer_stop(op->http->loop, &op->deadline);
  deliver_soon(op->http);
}

/* Requests that could not even get a transfer are linked through their `op`. */
static mt_http_req *take_failed(struct mt_http *http) {
  mt_http_req *req = http->failed;
  if (!req) return NULL;
  http->failed = req->op;
  req->op = NULL;
  return req;
}

static bool drop_failed(struct mt_http *http, mt_http_req *req) {
  mt_http_req **at = &http->failed;
  while (*at && *at != req) at = (mt_http_req **)&(*at)->op;
  if (!*at) return false;
  *at = req->op;
  req->op = NULL;
  return true;
}

static void deliver_ready(void *ctx) {
  struct mt_http *http = ctx;
  for (mt_http_req *req; (req = take_failed(http));) MT_FINISH(req);
  for (;;) {
    mt_transfer *op = http->active;
    while (op && !op->ready) op = op->next;
    if (!op) return;
    finish_transfer(op);
  }
}

static int status_of(const mt_transfer *op) {
  long status = 0;
  curl_easy_getinfo(op->easy, CURLINFO_RESPONSE_CODE, &status);
  return (int)status;
}

/* For people: what was sent, what came, and how long that took. No header, no body: they may be secret. */
static void log_attempt(const mt_transfer *op, uint64_t sent, uint64_t received) {
  curl_off_t us = 0;
  curl_easy_getinfo(op->easy, CURLINFO_TOTAL_TIME_T, &us);
  const mt_http_req *req = op->req;
  char status[16] = "no answer";
  if (status_of(op)) snprintf(status, sizeof status, "%d", status_of(op));
  mt_log_write(&op->http->log, MORTISE_LOG_DEBUG,
               "%s %.700s at %.100s: %s, %lld.%01lld ms, %llu bytes sent, %llu received, id %.80s",
               req->method, req->path, op->http->nodes.v[op->node].url, status, (long long)us / 1000,
               (long long)us / 100 % 10, (unsigned long long)sent, (unsigned long long)received,
               op->opaque_id + strlen("X-Opaque-Id: "));
}

static void count_traffic(mt_transfer *op) {
  long sent = 0, headers = 0;
  curl_off_t received = 0;
  curl_easy_getinfo(op->easy, CURLINFO_REQUEST_SIZE, &sent);
  curl_easy_getinfo(op->easy, CURLINFO_HEADER_SIZE, &headers);
  curl_easy_getinfo(op->easy, CURLINFO_SIZE_DOWNLOAD_T, &received);
  mt_http_stats *s = &op->http->stats;
  /* The request's size does not include a body that is read through the callback. */
  uint64_t all_sent = (uint64_t)sent + (op->req->may_send ? op->offset : 0);
  uint64_t all_received = (uint64_t)headers + (uint64_t)received;
  s->requests += op->begun;
  s->sent_bytes += all_sent;
  s->received_bytes += all_received;
  log_attempt(op, all_sent, all_received);
}

static void node_failed(mt_transfer *op) {
  struct mt_http *http = op->http;
  mt_node *node = &http->nodes.v[op->node];
  int64_t now = mt_loop_now(http->loop);
  if (op->req->aside || !mt_nodes_failed(&http->nodes, op->node, now)) return;
  mt_sniff_sooner(http);
  if (http->nodes.n > 1)
    mt_log_write(&http->log, MORTISE_LOG_WARNING, "%s is left out for %lld ms", node->url,
                 (long long)(node->dead_until_ms - now));
}

static void node_answered(mt_transfer *op) {
  struct mt_http *http = op->http;
  int status = op->req->status;
  if (status == 502 || status == 503 || status == 504) {
    node_failed(op);
    return;
  }
  if (mt_nodes_answered(&http->nodes, op->node) && http->nodes.n > 1)
    mt_log_write(&http->log, MORTISE_LOG_INFO, "%s answers again", http->nodes.v[op->node].url);
  /* Where the credentials are refused, another request would be refused alike. */
  if (!op->req->aside && status != 401) mt_sniff_turn(http);
}

static int curl_port(const mt_transfer *op, CURLINFO which) {
  long port = 0;
  curl_easy_getinfo(op->easy, which, &port);
  return (int)port;
}

static void note_answer(mt_transfer *op) {
  mt_http_req *req = op->req;
  req->status = status_of(op);
  req->identified = op->head & MT_HEAD_OURS;
  req->port = curl_port(op, CURLINFO_PRIMARY_PORT);
  req->local_port = curl_port(op, CURLINFO_LOCAL_PORT);
  req->answered_by = op->node;
  req->node_url = op->http->nodes.v[op->node].url;
  mt_error_clear(&req->error);
  node_answered(op);
}

static void start_transfer(mt_transfer *op);

/* May another node be asked? Only if nothing was sent or the request is idempotent. */
static bool elsewhere(mt_transfer *op) {
  mt_http_req *req = op->req;
  if (op->stop && op->stop != MT_STOP_RESEND) return false;
  if (req->node >= 0 || (op->maybe_sent && !req->idempotent)) return false;
  size_t n = op->http->nodes.n;
  bool all_tried = op->tried == (n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX);
  return !all_tried && mt_loop_now(op->http->loop) < req->deadline_ms;
}

/* Was it the node's fault rather than ours? A request that waited in our own queue behind others
 * says nothing about the node. */
static bool node_fault(const mt_transfer *op) {
  if (op->stop == MT_STOP_RESEND || !op->stop) return op->req->error.code != MORTISE_OUT_OF_MEMORY;
  if (op->stop != MT_STOP_DEADLINE) return false;
  bool queued = false;
  for (const mt_transfer *other = op->http->active; other && !op->begun; other = other->next)
    queued |= other->node == op->node && other->begun;
  return !queued;
}

static void start_at(mt_transfer *op, int node);

static void failed(mt_transfer *op, CURLcode code) {
  mt_http_req *req = op->req;
  struct mt_http *http = op->http;
  if (op->stop == MT_STOP_STALE) { /* nothing was sent, and libcurl has closed the connection */
    op->fresh = true;
    start_at(op, op->node);
    return;
  }
  mt_transfer_failure(op, code, &req->error);
  if (node_fault(op)) node_failed(op);
  op->maybe_sent |= req->error.ambiguous;
  req->error.ambiguous = op->maybe_sent;
  if (op->maybe_sent && !req->idempotent) req->error.retryable = false;
  mt_buf_clear(&req->answer);
  if (!elsewhere(op)) {
    finish_transfer(op);
    return;
  }
  http->stats.retries++;
  mt_log_write(&http->log, MORTISE_LOG_DEBUG, "%s; sent to another node", req->error.message);
  start_transfer(op);
}

static void ended(mt_transfer *op, CURLcode code) {
  curl_multi_remove_handle(op->http->multi.handle, op->easy);
  op->added = false;
  count_traffic(op);
  if (!code && !mt_transfer_whole(op, status_of(op))) code = CURLE_PARTIAL_FILE;
  if (code || op->stop) {
    failed(op, code);
    return;
  }
  if (mt_auth_renews(op, status_of(op))) { /* it was refused, so it was not carried out */
    op->renewed = true;
    mt_buf_clear(&op->req->answer);
    start_at(op, op->node);
    return;
  }
  note_answer(op);
  finish_transfer(op);
}

/* Without memory libcurl may leave a connection's state incomplete (7.88 divides by zero when it
 * reuses it) and does not say which one. So all transfers end, and the multi handle is replaced
 * with all its connections. Transfers that callbacks begin meanwhile use the new one. */
static void end_starved(struct mt_http *http) {
  for (mt_transfer *op = http->active; op; op = op->next) {
    if (!op->added) continue;
    op->stop = MT_STOP_MEMORY;
    curl_multi_remove_handle(http->multi.handle, op->easy);
  }
  mt_multi_renew(http, NULL);
  for (;;) {
    mt_transfer *op = http->active;
    while (op && !(op->added && op->stop == MT_STOP_MEMORY)) op = op->next;
    if (!op) return;
    ended(op, CURLE_OUT_OF_MEMORY);
  }
}

static void drain_messages(struct mt_http *http, bool starved) {
  int left;
  for (CURLMsg *m; (m = curl_multi_info_read(http->multi.handle, &left));) {
    if (m->msg != CURLMSG_DONE) continue;
    char *op = NULL;
    curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &op);
    ended((mt_transfer *)(void *)op, m->data.result);
  }
  if (starved) end_starved(http);
}

static void deadline_passed(void *ctx) {
  mt_transfer *op = ctx;
  if (op->waits) {
    mt_error_set(&op->req->error, MORTISE_UNAVAILABLE, "not sent: its time was over before there was a secret for it");
    op->req->error.retryable = true;
    finish_transfer(op);
    return;
  }
  op->stop = MT_STOP_DEADLINE;
  ended(op, CURLE_OPERATION_TIMEDOUT);
}

/* ---- Sending -------------------------------------------------------------------------------- */

static void start_transfer(mt_transfer *op) {
  struct mt_http *http = op->http;
  int node = op->req->node;
  start_at(op, node >= 0 ? node : mt_nodes_pick(&http->nodes, mt_loop_now(http->loop), op->tried));
}

static void start_at(mt_transfer *op, int node) {
  struct mt_http *http = op->http;
  mt_http_req *req = op->req;
  op->node = node;
  op->tried |= UINT64_C(1) << op->node;
  op->waits = false;
  mortise_status status = mt_transfer_prepare(op, &req->error);
  if (!status && op->waits) return; /* until on_secret */
  if (status || (!http->multi.handle && mt_multi_renew(http, &req->error))) {
    fail_later(op);
    return;
  }
  CURLMcode code = curl_multi_add_handle(http->multi.handle, op->easy);
  op->added = code == CURLM_OK;
  if (op->added) return;
  mt_error_set(&req->error, MORTISE_UNAVAILABLE, "libcurl: %s", curl_multi_strerror(code));
  fail_later(op);
}

static void on_secret(void *ctx) {
  struct mt_http *http = ctx;
  const mortise_error *e = mt_secret_error(http->auth.secret);
  for (mt_transfer *op = http->active; op; op = op->next) {
    if (!op->waits) continue;
    op->waits = false;
    op->req->error = *e;
    if (e->code)
      fail_later(op);
    else
      start_at(op, op->node);
  }
}

static mortise_status req_check(const struct mt_http *http, mt_http_req *req) {
  static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE"};
  bool known = false;
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    known |= req->method && !strcmp(req->method, methods[i]);
  if (!known)
    return mt_error_set(&req->error, MORTISE_INVALID_ARGUMENT,
                        "the method is none of GET, HEAD, POST, PUT and DELETE");
  if (!req->path || req->path[0] != '/')
    return mt_error_set(&req->error, MORTISE_INVALID_ARGUMENT,
                        "a request's path does not begin with '/'");
  if (req->node >= (int)http->nodes.n)
    return mt_error_set(&req->error, MORTISE_INVALID_ARGUMENT, "there is no node %d", req->node);
  if (req->body.n && !strcmp(req->method, "HEAD"))
    return mt_error_set(&req->error, MORTISE_INVALID_ARGUMENT, "a HEAD has no body");
  if (req->deadline_ms <= mt_loop_now(http->loop))
    return mt_error_set(&req->error, MORTISE_UNAVAILABLE, "not sent: its time was over before");
  return MORTISE_OK;
}

void mt_http_submit(mt_http *http, mt_http_req *req) {
  MT_MUST(!req->op);
  req->status = 0;
  req->finished = false;
  req->answered_by = -1;
  req->port = req->local_port = 0;
  req->identified = false;
  req->node_url = NULL;
  mt_error_clear(&req->error);
  mt_buf_init(&req->answer, http->answer_max);
  if (!req->deadline_ms) req->deadline_ms = mt_loop_now(http->loop) + http->request_ms;
  mt_transfer *op = take_op(http, &req->error);
  if (!op) {
    req->op = http->failed;
    http->failed = req;
    deliver_soon(http);
    return;
  }
  req->op = op;
  op->req = req;
  op->tried = 0;
  op->node = -1;
  op->ready = op->begun = op->maybe_sent = op->packed = op->waits = op->renewed = false;
  op->fresh = req->aside;
  op->signed_ms = op->date_ms = 0;
  op->deadline = (mt_timer){.fire = deadline_passed, .ctx = op};
  push_transfer(&http->active, op);
  if (req_check(http, req) ||
      mt_timer_start(http->loop, &op->deadline, req->deadline_ms, &req->error)) {
    fail_later(op);
    return;
  }
  start_transfer(op);
}

bool mt_http_cancel(mt_http *http, mt_http_req *req) {
  mt_transfer *op = req->op;
  if (drop_failed(http, req) || !op || op->req != req) return false;
  bool sent = op->maybe_sent || (op->added && mt_transfer_maybe_whole(op));
  if (op->added) count_traffic(op);
  put_op(op);
  return sent;
}

void mt_http_distrust(mt_http *http, const mt_http_req *req) {
  if (req->port) mt_multi_spoil(http, req->port, req->local_port);
}

void mt_http_req_deinit(mt_http_req *req) {
  mt_buf_deinit(&req->answer);
}

/* ---- Its life ------------------------------------------------------------------------------- */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void start_curl(void) {
  curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static char no_expect[] = "Expect:";

static mortise_status copy_of_text(char **out, const char *text, mortise_error *err) {
  *out = mt_strdup(text);
  return *out ? MORTISE_OK : mt_error_memory(err);
}

/* How to get to the nodes, where it is not straight. */
static mortise_status init_way(mt_http *http, const mt_http_config *c, mortise_error *err) {
  mortise_status status = MORTISE_OK;
  if (c->proxy) {
    status = mt_proxy_check(c->proxy, err);
    if (!status) status = copy_of_text(&http->proxy, strcmp(c->proxy, "none") ? c->proxy : "", err);
  }
  if (c->unix_socket && !status) {
    size_t n = strlen(c->unix_socket), most = sizeof((struct sockaddr_un *)0)->sun_path - 1;
    if (!n || n > most)
      return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "unix_socket: the name of a socket has 1 to %zu bytes", most);
    status = copy_of_text(&http->unix_socket, c->unix_socket, err);
    for (size_t i = 0; i < http->nodes.n; i++) http->nodes.v[i].local = true;
  }
  return status;
}

/* The trace of which this process is a part, as W3C's Trace Context has it and OpenTelemetry's tools put it into the
 * environment: "00-" 32 hex digits "-" 16 "-" 2. Anything else is not passed on. */
static bool read_trace(mt_http *http) {
  static const char form[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
  const char *value = getenv("TRACEPARENT");
  if (!value || strlen(value) != sizeof form - 1) return false;
  for (size_t i = 0; form[i]; i++)
    if (form[i] == 'x' ? !memchr("0123456789abcdef", value[i], 16) : value[i] != '-') return false;
  snprintf(http->trace, sizeof http->trace, "traceparent: %s", value);
  return true;
}

static mortise_status init(mt_http *http, const mt_http_config *c, mortise_error *err) {
  pthread_once(&curl_once, start_curl);
  if (curl_ready)
    return mt_error_set(err, MORTISE_UNSUPPORTED, "libcurl does not start: %s",
                        curl_easy_strerror(curl_ready));
  http->connect_ms = c->connect_ms > 0 ? c->connect_ms : MT_HTTP_CONNECT_MS;
  http->request_ms = c->request_ms > 0 ? c->request_ms : MT_HTTP_REQUEST_MS;
  http->answer_max = c->answer_max ? c->answer_max : MT_HTTP_ANSWER_MAX;
  http->gzip_min = c->gzip_min;
  mortise_status status = mt_nodes_parse(&http->nodes, c->nodes, err);
  if (status) mt_error_prefix(err, "store");
  if (!status) status = mt_sniff_init(http, c, err);
  if (!status) status = mt_random_bytes(&http->nodes.seed, sizeof http->nodes.seed, err);
  if (!status) status = mt_random_bytes(&http->identity, sizeof http->identity, err);
  if (!status) status = mt_auth_init(http, c, on_secret, err);
  if (!status) status = init_way(http, c, err);
  if (status) return status;
  http->common[0] = (struct curl_slist){no_expect, NULL};
  size_t n = 1;
  if (http->auth.header) http->common[n++] = (struct curl_slist){http->auth.header, NULL};
  if (read_trace(http)) http->common[n++] = (struct curl_slist){http->trace, NULL};
  while (--n) http->common[n - 1].next = &http->common[n];
  http->deliver = (mt_timer){.fire = deliver_ready, .ctx = http};
  status = mt_timer_reserve(http->loop, &http->deliver, err);
  if (status) return status;
  uint32_t connections = c->connections ? c->connections : CONNECTIONS;
  if (connections > CONNECTIONS_MAX) connections = CONNECTIONS_MAX;
  return mt_multi_init(http, connections, drain_messages, err);
}

mt_http *mt_http_new(mt_loop *loop, const mt_http_config *config, const mt_log *log,
                     mortise_error *err) {
  mt_http *http = mt_calloc(1, sizeof *http);
  if (!http) {
    mt_error_memory(err);
    return NULL;
  }
  http->loop = loop;
  if (log) http->log = *log;
  if (init(http, config, err)) {
    mt_http_free(http);
    return NULL;
  }
  for (size_t i = 0; i < http->nodes.n; i++) mt_auth_warn(http, &http->nodes.v[i]);
  return http;
}

void mt_http_free(mt_http *http) {
  if (!http) return;
  while (http->failed) take_failed(http);
  while (http->active) mt_http_cancel(http, http->active->req);
  for (mt_transfer *op = http->idle, *next; op; op = next) {
    next = op->next;
    mt_transfer_free(op);
  }
  mt_multi_deinit(http);
  mt_timer_release(http->loop, &http->deliver);
  mt_gzip_free(http->gzip);
  mt_auth_deinit(&http->auth);
  mt_free(http->proxy);
  mt_free(http->unix_socket);
  mt_sniff_deinit(http);
  mt_nodes_deinit(&http->nodes);
  mt_free(http);
}

const char *mt_http_url(const mt_http *http) {
  return http->nodes.text;
}

mt_http_stats mt_http_get_stats(const mt_http *http) {
  return http->stats;
}
