/* Shared by the files of this folder. */
#ifndef MT_ELASTIC_INTERNAL_H
#define MT_ELASTIC_INTERNAL_H

#include "elastic/elastic.h"
#include "store/order.h"
#include "store/table.h"

enum {
  MT_TABLE_MAX = 200,              /* bytes of the table's alias */
  MT_BODY_MAX = 512 * 1024 * 1024, /* of a request */
  MT_PATH_BUF_MAX = 64 * 1024,     /* of a request's path */
  MT_TABLE_FORMAT = 1,             /* of a table with one stripe */
  MT_TABLE_FORMAT_STRIPED = 2, /* the same with `_meta.stripes`, which older clients do not know */
};

/* The scripts' names on the server; the number is the format's version. */
#define MT_SCRIPT_SET "mortise-lock-set-1"
#define MT_SCRIPT_RELEASE "mortise-lock-release-1"
#define MT_SCRIPT_ADOPT "mortise-lock-adopt-1"
#define MT_SCRIPT_SESSION "mortise-session-1"

typedef struct mt_call mt_call;

/* Which server answers at the URL; asked once, and again after a failure. */
typedef struct mt_server {
  bool known, opensearch;
  unsigned major, minor;
} mt_server;

typedef struct mt_elastic {
  mt_store store; /* first */
  mt_http *http;
  char table[MT_TABLE_MAX + 1];
  mt_server server;
  mt_order order; /* of the lock table's writes */
  mt_call *calls; /* in progress */
  mt_scan *scans; /* open */
  mt_listing *listings; /* open */
  mt_req *soon;   /* finish at the next step; linked by `op`, the last's points to this */
  mt_timer timer; /* reserved */
} mt_elastic;

/* One call of the store: requests sent one after the other for one mt_req. */
struct mt_call {
  mt_http_req http;
  mt_elastic *e;
  mt_req *req; /* NULL: nobody waits for it */
  void (*answered)(mt_call *c);
  void (*server_known)(mt_call *c);
  void (*dropped)(mt_call *c); /* called before it is freed; may be NULL */
  void *state;                 /* the call's own */
  mt_buf path, body;
  int64_t deadline_ms;
  uint64_t after; /* of the lock table: mt_order_ask */
  bool busy;      /* a request is in flight */
  bool wrote;     /* an earlier request of this call may have changed something */
  unsigned tries; /* of a request with version conflicts */
  unsigned sent;  /* how often the request was sent that is under way */
  mt_timer pause; /* before it is sent again */
  mt_call *prev, *next;
};

static inline mt_elastic *mt_elastic_of(mt_store *s) {
  return (mt_elastic *)s;
}

/* ---- Calls (call.c) ------------------------------------------------------------------------- */

/* Begins a call for `req` (NULL: in the background). NULL without memory; `req` then finishes with
 * that error. */
mt_call *mt_call_new(mt_elastic *e, mt_req *req);
/* Why `path` or `body` could not be built: it would be too long, or there was no memory. */
mortise_status mt_call_status(const mt_call *c, mortise_error *err);
/* Sends `path` and `body`; `answered` runs with the answer or c->http.error. If the path or body
 * could not be built, the call ends with an error, of which nobody is told where it has no request. The body
 * stays in memory until the answer. */
void mt_call_send(mt_call *c, const char *method, void (*answered)(mt_call *c));
/* In `answered`: sends an idempotent request again after a pause, since a node that could not answer may soon,
 * or another one can. A request that the store did not answer, or with 429, 502, 503 or 504, comes here by itself.
 * False: the call has no time left for it, or it may not be repeated. */
bool mt_call_repeat(mt_call *c);
/* Empties path and body for the next request of the call. */
void mt_call_again(mt_call *c);
/* Ends it from inside the loop: req->error is set by the caller, or OK. Frees the call. */
void mt_call_finish(mt_call *c);
/* The same at the loop's next step: for calls that end while they are being submitted. */
void mt_call_finish_soon(mt_call *c);
void mt_call_fail(mt_call *c, const mortise_error *why);
/* Drops it without an answer. NULL is fine. */
void mt_call_drop(mt_call *c);
/* The same; true if it may have changed something, or may still. */
bool mt_call_cancel(mt_call *c);
/* Finishes a request that has no call, at the next step. */
void mt_req_soon(mt_elastic *e, mt_req *req);
/* Was it answered with a 2xx? If not, ends the call with "WHAT INDEX: ...". `index` may be NULL. */
bool mt_call_ok(mt_call *c, const char *what, const char *index);
/* The same without ending the call: the error is left in req->error. */
mortise_status mt_call_check(mt_call *c, const char *what, const char *index);
/* The answer belongs to another request. */
void mt_call_distrust(mt_call *c);
/* Parses the answer; ends the call with an error if it is not JSON. */
bool mt_call_json(mt_call *c, const char *what, mt_json *root);
/* Ends it with an error of our own. */
void mt_call_error(mt_call *c, mortise_status code, const char *fmt, ...) MORTISE_PRINTF(3, 4);
/* Milliseconds left for the call, at least 1. */
int64_t mt_call_left_ms(const mt_call *c);
/* Appends "timeout=..ms" after `separator`. */
void mt_call_add_timeout(mt_call *c, char separator);

/* Appends bytes as a segment of a URL's path. */
void mt_path_add(mt_buf *path, mt_slice segment);
/* Appends "/INDEX"; ends the call with INVALID_ARGUMENT if the name is not valid. `one`: no
 * wildcard and no list. */
bool mt_call_index(mt_call *c, const char *index, bool one);

/* ---- The server (server.c) ------------------------------------------------------------------ */

/* Runs `next` once e->server is known; ends the call if the server is not supported. */
void mt_server_need(mt_call *c, void (*next)(mt_call *c));

/* ---- Bulk (bulk.c) -------------------------------------------------------------------------- */

/* "?filter_path=..." of a bulk's answer. */
void mt_bulk_add_filter(mt_buf *path);
/* Appends JSON as one line: newlines between tokens become spaces. false if it is not a JSON
 * object. */
bool mt_bulk_add_body(mt_buf *out, mt_slice body);

/* ---- Locks ---------------------------------------------------------------------------------- */

/* Appends the _id of a lock document, unquoted: NS:NAME, or NS:sha256:HEX of the name. */
void mt_lock_id(mt_buf *out, const char *ns, mt_place place);
/* Appends NS:@SESSION. */
void mt_session_id(mt_buf *out, const char *ns, const char *session);
/* "/TABLE/_bulk?require_alias=true&..." */
void mt_table_bulk_path(mt_call *c);
/* Checks the table's definition as a server returns it ({"INDEX":{...}}); CORRUPT_TABLE says what
 * differs. `epoch` gets _meta.epoch, `stripes` _meta.stripes and `index` the concrete name, if they exist. */
typedef struct mt_table {
  char index[256];
  mt_epoch epoch;
  uint32_t stripes;
  bool sound;   /* everything but the UUID is correct */
  bool no_uuid; /* _meta.uuid is missing: an init is in progress */
  bool blocked; /* its index takes no writes */
} mt_table;
mortise_status mt_table_check(const mt_elastic *e, mt_json root, mt_table *out, mortise_error *err);
/* Appends the body of the request that creates the table. */
void mt_table_add_definition(mt_buf *out, const char *epoch, uint32_t stripes);
/* Appends the body of the request that stores script `i`; false if there is none. */
bool mt_table_add_script(mt_buf *out, size_t i);
const char *mt_table_script_id(size_t i); /* NULL after the last one */
/* Appends the mapping that notes the index's UUID. */
void mt_table_add_uuid(mt_buf *out, const char *epoch, const char *uuid, uint32_t stripes);
/* Appends the request that moves the alias to `index` from `old` (NULL: from nothing), which it deletes if `drop`. */
void mt_table_add_alias(mt_buf *out, const mt_elastic *e, const char *index, const char *old,
                        bool drop);
/* Everything that `init` sends and the minimal role, for people. */
void mt_table_print(mt_buf *out, const mt_elastic *e, uint32_t stripes);
/* Sets the error for a missing alias: the table is gone. */
void mt_table_gone(const mt_elastic *e, mortise_error *err);
/* Reads the answer to a lock batch into its items; all become NO_ANSWER if it is not understood.
 * `after`: mt_order_ask. `identified`: the answer carries this request's id. */
void mt_table_read_batch(mt_elastic *e, mt_lock_batch *r, uint64_t after, mt_slice text,
                         bool identified);
/* Reads the answer to an _mget of sessions into r->docs, which are allocated. */
mortise_status mt_table_read_sessions(const mt_elastic *e, mt_session_read *r, mt_json root,
                                      mortise_error *err);

/* ---- The tables of functions ---------------------------------------------------------------- */

extern const mt_docs_ops mt_elastic_docs;
extern const mt_locks_ops mt_elastic_locks;

void mt_elastic_describe(mt_store *s, mt_describe *r);
void mt_elastic_index_create(mt_store *s, mt_index_admin *r);
void mt_elastic_index_drop(mt_store *s, mt_index_admin *r);
void mt_elastic_settings(mt_store *s, mt_index_admin *r);
void mt_elastic_block(mt_store *s, mt_index_admin *r);
void mt_elastic_unblock(mt_store *s, mt_index_admin *r);
void mt_elastic_aliases(mt_store *s, mt_aliases *r);
void mt_elastic_alias_move(mt_store *s, mt_alias_move *r);
void mt_elastic_mget(mt_store *s, mt_mget *r);
void mt_elastic_bulk(mt_store *s, mt_bulk *r);
void mt_elastic_count(mt_store *s, mt_count *r);
void mt_elastic_refresh(mt_store *s, mt_refresh *r);
void mt_elastic_search(mt_store *s, mt_search *r);
void mt_elastic_scan_open(mt_store *s, mt_scan_open *r);
void mt_elastic_scan_next(mt_store *s, mt_scan_next *r);
void mt_elastic_scan_close(mt_store *s, mt_scan *scan);
void mt_elastic_shards(mt_store *s, mt_shards *r);
void mt_elastic_intervals(mt_store *s, mt_intervals *r);
void mt_elastic_range(mt_store *s, mt_range *r);
void mt_elastic_range_end(mt_store *s, mt_index_admin *r);
void mt_elastic_update_by_query(mt_store *s, mt_update_by_query *r);
void mt_elastic_task(mt_store *s, mt_server_task *r);
void mt_elastic_task_find(mt_store *s, mt_server_task_find *r);
void mt_elastic_raw(mt_store *s, mt_raw *r);
/* If `req` waits for a page, forgets it and returns true. */
bool mt_scan_forget(mt_elastic *e, mt_req *req);
/* Frees scans that are still open when the store is closed. */
void mt_scans_free(mt_elastic *e);

void mt_elastic_init(mt_store *s, mt_locks_admin *r);
void mt_elastic_verify(mt_store *s, mt_locks_admin *r);
void mt_elastic_session(mt_store *s, mt_session_write *r);
void mt_elastic_session_batch(mt_store *s, mt_session_batch *r);
void mt_elastic_session_read(mt_store *s, mt_session_read *r);
void mt_elastic_session_purge(mt_store *s, mt_session_purge *r);
void mt_elastic_batch(mt_store *s, mt_lock_batch *r);
void mt_elastic_list(mt_store *s, mt_lock_list *r);
void mt_elastic_list_close(mt_store *s, mt_listing *listing);
/* Frees listings that are still open when the store is closed. */
void mt_listings_free(mt_elastic *e);
void mt_elastic_lock_read(mt_store *s, mt_lock_read *r);

#endif
