/* The narrow waist: what mortise asks of a store. Two tables of functions, one for documents and
 * one for locks; a new store is one folder that fills both.
 *
 * Every call is asynchronous. The caller owns the request struct, fills its `in` part, and keeps it
 * and all it borrows until `done` was called or mt_store_cancel returned. The store fills the `out`
 * part; what `out` owns is freed by the request's own deinit function. `done` runs on the loop's
 * thread, from mt_loop_step, never from inside the call that submitted. A request that cannot even
 * be sent completes with an error in the same way.
 *
 * Answers are facts: an item is `applied` only when the store acknowledged a write of it. A request
 * that timed out or broke may have been applied, or may still be (`error.ambiguous`). Nothing is
 * sent twice by a store unless it provably was not sent before, or `req.idempotent` says it may. */
#ifndef MT_STORE_STORE_H
#define MT_STORE_STORE_H

#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "store/mode.h"
#include "store/place.h"

typedef struct mt_store mt_store;
typedef struct mt_req mt_req;

typedef void mt_done_fn(void *ctx, mt_req *req);

/* First member of every request. Zero it, then set what is needed. */
struct mt_req {
  mt_done_fn *done;    /* in, as base/pump.h says */
  void *ctx;           /* in */
  int64_t deadline_ms; /* in: on mt_loop_now; 0: now + the store's request time-out */
  bool idempotent;     /* in: may be sent again after an ambiguous failure */
  /* in: NULL, or asked at the last moments at which the write can still be stopped (before it is
   * sent, when its last bytes are handed over, before a commit). false: LOCK_LOST. May run on a
   * store's worker thread. */
  bool (*may_send)(void *ctx);
  void *may_send_ctx;  /* in */
  bool finished;       /* out */
  bool writes;         /* out, the store's: it is a write and was, or may have been, handed over */
  mortise_error error; /* out: code MORTISE_OK on success */
  void *op;            /* the store's */
};

/* A document's place in the order of writes; what compare-and-set compares. {0, 0}: none. */
typedef struct mt_version {
  uint64_t seq_no;
  uint64_t term;       /* primary term, at least 1 for a version that exists */
} mt_version;

static inline bool mt_version_equal(mt_version a, mt_version b) {
  return a.seq_no == b.seq_no && a.term == b.term;
}

/* A fence must fit into the 63 bits of a Lua integer. A larger version is invalid. */
#define MT_SEQ_NO_MAX ((UINT64_C(1) << 40) - 1)
#define MT_TERM_MAX ((UINT64_C(1) << 23) - 1)

/* primary_term << 40 | seq_no: grows with every grant in one epoch of the lock table. */
static inline uint64_t mt_version_fence(mt_version v) {
  return v.term << 40 | v.seq_no;
}

/* Is this write later than the one with the fence `after`? What was requested after that one was
 * acknowledged must be; if an answer says otherwise, it belongs to another, earlier request. */
static inline bool mt_version_is_after(mt_version v, uint64_t after) {
  return mt_version_fence(v) > after;
}

/* ---- Documents ------------------------------------------------------------------------------ */

enum { MT_ID_MAX = 512 /* bytes of an _id, the servers' limit */ };

/* Whether whole sources can safely be written into an index. */
typedef struct mt_describe {
  mt_req req;
  const char *index;       /* in: index, alias or data stream; no wildcard */
  bool exists;
  bool source_disabled;    /* any of these makes whole-source writes unsafe */
  bool source_filtered;    /* _source includes or excludes */
  bool source_synthetic;
  bool final_pipeline;
  bool data_stream;
  bool excludes_vectors;   /* Elasticsearch 9.2+: ask for vectors to be returned */
  uint32_t shards;
  char name[256];          /* the concrete index behind an alias, where it is one */
  char *json;              /* owned: {"NAME":{"settings":...,"mappings":...}} */
} mt_describe;
void mt_describe_deinit(mt_describe *r);

enum { MT_BLOCK_MS = 5000 };

typedef struct mt_index_admin {
  mt_req req;
  const char *index; /* in */
  mt_slice body;     /* in, create only: {"settings":..., "mappings":...}, or empty; settings: those to be changed */
} mt_index_admin;

/* `json` is {"INDEX":{"aliases":{"ALIAS":{"filter":...,"index_routing":...,"is_write_index":...}}}}: the indices that an
 * alias names, or an index with all its aliases; {} where the name means nothing. */
typedef struct mt_aliases {
  mt_req req;
  const char *name; /* in: an alias or an index */
  char *json;       /* out, owned */
} mt_aliases;
void mt_aliases_deinit(mt_aliases *r);

/* Moves an alias, with its filter and routing, from one index to another: no request finds it on both, or on neither.
 * Fine if it is there already; NOT_FOUND where `from` does not have it, or has no `mark`. */
typedef struct mt_alias_move {
  mt_req req;
  const char *alias;    /* in */
  const char *from;     /* in: NULL: the alias is new */
  const char *to;       /* in: NULL: nothing has it any more */
  const char *mark;     /* in: another alias of `from`, which is removed in the same step; may be NULL */
} mt_alias_move;

typedef struct mt_doc {
  mt_slice index, id, routing; /* routing {NULL,0}: none */
  mt_slice source; /* raw JSON object, validated; {NULL,0}: not found, or not asked for */
  mt_version version;
  /* How often it was written, a server's `_version`: larger by one with each write, unless its writers give it versions
   * of their own. 0: not asked for, or not known. An embedded store keeps those that writers gave, and tells them in
   * ranges alone. */
  uint64_t revision;
  bool found;
} mt_doc;

/* Answer bytes and the documents that point into them. */
typedef struct mt_page {
  mt_buf bytes;
  mt_buf text; /* decoded ids that had escapes */
  mt_doc *docs;
  size_t n;
  unsigned shares; /* owners beside the first */
} mt_page;
void mt_page_free(
    mt_page *page); /* NULL is fine; of one with several owners, the last one's does it */
/* One more owner, on the same thread. */
static inline mt_page *mt_page_share(mt_page *page) {
  page->shares++;
  return page;
}

/* Real-time get of documents by id; `page->docs[i]` answers `ids[i]`. */
typedef struct mt_mget {
  mt_req req;
  const char *index;       /* in */
  const mt_slice *ids;     /* in */
  const mt_slice *routing; /* in: NULL, or one for each id */
  size_t n;                /* in */
  bool no_source;          /* in: versions only */
  mt_page *page;           /* out, owned */
} mt_mget;
void mt_mget_deinit(mt_mget *r);

typedef enum mt_write_kind { MT_WRITE_CREATE, MT_WRITE_INDEX, MT_WRITE_UPDATE, MT_WRITE_DELETE } mt_write_kind;

typedef enum mt_write_result {
  MT_WRITE_NONE = 0, /* no answer for it (the request failed) */
  MT_WRITE_APPLIED,
  MT_WRITE_NOOP,     /* an update that changed nothing */
  MT_WRITE_CONFLICT, /* version conflict, or create of what exists */
  MT_WRITE_MISSING,  /* update or delete of a missing document */
  MT_WRITE_BUSY,     /* 429 or 503 for this item: not applied, may be retried */
  MT_WRITE_REJECTED, /* the store will not take it; `type` and `reason` say why */
} mt_write_result;

typedef struct mt_write {
  mt_write_kind kind;         /* in, as all up to `skip_pipeline` */
  mt_slice index;             /* {NULL,0}: the bulk's own */
  mt_slice id;
  mt_slice routing;
  mt_slice body;              /* source; for an update {"doc":..} or, on elastic, {"script":..} */
  mt_version if_version;      /* {0,0}: unconditional */
  /* A create or a delete: CONFLICT unless it exceeds the version that the document has, or had when it was deleted.
   * A create then gives the document this version, a delete leaves it at the id, also where there is no document
   * (MISSING). So a late copy of the create can do nothing once either was done. A server forgets the versions of
   * deleted documents after `index.gc_deletes`, 60 s. Where there is a document, 1 is always refused. 0: none. */
  uint64_t external;
  /* An index or a delete: CONFLICT where a later version stands, or stood when the document was deleted; else it gives
   * the document this version, and a delete leaves it at the id, as above. Each other write makes a document's version
   * larger by one. Here the same version again is applied, unlike with `external`: so whoever copies documents, with
   * versions that only grow with the original's changes, may repeat a copy whose answer was lost and learns that it
   * stands, while a late copy of an earlier state, or of what was deleted with a version above it, does nothing. It
   * would not do for a create, whose repetition must not bring back what was deleted since. 0: none. */
  uint64_t external_gte;
  bool skip_pipeline;         /* writes with pipeline=_none */
  mt_write_result result;     /* out, as all below */
  int status;                 /* the item's HTTP status, also on sqlite */
  bool created;               /* APPLIED where no document was */
  mt_version version;         /* of the write that was applied */
  uint64_t standing;          /* with either, CONFLICT: the version that stands there; 0: unknown */
  char type[64];              /* server's error type, or "" */
  char reason[160];
} mt_write;

/* The write that copies a document, which borrows from it: with a version that is the later the later it was changed,
 * and above `base`. No pipeline may make something else of the copy. */
static inline mt_write mt_write_copy(const mt_doc *doc, uint64_t base) {
  return (mt_write){.kind = MT_WRITE_INDEX,
                    .id = doc->id,
                    .routing = doc->routing,
                    .body = doc->source,
                    .external_gte = base + mt_version_fence(doc->version),
                    .skip_pipeline = true};
}

typedef struct mt_bulk {
  mt_req req;
  const char *index;    /* in: for items without one; may be NULL */
  mt_write *items;      /* in/out, the caller's */
  size_t n;             /* in; the store does not split bulks, so the caller keeps them small */
  bool refresh;         /* in: answer once searches show it (wait_for); sqlite ignores it */
  bool copies;          /* in: all items are of mt_write_copy. A server is then asked only whether any has failed, and for
                           the answer of each only if so, which costs it a second of the same: where none has, no item
                           says what was `created` and in which `version` */
} mt_bulk;

typedef struct mt_count {
  mt_req req;
  const char *index;
  mt_slice query;       /* Query DSL object, or empty for all */
  uint64_t count;       /* out: exact */
} mt_count;

typedef struct mt_refresh {
  mt_req req;           /* fails unless all shards answered */
  const char *index;
} mt_refresh;

/* A search's body and answer in the servers' form. */
typedef struct mt_search {
  mt_req req;
  const char *index;
  mt_slice body;
  char *answer;         /* out, owned, terminated */
  size_t answer_n;
} mt_search;
void mt_search_deinit(mt_search *r);

/* A scan returns every matching document once, as of its opening; in slices on servers that have
 * several cores. mt_scan_next completes with a page or, at the end, with page == NULL. It fails
 * rather than skip documents on a time-out, a failed shard or a number of hits that differs from
 * `total`. On a store without snapshots (sqlite) a document that changed since the opening is
 * returned in its newest form and version while it still matches; one that no longer matches, or
 * was deleted, is returned with found == false, no source and its version at the opening, so that
 * the hits still add up. */
typedef struct mt_scan mt_scan;

enum { MT_SCAN_PAGE = 1000, MT_SCAN_PAGE_MAX = 10000 /* the servers' index.max_result_window */ };

typedef struct mt_scan_open {
  mt_req req;
  const char *index;
  mt_slice query;       /* Query DSL object, or empty for all */
  uint32_t page;        /* documents a page and slice; 0: MT_SCAN_PAGE */
  uint32_t slices;      /* 0: the store decides */
  bool no_source;       /* ids and versions only */
  bool revisions;       /* those too */
  mt_scan *scan;        /* out, owned: mt_scan_close */
  uint64_t total;       /* out: exact number of documents that will come */
} mt_scan_open;

typedef struct mt_scan_next {
  mt_req req;
  mt_scan *scan;
  mt_page *page;        /* out, owned by the caller; NULL at the end */
} mt_scan_next;

/* ---- By sequence number ----
 * Each operation on a shard has a number, one more than the one before, and a live document that of its last one. So
 * the numbers [from, to) of a shard name exactly the documents whose last operation they count: a copy that goes by
 * numbers misses nothing that changes meanwhile, since what is written again has a later one. */

/* One primary shard. A number is -1 where there was no operation yet, -2 where the shard does not know it yet. */
typedef struct mt_shard {
  uint64_t term; /* primary term, in which this was true throughout; 0: not known, the right to see it is missing */
  int64_t max_seq_no;        /* of all that was begun */
  int64_t local_checkpoint;  /* up to here all is done on the primary */
  int64_t global_checkpoint; /* and on all copies that count: no fail-over takes it back */
  uint64_t docs;             /* as of its last refresh; on a server nested ones too */
} mt_shard;

typedef struct mt_shards {
  mt_req req;
  const char *index; /* in: its own name, no alias */
  /* out: replicas follow refreshes with a delay (OpenSearch's segment replication), so that reads must say `primary` */
  bool primary;
  char uuid[40];    /* out: another one if the index was made anew */
  uint64_t settings; /* out: larger by one with each change of its settings; 0: not known, and on sqlite */
  mt_shard *shards; /* out, owned: by number */
  size_t n;
} mt_shards;
void mt_shards_deinit(mt_shards *r);

/* The numbers [from, to) of one shard. */
typedef struct mt_span {
  const char *index; /* its own name: an alias may have a filter */
  uint32_t shard;
  bool primary; /* mt_shards */
  uint64_t from, to;
} mt_span;

enum { MT_SPAN_ROW = 1024, MT_SPAN_ROWS_MAX = 8192, MT_SPAN_DOCS_MAX = MT_SCAN_PAGE_MAX };

/* A hash of 40 bits: which numbers some documents have is told by its sum, where their count does not suffice. Servers
 * add it up themselves (MT_SPAN_HASH in elastic/span.c). */
static inline uint64_t mt_span_hash(uint64_t number) {
  uint64_t x = number + 1;
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return (x ^ (x >> 33)) & ((1ULL << 40) - 1);
}

/* Counts live documents in rows of `width` numbers: counts[i] is of those in row from / width + i, which begins at a
 * multiple of `width`, and sums[i] what mt_span_hash makes of their numbers. */
typedef struct mt_intervals {
  mt_req req;
  mt_span span;     /* in: in at most MT_SPAN_ROWS_MAX rows */
  uint64_t width;   /* in: at most 8 * MT_SPAN_ROW, of which the sums are exact doubles; 0: MT_SPAN_ROW */
  uint64_t *counts; /* out, owned, as sums, which are in the same memory */
  uint64_t *sums;
  size_t n;
  uint64_t total;   /* out: their sum */
} mt_intervals;
void mt_intervals_deinit(mt_intervals *r);
/* For stores: INVALID_ARGUMENT of such a width. */
mortise_status mt_span_width_check(const mt_intervals *r, mortise_error *err);
/* For stores: makes room for that many rows, which are 0. */
mortise_status mt_intervals_alloc(mt_intervals *r, size_t rows, mortise_error *err);

/* Reads all documents with these numbers, or else with these ids and any numbers, as the last refresh shows them, in no
 * order, or fails. */
typedef struct mt_range {
  mt_req req;
  mt_span span;        /* in: at most MT_SPAN_DOCS_MAX numbers */
  const mt_slice *ids; /* in: NULL, or at most MT_SPAN_ROW, and the span has no numbers */
  size_t n_ids;
  bool no_source;
  bool revisions; /* those too */
  mt_page *page; /* out, owned */
} mt_range;
void mt_range_deinit(mt_range *r);
/* For stores: INVALID_ARGUMENT of too many ids. */
mortise_status mt_range_ids_check(const mt_range *r, mortise_error *err);

/* A change that the store makes by itself: it applies a list of transforms to each document that matches.
 * On a server this is a background task. No lock protects it, and it goes on without its sender; if the
 * answer was lost, there may be a task nevertheless. */
typedef enum mt_server_task_phase {
  MT_SERVER_TASK_UNKNOWN = 0, /* the store knows no such task: it ended long ago, or never began */
  MT_SERVER_TASK_RUNNING,
  MT_SERVER_TASK_ENDED,
  MT_SERVER_TASK_LOST, /* its node has left the cluster, and may still be running it */
} mt_server_task_phase;

enum { MT_SERVER_TASK_ID = 64, MT_SERVER_TASK_NAME_MAX = 128 };

/* If it is not complete, it may have done more than the numbers say: a server loses the count of a
 * cancelled part (seen on OpenSearch 2.19). */
typedef struct mt_server_task_state {
  mt_server_task_phase phase;
  uint64_t total; /* documents that matched, once that is known */
  uint64_t updated;
  uint64_t noops;             /* unchanged, or set aside */
  uint64_t conflicts;         /* written by others meanwhile, so not changed */
  bool complete;              /* ENDED, and each document that matched is in these numbers */
  char type[64], reason[256]; /* if it ended without being complete: why, in the server's words;
                                 the type is "canceled" if it was asked to end */
} mt_server_task_state;

typedef struct mt_gate {
  const char *index, *id, *path;
} mt_gate;

typedef struct mt_update_by_query {
  mt_req req;
  const char *index;                      /* in: index or alias */
  mt_slice query;                         /* in: Query DSL object, or empty for all */
  const struct mt_transforms *transforms; /* in */
  /* in: how mt_server_task_find finds it: at most MT_SERVER_TASK_NAME_MAX bytes, no "/"; or NULL */
  const char *name;
  /* in: on the store's clock, milliseconds since 1970: no batch is begun from then on, and it ends
   * incomplete; a batch under way may end later. 0: never */
  int64_t not_after_ms;
  /* in: NULL, or a member of a document that must be ["*"] when it begins, else it finds nothing: so a request
   * that arrives late does nothing once that is changed. Not on sqlite, where none does. */
  const struct mt_gate *gate;
  uint32_t most_ms;             /* in: sqlite, which ends incomplete after so long; 0: no limit */
  uint32_t slices;              /* in: parallel parts; 0: the store decides; not on sqlite */
  uint32_t batch;               /* in: documents a batch; 0: 1000 */
  uint32_t per_second;          /* in: documents; 0: as fast as it can; not on sqlite */
  char task[MT_SERVER_TASK_ID]; /* out: "" if it ended in this request, as on sqlite */
  mt_server_task_state state;   /* out */
} mt_update_by_query;

/* Reads the state of a task. With `cancel` it asks the task to end first, which may take some time. */
typedef struct mt_server_task {
  mt_req req;
  const char *task;           /* in */
  bool cancel;                /* in */
  mt_server_task_state state; /* out */
} mt_server_task;

/* Finds the running tasks of that name. UNAVAILABLE unless all nodes answered. A task that was requested
 * a moment ago may not have begun yet. */
typedef struct mt_server_task_find {
  mt_req req;
  const char *name;                 /* in */
  char (*tasks)[MT_SERVER_TASK_ID]; /* out, owned */
  size_t n;                         /* out */
} mt_server_task_find;
void mt_server_task_find_deinit(mt_server_task_find *r);

/* Any request, for stores over HTTP. */
typedef struct mt_raw {
  mt_req req;
  const char *method;
  const char *path;     /* "/_cat/indices?format=json" */
  mt_slice body;
  const char *content_type; /* NULL: application/json */
  int status;           /* out */
  char *answer;         /* out, owned, terminated */
  size_t answer_n;
} mt_raw;
void mt_raw_deinit(mt_raw *r);

typedef struct mt_docs_ops {
  void (*describe)(mt_store *s, mt_describe *r);
  void (*index_create)(mt_store *s, mt_index_admin *r); /* CONFLICT where it exists */
  void (*index_drop)(mt_store *s, mt_index_admin *r);   /* NOT_FOUND where it does not */
  /* Changes settings of an index in use, as in {"index.gc_deletes":"2d"}; null gives one its default again. */
  void (*settings)(mt_store *s, mt_index_admin *r);
  /* Once it has answered, no write to the index is under way, and each fails with cluster_block_exception and status
   * 403, an item of a bulk as BUSY. One that stood there already is lifted and set again, since whoever set it may not
   * have waited for the answer. */
  void (*block)(mt_store *s, mt_index_admin *r); /* neither this nor the next is carried out after MT_BLOCK_MS */
  void (*unblock)(mt_store *s, mt_index_admin *r); /* fine if there is none */
  void (*aliases)(mt_store *s, mt_aliases *r);
  void (*alias_move)(mt_store *s, mt_alias_move *r); /* on sqlite an alias names one index */
  void (*mget)(mt_store *s, mt_mget *r);
  void (*bulk)(mt_store *s, mt_bulk *r);
  void (*count)(mt_store *s, mt_count *r);
  void (*refresh)(mt_store *s, mt_refresh *r);
  void (*search)(mt_store *s, mt_search *r);
  void (*scan_open)(mt_store *s, mt_scan_open *r);
  void (*scan_next)(mt_store *s, mt_scan_next *r);
  /* Ends it, at any time except while a next is in flight; the server's cursor is freed in the
   * background. NULL is fine. */
  void (*scan_close)(mt_store *s, mt_scan *scan);
  void (*shards)(mt_store *s, mt_shards *r);
  void (*intervals)(mt_store *s, mt_intervals *r);
  void (*range)(mt_store *s, mt_range *r);
  /* Nobody reads the index by numbers any more: drops what sqlite made for that, and asks a server nothing. */
  void (*range_end)(mt_store *s, mt_index_admin *r);
  void (*update_by_query)(mt_store *s, mt_update_by_query *r);
  void (*task)(mt_store *s, mt_server_task *r);           /* UNKNOWN on sqlite */
  void (*task_find)(mt_store *s, mt_server_task_find *r); /* none on sqlite */
  void (*raw)(mt_store *s, mt_raw *r);                  /* UNSUPPORTED on sqlite */
} mt_docs_ops;

/* ---- Locks ---------------------------------------------------------------------------------- */

/* The table's identity. A stamp in a document is (epoch, fence). */
typedef struct mt_epoch {
  char id[40];          /* changes with every `init` of an empty table; "" when there is none */
} mt_epoch;

typedef struct mt_locks_admin {
  mt_req req;
  bool print;           /* in, init only: send nothing, write the requests into `text` */
  bool look;            /* in, verify only: do not create the table, as sqlite otherwise does;
                           if there is none, `epoch` is "" where the store has documents */
  /* In, init: how many stripes the table is to have; 0: an old one as many as it has, a new one on a server
   * MT_STRIPES_DEFAULT, embedded one. INVALID_ARGUMENT if it has another number and is in use. */
  uint32_t wanted;
  mt_epoch epoch;       /* out */
  uint32_t stripes;     /* out: of the table, 1 to MT_STRIPES_MAX */
  bool created;         /* out, init: there was none before */
  char *text;           /* out, owned: the requests and the minimal role, for people */
} mt_locks_admin;
void mt_locks_admin_deinit(mt_locks_admin *r);

enum { MT_SESSION_ID = 33 /* 32 hex digits and a NUL */, MT_SESSION_BREAKER = 160 };
enum { MT_LEASE_MAX_MS = 3600000 };

typedef enum mt_session_state {
  MT_SESSION_MISSING = 0,
  MT_SESSION_LIVE,
  MT_SESSION_EXPIRED,
  MT_SESSION_CLOSED,
  MT_SESSION_BROKEN, /* marked by hand: its owner may rely on it until its deadline, which no beat
                       extends any more; others treat it as live until it is expired */
} mt_session_state;

/* Writes of a session's document. */
typedef enum mt_session_verb {
  MT_SESSION_OPEN,   /* create as live; REFUSED if the id exists and not from this opening */
  MT_SESSION_BEAT,   /* rewrite if live, with `waiting`; REFUSED when it is not live */
  MT_SESSION_CLOSE,  /* live or broken -> closed; else REFUSED */
  MT_SESSION_EXPIRE, /* compare-and-set by `version` to expired; with version {0,0}: create as
                        expired; REFUSED when it changed meanwhile */
  MT_SESSION_PROVE,  /* rewrite if expired or closed: the acknowledgement proves that it is */
  MT_SESSION_BREAK,  /* live -> broken, with `by`; REFUSED when it is not live */
} mt_session_verb;

typedef enum mt_session_result {
  MT_SESSION_NO_ANSWER = 0, /* req.error says why */
  MT_SESSION_ACKED,         /* an acknowledged write */
  MT_SESSION_REFUSED,       /* the document's state forbids it */
} mt_session_result;

typedef struct mt_session_write {
  mt_req req;
  mt_session_verb verb;      /* in */
  const char *ns;            /* in: namespace; sessions are per namespace */
  const char *session;       /* in */
  mt_slice owner;            /* in, OPEN: JSON object {host, boot, pidns, pid, start, user, program,
                                script, job} */
  int64_t lease_ms;          /* in, OPEN and EXPIRE of a missing one */
  mt_slice waiting;          /* in, BEAT: JSON array, or empty for [] */
  mt_slice by;               /* in, BREAK: JSON owner object of who breaks it, or empty */
  mt_version if_version;     /* in, EXPIRE */
  mt_session_result result;  /* out */
  mt_version version;        /* out: of the acknowledged write */
  /* Out, for people, of a refused BEAT: the state that the document had (MISSING: unknown) and who
   * broke it (mt_session_breaker). */
  mt_session_state found;
  char breaker[MT_SESSION_BREAKER];
} mt_session_write;

/* EXPIRE and PROVE of several sessions in one request, each by itself: the writes of others beside one
 * that was refused stand. */
typedef struct mt_session_batch {
  mt_req req;
  const char *ns;           /* in */
  mt_session_write *writes; /* in/out, the caller's; `req` and `ns` of each are not used */
  size_t n;
} mt_session_batch;

/* Writes "user@host, pid 12" from an owner's member `broken_by`; "" if there is none. */
void mt_session_breaker(mt_json owner, char *out, size_t size);

typedef struct mt_session_doc {
  char session[MT_SESSION_ID];
  mt_session_state state;
  mt_version version;
  int64_t lease_ms;
  int64_t opened_ms;         /* store's clock */
  int64_t beat_ms;           /* store's clock */
  char *owner;               /* owned JSON object, or NULL */
  char *waiting;             /* owned JSON array, or NULL */
  bool damaged;              /* not as any client writes it (table.h) */
} mt_session_doc;

/* Reads session documents by id, in real time. A caller must not act on them without a write that
 * proves them. */
typedef struct mt_session_read {
  mt_req req;
  const char *ns;
  const char *const *ids;
  size_t n;
  mt_session_doc *docs;      /* out, owned: one for each id */
} mt_session_read;
void mt_session_read_deinit(mt_session_read *r);

/* Deletes documents of sessions, of all namespaces, that ended more than a week ago by the store's clock,
 * some thousands at most. A document that changes meanwhile is left alone. */
typedef struct mt_session_purge {
  mt_req req;
  uint64_t purged; /* out */
  bool more;       /* out: there may be more of them */
} mt_session_purge;

typedef enum mt_lock_verb {
  MT_LOCK_CREATE,  /* plain create of a document with one holder; EXISTS if there is one */
  MT_LOCK_SET,     /* the scripted grant: apply, deny, enqueue, or stale */
  MT_LOCK_RELEASE, /* remove my hold and queue entry numbered <= n; always ACKED or ABSENT */
  MT_LOCK_DELETE,  /* delete of my untouched document, by if_version; else CONFLICT */
  MT_LOCK_EVICT, /* remove all sound entries of `session`, which the caller proved expired, except what
                      it holds for a job (see `guard`); if it is NULL, all damaged entries, on a
                      person's decision */
  MT_LOCK_ADOPT, /* replace the entry of `from` by mine numbered n, in the same mode */
} mt_lock_verb;

typedef enum mt_lock_result {
  MT_LOCK_NO_ANSWER = 0, /* the request failed: it may have been applied, or may still be */
  MT_LOCK_ACKED,         /* an acknowledged write granted, released or evicted it */
  MT_LOCK_QUEUED,        /* an acknowledged write put or renewed me in the queue: not granted */
  MT_LOCK_DENIED,        /* it conflicts; nothing was written */
  MT_LOCK_STALE,         /* a newer number of mine is there, or a hold that I relied on is gone */
  MT_LOCK_EXISTS,        /* create: there is a document (it may be my own earlier write) */
  MT_LOCK_ABSENT,        /* nothing there to release, evict or adopt */
  MT_LOCK_CONFLICT,      /* version conflict with a concurrent write: send this item again */
  MT_LOCK_BUSY,          /* 429 or 503 for this item: not applied, send it again later */
  MT_LOCK_FAILED,        /* refused for good; the batch's error says why */
} mt_lock_result;

enum { MT_JOB_MAX = MORTISE_JOB_MAX };

/* A holder or waiter as the lock document has it. Details of its session are read separately. */
typedef struct mt_lock_entry {
  char session[MT_SESSION_ID];
  uint64_t n;
  mt_mode mode;
  bool queued;
  bool damaged;              /* not as any client writes it (table.h) */
  int64_t since_ms;          /* store's clock; 0 unknown */
  int64_t until_ms;          /* store's clock, where it is queued */
  char job[MT_JOB_MAX + 1];  /* "" none */
} mt_lock_entry;

/* Does it keep others from a job's paths until it is adopted, also when its session is dead? */
static inline bool mt_lock_entry_guards(const mt_lock_entry *e) {
  return e->job[0] && !e->queued && !e->damaged;
}

typedef struct mt_lock_item {
  mt_lock_verb verb;         /* in, as all up to `if_version` */
  mt_place place;            /* its path is normalised; the store derives the id from it */
  uint64_t n;                /* the session's own number, which only grows */
  mt_mode mode;              /* CREATE, SET */
  bool fresh;                /* SET: I rely on no hold there, so a missing entry is no loss */
  bool enqueue;              /* SET: if denied, queue me or renew my place */
  uint32_t place_ms;         /* SET with enqueue: how long the place lives; 0: MT_QUEUE_LIFE_MS */
  bool leaf;                 /* CREATE, SET: remember `sessions` for listing */
  bool ask_queue;            /* SET: also answer `contended` */
  bool brief; /* SET, fresh and not enqueue: the answer need not name blockers nor tell
                                STALE from DENIED, which makes a grant cheaper for the server */
  const char *session;       /* EVICT: the dead one, or NULL; ADOPT: from; NULL otherwise */
  char (*others)
      [MT_SESSION_ID]; /* EVICT with `session`: more dead ones; theirs go in the same write */
  size_t n_others;
  bool guard;                /* EVICT: also what it holds for a job, as a person has decided */
  mt_version if_version;     /* DELETE */
  mt_lock_result result;     /* out, as all below */
  mt_version version;        /* of the acknowledged write */
  uint32_t ahead;            /* QUEUED: living entries before mine in the queue */
  bool contended;            /* ACKED, if asked: another session waits for what my mode denies */
  mt_lock_entry *blockers;   /* DENIED, QUEUED: owned by the batch, at most MT_BLOCKERS_MAX */
  size_t n_blockers;
} mt_lock_item;

enum { MT_BLOCKERS_MAX = 64, MT_QUEUE_LIFE_MS = 5000 };

static inline uint32_t mt_lock_item_place_ms(const mt_lock_item *item) {
  return item->place_ms ? item->place_ms : MT_QUEUE_LIFE_MS;
}

/* One request for any set of locks of one session. Items are applied in the order given, each on
 * its own: a batch is not atomic. */
typedef struct mt_lock_batch {
  mt_req req;
  const char *ns;            /* in: [a-z0-9_-]{1,64} */
  const char *session;       /* in: the acting session */
  const char *job;           /* in: written into new entries; NULL none */
  mt_lock_item *items;       /* in/out, the caller's */
  size_t n;
  bool
      proven; /* out: no answer came, or it is known to answer this request; if not, a grant that it
                  refuses may have been applied nevertheless */
  mortise_error busy; /* out: what the store said of an item that is BUSY; its code may be 0 */
} mt_lock_batch;
void mt_lock_batch_deinit(mt_lock_batch *r); /* frees the blockers of the items */

typedef enum mt_list_kind { MT_LIST_LOCKS, MT_LIST_SESSIONS } mt_list_kind;
typedef struct mt_listing mt_listing;

/* For people: lock documents or sessions, page by page. The first request opens a listing; each
 * further one of the same struct returns the next page, until `listing` is NULL again after the
 * last. A page may be empty. Within a namespace locks come in the byte order of their places' names. A
 * listing fails rather than skip entries; after an error there are no more pages.
 *
 * On a server all pages show one moment, as its searches see it; the opening refreshes, so that is
 * everything acknowledged before, unless the right to refresh is missing (`stale`). On sqlite each
 * page shows its own moment; what exists throughout is listed once.
 *
 * `json` is an array. A lock is {"ns","path","stripe" (where it is not 0),"holders":[{"session","n","mode","since","job"}],
 * "queue":[{"session","n","mode","until","job"}]}; a session {"ns","session","state","lease_ms",
 * "opened","beat_at","owner","waiting"}. A damaged entry or session has
 * "damaged":true; something other than a list of entries becomes one such entry. */
typedef struct mt_lock_list {
  mt_req req;
  mt_list_kind kind;   /* in, as all up to `page`; the same for all pages */
  const char *ns;      /* NULL: of all namespaces */
  mt_slice path;       /* LOCKS: at this path and below it; {NULL,0}: everywhere */
  const char
      *session; /* the first digits of an id, or NULL. SESSIONS: only these. LOCKS: only their
                          targets; on sqlite also the intention locks above them */
  char (*holders)[MT_SESSION_ID]; /* LOCKS: or NULL. Of the targets, those that none of these
                          sessions holds may be left out; on sqlite none is */
  size_t n_holders;
  bool over;           /* SESSIONS: closed and expired ones too */
  bool unsorted;       /* LOCKS: the order does not matter, and a server reads them in its own, a third
                          faster; else by path */
  uint32_t page;       /* documents; 0: MT_LIST_PAGE */
  bool end;            /* in: return no page, only end the listing */
  mt_listing *listing; /* in/out: if it is not NULL in the end, the caller ends or closes it, unless
                          the store is closed while the request is in flight */
  bool stale;          /* out, of the first page */
  char *json;          /* out, owned */
} mt_lock_list;
void mt_lock_list_deinit(mt_lock_list *r); /* of `json` */

enum { MT_LIST_PAGE = 1000, MT_LIST_PAGE_MAX = 10000 };

/* Reads lock documents, in real time: `json` lists those that exist, as in a listing and in the order of
 * `places`. */
typedef struct mt_lock_read {
  mt_req req;
  const char *ns;
  const mt_place *places; /* their paths are normalised */
  size_t n;
  char *json; /* out, owned */
} mt_lock_read;
void mt_lock_read_deinit(mt_lock_read *r);

typedef struct mt_locks_ops {
  void (*init)(mt_store *s, mt_locks_admin *r);   /* creates the tables; fine if they exist */
  void (*verify)(mt_store *s, mt_locks_admin *r); /* CORRUPT_TABLE, or NOT_FOUND: run `init` */
  void (*session)(mt_store *s, mt_session_write *r);
  /* NULL where several writes in one request save nothing. */
  void (*session_batch)(mt_store *s, mt_session_batch *r);
  void (*session_read)(mt_store *s, mt_session_read *r);
  void (*session_purge)(mt_store *s, mt_session_purge *r); /* NULL: the store does it by itself */
  void (*batch)(mt_store *s, mt_lock_batch *r);
  void (*list)(mt_store *s, mt_lock_list *r);
  /* Ends a listing before its end; the server's cursor is freed in the background. NULL is fine. */
  void (*list_close)(mt_store *s, mt_listing *listing);
  void (*lock_read)(mt_store *s, mt_lock_read *r);
} mt_locks_ops;

/* ---- A store -------------------------------------------------------------------------------- */

/* What a store counts, for benchmarks and the curious. */
typedef struct mt_store_stats {
  uint64_t requests;         /* round trips */
  uint64_t retries;          /* sent again */
  uint64_t sent_bytes, received_bytes;
  uint64_t conflicts;        /* version conflicts of lock items */
  uint64_t unidentified;     /* answers that did not say which request they belong to */
} mt_store_stats;

struct mt_store {
  const mt_docs_ops *docs;
  const mt_locks_ops *locks;
  bool (*cancel)(mt_store *s, mt_req *req); /* use mt_store_cancel */
  void (*close)(mt_store *s);               /* use mt_store_close */
  mt_loop *loop;                            /* borrowed; outlives the store */
  mt_log log;
  const char *url;                          /* for messages; holds no secret */
  int64_t request_ms;                       /* default time-out of a request */
  mt_store_stats stats;
};

/* Returns the request's memory to the caller without calling `done`. True: some of it was applied,
 * may have been, or may still be. False: none of it was or ever will be, since it was not sent, was
 * refused, or only reads. A finished request is left as it is, with the same result. A caller that
 * gets true must report the end of the request with an `ambiguous` error. */
bool mt_store_cancel(mt_store *s, mt_req *req);
/* The same for a request that has finished. */
bool mt_req_applied(const mt_req *req);

/* Cancels requests in flight and frees the store; must not be called from a `done` of its own. NULL
 * is fine. */
void mt_store_close(mt_store *s);

/* The synchronous form: steps the loop until the submitted request has finished, then returns its
 * status. At `until_ms` (as in mt_loop_pump) it is cancelled with INTERRUPTED. */
mortise_status mt_store_wait(mt_store *s, mt_req *req, int64_t until_ms);

/* For stores: marks the request finished, with the error set in it (never `ambiguous` for a read),
 * and calls `done`. */
void mt_req_finish(mt_req *req);

#endif
