/* HTTP to a cluster: libcurl's multi interface on a loop. One mt_http serves one loop.
 *
 * Nodes are used in turn; one that fails is left out for a while (1 s, doubling to 60 s). A request
 * is sent once, to one node; it is sent to another node only if it provably was not sent
 * (connection refused, name unresolved, TLS handshake failed) or the caller marked it idempotent.
 * 429/502/503/504 are answers and not retried here.
 *
 * With `sniff` the cluster is asked for its nodes: once the first has answered, every five minutes
 * while there are requests, and when one has failed, but at most every ten seconds. No request waits
 * for that. */
#ifndef MT_HTTP_HTTP_H
#define MT_HTTP_HTTP_H

#include "base/buf.h"
#include "base/log.h"
#include "base/loop.h"

enum { MT_HTTP_CONNECT_MS = 5000, MT_HTTP_REQUEST_MS = 30000, MT_HTTP_ANSWER_MAX = 64 << 20 };

typedef struct mt_http mt_http;

typedef struct mt_http_config {
  /* "https://a:9200,b:9200/prefix": nodes without a scheme use the first one's; a path on the last
   * node alone applies to all. The default port is 443 for https and 9200 for http. Or "cloud:ID", an
   * Elastic Cloud's. */
  const char *nodes;
  const char *user, *password, *api_key, *bearer;
  const char *api_key_command, *bearer_command; /* print one; carried out again when the server refuses it (401) */
  bool aws;                                     /* sign each request, as Amazon's OpenSearch Service wants it */
  const char *aws_region;                       /* NULL: the first node's name says it, or the environment */
  const char *ca_file, *cert_file, *key_file;
  bool insecure;
  const char *proxy;       /* "http(s)://HOST:PORT", for every node; "none"; NULL: what the environment says
                              (https_proxy, http_proxy, no_proxy), but none for a node on the loopback */
  const char *unix_socket; /* connect there, to every node; NULL: no */
  bool sniff;              /* ask the cluster for its nodes; not with unix_socket, aws and "cloud:": there they
                              are behind one address */
  int64_t connect_ms, request_ms; /* 0: MT_HTTP_... */
  size_t answer_max;              /* 0: MT_HTTP_ANSWER_MAX; a larger answer is REJECTED */
  size_t gzip_min;          /* compress request bodies from this size on, unless the node is on the
                               loopback; 0: never */
  uint32_t connections;     /* per node; 0: 8 */
} mt_http_config;

/* INVALID_ARGUMENT names a mistake in the URL (user:password@ is refused, since secrets do not
 * belong there), a missing file, two ways of authentication at once, or `sniff` where it cannot be. */
mt_http *mt_http_new(mt_loop *loop, const mt_http_config *config, const mt_log *log,
                     mortise_error *err);
void mt_http_free(mt_http *http);             /* cancels requests in flight; NULL is fine */
const char *mt_http_url(const mt_http *http); /* the nodes, for messages; no secret */

/* A request in the caller's memory, which it keeps with all borrowed memory until `done` or
 * cancel. */
typedef struct mt_http_req {
  void (*done)(void *ctx, struct mt_http_req *req); /* as base/pump.h says, as is `finished` */
  void *ctx;
  bool finished;            /* out */
  const char *method;       /* "GET" "HEAD" "POST" "PUT" "DELETE" */
  const char *path;         /* from "/", already escaped, with its query */
  mt_slice body;
  const char *content_type; /* NULL: application/json */
  const char *opaque_id;    /* prefix of X-Opaque-Id, before the id of this sending; or NULL */
  int64_t deadline_ms;      /* on mt_loop_now; 0: now + request_ms */
  int node;                 /* -1: any; else only this one (0 is the first) */
  bool idempotent;
  bool aside;               /* over a connection of its own; if it fails, that says nothing about its node */
  /* Called before the request is sent and when the last bytes of its body are handed over; false
   * stops it with LOCK_LOST. NULL: never stopped. Runs on the loop's thread inside libcurl, so it
   * must not call functions of this header or pump the loop. */
  bool (*may_send)(void *ctx);
  /* out: */
  int status;               /* 0: no answer */
  mt_buf answer;            /* owned by the request: mt_http_req_deinit. At most answer_max */
  int answered_by;          /* node, or -1 */
  bool identified;          /* the answer carries this request's id */
  int port, local_port;     /* of the connection that brought the answer */
  const char *node_url;     /* that node's, without secrets; borrowed from mt_http, or NULL. With `sniff` it
                               is there for five minutes after `done`, as it may leave the cluster */
  mortise_error error;      /* OK for every complete answer of any status */
  void *op;
} mt_http_req;

/* Completes from mt_loop_step, never from inside this call. error.ambiguous: the node may have
 * received it. */
void mt_http_submit(mt_http *http, mt_http_req *req);
/* Cancels it without calling `done`. True: a node may have received all of it. Does nothing if it
 * has ended. */
bool mt_http_cancel(mt_http *http, mt_http_req *req);
/* Call if what came for this finished request is not its answer: no more requests are sent over
 * that connection, since another stray answer may follow. */
void mt_http_distrust(mt_http *http, const mt_http_req *req);
void mt_http_req_deinit(mt_http_req *req);

/* Turns a complete answer with a status of 400 or more into an error: AUTH for 401 and 403 (with
 * the right that the server says is missing), NOT_FOUND for 404, CONFLICT for 409, UNAVAILABLE for
 * 408, 429 and 5xx (`ambiguous` except for 429), REJECTED for other 4xx, with type and reason from
 * the server's JSON. Redirects are not followed: REJECTED. `what` names the request in the message.
 * OK for 2xx. A request without a complete answer keeps its own error. */
mortise_status mt_http_status(const mt_http_req *req, const char *what, mortise_error *err);

typedef struct mt_http_stats {
  uint64_t requests, retries, sent_bytes, received_bytes;
  uint64_t unidentified; /* answers without a request's id */
} mt_http_stats;
mt_http_stats mt_http_get_stats(const mt_http *http);

#endif
