/* The lock table's file. */
#ifndef MT_SQLITE_LOCKS_H
#define MT_SQLITE_LOCKS_H

#include "sqlite/internal.h"
#include "store/table.h"

/* Statements, by number; table.c has their text. */
enum {
  LOCKS_META,
  LOCKS_SEQ_GET,
  LOCKS_SEQ_SET,
  LOCKS_DOC_GET,
  LOCKS_DOC_ANY,
  LOCKS_DOC_PUT,
  LOCKS_DOC_DROP,
  LOCKS_HOLDERS,
  LOCKS_HOLDER_PUT,
  LOCKS_HOLDER_DROP,
  LOCKS_HOLDERS_CLEAR,
  LOCKS_QUEUE,
  LOCKS_QUEUE_PUT,
  LOCKS_QUEUE_DROP,
  LOCKS_QUEUE_PURGE,
  LOCKS_QUEUE_CLEAR,
  LOCKS_SESSION_GET,
  LOCKS_SESSION_PUT,
  LOCKS_SESSION_PURGE,
  LOCKS_LIST,
  LOCKS_LIST_SESSIONS,
  LOCKS_STATEMENTS
};

/* Every acknowledged write takes the next number of the table's counter. */
mortise_status mt_locks_seq_load(mt_db *db, uint64_t *seq_no, mortise_error *err);
mortise_status mt_locks_seq_store(mt_db *db, uint64_t seq_no, mortise_error *err);

mortise_status mt_locks_check(const char *ns, const char *session, mortise_error *err);

/* Reads an entry from a row of LOCKS_HOLDERS or LOCKS_QUEUE. */
void mt_locks_entry(sqlite3_stmt *stmt, bool queued, mt_lock_entry *out);
/* Reads a session from the columns state, owner, lease_ms, opened_ms, beat_ms, waiting, starting at
 * `first`. Its texts belong to the statement. */
void mt_locks_session_parts(sqlite3_stmt *stmt, int first, mt_session_parts *out);

static inline mt_version mt_locks_version(uint64_t seq_no) {
  return (mt_version){seq_no, 1};
}

#endif
