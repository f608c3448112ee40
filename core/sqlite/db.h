/* One connection to one SQLite file of ours: opening and checking it, its prepared statements,
 * short transactions behind the turnstile, and what SQLite's codes mean. For one thread at a time.
 */
#ifndef MT_SQLITE_DB_H
#define MT_SQLITE_DB_H

#include "base/buf.h"
#include "sqlite/turn.h"

#include <sqlite3.h>
#include <sys/types.h>

/* A kind of file: what marks it and what is in it. */
typedef struct mt_db_kind {
  const char *what; /* "documents", for messages */
  int32_t application_id;
  int32_t format; /* user_version */
  const char *schema;
  const char *const *sql; /* statements, by number */
  size_t n_sql;
  /* Fills what the schema cannot say, in the transaction that creates the file. May be NULL. */
  mortise_status (*fill)(sqlite3 *handle, mortise_error *err);
} mt_db_kind;

typedef struct mt_db {
  const mt_db_kind *kind;
  char *file;      /* owned */
  sqlite3 *handle; /* NULL: not open */
  sqlite3_stmt **stmts;
  mt_turn turn;
  dev_t dev;
  ino_t ino;
  int wal_pages;    /* in the log after the last commit of ours */
  bool wal_grown;   /* since it was last looked at */
  int64_t began_us; /* the running write transaction; 0: none */
  const mt_patience *patience; /* of the work at hand: what SQLite itself is asked to stop for */
  bool created;     /* this connection made the file */
  bool broken;      /* close it when the work at hand is over, and open it anew */
} mt_db;

/* Takes nothing; copies `file`, which is a name, never a URI. Opens nothing yet. */
mortise_status mt_db_init(mt_db *db, const mt_db_kind *kind, const char *file, mortise_error *err);
void mt_db_deinit(mt_db *db);

/* Opens it where it is not open: makes the file and its tables where they are missing, refuses a
 * file of someone else. A failure is not remembered. */
mortise_status mt_db_open(mt_db *db, const mt_patience *p, mortise_error *err);

/* Can the file be there? INVALID_ARGUMENT for a folder, or where its folder is missing. */
mortise_status mt_db_place(const mt_db *db, mortise_error *err);
bool mt_file_is_missing(const char *file);

/* Transactions. A read sees one snapshot from here on; a write is the only one among all processes.
 * mt_db_end ends either (a write is undone); it is fine when there is none. */
mortise_status mt_db_read(mt_db *db, const mt_patience *p, mortise_error *err);
mortise_status mt_db_write(mt_db *db, const mt_patience *p, mortise_error *err);
/* A failure here is ambiguous: the log may hold it. Nothing is open afterwards, in any case. */
mortise_status mt_db_commit(mt_db *db, mortise_error *err);
void mt_db_end(mt_db *db);

/* A write transaction ends before it holds the others up: has this one lasted long enough? */
enum { MT_DB_SLICE_US = 20000 };
bool mt_db_slice_over(const mt_db *db);

/* After the work: moves the log into the file when it has grown, without holding anyone up; closes
 * a broken connection. */
void mt_db_tidy(mt_db *db);

/* The statement, reset, its parameters NULL. */
sqlite3_stmt *mt_db_stmt(mt_db *db, size_t number);
void mt_db_bind(sqlite3_stmt *stmt, int at, mt_slice text); /* borrowed until the next reset */
void mt_db_bind_u(sqlite3_stmt *stmt, int at, uint64_t value);
mt_slice mt_db_text(sqlite3_stmt *stmt, int column); /* borrowed until the next step */
uint64_t mt_db_u(sqlite3_stmt *stmt, int column);
/* A file's column holds values of any type: false where it is not of this one. */
bool mt_db_integer(sqlite3_stmt *stmt, int column, int64_t *out);
bool mt_db_is_text(sqlite3_stmt *stmt, int column);
/* Steps: *row says whether there is one. */
mortise_status mt_db_step(mt_db *db, sqlite3_stmt *stmt, bool *row, mortise_error *err);
/* Steps once to the end, resets. */
mortise_status mt_db_run(mt_db *db, sqlite3_stmt *stmt, mortise_error *err);

/* Says what SQLite's code means for this file. */
mortise_status mt_db_fail(mt_db *db, int code, mortise_error *err);

#endif
