/* Calls: what all requests to a server have in common. */
#include "base/mem.h"
#include "base/must.h"
#include "elastic/internal.h"

#include <stdarg.h>
#include <stdio.h>

/* A cluster needs about a second to notice that a node is gone. */
enum { REPEAT_FIRST_MS = 50, REPEAT_DOUBLINGS = 5 };

static void take_stats(mt_elastic *e) {
  mt_http_stats h = mt_http_get_stats(e->http);
  mt_store_stats *s = &e->store.stats;
  s->requests = h.requests;
  s->retries = h.retries;
  s->sent_bytes = h.sent_bytes;
  s->received_bytes = h.received_bytes;
  s->unidentified = h.unidentified;
}

void mt_req_soon(mt_elastic *e, mt_req *req) {
  void **at = (void **)&e->soon;
  for (; *at && *at != e; at = &((mt_req *)*at)->op) MT_MUST(*at != req);
  req->op = e;
  *at = req;
  mt_timer_start(e->store.loop, &e->timer, mt_loop_now(e->store.loop), NULL);
}

mt_call *mt_call_new(mt_elastic *e, mt_req *req) {
  if (req) {
    MT_MUST(!req->op);
    req->finished = req->writes = false;
    mt_error_clear(&req->error);
  }
  mt_call *c = mt_calloc(1, sizeof *c);
  if (!c) {
    if (!req) return NULL;
    mt_error_memory(&req->error);
    mt_req_soon(e, req);
    return NULL;
  }
  c->e = e;
  c->req = req;
  mt_buf_init(&c->path, MT_PATH_BUF_MAX);
  mt_buf_init(&c->body, MT_BODY_MAX);
  c->deadline_ms =
      req && req->deadline_ms ? req->deadline_ms : mt_loop_now(e->store.loop) + e->store.request_ms;
  c->next = e->calls;
  if (c->next) c->next->prev = c;
  e->calls = c;
  if (req) req->op = c;
  return c;
}

static bool stop_http(mt_call *c) {
  mt_timer_stop(c->e->store.loop, &c->pause);
  bool sent = c->busy && mt_http_cancel(c->e->http, &c->http);
  c->busy = false;
  return sent;
}

/* Frees the call and returns its request, which the caller finishes. */
static mt_req *detach_call(mt_call *c) {
  mt_elastic *e = c->e;
  mt_req *req = c->req;
  stop_http(c);
  if (c->dropped) c->dropped(c);
  if (c->prev)
    c->prev->next = c->next;
  else
    e->calls = c->next;
  if (c->next) c->next->prev = c->prev;
  mt_http_req_deinit(&c->http);
  mt_buf_deinit(&c->path);
  mt_buf_deinit(&c->body);
  mt_free(c);
  take_stats(e);
  return req;
}

void mt_call_drop(mt_call *c) {
  if (c) detach_call(c);
}

bool mt_call_cancel(mt_call *c) {
  if (!c) return false;
  bool writes = c->req && c->req->writes, answered = !c->busy;
  bool applied = writes && (stop_http(c) || answered || c->wrote);
  detach_call(c);
  return applied;
}

void mt_call_finish(mt_call *c) {
  mt_req *req = detach_call(c);
  if (req) mt_req_finish(req);
}

void mt_call_finish_soon(mt_call *c) {
  mt_elastic *e = c->e;
  mt_req *req = detach_call(c);
  if (req) mt_req_soon(e, req);
}

void mt_call_fail(mt_call *c, const mortise_error *why) {
  if (c->req) c->req->error = *why;
  mt_call_finish_soon(c);
}

void mt_call_error(mt_call *c, mortise_status code, const char *fmt, ...) {
  char message[sizeof(mortise_error){0}.message];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  mortise_error err;
  mt_error_set(&err, code, "%s", message);
  mt_call_fail(c, &err);
}

static void resend_call(void *ctx) {
  mt_call *c = ctx;
  mt_http_req_deinit(&c->http);
  c->busy = true;
  c->sent++;
  mt_http_submit(c->e->http, &c->http);
}

bool mt_call_repeat(mt_call *c) {
  mt_loop *loop = c->e->store.loop;
  unsigned doublings = c->sent < REPEAT_DOUBLINGS ? c->sent : REPEAT_DOUBLINGS;
  int64_t at = mt_loop_now(loop) + ((int64_t)REPEAT_FIRST_MS << doublings);
  if (!c->http.idempotent || at >= c->deadline_ms) return false;
  c->pause = (mt_timer){.fire = resend_call, .ctx = c};
  return !mt_timer_start(loop, &c->pause, at, NULL);
}

/* May what went wrong pass by itself? Where nothing has ever answered, the URL is more likely wrong. */
static bool call_may_pass(const mt_call *c) {
  const mt_http_req *http = &c->http;
  int status = http->status;
  if (http->error.code)
    return http->error.code == MORTISE_UNAVAILABLE && (http->error.ambiguous || c->e->server.known);
  return status == 429 || (status >= 502 && status <= 504);
}

static void on_http_done(void *ctx, mt_http_req *http) {
  mt_call *c = ctx;
  (void)http;
  c->busy = false;
  take_stats(c->e);
  if (!call_may_pass(c) || !mt_call_repeat(c)) c->answered(c);
}

static bool may_send_call(void *ctx) {
  mt_call *c = ctx;
  return c->req->may_send(c->req->may_send_ctx);
}

/* A POST marked idempotent by its call is a read. */
static bool reads(const mt_call *c, const char *method) {
  bool post = !strcmp(method, "POST");
  return !strcmp(method, "GET") || !strcmp(method, "HEAD") || (post && c->http.idempotent);
}

mortise_status mt_call_status(const mt_call *c, mortise_error *err) {
  mortise_status bad = mt_buf_status(&c->path, "a request's path", err);
  return bad ? bad : mt_buf_status(&c->body, "a request's body", err);
}

void mt_call_send(mt_call *c, const char *method, void (*answered)(mt_call *c)) {
  mortise_error err;
  if (mt_call_status(c, &err)) {
    mt_call_fail(c, &err);
    return;
  }
  mt_http_req_deinit(&c->http);
  if (c->req) {
    c->wrote = c->req->writes;
    c->req->writes |= !reads(c, method);
  }
  bool idempotent = c->http.idempotent || (c->req && c->req->idempotent);
  const char *type = c->http.content_type, *id = c->http.opaque_id;
  c->http = (mt_http_req){.done = on_http_done,
                          .ctx = c,
                          .method = method,
                          .path = c->path.p,
                          .body = c->body.n ? mt_buf_slice(&c->body) : (mt_slice){NULL, 0},
                          .content_type = type,
                          .opaque_id = id,
                          .deadline_ms = c->deadline_ms,
                          .node = -1,
                          .idempotent = idempotent,
                          .may_send = c->req && c->req->may_send ? may_send_call : NULL};
  c->answered = answered;
  c->busy = true;
  c->sent = 0;
  mt_http_submit(c->e->http, &c->http);
}

void mt_call_again(mt_call *c) {
  c->http.idempotent = false;
  mt_buf_clear(&c->path);
  mt_buf_clear(&c->body);
}

mortise_status mt_call_check(mt_call *c, const char *what, const char *index) {
  char text[320];
  mortise_error err;
  snprintf(text, sizeof text, "%s%s%.200s", what, index ? " " : "", index ? index : "");
  mortise_status status = mt_http_status(&c->http, text, &err);
  if (status && c->http.error.code) mt_error_prefix(&err, "%s", text);
  if (c->req) c->req->error = err;
  return status;
}

bool mt_call_ok(mt_call *c, const char *what, const char *index) {
  if (!mt_call_check(c, what, index)) return true;
  mt_call_finish(c);
  return false;
}

void mt_call_distrust(mt_call *c) {
  mt_http_distrust(c->e->http, &c->http);
}

bool mt_call_json(mt_call *c, const char *what, mt_json *root) {
  mortise_error err;
  if (!mt_json_parse(mt_buf_slice(&c->http.answer), what, root, &err)) return true;
  mt_call_distrust(c);
  mt_call_error(c, MORTISE_UNAVAILABLE, "%s: what answered is not understood: %.300s", what,
                err.message);
  return false;
}

int64_t mt_call_left_ms(const mt_call *c) {
  int64_t left = c->deadline_ms - mt_loop_now(c->e->store.loop);
  return left < 1 ? 1 : left;
}

void mt_call_add_timeout(mt_call *c, char separator) {
  mt_buf_addf(&c->path, "%ctimeout=%lldms", separator, (long long)mt_call_left_ms(c));
}

void mt_path_add(mt_buf *path, mt_slice segment) {
  static const char hex[] = "0123456789ABCDEF";
  for (size_t i = 0; i < segment.n; i++) {
    unsigned char b = (unsigned char)segment.p[i];
    bool plain = (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') ||
                 (b && strchr("-_.~,*", b));
    if (plain) {
      mt_buf_addc(path, (char)b);
    } else {
      char escape[] = {'%', hex[b >> 4], hex[b & 15]};
      mt_buf_add(path, escape, sizeof escape);
    }
  }
}

/* Refuses names that would be read as another part of the API or leave the path. */
static bool name_is_fit(const char *index, bool one) {
  if (!index || !*index || !strcmp(index, ".") || !strcmp(index, "..")) return false;
  if (*index == '_' && strcmp(index, "_all") != 0) return false;
  if (one && (strpbrk(index, "*?,") || !strcmp(index, "_all") || *index == '-')) return false;
  return true;
}

bool mt_call_index(mt_call *c, const char *index, bool one) {
  if (!name_is_fit(index, one)) {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT, "\"%.200s\" is no name of %s", index ? index : "",
                  one ? "one index" : "an index");
    return false;
  }
  mt_buf_addc(&c->path, '/');
  mt_path_add(&c->path, mt_slice_of(index));
  return true;
}
