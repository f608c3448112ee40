/* One transfer: a libcurl handle set up for a request, and libcurl's callbacks.
 *
 * Sending twice. If a reused connection breaks before the first byte of an answer, libcurl silently
 * sends the request again over a new one (Curl_retry_request; up to five times, and no option
 * forbids it). The server may have carried out the first copy. Every sending, that one included,
 * calls CURLOPT_PREREQFUNCTION first, where we stop the second one unless the request is idempotent
 * or no byte of it was sent. What remains is what no client can know: a request whose connection
 * broke may have been applied. CURLOPT_MAXAGE_CONN keeps such breaks rare, as proxies drop idle
 * connections after a minute.
 *
 * Matching answers to requests. HTTP/1.1 matches them only by order, so a surplus answer (from a
 * broken proxy, or a 408 that ends an idle connection) would be taken for the next request's. So a
 * connection with unread bytes is not used for a request, and each request has its own X-Opaque-Id,
 * which servers send back: an answer with another id is rejected, and so is one without an id from
 * a node whose answers had one. A proxy's own refusal (413, 502, ...) has no id and is accepted,
 * except a 408, which concerns an idle connection, not this request. */
#include "access/sign.h"
#include "base/mem.h"
#include "base/number.h"
#include "http/internal.h"

#include <inttypes.h>
#include <stdio.h>

enum {
  URL_MAX = 1 << 20,
  BUFFER = 256 * 1024,
  /* The last bytes of a body are held until may_send agrees: few enough for a socket that has just
   * become writable to take them at once. */
  TAIL = 16 * 1024,
  SECRETS_MAX = 64 * 1024,
  IDLE_S = 45,
  PROBE_AFTER_S = 30,
  PROBE_EVERY_S = 10,
};

static const char id_name[] = "X-Opaque-Id:", encoding_name[] = "Content-Encoding:", date_name[] = "Date:";

#define SET(option, value) (curl_easy_setopt(op->easy, CURLOPT_##option, value) == CURLE_OK)

static bool nothing_left(const mt_transfer *op) {
  long sent = 0;
  curl_off_t uploaded = 0;
  curl_easy_getinfo(op->easy, CURLINFO_REQUEST_SIZE, &sent);
  curl_easy_getinfo(op->easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
  /* Over TLS a failed write may have sent records that are not counted. */
  return !sent && !uploaded && !op->http->nodes.v[op->node].tls;
}

bool mt_transfer_unsent(const mt_transfer *op) {
  /* Without any byte of its body no server can have taken it for complete. */
  bool headers_only = op->stop == MT_STOP_NOT_HELD && op->body.n && !op->offset;
  return !op->begun || headers_only || nothing_left(op);
}

/* The end of a body that is read in pieces may not have been handed over yet. */
bool mt_transfer_maybe_whole(const mt_transfer *op) {
  bool part = op->req->may_send && op->body.n && op->offset < op->body.n;
  return !part && !mt_transfer_unsent(op);
}

static bool held(const mt_transfer *op) {
  return !op->req->may_send || op->req->may_send(op->req->ctx);
}

/* A new connection is not checked: over TLS the server's session tickets are waiting there. */
static bool is_stale_connection(const mt_transfer *op, int port, int local_port) {
  long made = 0;
  curl_easy_getinfo(op->easy, CURLINFO_NUM_CONNECTS, &made);
  return !made && !mt_multi_quiet(op->http, port, local_port);
}

/* libcurl is about to send the request over a connection that is ready. */
static int on_send(void *ctx, char *ip, char *local_ip, int port, int local_port) {
  (void)ip, (void)local_ip;
  mt_transfer *op = ctx;
  bool again = op->begun && !nothing_left(op);
  op->maybe_sent |= again;
  if (again && !op->req->idempotent)
    op->stop = MT_STOP_RESEND;
  else if (!held(op))
    op->stop = MT_STOP_NOT_HELD;
  else if (is_stale_connection(op, port, local_port))
    op->stop = MT_STOP_STALE;
  if (op->stop) return CURL_PREREQFUNC_ABORT;
  op->begun = true;
  return CURL_PREREQFUNC_OK;
}

/* Used only for a body that may be held back; others are passed by address. */
static size_t on_body_wanted(char *to, size_t size, size_t count, void *ctx) {
  mt_transfer *op = ctx;
  size_t left = op->body.n - op->offset, room = size * count;
  size_t n = left > TAIL ? left - TAIL : left;
  if (n > room) n = room;
  if (!n) return 0;
  if (n == left && !held(op)) {
    op->stop = MT_STOP_NOT_HELD;
    return CURL_READFUNC_ABORT;
  }
  memcpy(to, op->body.p + op->offset, n);
  op->offset += n;
  return n;
}

static int on_seek(void *ctx, curl_off_t offset, int origin) {
  mt_transfer *op = ctx;
  if (origin != SEEK_SET || offset < 0 || (size_t)offset > op->body.n) return CURL_SEEKFUNC_FAIL;
  op->offset = (size_t)offset;
  return CURL_SEEKFUNC_OK;
}

static bool header_is(const char *line, size_t n, const char *name) {
  size_t length = strlen(name);
  return n >= length && mt_slice_like((mt_slice){line, length}, (mt_slice){name, length});
}

/* Is this header value the id of our request? */
static bool is_own_id(const mt_transfer *op, const char *value, size_t n) {
  const char *own = op->opaque_id + sizeof id_name - 1;
  while (n && (*value == ' ' || *value == '\t')) value++, n--;
  while (n && (unsigned char)value[n - 1] <= ' ') n--;
  while (*own == ' ') own++;
  return n == strlen(own) && !memcmp(value, own, n);
}

/* Does the answer belong to our request? Called at the end of the head, when the status is
 * known. */
static bool belongs(mt_transfer *op) {
  mt_node *node = &op->http->nodes.v[op->node];
  long status = 0;
  curl_easy_getinfo(op->easy, CURLINFO_RESPONSE_CODE, &status);
  if (op->head & MT_HEAD_OTHERS) return false;
  if (op->head & MT_HEAD_OURS) return node->identifies = true;
  if (status < 200) return true; /* an interim answer */
  op->http->stats.unidentified++;
  return !node->identifies || (status >= 400 && status != 408);
}

/* `value` is from Content-Encoding. */
static void read_encoding(mt_transfer *op, mt_slice value) {
  while (value.n && (*value.p == ' ' || *value.p == '\t')) value.p++, value.n--;
  while (value.n && (unsigned char)value.p[value.n - 1] <= ' ') value.n--;
  if (!value.n || mt_slice_like(value, MT_SLICE("identity"))) return;
  op->head |= MT_HEAD_PACKED;
  if (!mt_slice_like(value, MT_SLICE("gzip")) && !mt_slice_like(value, MT_SLICE("x-gzip")))
    op->stop = MT_STOP_ENCODING;
  else if (!mt_gunzip_begin(&op->gunzip))
    op->stop = MT_STOP_MEMORY;
}

/* A signature has a time in it, which the server compares with its own. */
static void read_date(mt_transfer *op, mt_slice value) {
  char text[64];
  if (value.n >= sizeof text) return;
  snprintf(text, sizeof text, "%.*s", (int)value.n, value.p);
  time_t at = curl_getdate(text, NULL);
  if (at > 0) op->date_ms = (int64_t)at * 1000;
}

/* Checks that the answer's head is complete, says how long the body is and how it is compressed,
 * and belongs to this request, since libcurl accepts an answer that was cut inside its head or has
 * no stated end. Returning anything but n ends the transfer and its connection. */
static size_t on_header(char *line, size_t size, size_t count, void *ctx) {
  mt_transfer *op = ctx;
  size_t n = size * count;
  op->head_size += n;
  if (op->head_size > MT_HEAD_MAX)
    op->stop = MT_STOP_HEAD;
  else if (header_is(line, n, "HTTP/"))
    op->head = MT_HEAD_BEGUN;
  else if (header_is(line, n, "Content-Length:") || header_is(line, n, "Transfer-Encoding:"))
    op->head |= MT_HEAD_FRAMED;
  else if (header_is(line, n, encoding_name))
    read_encoding(op, (mt_slice){line + sizeof encoding_name - 1, n - (sizeof encoding_name - 1)});
  else if (op->signed_ms && header_is(line, n, date_name))
    read_date(op, (mt_slice){line + sizeof date_name - 1, n - (sizeof date_name - 1)});
  else if (header_is(line, n, id_name))
    op->head |= is_own_id(op, line + sizeof id_name - 1, n - (sizeof id_name - 1)) ? MT_HEAD_OURS
                                                                                   : MT_HEAD_OTHERS;
  else if (n <= 2 && !(op->head & MT_HEAD_ENDED)) {
    op->head |= MT_HEAD_ENDED;
    if (!belongs(op)) op->stop = MT_STOP_FOREIGN;
  }
  return op->stop ? 0 : n;
}

bool mt_transfer_unpacked(const mt_transfer *op) {
  return !(op->head & MT_HEAD_PACKED) || mt_gunzip_whole(op->gunzip);
}

bool mt_transfer_whole(const mt_transfer *op, int status) {
  bool bodiless = status == 204 || status == 304 || !strcmp(op->req->method, "HEAD");
  return (op->head & MT_HEAD_ENDED) &&
         (bodiless || ((op->head & MT_HEAD_FRAMED) && mt_transfer_unpacked(op)));
}

/* At the first bytes, reserves room for the whole answer if its length is known. */
static bool reserve(mt_transfer *op) {
  curl_off_t length = -1;
  curl_easy_getinfo(op->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  if (length <= 0) return true;
  return (uint64_t)length <= op->req->answer.max && mt_buf_room(&op->req->answer, (size_t)length);
}

static size_t on_packed(mt_transfer *op, mt_slice packed) {
  static const mt_stop stops[] = {[MT_UNPACKED_BROKEN] = MT_STOP_ENCODING,
                                  [MT_UNPACKED_TOO_LARGE] = MT_STOP_TOO_LARGE,
                                  [MT_UNPACKED_MEMORY] = MT_STOP_MEMORY};
  mt_unpacked result = mt_gunzip_add(op->gunzip, packed, &op->req->answer);
  if (result == MT_UNPACKED) return packed.n;
  op->stop = stops[result];
  return packed.n ? 0 : 1;
}

static size_t on_answer_bytes(char *p, size_t size, size_t count, void *ctx) {
  mt_transfer *op = ctx;
  mt_buf *answer = &op->req->answer;
  size_t n = size * count;
  if (op->head & MT_HEAD_PACKED) return on_packed(op, (mt_slice){p, n});
  bool fits = answer->n || reserve(op);
  if (fits) mt_buf_add(answer, p, n);
  if (fits && !answer->failed) return n;
  op->stop = answer->failed == MORTISE_OUT_OF_MEMORY ? MT_STOP_MEMORY : MT_STOP_TOO_LARGE;
  return n ? 0 : 1; /* anything but n ends the transfer */
}

/* Options that stay the same for every request of this handle. QUICK_EXIT: giving up a request must
 * not wait for the resolver. */
static bool set_always(mt_transfer *op) {
  struct mt_http *http = op->http;
  return SET(PRIVATE, op) && SET(ERRORBUFFER, op->reason) && SET(NOSIGNAL, 1L) &&
         SET(NOPROGRESS, 1L) && SET(QUICK_EXIT, 1L) && SET(PROTOCOLS_STR, "http,https") &&
         SET(SUPPRESS_CONNECT_HEADERS, 1L) && SET(FOLLOWLOCATION, 0L) && SET(NETRC, (long)CURL_NETRC_IGNORED) &&
         SET(PATH_AS_IS, 1L) && SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
         SET(HTTP09_ALLOWED, 0L) && SET(TCP_NODELAY, 1L) && SET(TCP_KEEPALIVE, 1L) &&
         SET(USERAGENT, "mortise") && SET(TCP_KEEPIDLE, (long)PROBE_AFTER_S) &&
         SET(TCP_KEEPINTVL, (long)PROBE_EVERY_S) && SET(MAXAGE_CONN, (long)IDLE_S) &&
         SET(CONNECTTIMEOUT_MS, (long)http->connect_ms) && SET(BUFFERSIZE, (long)BUFFER) &&
         SET(UPLOAD_BUFFERSIZE, (long)BUFFER) && SET(PREREQFUNCTION, on_send) &&
         SET(PREREQDATA, op) && SET(READFUNCTION, on_body_wanted) && SET(READDATA, op) &&
         SET(SEEKFUNCTION, on_seek) && SET(SEEKDATA, op) && SET(HEADERFUNCTION, on_header) &&
         SET(HEADERDATA, op) && SET(WRITEFUNCTION, on_answer_bytes) && SET(WRITEDATA, op) &&
         SET(OPENSOCKETFUNCTION, mt_multi_opensocket) && SET(OPENSOCKETDATA, http) &&
         SET(CLOSESOCKETFUNCTION, mt_multi_closesocket) && SET(CLOSESOCKETDATA, http) &&
         SET(HTTP_CONTENT_DECODING, 0L) && mt_auth_set_tls(&http->auth, op->easy);
}

mt_transfer *mt_transfer_new(struct mt_http *http, mortise_error *err) {
  mt_transfer *op = mt_calloc(1, sizeof *op);
  if (!op) {
    mt_error_memory(err);
    return NULL;
  }
  op->http = http;
  mt_buf_init(&op->url, URL_MAX);
  mt_buf_init(&op->gz, SIZE_MAX / 4);
  mt_buf_init(&op->target, URL_MAX);
  mt_buf_init(&op->secret_headers, SECRETS_MAX);
  op->easy = curl_easy_init();
  if (op->easy && set_always(op)) return op;
  mt_error_set(err, MORTISE_OUT_OF_MEMORY, "libcurl refuses a handle");
  mt_transfer_free(op);
  return NULL;
}

void mt_transfer_free(mt_transfer *op) {
  if (!op) return;
  if (op->easy) curl_easy_cleanup(op->easy);
  mt_buf_deinit(&op->url);
  mt_buf_deinit(&op->gz);
  mt_buf_deinit(&op->target);
  mt_buf_wipe(&op->secret_headers);
  mt_gunzip_free(op->gunzip);
  mt_free(op);
}

/* Formats a header; refuses a value that could end its line or start another. */
static mortise_status header(char *out, size_t size, const char *name, const char *value,
                             mortise_error *err) {
  for (const char *c = value; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127)
      return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s holds a control character", name);
  int n = snprintf(out, size, "%s: %s", name, value);
  if (n < 0 || (size_t)n >= size)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s is longer than %zu bytes", name,
                        size - strlen(name) - 3);
  return MORTISE_OK;
}

/* Each sending gets a new id, so that a second one does not take the first one's answer. */
static mortise_status set_id(mt_transfer *op, mortise_error *err) {
  char value[sizeof op->opaque_id];
  const char *given = op->req->opaque_id;
  int n = snprintf(value, sizeof value, "%s%s%016" PRIx64 "-%" PRIx64, given ? given : "",
                   given ? "/" : "", op->http->identity, ++op->http->last_id);
  if (n < 0 || (size_t)n >= sizeof value)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "X-Opaque-Id is longer than %zu bytes",
                        sizeof value - 64);
  return header(op->opaque_id, sizeof op->opaque_id, "X-Opaque-Id", value, err);
}

static char json_type[] = "Content-Type: application/json";
static char gzip_encoding[] = "Content-Encoding: gzip";

/* Links the request's own headers in front of the common ones; allocates nothing. */
static mortise_status set_headers(mt_transfer *op, bool packed, mortise_error *err) {
  mt_http_req *req = op->req;
  struct curl_slist *list = op->http->common;
  size_t n = 0;
#define PUSH(text) (op->headers[n] = (struct curl_slist){text, list}, list = &op->headers[n++])
  mortise_status status = MORTISE_OK;
  if (packed) PUSH(gzip_encoding);
  status = set_id(op, err);
  PUSH(op->opaque_id);
  if (req->content_type && !status) {
    status =
        header(op->content_type, sizeof op->content_type, "Content-Type", req->content_type, err);
    PUSH(op->content_type);
  } else if (op->body.n) {
    PUSH(json_type);
  }
  char *text = op->secret_headers.p;
  for (size_t i = 0; i < op->n_secret_headers; i++, text += strlen(text) + 1) PUSH(text);
#undef PUSH
  if (!status && !SET(HTTPHEADER, list)) status = mt_error_memory(err);
  return status;
}
static bool method_is(const char *a, const char *b) {
  return strcmp(a, b) == 0;
}

/* libcurl's POST mode under any method name serves every request that has a body or must declare an
 * empty one (PUT, POST). */
static bool set_method(mt_transfer *op) {
  const char *method = op->req->method;
  if (method_is(method, "HEAD")) return SET(CUSTOMREQUEST, NULL) && SET(NOBODY, 1L);
  bool post = method_is(method, "POST");
  if (!op->body.n && !post && !method_is(method, "PUT"))
    return SET(HTTPGET, 1L) && SET(CUSTOMREQUEST, method_is(method, "GET") ? NULL : method);
  return SET(NOBODY, 0L) && SET(POST, 1L) && SET(CUSTOMREQUEST, post ? NULL : method) &&
         SET(POSTFIELDSIZE_LARGE, (curl_off_t)op->body.n) &&
         SET(POSTFIELDS, op->req->may_send && op->body.n ? NULL
                         : op->body.n                    ? op->body.p
                                                         : "") &&
         SET(POST, 1L);
}

static bool signs(const mt_transfer *op) {
  const mt_auth *auth = &op->http->auth;
  return auth->secret && !auth->scheme;
}

static mortise_status set_url(mt_transfer *op, const mt_node *node, mortise_error *err) {
  const char *path = op->req->path;
  for (const char *c = path; *c; c++)
    if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 127 || *c == '#')
      return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                          "a request's path holds a byte that must be escaped, at offset %zu",
                          (size_t)(c - path));
  mt_buf_clear(&op->url);
  if (signs(op)) {
    size_t origin = (size_t)(mt_node_authority(node).p + mt_node_authority(node).n - node->url);
    mt_buf_clear(&op->target);
    mt_sign_target(mt_slice_of(node->url + origin), &op->target);
    mt_sign_target(mt_slice_of(path), &op->target);
    mt_buf_add(&op->url, node->url, origin);
    mt_buf_addslice(&op->url, mt_buf_slice(&op->target));
    mt_buf_fail(&op->url, op->target.failed);
  } else {
    mt_buf_adds(&op->url, node->url);
    mt_buf_adds(&op->url, path);
  }
  mortise_status status = mt_buf_status(&op->url, "a request's URL", err);
  if (!status && !SET(URL, op->url.p)) status = mt_error_memory(err);
  return status;
}

/* Compresses the body once; a resend to another node reuses it. */
static bool pack(mt_transfer *op, const mt_node *node) {
  struct mt_http *http = op->http;
  if (node->local || !http->gzip_min || op->req->body.n < http->gzip_min) return false;
  if (!op->packed) mt_gzip_body(&http->gzip, op->req->body, &op->gz);
  op->packed = true;
  return op->gz.n > 0;
}

/* Without a proxy of its own libcurl looks into the environment, where a name on the loopback need not be
 * excepted. */
static bool set_way(mt_transfer *op, const mt_node *node) {
  const struct mt_http *http = op->http;
  const char *proxy = http->proxy || !node->local ? http->proxy : "";
  return SET(PROXY, http->unix_socket ? "" : proxy) && SET(UNIX_SOCKET_PATH, http->unix_socket);
}

mortise_status mt_transfer_prepare(mt_transfer *op, mortise_error *err) {
  const mt_node *node = &op->http->nodes.v[op->node];
  bool packed = pack(op, node);
  op->body = packed ? mt_buf_slice(&op->gz) : op->req->body;
  op->offset = 0;
  op->begun = false;
  op->head = 0;
  op->head_size = 0;
  op->stop = MT_STOP_NONE;
  op->reason[0] = '\0';
  mortise_status status = set_url(op, node, err);
  if (!status) status = mt_auth_sign(op, &op->waits, err);
  if (status || op->waits) return status;
  if (!status) status = set_headers(op, packed, err);
  if (!status && !set_way(op, node)) status = mt_error_memory(err);
  if (!status && !SET(FRESH_CONNECT, (long)op->fresh)) status = mt_error_memory(err);
  if (!status && !set_method(op)) status = mt_error_memory(err);
  if (!status && op->accepts_gzip == node->local) {
    if (!SET(ACCEPT_ENCODING, node->local ? NULL : "gzip")) return mt_error_memory(err);
    op->accepts_gzip = !node->local;
  }
  return status;
}
