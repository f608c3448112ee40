/* Shared by the files of this folder: a store's two workers and the work they do. */
#ifndef MT_SQLITE_INTERNAL_H
#define MT_SQLITE_INTERNAL_H

#include "sqlite/db.h"
#include "store/store.h"

/* One piece of work on a worker's thread. */
typedef struct mt_work {
  mt_db *db;             /* open, except for work that runs when its file is missing */
  const char *documents; /* the documents' file */
  mt_patience patience;
  mt_req *req;
} mt_work;

/* Does what the request asks and fills its `out` part except `error`. A transaction left open is
 * undone. */
typedef mortise_status mt_work_fn(mt_work *w, mt_req *req, mortise_error *err);

/* Begins a write transaction; LOCK_LOST if `may_send` returns false. */
mortise_status mt_work_write(mt_work *w, mortise_error *err);
/* Calls `may_send` again, then commits. */
mortise_status mt_work_commit(mt_work *w, mortise_error *err);
mortise_status mt_work_read(mt_work *w, mortise_error *err);
/* Fails if the caller has given up or the deadline has passed. */
mortise_status mt_work_check(mt_work *w, mortise_error *err);

/* Maximum size of any text in a file or an answer. */
enum { MT_SQLITE_TEXT_MAX = 1 << 28 };

extern const mt_db_kind mt_docs_kind, mt_locks_kind;

mt_work_fn mt_docs_describe, mt_docs_index_create, mt_docs_index_drop, mt_docs_settings, mt_docs_block,
    mt_docs_unblock, mt_docs_aliases, mt_docs_alias_move, mt_docs_mget, mt_docs_bulk,
    mt_docs_count, mt_docs_refresh, mt_docs_search, mt_docs_scan_open, mt_docs_scan_next,
    mt_docs_shards, mt_docs_intervals, mt_docs_range, mt_docs_range_end, mt_docs_update_by_query,
    mt_docs_task, mt_docs_task_find;
void mt_docs_scan_free(mt_scan *scan);

mt_work_fn mt_locks_init, mt_locks_session, mt_locks_session_read, mt_locks_batch, mt_locks_list,
    mt_locks_read;
void mt_locks_listing_free(mt_listing *listing);

/* Run when the file is missing, so that reading does not create it: they answer NOT_FOUND, or as
 * for an empty file. */
mt_work_fn mt_work_missing, mt_docs_describe_missing, mt_docs_aliases_missing, mt_locks_print, mt_locks_verify_missing,
    mt_locks_list_missing, mt_locks_read_missing;

#endif
