/* Files of the embedded store, changed: a sound pair of them (documents and locks) is copied, a value, a
 * row, the schema or some bytes of one are changed, and everything is asked of it. Whatever stands there,
 * nothing crashes, each request ends in time, and an error says what is wrong. A hold whose entry was
 * changed is granted to nobody else.
 *
 *   files_test [SECONDS]    MORTISE_TEST_SEED repeats a run; without SECONDS a few */
#include "base/clock.h"
#include "base/mem.h"
#include "sqlite/sqlite.h"
#include "store/table.h"
#include "support/support.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char holder[] = "0123456789abcdef0123456789abcdef";
static const char other[] = "fedcba9876543210fedcba9876543210";

enum {
  PATIENCE_MS = 4000,
  LATE_MS = 60000, /* a commit waits for the disk, whatever the patience */
  FILE_MAX = 1 << 20
};

static char folder[128], file[160], locks_file[176];
static char *sound[2]; /* documents and locks */
static size_t sound_n[2];
static char said[600]; /* what was changed */

/* ---- A store -------------------------------------------------------------------------------- */

static mt_loop *loop;
static mt_store *store;

/* false: it is refused, with words. */
static bool open_store(void) {
  mortise_error err = {0};
  loop = mt_loop_new(&err);
  MT_CHECK(loop, "%s", err.message);
  store = mt_sqlite_open(loop, file, PATIENCE_MS, NULL, &err);
  MT_CHECK(store || (*said && err.message[0]), "%s: %s", said, err.message);
  if (!store) mt_loop_free(loop);
  return store != NULL;
}

static void close_store(void) {
  mt_store_close(store);
  mt_loop_free(loop);
}

static mt_req patient(void) {
  return (mt_req){.deadline_ms = mt_loop_now(loop) + PATIENCE_MS};
}

static mortise_status finish(mt_req *req, const char *what) {
  int64_t end = mt_clock_boot_ms() + LATE_MS;
  mortise_status status = mt_store_wait(store, req, end);
  MT_CHECK(mt_clock_boot_ms() < end, "%s does not end: %s", what, said);
  MT_CHECK(!status || req->error.message[0], "%s: an error without words: %s", what, said);
  MT_CHECK(*said || !status, "%s of sound files: %s", what, req->error.message);
  return status;
}

/* ---- Requests ------------------------------------------------------------------------------- */

static void write_documents(void) {
  mt_write items[] = {
      {.kind = MT_WRITE_INDEX, .id = MT_SLICE("a"), .body = MT_SLICE("{\"path\":\"/a\",\"n\":1}")},
      {.kind = MT_WRITE_INDEX, .id = MT_SLICE("b"), .body = MT_SLICE("{\"path\":\"/a/b\"}")},
      {.kind = MT_WRITE_INDEX, .id = MT_SLICE("c"), .body = MT_SLICE("{\"path\":[\"/c\"]}")},
      {.kind = MT_WRITE_UPDATE, .id = MT_SLICE("a"), .body = MT_SLICE("{\"doc\":{\"n\":2}}")},
      {.kind = MT_WRITE_DELETE, .id = MT_SLICE("gone")}};
  mt_bulk r = {.req = patient(), .index = "x", .items = items, .n = 5};
  store->docs->bulk(store, &r);
  finish(&r.req, "bulk");
}

static void read_documents(void) {
  const mt_slice ids[] = {MT_SLICE("a"), MT_SLICE("b"), MT_SLICE("c")};
  mt_mget r = {.req = patient(), .index = "x", .ids = ids, .n = 3};
  store->docs->mget(store, &r);
  finish(&r.req, "mget");
  for (size_t i = 0; r.page && i < r.page->n; i++) {
    mt_json root;
    const mt_doc *doc = &r.page->docs[i];
    if (doc->found)
      MT_CHECK(!mt_json_parse(doc->source, "it", &root, NULL) && root.type == MT_JSON_OBJECT,
               "a document that is none: %s", said);
  }
  mt_mget_deinit(&r);
}

static void scan_documents(void) {
  mt_scan_open r = {
      .req = patient(), .index = "x", .query = MT_SLICE("{\"prefix\":{\"path\":\"/a\"}}")};
  store->docs->scan_open(store, &r);
  if (finish(&r.req, "scan")) return;
  for (bool more = true; more;) {
    mt_scan_next next = {.req = patient(), .scan = r.scan};
    store->docs->scan_next(store, &next);
    more = !finish(&next.req, "a page") && next.page;
    mt_page_free(next.page);
  }
  store->docs->scan_close(store, r.scan);
}

static void search_documents(void) {
  mt_search r = {
      .req = patient(), .index = "x", .body = MT_SLICE("{\"sort\":[\"path\"],\"size\":2}")};
  mt_describe d = {.req = patient(), .index = "x"};
  mt_count c = {.req = patient(), .index = "x", .query = MT_SLICE("{\"term\":{\"n\":2}}")};
  store->docs->search(store, &r);
  finish(&r.req, "search");
  mt_search_deinit(&r);
  store->docs->describe(store, &d);
  finish(&d.req, "describe");
  mt_describe_deinit(&d);
  store->docs->count(store, &c);
  finish(&c.req, "count");
}

static void write_session(mt_session_verb verb, const char *session) {
  mt_session_write r = {.req = patient(),
                        .verb = verb,
                        .ns = "default",
                        .session = session,
                        .owner = MT_SLICE("{\"host\":\"h\",\"pid\":1}"),
                        .by = MT_SLICE("{\"user\":\"u\"}"),
                        .lease_ms = 60000};
  store->locks->session(store, &r);
  finish(&r.req, "session");
}

static mt_lock_result write_lock(mt_lock_item item, const char *session) {
  mt_lock_batch r = {
      .req = patient(), .ns = "default", .session = session, .job = "j", .items = &item, .n = 1};
  store->locks->batch(store, &r);
  finish(&r.req, "batch");
  for (size_t i = 0; i < item.n_blockers; i++)
    MT_CHECK(item.blockers[i].mode > MT_NL && item.blockers[i].mode <= MT_X &&
                 item.blockers[i].damaged != mt_session_valid(item.blockers[i].session),
             "an entry that is none: %s", said);
  mt_lock_batch_deinit(&r);
  return item.result;
}

static mt_lock_result take(const char *path, const char *session, uint64_t n, bool enqueue) {
  return write_lock((mt_lock_item){.verb = MT_LOCK_SET,
                                   .place.path = mt_slice_of(path),
                                   .n = n,
                                   .mode = MT_X,
                                   .fresh = true,
                                   .enqueue = enqueue},
                    session);
}

static void check_json(const char *json, const char *what) {
  mt_json root;
  MT_CHECK(json && !mt_json_parse(mt_slice_of(json), what, &root, NULL) &&
               root.type == MT_JSON_ARRAY,
           "%s is none: %s: %.300s", what, said, json ? json : "");
}

static void list(mt_list_kind kind) {
  mt_lock_list r = {.kind = kind, .page = 1, .over = true};
  for (size_t pages = 0;; pages++) {
    MT_CHECK(pages < 100, "a list does not end: %s", said);
    r.req = patient();
    store->locks->list(store, &r);
    mortise_status status = finish(&r.req, "list");
    if (!status) check_json(r.json, "a list");
    mt_lock_list_deinit(&r);
    if (status || !r.listing) break;
  }
  store->locks->list_close(store, r.listing);
}

static void read_locks(void) {
  const mt_place places[] = {{MT_SLICE("/"), 0}, {MT_SLICE("/a"), 3}, {MT_SLICE("/a/b"), 0}};
  mt_lock_read r = {.req = patient(), .ns = "default", .places = places, .n = 3};
  store->locks->lock_read(store, &r);
  if (!finish(&r.req, "a read of locks")) check_json(r.json, "what was read");
  mt_lock_read_deinit(&r);
}

static void read_sessions(void) {
  const char *const ids[] = {holder, other};
  mt_session_read r = {.req = patient(), .ns = "default", .ids = ids, .n = 2};
  mt_locks_admin v = {.req = patient()};
  store->locks->session_read(store, &r);
  if (!finish(&r.req, "a read of sessions"))
    for (size_t i = 0; i < 2; i++)
      MT_CHECK(r.docs[i].state == MT_SESSION_MISSING ||
                   (mt_session_state_name(r.docs[i].state) && r.docs[i].lease_ms > 0 &&
                    r.docs[i].lease_ms <= MT_LEASE_MAX_MS),
               "a session that is none: %s", said);
  mt_session_read_deinit(&r);
  store->locks->verify(store, &v);
  finish(&v.req, "verify");
  mt_locks_admin_deinit(&v);
}

static void make_sound_files(void) {
  mt_index_admin r = {.index = "x"};
  r.body = MT_SLICE("{\"mappings\":{\"properties\":{\"path\":{\"type\":\"keyword\"}}}}");
  open_store();
  store->docs->index_create(store, &r);
  finish(&r.req, "create");
  write_documents();
  write_session(MT_SESSION_OPEN, holder);
  write_session(MT_SESSION_OPEN, other);
  MT_CHECK(take("/a", holder, 1, false) == MT_LOCK_ACKED, "no grant");
  MT_CHECK(take("/a/b", holder, 2, false) == MT_LOCK_ACKED, "no grant");
  MT_CHECK(take("/a", other, 1, true) == MT_LOCK_QUEUED, "no place");
  close_store();
}

/* `held`: nobody but its holder may get it. */
static void ask_all(bool held) {
  if (!open_store()) return;
  read_documents();
  scan_documents();
  search_documents();
  list(MT_LIST_LOCKS);
  list(MT_LIST_SESSIONS);
  read_locks();
  read_sessions();
  mt_lock_result set = take("/a/b", other, 7, false);
  mt_lock_result create = write_lock(
      (mt_lock_item){.verb = MT_LOCK_CREATE, .place.path = MT_SLICE("/a/b"), .n = 8, .mode = MT_X},
      other);
  MT_CHECK(!held || (set != MT_LOCK_ACKED && create != MT_LOCK_ACKED), "a second holder: %s", said);
  write_lock((mt_lock_item){.verb = MT_LOCK_RELEASE, .place.path = MT_SLICE("/a"), .n = 9}, other);
  write_session(MT_SESSION_BEAT, holder);
  write_session(MT_SESSION_BREAK, holder);
  write_session(MT_SESSION_PROVE, other);
  write_documents();
  write_lock((mt_lock_item){.verb = MT_LOCK_EVICT, .place.path = MT_SLICE("/a/b")}, other);
  write_lock(
      (mt_lock_item){.verb = MT_LOCK_EVICT, .place.path = MT_SLICE("/a/b"), .session = holder},
      other);
  close_store();
}

/* ---- Files ---------------------------------------------------------------------------------- */

static char *read_file(const char *name, size_t *n) {
  char *text = malloc(FILE_MAX);
  FILE *f = fopen(name, "rb");
  MT_CHECK(text && f, "cannot read %s", name);
  *n = fread(text, 1, FILE_MAX, f);
  fclose(f);
  return text;
}

static void write_file(const char *name, const char *text, size_t n) {
  FILE *f = fopen(name, "wb");
  MT_CHECK(f && fwrite(text, 1, n, f) == n, "cannot write %s", name);
  fclose(f);
}

static void remove_beside(const char *name) {
  static const char *const suffixes[] = {"", "-wal", "-shm", "-journal", ".turn"};
  char path[256];
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    snprintf(path, sizeof path, "%s%s", name, suffixes[i]);
    unlink(path);
  }
}

static void copy_sound_files(void) {
  remove_beside(file);
  remove_beside(locks_file);
  write_file(file, sound[0], sound_n[0]);
  write_file(locks_file, sound[1], sound_n[1]);
}

/* ---- Changes -------------------------------------------------------------------------------- */

static const struct {
  const char *table, *columns[10];
  bool locks;
} tables[] = {
    {"indices", {"idx", "name", "body", "next_seq_no"}, false},
    {"docs", {"idx", "id", "routing", "seq_no", "source"}, false},
    {"entries", {"idx", "field", "value", "id"}, false},
    {"meta", {"key", "value"}, true},
    {"counter", {"id", "seq_no"}, true},
    {"locks", {"ns", "path", "seq_no"}, true},
    {"holders", {"session", "n", "mode", "since_ms", "job"}, true}, /* not where it stands */
    {"queue", {"ns", "path", "session", "n", "mode", "until_ms", "job", "place"}, true},
    {"sessions",
     {"ns", "session", "state", "owner", "lease_ms", "opened_ms", "beat_ms", "waiting", "seq_no"},
     true},
};

static const char *const values[] = {"NULL",
                                     "0",
                                     "-1",
                                     "1",
                                     "2",
                                     "6",
                                     "77",
                                     "1.5",
                                     "1e300",
                                     "1099511627776",
                                     "9223372036854775807",
                                     "-9223372036854775808",
                                     "''",
                                     "'x'",
                                     "'/a'",
                                     "'/a/b'",
                                     "'{'",
                                     "'{}'",
                                     "'[]'",
                                     "'[1'",
                                     "'{},\"x\":1'",
                                     "'null'",
                                     "'{\"a\":\"'",
                                     "x''",
                                     "x'00'",
                                     "x'ff00fe'",
                                     "x'7b7d'",
                                     "'a' || char(0) || 'b'",
                                     "'fedcba9876543210fedcba9876543210'",
                                     "'0123456789abcdef0123456789abcdef'",
                                     "char(0x202e) || char(27)",
                                     "hex(zeroblob(5000))",
                                     "hex(zeroblob(200000))",
                                     "replace(hex(zeroblob(60000)), '0', '[')",
                                     "replace(hex(zeroblob(2000)), '0', '{\"a\":')",
                                     "'default'"};

static const char *const schemas[] = {
    "DROP TABLE %s",
    "ALTER TABLE %s RENAME TO other",
    "DELETE FROM %s",
    "ALTER TABLE %s RENAME TO other; CREATE VIEW %s AS SELECT * FROM other",
    "ALTER TABLE %s ADD COLUMN more TEXT DEFAULT 'x'",
    "ALTER TABLE %s RENAME COLUMN session TO path2",
    "CREATE TRIGGER t AFTER UPDATE ON %s BEGIN SELECT RAISE(ABORT, 'mine'); END",
    "CREATE TRIGGER t BEFORE DELETE ON %s BEGIN SELECT RAISE(IGNORE); END",
    "ALTER TABLE %s RENAME TO other; CREATE TABLE %s(x)",
    "ALTER TABLE %s RENAME TO other; CREATE TABLE %s AS SELECT * FROM other",
    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = 'x' WHERE name = '%s'",
    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET rootpage = 2 WHERE name = '%s'",
    "PRAGMA writable_schema = 1; DELETE FROM sqlite_master WHERE name = '%s'",
    "PRAGMA user_version = 9",
    "PRAGMA application_id = 1",
    "PRAGMA journal_mode = DELETE",
    "CREATE UNIQUE INDEX u ON %s(1)"};

static void pick(sqlite3_context *ctx, int n, sqlite3_value **arguments) {
  (void)n;
  (void)arguments;
  sqlite3_result_int(ctx, mt_test_chance(sqlite3_user_data(ctx), 60));
}

static void run_sql(const char *name, const char *sql, mt_test_random *r) {
  sqlite3 *db;
  MT_CHECK(sqlite3_open(name, &db) == SQLITE_OK, "cannot open %s", name);
  sqlite3_create_function(db, "pick", 0, SQLITE_UTF8, r, pick, NULL, NULL);
  sqlite3_exec(db, sql, NULL, NULL, NULL); /* what it refuses is no change */
  sqlite3_close(db);
}

static const char *name_of(bool locks) {
  return locks ? locks_file : file;
}

/* -> may an entry have gone, or moved? */
static bool change_cell(mt_test_random *r) {
  size_t t = mt_test_below(r, sizeof tables / sizeof *tables), columns = 0;
  while (tables[t].columns[columns]) columns++;
  snprintf(said, sizeof said, "UPDATE OR IGNORE %s SET %s = %s WHERE pick()", tables[t].table,
           tables[t].columns[mt_test_below(r, columns)],
           values[mt_test_below(r, sizeof values / sizeof *values)]);
  run_sql(name_of(tables[t].locks), said, r);
  return strstr(said, holder) != NULL || strstr(said, other) != NULL;
}

static bool change_row(mt_test_random *r) {
  size_t t = mt_test_below(r, sizeof tables / sizeof *tables);
  snprintf(said, sizeof said, "DELETE FROM %s WHERE pick()", tables[t].table);
  run_sql(name_of(tables[t].locks), said, r);
  return !strcmp(tables[t].table, "holders");
}

static bool change_schema(mt_test_random *r) {
  size_t t = mt_test_below(r, sizeof tables / sizeof *tables);
  const char *form = schemas[mt_test_below(r, sizeof schemas / sizeof *schemas)];
  mt_buf b;
  mt_buf_init(&b, sizeof said);
  for (const char *p = form; *p; p++)
    if (p[0] == '%' && p[1] == 's')
      mt_buf_adds(&b, tables[t].table), p++;
    else
      mt_buf_addc(&b, *p);
  snprintf(said, sizeof said, "%s", b.p);
  mt_buf_deinit(&b);
  run_sql(name_of(tables[t].locks), said, r);
  return true;
}

static bool change_bytes(mt_test_random *r) {
  size_t which = mt_test_below(r, 2), n = sound_n[which], times = 1 + mt_test_below(r, 8);
  char *text = malloc(n);
  MT_CHECK(text, "memory");
  memcpy(text, sound[which], n);
  if (mt_test_chance(r, 15)) n = mt_test_below(r, n);
  snprintf(said, sizeof said, "%zu bytes of %s, which has %zu now", times, name_of(which), n);
  for (; n && times--;)
    text[mt_test_below(r, mt_test_chance(r, 30) && n > 200 ? 200 : n)] = (char)mt_test_next(r);
  write_file(name_of(which), text, n);
  free(text);
  return true;
}

/* A log beside it that nobody has written. */
static bool change_log(mt_test_random *r) {
  char name[256], text[4096];
  static const unsigned char head[] = {0x37, 0x7f, 0x06, 0x82, 0x00, 0x2d,
                                       0xe2, 0x18, 0,    0,    0x10, 0};
  bool which = mt_test_chance(r, 50);
  for (size_t i = 0; i < sizeof text; i++) text[i] = (char)mt_test_next(r);
  if (mt_test_chance(r, 70)) memcpy(text, head, sizeof head);
  snprintf(name, sizeof name, "%s%s", name_of(which), mt_test_chance(r, 70) ? "-wal" : "-shm");
  snprintf(said, sizeof said, "bytes in %s", name);
  write_file(name, text, mt_test_below(r, sizeof text));
  return true;
}

/* ---- Running -------------------------------------------------------------------------------- */

static int seconds = 5;

/* What the last connection has left in its log goes into the file. */
static void take_in_log(const char *name) {
  sqlite3 *db;
  MT_CHECK(sqlite3_open(name, &db) == SQLITE_OK, "cannot open %s", name);
  int code = sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
  MT_CHECK(code == SQLITE_OK, "the log of %s: %d", name, code);
  sqlite3_close(db);
}

static void files_are_not_believed(void **state) {
  static bool (*const changes[])(mt_test_random *) = {change_cell,  change_cell,   change_cell,
                                                      change_row,   change_schema, change_bytes,
                                                      change_bytes, change_log};
  (void)state;
  mt_test_random r = mt_test_random_for("files");
  int64_t end = mt_test_ns() + seconds * (int64_t)1000000000;
  uint64_t n = 0;
  make_sound_files();
  take_in_log(locks_file);
  sound[0] = read_file(file, &sound_n[0]);
  sound[1] = read_file(locks_file, &sound_n[1]);
  ask_all(true);
  for (; mt_test_ns() < end; n++) {
    copy_sound_files();
    bool gone = changes[mt_test_below(&r, sizeof changes / sizeof *changes)](&r);
    ask_all(!gone);
  }
  free(sound[0]);
  free(sound[1]);
  printf("# %llu files\n", (unsigned long long)n);
}

static int set_up(void **state) {
  (void)state;
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%.80s/mortise-files-XXXXXX", base ? base : "/tmp");
  if (!mkdtemp(folder)) return -1;
  snprintf(file, sizeof file, "%s/s.db", folder);
  snprintf(locks_file, sizeof locks_file, "%s-locks", file);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  remove_beside(file);
  remove_beside(locks_file);
  return rmdir(folder);
}

int main(int argc, char **argv) {
  if (argc > 1) seconds = atoi(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(files_are_not_believed)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
