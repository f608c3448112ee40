#include "sqlite/db.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  BEGIN_READ,
  BEGIN_WRITE,
  COMMIT,
  ROLLBACK,
  TOUCH,
  OWN_SQL,
};

/* Stand before the kind's own statements. TOUCH begins a snapshot, which BEGIN alone does not. */
static const char *const own_sql[OWN_SQL] = {
    "BEGIN", "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK", "SELECT 1 FROM sqlite_master LIMIT 1",
};

enum {
  CHECKPOINT_PAGES = 1000, /* checkpoint the log from this length on */
  CHECKPOINT_NOW = 8000,   /* from this length on do it under the turnstile, where nobody writes */
  PAUSE_US = 1000,
  LOOK_UP_OPS = 20000, /* SQLite instructions between checks of the clock, under a millisecond */
  FILE_NAME_MAX = 8192,
};

static const mode_t file_mode = 0600;

/* ---- errors ---- */

static mortise_status no_space(const mt_db *db, mortise_error *err) {
  mt_error_set(err, MORTISE_UNAVAILABLE, "%s: no space is left for it", db->file);
  if (err) err->retryable = false;
  return MORTISE_UNAVAILABLE;
}

/* A write that hits a file size limit leaves no errno. */
static mortise_status io_error(mt_db *db, int code, mortise_error *err) {
  int failed = sqlite3_system_errno(db->handle);
  db->broken = true;
  if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG) return no_space(db, err);
  if (code == SQLITE_IOERR_WRITE && !failed) return no_space(db, err);
  return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: %s%s%s", db->file, sqlite3_errmsg(db->handle),
                      failed ? ": " : "", failed ? strerror(failed) : "");
}

/* `failed` is an errno; 0: unknown. */
static mortise_status read_only(const mt_db *db, int failed, mortise_error *err) {
  if (failed && failed != EROFS)
    return mt_error_set(err, MORTISE_AUTH,
                        "%s: permission denied: the file or its folder is read-only, or another's",
                        db->file);
  mt_error_set(err, MORTISE_UNAVAILABLE, "%s: %s", db->file,
               failed ? "its file system is read-only" : "SQLite says that it is read-only");
  if (err) err->retryable = false;
  return MORTISE_UNAVAILABLE;
}

static int denied(const char *file) {
  return faccessat(AT_FDCWD, file, R_OK | W_OK, AT_EACCESS) ? errno : 0;
}

/* SQLite does not say why, nor whether the file or its folder is read-only (it creates two more
 * files there). */
static int why_read_only(const mt_db *db) {
  char folder[PATH_MAX];
  int failed = denied(db->file);
  size_t n = strlen(db->file);
  while (n && db->file[n - 1] != '/') n--;
  if (failed || n >= sizeof folder) return failed;
  snprintf(folder, sizeof folder, "%.*s", (int)(n ? n : 1), n ? db->file : ".");
  return denied(folder);
}

mortise_status mt_db_fail(mt_db *db, int code, mortise_error *err) {
  switch (code & 0xff) {
  case SQLITE_NOMEM:
    return mt_error_memory(err);
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s is held by another program", db->file);
  case SQLITE_FULL:
    return no_space(db, err);
  case SQLITE_IOERR:
    return io_error(db, code, err);
  case SQLITE_READONLY:
  case SQLITE_PERM:
    return read_only(db, why_read_only(db), err);
  case SQLITE_INTERRUPT:
    if (db->patience && mt_patience_check(db->patience, db->file, err)) return err->code;
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: SQLite was interrupted", db->file);
  case SQLITE_TOOBIG:
    return mt_error_set(err, MORTISE_REJECTED, "%s: a value is too large", db->file);
  case SQLITE_NOTADB:
    db->broken = true;
    return mt_error_set(err, MORTISE_CORRUPT_TABLE, "%s is no SQLite file", db->file);
  case SQLITE_CORRUPT:
  case SQLITE_ERROR: /* our statements are correct, so the schema must be wrong */
    db->broken = true;
    return mt_error_set(err, MORTISE_CORRUPT_TABLE, "%s is damaged: %s", db->file,
                        sqlite3_errmsg(db->handle));
  default:
    db->broken = true;
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: %s", db->file, sqlite3_errmsg(db->handle));
  }
}

static mortise_status no_file(mt_db *db, int failed, mortise_error *err) {
  if (failed == EACCES || failed == EROFS || failed == EPERM) return read_only(db, failed, err);
  if (failed == ENOSPC || failed == EDQUOT) return no_space(db, err);
  return mt_error_set(err, MORTISE_UNAVAILABLE, "cannot open %s: %s", db->file,
                      failed ? strerror(failed) : "SQLite refuses it");
}

static mortise_status cannot_open(mt_db *db, int code, mortise_error *err) {
  if ((code & 0xff) != SQLITE_CANTOPEN) return mt_db_fail(db, code, err);
  return no_file(db, db->handle ? sqlite3_system_errno(db->handle) : 0, err);
}

/* ---- statements ---- */

static int prepare_sql(mt_db *db, const char *sql, sqlite3_stmt **out) {
  return sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
}

/* Most processes use few of the statements. */
sqlite3_stmt *mt_db_stmt(mt_db *db, size_t number) {
  sqlite3_stmt **stmt = &db->stmts[OWN_SQL + number];
  if (!*stmt && prepare_sql(db, db->kind->sql[number], stmt)) return NULL;
  sqlite3_reset(*stmt);
  sqlite3_clear_bindings(*stmt);
  return *stmt;
}

void mt_db_bind(sqlite3_stmt *stmt, int at, mt_slice text) {
  sqlite3_bind_text64(stmt, at, text.p ? text.p : "", text.n, SQLITE_STATIC, SQLITE_UTF8);
}

void mt_db_bind_u(sqlite3_stmt *stmt, int at, uint64_t value) {
  sqlite3_bind_int64(stmt, at, (sqlite3_int64)value);
}

mt_slice mt_db_text(sqlite3_stmt *stmt, int column) {
  const char *p = sqlite3_column_blob(stmt, column);
  return (mt_slice){p ? p : "", (size_t)sqlite3_column_bytes(stmt, column)};
}

uint64_t mt_db_u(sqlite3_stmt *stmt, int column) {
  return (uint64_t)sqlite3_column_int64(stmt, column);
}

bool mt_db_integer(sqlite3_stmt *stmt, int column, int64_t *out) {
  bool integer =
      sqlite3_column_type(stmt, column) == SQLITE_INTEGER; /* asked before any conversion */
  *out = sqlite3_column_int64(stmt, column);
  return integer;
}

bool mt_db_is_text(sqlite3_stmt *stmt, int column) {
  return sqlite3_column_type(stmt, column) == SQLITE_TEXT;
}

mortise_status mt_db_step(mt_db *db, sqlite3_stmt *stmt, bool *row, mortise_error *err) {
  /* Binding to NULL, which does nothing, has left the connection's error as it was. */
  int code = stmt ? sqlite3_step(stmt) : sqlite3_extended_errcode(db->handle);
  *row = code == SQLITE_ROW;
  return code == SQLITE_ROW || code == SQLITE_DONE ? MORTISE_OK : mt_db_fail(db, code, err);
}

mortise_status mt_db_run(mt_db *db, sqlite3_stmt *stmt, mortise_error *err) {
  bool row;
  mortise_status status = mt_db_step(db, stmt, &row, err);
  sqlite3_reset(stmt);
  return status;
}

static int run_own(mt_db *db, size_t which) {
  sqlite3_stmt *stmt = db->stmts[which];
  int code = sqlite3_step(stmt);
  int reset = sqlite3_reset(stmt);
  return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : reset ? reset : code;
}

static void finalize(mt_db *db) {
  for (size_t i = 0; db->stmts && i < OWN_SQL + db->kind->n_sql; i++)
    sqlite3_finalize(db->stmts[i]);
  mt_free(db->stmts);
  db->stmts = NULL;
}

/* Our own are prepared at once: ROLLBACK must not fail for want of memory. */
static mortise_status prepare_own(mt_db *db, mortise_error *err) {
  db->stmts = mt_calloc(OWN_SQL + db->kind->n_sql, sizeof *db->stmts);
  if (!db->stmts) return mt_error_memory(err);
  for (size_t i = 0; i < OWN_SQL; i++) {
    int code = prepare_sql(db, own_sql[i], &db->stmts[i]);
    if (code) return mt_db_fail(db, code, err);
  }
  return MORTISE_OK;
}

/* ---- opening ---- */

mortise_status mt_db_init(mt_db *db, const mt_db_kind *kind, const char *file, mortise_error *err) {
  *db = (mt_db){.kind = kind, .turn = {.fd = -1}};
  mt_buf name;
  mt_buf_init(&name, FILE_NAME_MAX);
  /* SQLite may be built to treat "file:..." as a URI. */
  if (!strncmp(file, "file:", 5)) mt_buf_adds(&name, "./");
  mt_buf_adds(&name, file);
  mortise_status status = mt_buf_status(&name, "the file's name", err);
  if (!status) db->file = mt_buf_take(&name, NULL);
  mt_buf_deinit(&name);
  return status;
}

static void close_connection(mt_db *db) {
  finalize(db);
  if (db->handle && db->wal_pages < db->kind->log_kept)
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  if (db->handle) sqlite3_close(db->handle);
  db->handle = NULL;
  mt_turn_close(&db->turn);
  db->broken = false;
}

void mt_db_deinit(mt_db *db) {
  close_connection(db);
  mt_free(db->file);
  db->file = NULL;
}

static bool is_busy_code(int code) {
  return (code & 0xff) == SQLITE_BUSY;
}

/* SQLITE_BUSY is brief: another process closes the last connection, recovers the log, or does not
 * use the turnstile. */
static bool wait_if_busy(const mt_db *db, int code, const mt_patience *p) {
  if (!is_busy_code(code) || mt_patience_check(p, db->file, NULL)) return false;
  mt_patience_sleep(p, PAUSE_US);
  return true;
}

static mortise_status exec(mt_db *db, const char *sql, const mt_patience *p, mortise_error *err) {
  int code;
  do code = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
  while (wait_if_busy(db, code, p));
  return code ? mt_db_fail(db, code, err) : MORTISE_OK;
}

/* Reads the first column of the first row as text or number. */
static int query_one(mt_db *db, const char *sql, char *text, size_t size, int64_t *number) {
  sqlite3_stmt *stmt = NULL;
  int code = sqlite3_prepare_v2(db->handle, sql, -1, &stmt, NULL);
  if (!code) code = sqlite3_step(stmt);
  if (code == SQLITE_ROW) {
    if (number) *number = sqlite3_column_int64(stmt, 0);
    if (text) snprintf(text, size, "%s", (const char *)sqlite3_column_text(stmt, 0));
    code = SQLITE_OK;
  }
  sqlite3_finalize(stmt);
  return code;
}

static mortise_status ask_patiently(mt_db *db, const char *sql, int64_t *number,
                                    const mt_patience *p, mortise_error *err) {
  int code;
  do code = query_one(db, sql, NULL, 0, number);
  while (wait_if_busy(db, code, p));
  return code ? mt_db_fail(db, code, err) : MORTISE_OK;
}

static mortise_status foreign(const mt_db *db, int64_t id, int64_t tables, mortise_error *err) {
  if ((id & ~0xff) == (db->kind->application_id & ~0xff))
    return mt_error_set(err, MORTISE_CORRUPT_TABLE, "%s is a file of mortise, but not one for %s",
                        db->file, db->kind->what);
  return mt_error_set(err, MORTISE_CORRUPT_TABLE,
                      "%s is an SQLite file of another program (application id 0x%08x, %lld tables "
                      "and indexes): it is left alone",
                      db->file, (unsigned)id, (long long)tables);
}

/* Checks whose file it is; *fresh: it is empty and nobody's. */
static mortise_status inspect(mt_db *db, bool *fresh, const mt_patience *p, mortise_error *err) {
  int64_t id = 0, format = 0, tables = 0;
  /* Count the tables first: a process creating the file right now writes tables and marks in one
   * transaction, so tables without our mark are somebody else's. */
  mortise_status status = ask_patiently(db, "SELECT count(*) FROM sqlite_master", &tables, p, err);
  if (!status) status = ask_patiently(db, "PRAGMA application_id", &id, p, err);
  if (!status) status = ask_patiently(db, "PRAGMA user_version", &format, p, err);
  if (status) return status;
  *fresh = id == 0 && tables == 0;
  if (*fresh) return MORTISE_OK;
  if (id != db->kind->application_id) return foreign(db, id, tables, err);
  if (format < db->kind->format || format > db->kind->format_most)
    return mt_error_set(err, MORTISE_CORRUPT_TABLE,
                        "%s has format %lld, this program knows format %d", db->file,
                        (long long)format, (int)db->kind->format_most);
  return MORTISE_OK;
}

static mortise_status want_wal(mt_db *db, const mt_patience *p, mortise_error *err) {
  char mode[16] = "";
  int code;
  do code = query_one(db, "PRAGMA journal_mode=WAL", mode, sizeof mode, NULL);
  while (wait_if_busy(db, code, p));
  if (code) return mt_db_fail(db, code, err);
  if (strcmp(mode, "wal") == 0) return MORTISE_OK;
  return mt_error_set(err, MORTISE_UNAVAILABLE,
                      "%s: its file system cannot share a write-ahead log", db->file);
}

static mortise_status create_tables(mt_db *db, const mt_patience *p, mortise_error *err) {
  char marks[96];
  snprintf(marks, sizeof marks, "PRAGMA application_id=%d; PRAGMA user_version=%d",
           (int)db->kind->application_id, (int)db->kind->format);
  mortise_status status = exec(db, "BEGIN IMMEDIATE", p, err);
  if (!status) status = exec(db, db->kind->schema, p, err);
  if (!status && db->kind->fill) status = db->kind->fill(db->handle, err);
  if (!status) status = exec(db, marks, p, err);
  if (!status) status = exec(db, "COMMIT", p, err);
  return status;
}

/* Two processes may find the file new, so check again behind the turnstile. */
static mortise_status create_file(mt_db *db, const mt_patience *p, mortise_error *err) {
  mortise_status status = mt_turn_enter(&db->turn, db->file, p, err);
  if (status) return status;
  bool fresh;
  status = inspect(db, &fresh, p, err);
  if (!status && fresh) status = want_wal(db, p, err);
  if (!status && fresh) status = create_tables(db, p, err);
  db->created = !status && fresh;
  mt_turn_leave(&db->turn);
  return status;
}

static int note_wal(void *ctx, sqlite3 *handle, const char *name, int pages) {
  (void)handle;
  (void)name;
  mt_db *db = ctx;
  db->wal_pages = pages;
  db->wal_grown = true;
  return SQLITE_OK;
}

/* Somebody may have put more than our tables into a file; make sure that nothing of it runs. */
static bool distrust(mt_db *db) {
  static const int settings[][2] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                    {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                                    {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                    {SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0},
                                    {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0}};
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    if (sqlite3_db_config(db->handle, settings[i][0], settings[i][1], NULL)) return false;
  return true;
}

/* Interrupts SQLite when the deadline has passed or the work was cancelled. */
static int is_out_of_patience(void *ctx) {
  const mt_db *db = ctx;
  return db->patience && mt_patience_check(db->patience, db->file, NULL);
}

static mortise_status set_up_connection(mt_db *db, const mt_patience *p, mortise_error *err) {
  bool fresh;
  if (!distrust(db))
    return mt_error_set(err, MORTISE_UNSUPPORTED, "SQLite refuses to distrust a file's schema");
  sqlite3_progress_handler(db->handle, LOOK_UP_OPS, is_out_of_patience, db);
  mortise_status status = inspect(db, &fresh, p, err);
  if (!status && fresh) status = create_file(db, p, err);
  if (!status && !fresh) status = want_wal(db, p, err);
  if (!status)
    status = exec(db,
                  "PRAGMA synchronous=FULL; PRAGMA cache_size=-32000; PRAGMA temp_store=MEMORY;"
                  "PRAGMA cell_size_check=ON; PRAGMA journal_size_limit=67108864",
                  p, err);
  if (status) return status;
  int code = db->kind->functions ? db->kind->functions(db->handle) : SQLITE_OK;
  if (code) return mt_db_fail(db, code, err);
  sqlite3_wal_autocheckpoint(db->handle, 0);
  sqlite3_wal_hook(db->handle, note_wal, db);
  return prepare_own(db, err);
}

mortise_status mt_db_place(const mt_db *db, mortise_error *err) {
  struct stat info;
  if (stat(db->file, &info) == 0 && S_ISDIR(info.st_mode))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s is a folder", db->file);
  char *copy = mt_strdup(db->file);
  if (!copy) return mt_error_memory(err);
  const char *folder = dirname(copy);
  mortise_status status = MORTISE_OK;
  if (stat(folder, &info) != 0 && errno == EACCES)
    status =
        mt_error_set(err, MORTISE_AUTH, "%s: permission denied: the folder %s cannot be reached",
                     db->file, folder);
  else if (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode))
    status = mt_error_set(err, MORTISE_NOT_FOUND, "%s: there is no folder %s for the store",
                          db->file, folder);
  mt_free(copy);
  return status;
}

bool mt_file_is_missing(const char *file) {
  struct stat info;
  return stat(file, &info) != 0 && errno == ENOENT;
}

/* Creates the file ourselves, since SQLite would make it readable for all and follow a link. It is
 * created without being opened, because closing it would release the locks of this process's other
 * connections. */
static mortise_status make_file(mt_db *db, mode_t *mode, mortise_error *err) {
  struct stat info;
  if ((mknod(db->file, S_IFREG | file_mode, 0) && errno != EEXIST) || lstat(db->file, &info))
    return no_file(db, errno, err);
  *mode = info.st_mode & 0666;
  if (S_ISREG(info.st_mode)) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s is %s", db->file,
                      S_ISLNK(info.st_mode) ? "a symbolic link: name the file that it leads to"
                                            : "no regular file");
}

/* Like SQLite's log, the turnstile's file gets the mode of the file. */
static mortise_status open_turn(mt_db *db, mode_t mode, mortise_error *err) {
  mt_buf name;
  mt_buf_init(&name, FILE_NAME_MAX);
  mt_buf_addf(&name, "%s.turn", db->file);
  mortise_status status = mt_buf_status(&name, "the file's name", err);
  if (!status) status = mt_turn_open(&db->turn, name.p, mode, err);
  mt_buf_deinit(&name);
  if (status && (errno == EACCES || errno == EROFS || errno == EPERM))
    return read_only(db, errno, err);
  return status;
}

static mortise_status remember_file(mt_db *db, mortise_error *err) {
  struct stat info;
  if (stat(db->file, &info) != 0)
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: %s", db->file, strerror(errno));
  db->dev = info.st_dev;
  db->ino = info.st_ino;
  return MORTISE_OK;
}

static mortise_status open_all(mt_db *db, const mt_patience *p, mortise_error *err) {
  mode_t mode = file_mode;
  mortise_status status = mt_db_place(db, err);
  if (!status) status = make_file(db, &mode, err);
  if (!status) status = open_turn(db, mode, err);
  if (status) return status;
  db->patience = p;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
              SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
  int code = sqlite3_open_v2(db->file, &db->handle, flags, NULL);
  if (code) return cannot_open(db, code, err);
  if (sqlite3_db_readonly(db->handle, "main") == 1) return read_only(db, why_read_only(db), err);
  sqlite3_busy_timeout(db->handle, 0);
  status = set_up_connection(db, p, err);
  return status ? status : remember_file(db, err);
}

mortise_status mt_db_open(mt_db *db, const mt_patience *p, mortise_error *err) {
  if (db->handle) return MORTISE_OK;
  mortise_status status = open_all(db, p, err);
  db->patience = NULL;
  if (status) close_connection(db);
  return status;
}

/* ---- transactions ---- */

/* If the file was removed or replaced while we use it, others use a different one. */
static mortise_status same_file(mt_db *db, mortise_error *err) {
  struct stat info;
  if (stat(db->file, &info) == 0 && info.st_dev == db->dev && info.st_ino == db->ino)
    return MORTISE_OK;
  db->broken = true;
  return mt_error_set(err, MORTISE_CORRUPT_TABLE, "%s was removed or replaced while in use",
                      db->file);
}

mortise_status mt_db_read(mt_db *db, const mt_patience *p, mortise_error *err) {
  db->patience = p;
  mortise_status status = same_file(db, err);
  if (status) return status;
  int code;
  do {
    code = run_own(db, BEGIN_READ);
    if (!code) code = run_own(db, TOUCH);
    if (code) mt_db_end(db);
  } while (wait_if_busy(db, code, p));
  return code ? mt_db_fail(db, code, err) : MORTISE_OK;
}

static void checkpoint_wal(mt_db *db) {
  /* A failure is harmless: it is tried again after another commit. */
  db->wal_grown = false;
  sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

mortise_status mt_db_write(mt_db *db, const mt_patience *p, mortise_error *err) {
  db->patience = p;
  mortise_status status = same_file(db, err);
  if (!status) status = mt_turn_enter(&db->turn, db->file, p, err);
  if (status) return status;
  if (db->wal_pages > CHECKPOINT_NOW) checkpoint_wal(db);
  int code;
  do code = run_own(db, BEGIN_WRITE);
  while (wait_if_busy(db, code, p));
  db->began_us = mt_clock_boot_us();
  if (!code) return MORTISE_OK;
  status = mt_db_fail(db, code, err);
  mt_db_end(db);
  return status;
}

/* A statement that has not returned all its rows would keep its snapshot beyond the transaction. */
static void reset_all(mt_db *db) {
  sqlite3_stmt *stmt = NULL;
  while ((stmt = sqlite3_next_stmt(db->handle, stmt)) != NULL)
    if (sqlite3_stmt_busy(stmt)) sqlite3_reset(stmt);
}

mortise_status mt_db_commit(mt_db *db, mortise_error *err) {
  mortise_status status = MORTISE_OK;
  reset_all(db);
  int code = run_own(db, COMMIT);
  if (code) {
    status = mt_db_fail(db, code, err);
    if (err) err->ambiguous = true;
  }
  mt_db_end(db);
  return status;
}

void mt_db_end(mt_db *db) {
  if (!db->handle) return;
  reset_all(db);
  if (!sqlite3_get_autocommit(db->handle)) run_own(db, ROLLBACK);
  if (db->began_us) mt_turn_leave(&db->turn);
  db->began_us = 0;
}

bool mt_db_slice_over(const mt_db *db) {
  return mt_clock_boot_us() - db->began_us >= MT_DB_SLICE_US;
}

void mt_db_tidy(mt_db *db) {
  db->patience = NULL;
  if (!db->handle) return;
  mt_db_end(db);
  if (db->broken)
    close_connection(db);
  else if (db->wal_grown && db->wal_pages > CHECKPOINT_PAGES)
    checkpoint_wal(db);
}
