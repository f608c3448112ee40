/* Shared by the files of this folder. */
#ifndef MT_HTTP_INTERNAL_H
#define MT_HTTP_INTERNAL_H

#include "access/secret.h"
#include "http/http.h"

#include <curl/curl.h>

/* ---- Nodes (nodes.c, url.c) ----------------------------------------------------------------- */

enum { MT_NODES_MAX = 64, MT_DEAD_FIRST_MS = 1000, MT_DEAD_MOST_MS = 60000 };

typedef struct mt_node {
  char *url;      /* "https://a:9200/prefix", no slash at its end, no secret; owned */
  char host[256]; /* without the brackets of an IPv6 address */
  uint16_t port;
  bool tls;
  bool local;            /* on the loopback: no compression */
  bool identifies;       /* its answers have carried our X-Opaque-Id */
  bool named;            /* by the store's URL */
  bool spare;            /* the cluster does not have it (any more): used where no other is left */
  uint32_t failures;     /* in a row */
  int64_t dead_until_ms; /* left out until then */
  int64_t left_ms;       /* when it became spare */
} mt_node;

/* Transfers refer to nodes by their place, and to a node's URL: both stay. */
typedef struct mt_nodes {
  mt_node *v; /* owned */
  size_t n, cap;
  size_t next;   /* whose turn it is */
  uint64_t seed; /* of the jitter */
  char *text;    /* the list, for messages; owned */
} mt_nodes;

/* Is this a value for mt_http_config.proxy? INVALID_ARGUMENT. */
mortise_status mt_proxy_check(const char *proxy, mortise_error *err);
/* Messages name a node only by its number and host, since the rest may contain a secret by mistake.
 * INVALID_ARGUMENT, OUT_OF_MEMORY. */
mortise_status mt_nodes_parse(mt_nodes *nodes, const char *text, mortise_error *err);
void mt_nodes_deinit(mt_nodes *nodes);
mt_slice mt_node_authority(const mt_node *node); /* "a:9200"; borrowed from its URL */
bool mt_host_is_local(const char *host);
/* The node at an address as servers publish it, "IP:PORT", "[IPv6]:PORT" or "NAME/IP:PORT", of which the name is taken;
 * with the scheme and the path of `like`. INVALID_ARGUMENT, OUT_OF_MEMORY: then nothing is owned. */
mortise_status mt_node_published(mt_node *node, mt_slice address, const mt_node *like, mortise_error *err);

/* The next node that is neither spare nor left out nor in `tried`, else a spare one, else the one that returns
 * first; -1 if all were tried. */
int mt_nodes_pick(mt_nodes *nodes, int64_t now_ms, uint64_t tried);
/* Leaves it out, twice as long as the last time; true if it was not left out already. */
bool mt_nodes_failed(mt_nodes *nodes, int node, int64_t now_ms);
/* Restores it; true if it had failed before. */
bool mt_nodes_answered(mt_nodes *nodes, int node);

/* Makes room for MT_NODES_MAX. OUT_OF_MEMORY. */
mortise_status mt_nodes_widen(mt_nodes *nodes, mortise_error *err);

typedef struct mt_nodes_change {
  uint64_t come, gone; /* bit sets of nodes: used now and not before; spare from now on */
  size_t over;         /* that did not fit */
} mt_nodes_change;

/* The cluster has these nodes, whose URLs are taken: all others are spare. Where there is no place left, one gives its
 * own that was not named, has been spare for `keep_ms`, and is not in `busy`: those that requests refer to. */
mt_nodes_change mt_nodes_found(mt_nodes *nodes, mt_node *found, size_t n, uint64_t busy, int64_t keep_ms,
                               int64_t now_ms);

/* ---- Asking the cluster for its nodes (sniff.c) --------------------------------------------- */

enum {
  MT_SNIFF_EVERY_MS = 5 * 60 * 1000, /* while there are requests */
  MT_SNIFF_AGAIN_MS = 10 * 1000,     /* at the earliest, where a node has failed */
  MT_SNIFF_REQUEST_MS = 10 * 1000,
  MT_SNIFF_ANSWER_MAX = 1 << 20,
};

typedef struct mt_sniff {
  bool on;
  bool busy;                /* `req` is under way */
  bool failed;              /* the last one; a warning was written */
  bool full;                /* so was that there are more nodes than fit */
  int64_t asked_ms, due_ms; /* 0: never, at once */
  mt_http_req req;
} mt_sniff;

/* INVALID_ARGUMENT where all nodes are behind one address. */
mortise_status mt_sniff_init(struct mt_http *http, const mt_http_config *config, mortise_error *err);
void mt_sniff_deinit(struct mt_http *http);
/* A node has answered: if it is time, one is asked now, in the background. */
void mt_sniff_turn(struct mt_http *http);
/* A node has failed: it is time sooner. */
void mt_sniff_sooner(struct mt_http *http);

/* ---- Secrets and TLS (auth.c) --------------------------------------------------------------- */

typedef struct mt_auth {
  char *header;       /* "Authorization: ..."; NULL none; owned and wiped */
  mt_secret *secret;  /* fetched while the program runs, for a header of each request's own; NULL: none; owned */
  const char *scheme; /* "ApiKey" or "Bearer" of such a secret; NULL: Amazon's signature */
  char region[64];    /* of that */
  int64_t skew_ms;    /* what the server's clock is ahead of ours, as far as that matters to a signature */
  char *ca_file, *cert_file, *key_file;
  bool insecure;
} mt_auth;

/* `changed(http)` is called from the loop once a secret that was waited for is there, or is not to be had. */
mortise_status mt_auth_init(struct mt_http *http, const mt_http_config *config, void (*changed)(void *http),
                            mortise_error *err);
void mt_auth_deinit(mt_auth *auth);
bool mt_auth_set_tls(const mt_auth *auth, CURL *easy);
/* Warns of what the options make unsafe at this node. */
void mt_auth_warn(const struct mt_http *http, const mt_node *node);

struct mt_transfer;
/* Writes the headers for this sending of the request into op->secret_headers. OK with *waits: the secret is being
 * fetched. */
mortise_status mt_auth_sign(struct mt_transfer *op, bool *waits, mortise_error *err);
/* The server has refused the request for its secret, or for the time in its signature: is another try of use? */
bool mt_auth_renews(struct mt_transfer *op, int status);

/* ---- Compression (gzip.c) ------------------------------------------------------------------- */

typedef struct mt_gzip mt_gzip;

/* Fills `out` with the gzip form of `body`; false (and `out` empty) if that is not smaller or there
 * is no memory; then it is sent uncompressed. `*gzip` is made at first use. */
bool mt_gzip_body(mt_gzip **gzip, mt_slice body, mt_buf *out);
void mt_gzip_free(mt_gzip *gzip);

typedef struct mt_gunzip mt_gunzip;

typedef enum mt_unpacked {
  MT_UNPACKED = 0,
  MT_UNPACKED_BROKEN,
  MT_UNPACKED_TOO_LARGE, /* for `out` */
  MT_UNPACKED_MEMORY,
} mt_unpacked;

/* Prepares for another answer; made at first use. false without memory. */
bool mt_gunzip_begin(mt_gunzip **gunzip);
/* Unpacks the next bytes of a gzip file and appends them to `out`. */
mt_unpacked mt_gunzip_add(mt_gunzip *gunzip, mt_slice packed, mt_buf *out);
/* Was the gzip file complete? No bytes at all count as complete. */
bool mt_gunzip_whole(const mt_gunzip *gunzip);
void mt_gunzip_free(mt_gunzip *gunzip);

/* ---- One transfer (transfer.c) -------------------------------------------------------------- */

typedef enum mt_stop {
  MT_STOP_NONE = 0,
  MT_STOP_NOT_HELD,  /* may_send returned false */
  MT_STOP_RESEND,    /* libcurl was about to send a second time */
  MT_STOP_STALE,     /* the connection has unread bytes; nothing was sent */
  MT_STOP_FOREIGN,   /* the answer is another request's, or has no id */
  MT_STOP_TOO_LARGE, /* the answer */
  MT_STOP_HEAD,      /* the answer's head is too large */
  MT_STOP_ENCODING,  /* the answer is compressed and cannot be unpacked */
  MT_STOP_MEMORY,
  MT_STOP_DEADLINE,
} mt_stop;

/* What was seen in an answer's head. OURS and OTHERS: whose X-Opaque-Id it has. */
enum {
  MT_HEAD_BEGUN = 1,
  MT_HEAD_FRAMED = 2,
  MT_HEAD_ENDED = 4,
  MT_HEAD_OURS = 8,
  MT_HEAD_OTHERS = 16,
  MT_HEAD_PACKED = 32 /* the body is compressed */
};

enum { MT_HEAD_MAX = 256 * 1024 }; /* bytes of an answer's heads; libcurl's limit is 300 KB */

/* A libcurl handle with its current request; reused for later ones. */
typedef struct mt_transfer {
  struct mt_http *http;
  mt_http_req *req; /* NULL while unused */
  struct mt_transfer *prev, *next;
  CURL *easy;
  mt_timer deadline;
  uint64_t tried; /* bit set of nodes */
  int node;
  bool added;      /* in the multi handle */
  bool ready;      /* failed; `done` is still to be called */
  bool begun;      /* libcurl has begun to send it to this node */
  bool maybe_sent; /* some node may have received it */
  bool fresh;      /* must go over a new connection */
  bool waits;      /* for a secret */
  bool renewed;    /* sent once more because the server refused the secret */
  mt_stop stop;
  unsigned head;     /* MT_HEAD_... */
  size_t head_size;  /* bytes of it so far */
  mt_gunzip *gunzip; /* NULL until an answer is compressed */
  mt_slice body;     /* as sent */
  size_t offset;     /* bytes of it handed over */
  bool packed;       /* `gz` was tried */
  bool accepts_gzip; /* the handle is set up so */
  mt_buf url, gz;
  mt_buf target;           /* of a signed request: path and query */
  mt_buf secret_headers;   /* each with a NUL behind it; wiped */
  size_t n_secret_headers;
  uint64_t secret_round;
  int64_t signed_ms, date_ms; /* the time in the signature, and in the answer; 0: none */
  struct curl_slist headers[3 + 4];
  char content_type[160], opaque_id[320];
  char reason[CURL_ERROR_SIZE];
} mt_transfer;

mt_transfer *mt_transfer_new(struct mt_http *http, mortise_error *err);
void mt_transfer_free(mt_transfer *op);
/* Prepares the handle to send the request to op->node. */
mortise_status mt_transfer_prepare(mt_transfer *op, mortise_error *err);
/* After a failure: did provably nothing of this attempt leave this process? */
bool mt_transfer_unsent(const mt_transfer *op);
/* May the node have received all of it by now? */
bool mt_transfer_maybe_whole(const mt_transfer *op);
/* Was the answer's compressed body complete? True if it is not compressed. */
bool mt_transfer_unpacked(const mt_transfer *op);
/* Once libcurl reports the end: is the answer complete? */
bool mt_transfer_whole(const mt_transfer *op, int status);
/* Describes an attempt that brought no answer (failure.c). */
void mt_transfer_failure(const mt_transfer *op, CURLcode code, mortise_error *err);

/* ---- The multi handle on the loop (multi.c) ------------------------------------------------- */

/* A watched socket. It stays watched for reading while its connection is idle, which saves two
 * system calls per request. */
typedef struct mt_sock {
  struct mt_http *http;
  struct mt_sock *next;
  mt_watch watch;
  uint32_t wanted, armed; /* what libcurl wants, and what the loop watches for */
  bool used;
  bool connection; /* opened by mt_multi_opensocket */
  bool spoilt;     /* no more requests are sent over it */
  uint16_t port, local_port; /* of the connection; 0 until looked up */
} mt_sock;

/* Handles transfers that libcurl has finished. `starved`: it had no memory for its own state. */
typedef void mt_multi_drain(struct mt_http *http, bool starved);

typedef struct mt_multi {
  CURLM *handle;    /* NULL: no memory to replace it */
  long connections; /* per node */
  mt_multi_drain *drain;
  mt_timer timer;
  mt_sock *socks; /* owned; entries are reused */
} mt_multi;

mortise_status mt_multi_init(struct mt_http *http, uint32_t connections, mt_multi_drain *drain,
                             mortise_error *err);
/* Replaces the handle, which must have no transfers; closes idle connections. */
mortise_status mt_multi_renew(struct mt_http *http, mortise_error *err);
void mt_multi_deinit(struct mt_http *http);
curl_socket_t mt_multi_opensocket(void *http, curlsocktype purpose, struct curl_sockaddr *address);
int mt_multi_closesocket(void *http, curl_socket_t fd); /* CURLOPT_CLOSESOCKETFUNCTION */
/* Does the idle connection between these ports have nothing to read? What waits there (a surplus
 * answer, a proxy's 408, the peer's close) cannot be our answer. False for a spoilt one. */
bool mt_multi_quiet(struct mt_http *http, int port, int local_port);
void mt_multi_spoil(struct mt_http *http, int port, int local_port);

/* ---- All of it (http.c) --------------------------------------------------------------------- */

struct mt_http {
  mt_loop *loop;
  mt_log log;
  mt_nodes nodes;
  mt_auth auth;
  mt_multi multi;
  mt_sniff sniff;
  mt_gzip *gzip;
  char *proxy, *unix_socket;   /* owned; proxy "": none; NULL: as the environment says */
  int64_t connect_ms, request_ms;
  size_t answer_max, gzip_min;
  uint64_t identity, last_id;  /* parts of X-Opaque-Id: this process, and the last request */
  char trace[96];              /* "traceparent: ...", or "" */
  struct curl_slist common[3]; /* headers of every request */
  mt_http_req *failed;         /* requests that could not begin */
  mt_transfer *active, *idle;
  size_t n_idle;
  mt_timer deliver; /* for requests that failed before they were sent */
  mt_http_stats stats;
};

#endif
