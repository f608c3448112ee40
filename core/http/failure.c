/* Describes an attempt without an answer: one line, a code, and whether the node may have received
 * it. libcurl's own text is used only for TLS, where nothing else has the reason; it names
 * certificates and hosts, never a header. */
#include "base/mem.h"
#include "base/number.h"
#include "http/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A peer that refuses our certificate sends an alert, which with TLS 1.3 arrives only when we read:
 * the request was sent, but a server that ended the handshake has not read it. */
static bool certificate_alert(const char *reason) {
  static const char *const alerts[] = {
      "certificate required",   "bad certificate",     "unknown ca",
      "certificate unknown",    "certificate expired", "certificate revoked",
      "unsupported certificate"};
  if (!strstr(reason, "alert")) return false;
  for (size_t i = 0; i < sizeof alerts / sizeof *alerts; i++)
    if (strstr(reason, alerts[i])) return true;
  return false;
}

static const char *tls_reason(const mt_transfer *op, CURLcode code) {
  return op->reason[0] ? op->reason : curl_easy_strerror(code);
}

/* Is the certificate in order, but signed by nobody who is trusted? The texts are OpenSSL's. */
static bool is_untrusted(const char *reason) {
  static const char *const texts[] = {"self-signed certificate", "self signed certificate",
                                      "issuer certificate", "verify the first certificate"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (strstr(reason, texts[i])) return true;
  return false;
}

/* Is it no TLS that answered a greeting in TLS? The text is OpenSSL's. */
static bool is_plain(const char *reason) {
  return strstr(reason, "wrong version number") != NULL;
}

static mortise_status no_tls(const mt_transfer *op, const mt_node *node, CURLcode code,
                             mortise_error *err) {
  const char *reason = tls_reason(op, code);
  return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: no TLS: %s%s", node->url, reason,
                      is_plain(reason) ? "; if this port speaks plain HTTP, its URL begins with http://"
                                       : "");
}

static mortise_status distrusted(const mt_transfer *op, const mt_node *node, CURLcode code,
                                 mortise_error *err) {
  const char *reason = tls_reason(op, code);
  mt_error_set(err, MORTISE_AUTH, "%s: %s%s", node->url, reason,
               is_untrusted(reason) ? "; `ca_file` (--ca FILE) names the certificates to trust" : "");
  snprintf(err->type, sizeof err->type, "certificate");
  return err->code;
}

/* The system's text in lower case, like "connection refused". */
static void os_reason(const mt_transfer *op, char *out, size_t size) {
  long number = 0;
  curl_easy_getinfo(op->easy, CURLINFO_OS_ERRNO, &number);
  snprintf(out, size, "%s", number ? strerror((int)number) : "no connection");
  out[0] = mt_lower(out[0]);
}

/* What is connected to instead of the node, for messages; "" if it is the node. libcurl does not say whether it has
 * taken the environment's proxy, whose name may hold a password. */
static void way_of(const mt_transfer *op, const mt_node *node, char *out, size_t size) {
  static const char *const names[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
  const struct mt_http *http = op->http;
  out[0] = '\0';
  if (http->unix_socket)
    snprintf(out, size, "the socket %s: ", http->unix_socket);
  else if (http->proxy && http->proxy[0])
    snprintf(out, size, "the proxy %s: ", http->proxy);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *value = getenv(names[i]);
    if (value && *value && !out[0] && !http->proxy && !node->local)
      snprintf(out, size, "it, or the environment's proxy (%s): ", names[i]);
  }
}

static mortise_status unreachable(const mt_transfer *op, const mt_node *node, CURLcode code,
                                  mortise_error *err) {
  char reason[128], way[256];
  way_of(op, node, way, sizeof way);
  if (code == CURLE_COULDNT_RESOLVE_PROXY)
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: %sits name cannot be resolved", node->url, way);
  if (code == CURLE_COULDNT_RESOLVE_HOST)
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: the name %s cannot be resolved", node->url,
                        node->host);
  if (code == CURLE_OPERATION_TIMEDOUT)
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: %sno connection within %lld ms", node->url, way,
                        (long long)op->http->connect_ms);
  os_reason(op, reason, sizeof reason);
  return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: %s%s", node->url, way, reason);
}

/* Nothing came from a port that may speak TLS, since it never answered with our X-Opaque-Id. */
static bool may_want_tls(const mt_transfer *op, const mt_node *node, CURLcode code) {
  bool silent = code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR ||
                code == CURLE_WEIRD_SERVER_REPLY || code == CURLE_UNSUPPORTED_PROTOCOL;
  return silent && !node->tls && !node->identifies && !(op->head & MT_HEAD_BEGUN);
}

static mortise_status broken(const mt_transfer *op, const mt_node *node, CURLcode code,
                             mortise_error *err) {
  const char *what;
  switch (code) {
  case CURLE_GOT_NOTHING:
    what = "the connection was closed before an answer";
    break;
  case CURLE_PARTIAL_FILE:
    what = mt_transfer_unpacked(op) ? "the answer was cut off"
                              : "the answer's compressed body ends too early";
    break;
  case CURLE_SEND_ERROR:
    what = "the connection broke while sending";
    break;
  case CURLE_RECV_ERROR:
    what = op->head & MT_HEAD_BEGUN ? "the answer was cut off"
                                    : "the connection broke before an answer";
    break;
  case CURLE_WEIRD_SERVER_REPLY:
  case CURLE_UNSUPPORTED_PROTOCOL:
    what = "what answered does not speak HTTP";
    break;
  default:
    what = curl_easy_strerror(code);
    break;
  }
  return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: %s%s", node->url, what,
                      may_want_tls(op, node, code)
                          ? "; if this port speaks TLS, its URL begins with https://"
                          : "");
}

static mortise_status stopped(const mt_transfer *op, const mt_node *node, mortise_error *err) {
  switch (op->stop) {
  case MT_STOP_NOT_HELD:
    return mt_error_set(err, MORTISE_LOCK_LOST,
                        "%s: held back, since the lock is no longer held for sure", node->url);
  case MT_STOP_TOO_LARGE:
    return mt_error_set(err, MORTISE_REJECTED, "%s: the answer is larger than %zu bytes", node->url,
                        op->req->answer.max);
  case MT_STOP_HEAD:
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: the answer's head is larger than %d bytes",
                        node->url, MT_HEAD_MAX);
  case MT_STOP_ENCODING:
    return mt_error_set(err, MORTISE_UNAVAILABLE,
                        "%s: the answer's compression is broken or unknown", node->url);
  case MT_STOP_MEMORY:
    return mt_error_memory(err);
  case MT_STOP_FOREIGN:
    return mt_error_set(
        err, MORTISE_UNAVAILABLE,
        "%s: what came is not the answer to this request: its X-Opaque-Id is %s", node->url,
        op->head & MT_HEAD_OTHERS ? "another's" : "missing, which this node's answers had");
  case MT_STOP_DEADLINE:
    return op->begun
               ? mt_error_set(err, MORTISE_UNAVAILABLE, "%s: no complete answer in time", node->url)
               : mt_error_set(err, MORTISE_UNAVAILABLE, "%s: no connection in time", node->url);
  default:
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: the connection broke before an answer",
                        node->url);
  }
}

/* libcurl reports an overlong header line as lack of memory. */
static bool is_long_line(const mt_transfer *op, CURLcode code) {
  bool in_head = (op->head & MT_HEAD_BEGUN) && !(op->head & MT_HEAD_ENDED);
  if (code != CURLE_OUT_OF_MEMORY || !in_head) return false;
  void *room = mt_alloc(MT_HEAD_MAX);
  mt_free(room);
  return room != NULL;
}

static bool is_certificate(CURLcode code) {
  switch (code) {
  case CURLE_PEER_FAILED_VERIFICATION:
  case CURLE_SSL_CERTPROBLEM:
  case CURLE_SSL_CACERT_BADFILE:
  case CURLE_SSL_ISSUER_ERROR:
    return true;
  default:
    return false;
  }
}

void mt_transfer_failure(const mt_transfer *op, CURLcode code, mortise_error *err) {
  const mt_node *node = &op->http->nodes.v[op->node];
  bool alert = node->tls && certificate_alert(op->reason);
  bool unsent = mt_transfer_unsent(op) || alert;
  if (op->stop)
    stopped(op, node, err);
  else if (is_long_line(op, code))
    mt_error_set(err, MORTISE_UNAVAILABLE, "%s: a line of the answer's head is longer than 100 KB",
                 node->url);
  else if (code == CURLE_OUT_OF_MEMORY)
    mt_error_memory(err);
  else if (is_certificate(code) || alert)
    distrusted(op, node, code, err);
  else if (code == CURLE_SSL_CONNECT_ERROR)
    no_tls(op, node, code, err);
  else if (!op->begun)
    unreachable(op, node, code, err);
  else
    broken(op, node, code, err);
  err->ambiguous = !unsent;
}
