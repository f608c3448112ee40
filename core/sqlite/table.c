/* The lock table's file: its tables, its identity, and its description for people. */
#include "sqlite/locks.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>

enum { FORMAT_STRIPED = 2 };

/* A lock document is a row of `locks` (its version) with rows of `holders` and `queue`, and is
 * deleted once it has neither. `path` is the name of its place. `place` orders the queue. */
static const char schema[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE counter(id INTEGER PRIMARY KEY CHECK(id = 1), seq_no INTEGER NOT NULL);"
    "INSERT INTO counter(id, seq_no) VALUES(1, 0);"
    "CREATE TABLE locks(ns TEXT NOT NULL, path TEXT NOT NULL, seq_no INTEGER NOT NULL,"
    " PRIMARY KEY(ns, path)) WITHOUT ROWID;"
    "CREATE TABLE holders(ns TEXT NOT NULL, path TEXT NOT NULL, session TEXT NOT NULL,"
    " n INTEGER NOT NULL, mode INTEGER NOT NULL, since_ms INTEGER NOT NULL, job TEXT NOT NULL,"
    " PRIMARY KEY(ns, path, session)) WITHOUT ROWID;"
    "CREATE TABLE queue(ns TEXT NOT NULL, path TEXT NOT NULL, session TEXT NOT NULL,"
    " n INTEGER NOT NULL, mode INTEGER NOT NULL, until_ms INTEGER NOT NULL, job TEXT NOT NULL,"
    " place INTEGER NOT NULL, PRIMARY KEY(ns, path, session)) WITHOUT ROWID;"
    "CREATE TABLE sessions(ns TEXT NOT NULL, session TEXT NOT NULL, state INTEGER NOT NULL,"
    " owner TEXT NOT NULL, lease_ms INTEGER NOT NULL, opened_ms INTEGER NOT NULL,"
    " beat_ms INTEGER NOT NULL, waiting TEXT NOT NULL, seq_no INTEGER NOT NULL,"
    " PRIMARY KEY(ns, session)) WITHOUT ROWID;"
    /* Each opening of a session purges old ones and must not scan all that ended lately. */
    "CREATE INDEX ended ON sessions(ns, beat_ms) WHERE state IN (2, 3);";

#define AT " WHERE ns = ?1 AND path = ?2"

static const char *const sql[LOCKS_STATEMENTS] = {
    [LOCKS_META] = "SELECT (SELECT value FROM meta WHERE key = 'epoch'),"
                   " (SELECT value FROM meta WHERE key = 'stripes')",
    [LOCKS_SEQ_GET] = "SELECT seq_no FROM counter WHERE id = 1",
    [LOCKS_SEQ_SET] = "UPDATE counter SET seq_no = ?1 WHERE id = 1",
    [LOCKS_DOC_GET] = "SELECT seq_no FROM locks" AT,
    [LOCKS_DOC_ANY] = "SELECT EXISTS(SELECT 1 FROM locks" AT ") OR EXISTS(SELECT 1 FROM holders" AT
                      ") OR EXISTS(SELECT 1 FROM queue" AT ")",
    [LOCKS_DOC_PUT] = "INSERT INTO locks(ns, path, seq_no) VALUES(?1, ?2, ?3)"
                      " ON CONFLICT(ns, path) DO UPDATE SET seq_no = ?3",
    [LOCKS_DOC_DROP] = "DELETE FROM locks" AT,
    [LOCKS_HOLDERS] = "SELECT session, n, mode, since_ms, job FROM holders" AT,
    [LOCKS_HOLDER_PUT] = "INSERT INTO holders(ns, path, session, n, mode, since_ms, job)"
                         " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT(ns, path, session)"
                         " DO UPDATE SET n = ?4, mode = ?5, since_ms = ?6, job = ?7",
    [LOCKS_HOLDER_DROP] = "DELETE FROM holders" AT " AND session = ?3",
    [LOCKS_HOLDERS_CLEAR] = "DELETE FROM holders" AT,
    [LOCKS_QUEUE] = "SELECT session, n, mode, until_ms, job FROM queue" AT " ORDER BY place",
    [LOCKS_QUEUE_PUT] = "INSERT INTO queue(ns, path, session, n, mode, until_ms, job, place)"
                        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT(ns, path, session)"
                        " DO UPDATE SET n = ?4, mode = ?5, until_ms = ?6, job = ?7",
    [LOCKS_QUEUE_DROP] = "DELETE FROM queue" AT " AND session = ?3",
    [LOCKS_QUEUE_PURGE] = "DELETE FROM queue" AT " AND until_ms BETWEEN 0 AND ?3",
    [LOCKS_QUEUE_CLEAR] = "DELETE FROM queue" AT,
    [LOCKS_SESSION_GET] = "SELECT state, owner, lease_ms, opened_ms, beat_ms, waiting, seq_no"
                          " FROM sessions WHERE ns = ?1 AND session = ?2",
    [LOCKS_SESSION_PUT] =
        "INSERT INTO sessions(ns, session, state, owner, lease_ms, opened_ms, beat_ms, waiting,"
        " seq_no) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT(ns, session) DO UPDATE"
        " SET state = ?3, owner = ?4, lease_ms = ?5, opened_ms = ?6, beat_ms = ?7, waiting = ?8,"
        " seq_no = ?9",
    [LOCKS_SESSION_PURGE] = "DELETE FROM sessions WHERE ns = ?1 AND state IN (2, 3)"
                            " AND beat_ms < ?2",
    /* After (?1, ?2); in namespace ?3; at ?4 and below; with an entry of a session whose id begins
     * with ?5. */
    [LOCKS_LIST] =
        "SELECT ns, path FROM locks WHERE (ns, path) > (?1, ?2) AND (?3 IS NULL OR ns = ?3)"
        " AND typeof(ns) = 'text' AND typeof(path) = 'text'"
        " AND (?4 IS NULL OR path = ?4 OR (path > ?4 || '/' AND path < ?4 || '0'))"
        " AND (?5 IS NULL OR EXISTS (SELECT 1 FROM holders h WHERE h.ns = locks.ns"
        " AND h.path = locks.path AND substr(h.session, 1, length(?5)) = ?5))"
        " ORDER BY ns, path LIMIT ?6",
    [LOCKS_LIST_SESSIONS] =
        "SELECT ns, session, state, owner, lease_ms, opened_ms, beat_ms, waiting"
        " FROM sessions WHERE (ns, session) > (?1, ?2) AND (?3 IS NULL OR ns = ?3)"
        " AND typeof(ns) = 'text' AND typeof(session) = 'text'"
        " AND (?4 OR state NOT IN (2, 3))"
        " AND (?5 IS NULL OR substr(session, 1, length(?5)) = ?5) ORDER BY ns, session LIMIT ?6",
};

/* Writes the random epoch when the file is created. */
static mortise_status table_fill(sqlite3 *handle, mortise_error *err) {
  unsigned char random[16];
  char text[160], hex[33];
  mortise_status status = mt_random_bytes(random, sizeof random, err);
  if (status) return status;
  for (size_t i = 0; i < sizeof random; i++) snprintf(hex + 2 * i, 3, "%02x", random[i]);
  snprintf(text, sizeof text,
           "INSERT INTO meta(key, value) VALUES('epoch', '%s'), ('created_ms', '%lld')", hex,
           (long long)mt_clock_wall_ms());
  if (sqlite3_exec(handle, text, NULL, NULL, NULL) == SQLITE_OK) return MORTISE_OK;
  return mt_error_set(err, MORTISE_UNAVAILABLE, "cannot write the lock table's epoch: %s",
                      sqlite3_errmsg(handle));
}

const mt_db_kind mt_locks_kind = {
    .what = "locks",
    .application_id = 0x6d546402,
    .format = 1,
    .format_most = FORMAT_STRIPED,
    .schema = schema,
    .sql = sql,
    .n_sql = LOCKS_STATEMENTS,
    .log_kept = 64,
    .fill = table_fill,
};

mortise_status mt_locks_seq_load(mt_db *db, uint64_t *seq_no, mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(db, LOCKS_SEQ_GET);
  bool row;
  int64_t value = -1;
  mortise_status status = mt_db_step(db, stmt, &row, err);
  if (status) return status;
  bool sound = row && mt_db_integer(stmt, 0, &value) && value >= 0;
  *seq_no = sound ? (uint64_t)value : 0;
  sqlite3_reset(stmt);
  if (sound) return MORTISE_OK;
  return mt_error_set(err, MORTISE_CORRUPT_TABLE, "%s has lost its counter", db->file);
}

mortise_status mt_locks_seq_store(mt_db *db, uint64_t seq_no, mortise_error *err) {
  if (seq_no > MT_SEQ_NO_MAX)
    return mt_error_set(err, MORTISE_CORRUPT_TABLE, "%s: its counter is beyond what a fence holds",
                        db->file);
  sqlite3_stmt *stmt = mt_db_stmt(db, LOCKS_SEQ_SET);
  mt_db_bind_u(stmt, 1, seq_no);
  return mt_db_run(db, stmt, err);
}

mortise_status mt_locks_check(const char *ns, const char *session, mortise_error *err) {
  if (!mt_ns_valid(ns))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                        "a namespace is 1 to 64 of a-z, 0-9, _ and -: `%s`", ns ? ns : "");
  if (!mt_session_valid(session))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a session is 32 hex digits: `%s`",
                        session ? session : "");
  return MORTISE_OK;
}

/* ---- init ---- */

static bool read_stripes(sqlite3_stmt *stmt, uint32_t *out) {
  bool one = sqlite3_column_type(stmt, 1) == SQLITE_NULL;
  int64_t n = sqlite3_column_int64(stmt, 1);
  *out = one ? 1 : (uint32_t)n;
  return one || (n > 1 && n <= MT_STRIPES_MAX);
}

static mortise_status read_table_meta(mt_db *db, mt_locks_admin *r, mortise_error *err) {
  bool row;
  sqlite3_stmt *stmt = mt_db_stmt(db, LOCKS_META);
  mortise_status status = mt_db_step(db, stmt, &row, err);
  if (status) return status;
  mt_slice epoch = row && mt_db_is_text(stmt, 0) ? mt_db_text(stmt, 0) : (mt_slice){0};
  if (!epoch.n)
    status = mt_error_set(err, MORTISE_CORRUPT_TABLE, "%s has lost its epoch", db->file);
  else if (!read_stripes(stmt, &r->stripes))
    status =
        mt_error_set(err, MORTISE_CORRUPT_TABLE, "%s has no sound number of stripes", db->file);
  else
    snprintf(r->epoch.id, sizeof r->epoch.id, "%.*s", (int)epoch.n, epoch.p);
  sqlite3_reset(stmt);
  return status;
}

/* Gives its stripes to a table that nobody has ever written to. */
static mortise_status stripe_table(mt_work *w, uint32_t stripes, mortise_error *err) {
  char text[128];
  uint64_t seq_no;
  mt_locks_admin now = {0};
  mortise_status status = mt_work_write(w, err);
  if (!status) status = mt_locks_seq_load(w->db, &seq_no, err);
  if (!status) status = read_table_meta(w->db, &now, err);
  if (!status && !seq_no && now.stripes == 1) {
    snprintf(text, sizeof text,
             "INSERT INTO meta(key, value) VALUES('stripes', '%u'); PRAGMA user_version=%d",
             stripes, FORMAT_STRIPED);
    int code = sqlite3_exec(w->db->handle, text, NULL, NULL, NULL);
    status = code ? mt_db_fail(w->db, code, err) : mt_work_commit(w, err);
  }
  mt_db_end(w->db);
  return status ? status : mt_work_read(w, err);
}

static char *explain(const char *file) {
  mt_buf out;
  mt_buf_init(&out, 65536);
  mt_buf_addf(
      &out,
      "The lock table is the SQLite file %s, made at the first use of a lock where it is\n"
      "missing. Beside it and beside the documents' file there are, while they are in use,\n"
      "a log (-wal), its index (-shm), and a turnstile for writers (.turn, always empty).\n"
      "A user needs the right to read and write these files and to make files in their\n"
      "folder. All its users are on one machine.\n\n%s\n",
      file, schema);
  char *text = mt_buf_take(&out, NULL);
  mt_buf_deinit(&out);
  return text;
}

mortise_status mt_locks_print(mt_work *w, mt_req *req, mortise_error *err) {
  mt_locks_admin *r = (mt_locks_admin *)(void *)req;
  r->text = explain(w->db->file);
  return r->text ? MORTISE_OK : mt_error_memory(err);
}

mortise_status mt_locks_init(mt_work *w, mt_req *req, mortise_error *err) {
  mt_locks_admin *r = (mt_locks_admin *)(void *)req;
  if (r->print) return mt_locks_print(w, req, err);
  if (r->wanted > MT_STRIPES_MAX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%u stripes: 1 to %d are possible",
                        r->wanted, MT_STRIPES_MAX);
  r->created = w->db->created;
  mortise_status status = r->wanted > 1 ? stripe_table(w, r->wanted, err) : mt_work_read(w, err);
  if (!status) status = read_table_meta(w->db, r, err);
  if (status) return status;
  w->db->created = false;
  if (!r->wanted || r->wanted == r->stripes) return MORTISE_OK;
  return mt_error_set(
      err, MORTISE_INVALID_ARGUMENT,
      "%s: its stripes are %u and not %u: their number is chosen before the first lock, "
      "so while nobody uses it, delete the file, or use another one",
      w->db->file, r->stripes, r->wanted);
}

/* Only with `look`. */
mortise_status mt_locks_verify_missing(mt_work *w, mt_req *req, mortise_error *err) {
  mt_locks_admin *r = (mt_locks_admin *)(void *)req;
  r->epoch.id[0] = '\0';
  return mt_file_is_missing(w->documents) ? mt_work_missing(w, req, err) : MORTISE_OK;
}
