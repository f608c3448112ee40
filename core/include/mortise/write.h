/* Documents of a client's store: read, scanned, and written under a lock. What is said at the top of client.h holds here too.
 *
 * Each call that waits has a `..._start`, which does not: it copies its arguments, except the items of a write, and is told
 * by `done` (client.h). NULL with `err`, and `done` is not called: INVALID_ARGUMENT, OUT_OF_MEMORY. */
#ifndef MORTISE_WRITE_H
#define MORTISE_WRITE_H

#include <mortise/lock.h>

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that somebody else owns; no NUL after them. {NULL, 0}: none. */
typedef struct mortise_view {
  const char *p;
  size_t n;
} mortise_view;

/* Of a string, or of NULL. */
static inline mortise_view mortise_view_of(const char *text) {
  mortise_view view;
  view.p = text;
  view.n = text ? strlen(text) : 0;
  return view;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* A document as the store has it. Owned by its page, as all it points to. Later versions may make it longer. */
typedef struct mortise_doc {
  mortise_view index; /* its own, also where an alias was asked */
  mortise_view id;
  mortise_view routing; /* {NULL, 0}: none */
  mortise_view source;  /* a JSON object; {NULL, 0}: not found, or not asked for */
  uint64_t seq_no, term; /* its version, which a later write may be compared with; the term of one that exists is not 0 */
  bool found;
} mortise_doc;

/* Several documents, in memory of their own: they outlive the client. */
MORTISE_API void mortise_page_free(mortise_page *page); /* NULL is fine */
MORTISE_API size_t mortise_page_count(const mortise_page *page);
/* The `i`th; NULL for one that there is not. */
MORTISE_API const mortise_doc *mortise_page_doc(const mortise_page *page, size_t i);

/* A value of the document's source, as JSON: of the member `field`, or of one in its objects ("owner.name", if there is no
 * member of just that name). false: it is not there. */
MORTISE_API bool mortise_doc_value(const mortise_doc *doc, const char *field, mortise_view *json);
/* The same as text, without its escapes, or as a number. false: not there, or no such value; `out` is then as it was. Text that
 * does not fit into `size` bytes with a NUL after it is no such value. */
MORTISE_API bool mortise_doc_text(const mortise_doc *doc, const char *field, char *out, size_t size);
MORTISE_API bool mortise_doc_int(const mortise_doc *doc, const char *field, int64_t *out);
MORTISE_API bool mortise_doc_double(const mortise_doc *doc, const char *field, double *out);

typedef struct mortise_get_request {
  size_t size;
  const char *index;
  const mortise_view *ids;
  const mortise_view *routing; /* NULL, or one for each id */
  size_t n;                    /* at most MORTISE_GET_MAX */
  bool no_source;              /* versions only */
} mortise_get_request;
enum { MORTISE_GET_MAX = 10000 };
#define mortise_get_request_init(request) mortise_get_request_init_size(request, sizeof(mortise_get_request))
MORTISE_API void mortise_get_request_init_size(mortise_get_request *request, size_t size);

/* Reads documents by their ids, as they are now: the page's `i`th is that of the `i`th id, perhaps not `found`. Owned:
 * mortise_page_free. NULL with `err`: NOT_FOUND where there is no such index, UNAVAILABLE, AUTH, ... */
MORTISE_API mortise_page *mortise_get(mortise_client *client, const mortise_get_request *request, mortise_error *err);
MORTISE_API mortise_op *mortise_get_start(mortise_client *client, const mortise_get_request *request, mortise_done_fn *done,
                                          void *ctx, mortise_error *err);

/* ---- Scanning ----------------------------------------------------------------------------------------------------
 *
 * A scan gives every document that matches once, as of its first page, or fails: it never leaves one out. On an embedded
 * store, which has no snapshots, a document that was changed meanwhile comes as it is now, and one that does not match any
 * more, or is gone, is not `found`. */
typedef struct mortise_scan mortise_scan;

typedef struct mortise_scan_request {
  size_t size;
  const char *index; /* or alias */
  const char *query; /* JSON, in the Query DSL; NULL: all */
  uint32_t page;     /* documents in one, at most 10000; 0: 1000 */
  uint32_t slices;   /* that the server reads at once; 0: as many as it has shards */
  bool no_source;    /* ids and versions only */
} mortise_scan_request;
#define mortise_scan_request_init(request) mortise_scan_request_init_size(request, sizeof(mortise_scan_request))
MORTISE_API void mortise_scan_request_init_size(mortise_scan_request *request, size_t size);

/* Sends nothing yet. Owned: mortise_scan_free. NULL with `err`: INVALID_ARGUMENT. */
MORTISE_API mortise_scan *mortise_scan_new(mortise_client *client, const mortise_scan_request *request, mortise_error *err);
/* How many documents come in all, exactly; 0 until there was a page. */
MORTISE_API uint64_t mortise_scan_total(const mortise_scan *scan);
/* The next page, perhaps an empty one. Owned: mortise_page_free. NULL at the end, with MORTISE_OK in `err`, and after an
 * error, which ends the scan. */
MORTISE_API mortise_page *mortise_scan_next(mortise_scan *scan, mortise_error *err);
MORTISE_API mortise_op *mortise_scan_next_start(mortise_scan *scan, mortise_done_fn *done, void *ctx, mortise_error *err);
/* At any time; what is under way of it is cancelled, and the server's part of it ends in the background. NULL is fine. */
MORTISE_API void mortise_scan_free(mortise_scan *scan);

/* ---- Writing -----------------------------------------------------------------------------------------------------
 *
 * A writer of a lock sends nothing once the lock is lost, compares each write with the version that the document had under
 * this very lock, and settles by reading what became of a request that was not answered: docs/guarantees.md. */
typedef struct mortise_writer mortise_writer;

typedef enum mortise_strength {
  MORTISE_CAS = 0,  /* compares versions. An update by script, or an upsert, that may have been applied is a CONFLICT */
  MORTISE_STAMP,    /* also puts the lock's epoch and fence into a field of each document, and leaves alone one that has a later
                       lock's: a CONFLICT of type "stamped". No updates by script, no upserts. Needs a lock */
  MORTISE_UNCOMPARED /* compares with `if_seq_no` and `if_term` alone: what is applied late may overwrite a later holder's */
} mortise_strength;

typedef struct mortise_writer_options {
  size_t size;
  const char *index;       /* of items without one of their own; NULL: they all have one */
  mortise_strength strength;
  const char *stamp_field; /* NULL: "mortise_stamp" */
  uint32_t docs;           /* in one request at most, up to 100000; 0: 1000 */
  size_t bytes;            /* in one request, unless one document is larger, 1 KiB to 1 GiB; 0: 2 MiB */
  uint32_t in_flight;      /* requests at once, up to 16; 0: 2 */
  uint32_t tries;          /* without progress before it gives up, up to 100; 0: 8 */
  bool refresh;            /* a write has ended once searches show it */
} mortise_writer_options;
#define mortise_writer_options_init(options) mortise_writer_options_init_size(options, sizeof(mortise_writer_options))
MORTISE_API void mortise_writer_options_init_size(mortise_writer_options *options, size_t size);

/* `options` may be NULL. Owned: mortise_writer_free. NULL with `err`: LOCK_LOST, INVALID_ARGUMENT. A lock's ends with it: what
 * is under way at its release ends with LOCK_LOST. A client's is protected by no lock, and compares with `if_seq_no` alone. */
MORTISE_API mortise_writer *mortise_lock_writer(mortise_lock *lock, const mortise_writer_options *options, mortise_error *err);
MORTISE_API mortise_writer *mortise_client_writer(mortise_client *client, const mortise_writer_options *options,
                                                  mortise_error *err);
/* Cancels what is under way, which may be applied nevertheless. NULL is fine. */
MORTISE_API void mortise_writer_free(mortise_writer *writer);

typedef enum mortise_write_kind {
  MORTISE_WRITE_CREATE = 0, /* CONFLICT where there is one */
  MORTISE_WRITE_INDEX,
  MORTISE_WRITE_UPDATE, /* `body` is {"doc": ...}, or on a server {"script": ...} */
  MORTISE_WRITE_DELETE  /* no `body`; ALREADY where there is none */
} mortise_write_kind;

typedef enum mortise_write_outcome {
  MORTISE_WRITE_NONE = 0, /* not done: the call's error says why. It may have been, where `dirty` */
  MORTISE_WRITE_APPLIED,  /* the store has acknowledged it */
  MORTISE_WRITE_ALREADY,  /* nothing was left to do */
  MORTISE_WRITE_CONFLICT, /* somebody else has changed the document, or created it */
  MORTISE_WRITE_REJECTED  /* the store does not take it */
} mortise_write_outcome;

/* One write. An array's items all have the same `size`. */
typedef struct mortise_write {
  size_t size;
  mortise_write_kind kind;
  const char *index; /* NULL: the writer's */
  mortise_view id;
  mortise_view routing;
  mortise_view body;          /* a JSON object */
  uint64_t if_seq_no, if_term; /* write only this version; {0, 0}: any */
  bool of_source; /* an INDEX whose body was made of the whole source at that version: MORTISE_STAMP then need not read it */
  /* What became of it: */
  mortise_write_outcome outcome;
  bool dirty;           /* an unanswered request may have applied it, or still may */
  bool created;         /* APPLIED where there was no document */
  uint64_t seq_no, term; /* of the write that was applied */
  int status;           /* HTTP's, of the item */
  char type[64];        /* the server's error type, or "" */
  char reason[160];
} mortise_write;
#define mortise_write_init(item) mortise_write_init_size(item, sizeof(mortise_write))
MORTISE_API void mortise_write_init_size(mortise_write *item, size_t size);
enum { MORTISE_WRITES_MAX = 1000000 };

/* Writes all `items`, of which no two may be of the same document, in as many requests as are needed, and says for each what
 * became of it. OK when each has an outcome; else what stopped it: LOCK_LOST, UNAVAILABLE, INVALID_ARGUMENT (nothing is sent),
 * ...; `ambiguous` where some may have been applied. `items` and what they point to must stay until it has ended. */
MORTISE_API mortise_status mortise_writer_write(mortise_writer *writer, mortise_write *items, size_t n, mortise_error *err);
/* Several may be under way at once. mortise_op_cancel ends the writer, and what else is under way of it with INTERRUPTED. */
MORTISE_API mortise_op *mortise_writer_write_start(mortise_writer *writer, mortise_write *items, size_t n,
                                                   mortise_done_fn *done, void *ctx, mortise_error *err);

/* ---- Other requests ---------------------------------------------------------------------------------------------- */

/* What a server said. Owned: mortise_answer_free. Later versions may make it longer. */
struct mortise_answer {
  int status;     /* HTTP's */
  char *body;     /* a NUL after it */
  size_t body_n;
};
MORTISE_API void mortise_answer_free(mortise_answer *answer); /* NULL is fine */

/* A search in the servers' form; `body` is JSON. NULL with `err`. */
MORTISE_API mortise_answer *mortise_search(mortise_client *client, const char *index, const char *body, mortise_error *err);
MORTISE_API mortise_op *mortise_search_start(mortise_client *client, const char *index, const char *body,
                                             mortise_done_fn *done, void *ctx, mortise_error *err);
/* How many documents match `query` (NULL: all), exactly. */
MORTISE_API mortise_status mortise_count(mortise_client *client, const char *index, const char *query, uint64_t *count,
                                         mortise_error *err);
MORTISE_API mortise_op *mortise_count_start(mortise_client *client, const char *index, const char *query,
                                            mortise_done_fn *done, void *ctx, mortise_error *err);
/* Searches show what was written until now. */
MORTISE_API mortise_status mortise_refresh(mortise_client *client, const char *index, mortise_error *err);
MORTISE_API mortise_op *mortise_refresh_start(mortise_client *client, const char *index, mortise_done_fn *done, void *ctx,
                                              mortise_error *err);
/* `body`, which may be NULL, is {"settings": ..., "mappings": ...}. CONFLICT where it exists, NOT_FOUND where it does not. */
MORTISE_API mortise_status mortise_index_create(mortise_client *client, const char *index, const char *body,
                                                mortise_error *err);
MORTISE_API mortise_op *mortise_index_create_start(mortise_client *client, const char *index, const char *body,
                                                   mortise_done_fn *done, void *ctx, mortise_error *err);
MORTISE_API mortise_status mortise_index_drop(mortise_client *client, const char *index, mortise_error *err);
MORTISE_API mortise_op *mortise_index_drop_start(mortise_client *client, const char *index, mortise_done_fn *done, void *ctx,
                                                 mortise_error *err);

/* Any request to a server, which is sent once; no lock protects what it writes. Whatever status is answered, it is an answer.
 * UNSUPPORTED on an embedded store. */
typedef struct mortise_raw_request {
  size_t size;
  const char *method;       /* "GET" */
  const char *path;         /* "/_cat/indices?format=json" */
  mortise_view body;
  const char *content_type; /* NULL: application/json */
} mortise_raw_request;
#define mortise_raw_request_init(request) mortise_raw_request_init_size(request, sizeof(mortise_raw_request))
MORTISE_API void mortise_raw_request_init_size(mortise_raw_request *request, size_t size);
MORTISE_API mortise_answer *mortise_raw(mortise_client *client, const mortise_raw_request *request, mortise_error *err);
MORTISE_API mortise_op *mortise_raw_start(mortise_client *client, const mortise_raw_request *request, mortise_done_fn *done,
                                          void *ctx, mortise_error *err);

#ifdef __cplusplus
}
#endif

#endif
