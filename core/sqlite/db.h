/* One connection to one of our SQLite files: opens and checks it, and has its prepared statements,
 * short transactions behind the turnstile, and the meaning of SQLite's codes. For one thread at a
 * time. */
#ifndef MT_SQLITE_DB_H
#define MT_SQLITE_DB_H

#include "base/buf.h"
#include "sqlite/turn.h"

#include <sqlite3.h>
#include <sys/types.h>

/* A kind of file: its marks and its content. */
typedef struct mt_db_kind {
  const char *what; /* "documents", for messages */
  int32_t application_id;
  int32_t format;      /* user_version */
  int32_t format_most; /* which it may have become since it was made */
  const char *schema;
  const char *const *sql; /* statements, by number */
  size_t n_sql;
  /* So short a log (in pages) stays when the last connection closes, which would otherwise copy it into the file and
   * delete it, and the next one would make it anew: half of what a process syncs that takes one lock. */
  int log_kept;
  /* Writes initial rows in the transaction that creates the file. May be NULL. */
  mortise_status (*fill)(sqlite3 *handle, mortise_error *err);
  int (*functions)(
      sqlite3 *handle); /* adds SQL functions to a connection; SQLite's code. May be NULL. */
} mt_db_kind;

typedef struct mt_db {
  const mt_db_kind *kind;
  char *file;      /* owned */
  sqlite3 *handle; /* NULL: not open */
  sqlite3_stmt **stmts;
  mt_turn turn;
  dev_t dev;
  ino_t ino;
  int wal_pages;               /* in the log after our last commit */
  bool wal_grown;              /* since the last checkpoint attempt */
  int64_t began_us;            /* start of the running write transaction; 0: none */
  const mt_patience *patience; /* of the current work; also interrupts SQLite itself */
  bool created;     /* this connection made the file */
  bool broken;      /* close it after the current work, then open it again */
} mt_db;

/* Copies `file`, which is a name, never a URI. Opens nothing yet. */
mortise_status mt_db_init(mt_db *db, const mt_db_kind *kind, const char *file, mortise_error *err);
void mt_db_deinit(mt_db *db);

/* Opens it unless it is open: creates a missing file with its tables, and refuses a file that is
 * not ours. A failure is not remembered. */
mortise_status mt_db_open(mt_db *db, const mt_patience *p, mortise_error *err);

/* Could the file exist? INVALID_ARGUMENT if it is a folder or its folder is missing. */
mortise_status mt_db_place(const mt_db *db, mortise_error *err);
bool mt_file_is_missing(const char *file);

/* Transactions. A read sees one snapshot from here on; a write is the only one in all processes.
 * mt_db_end ends either (undoing a write); it may be called when there is none. */
mortise_status mt_db_read(mt_db *db, const mt_patience *p, mortise_error *err);
mortise_status mt_db_write(mt_db *db, const mt_patience *p, mortise_error *err);
/* A failure is ambiguous, since the log may have the commit. No transaction is open afterwards in
 * any case. */
mortise_status mt_db_commit(mt_db *db, mortise_error *err);
void mt_db_end(mt_db *db);

/* Has this write transaction lasted so long that it should end and let others write? */
enum { MT_DB_SLICE_US = 20000 };
bool mt_db_slice_over(const mt_db *db);

/* After the work: checkpoints the log if it has grown, without blocking anyone, and closes a broken
 * connection. */
void mt_db_tidy(mt_db *db);

/* The statement, reset and with all parameters NULL. It is prepared at its first use; if that fails the result is NULL,
 * and mt_db_step says why. */
sqlite3_stmt *mt_db_stmt(mt_db *db, size_t number);
void mt_db_bind(sqlite3_stmt *stmt, int at, mt_slice text); /* borrowed until the next reset */
void mt_db_bind_u(sqlite3_stmt *stmt, int at, uint64_t value);
mt_slice mt_db_text(sqlite3_stmt *stmt, int column); /* borrowed until the next step */
uint64_t mt_db_u(sqlite3_stmt *stmt, int column);
/* A column of a file may have values of any type; false if this one has another type. */
bool mt_db_integer(sqlite3_stmt *stmt, int column, int64_t *out);
bool mt_db_is_text(sqlite3_stmt *stmt, int column);
/* Steps; *row: it returned a row. */
mortise_status mt_db_step(mt_db *db, sqlite3_stmt *stmt, bool *row, mortise_error *err);
/* Runs a statement that returns no rows, and resets it. */
mortise_status mt_db_run(mt_db *db, sqlite3_stmt *stmt, mortise_error *err);

/* Sets the error for SQLite's code. */
mortise_status mt_db_fail(mt_db *db, int code, mortise_error *err);

#endif
