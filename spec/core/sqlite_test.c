/* What only the SQLite store has: files that are not ours, full and read-only disks, processes that
 * die and processes that share one file. MORTISE_TEST_SEED repeats a run. */
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "sqlite_fixture.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

/* ---- files ---- */

static void expect_open(const char *name, mortise_status want, const char *says) {
  handle h;
  mortise_error err = {0};
  assert_int_equal(try_open(&h, name, &err), want);
  if (!strstr(err.message, says) || !strstr(err.message, name))
    fail_msg("%s: says \"%s\", not \"%s\"", name, err.message, says);
}

static void sql(const char *name, const char *text) {
  sqlite3 *db;
  assert_int_equal(sqlite3_open(name, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

static char *read_all(const char *name, size_t *n) {
  FILE *f = fopen(name, "rb");
  assert_non_null(f);
  char *bytes = calloc(1, 1 << 20);
  *n = fread(bytes, 1, 1 << 20, f);
  fclose(f);
  return bytes;
}

static void refuses_foreign_files(void **state) {
  (void)state;
  size_t n, again;
  sql(file, "CREATE TABLE theirs(x); INSERT INTO theirs VALUES(1)");
  char *before = read_all(file, &n);
  expect_open(file, MORTISE_CORRUPT_TABLE, "another program");
  char *after = read_all(file, &again);
  assert_int_equal(n, again);
  assert_memory_equal(before, after, n);
  free(before);
  free(after);
  FILE *f = fopen(file, "wb");
  for (int i = 0; i < 500; i++) fputs("this is no database\n", f);
  fclose(f);
  expect_open(file, MORTISE_CORRUPT_TABLE, "no SQLite file");
}

static void refuses_the_wrong_kind(void **state) {
  (void)state;
  handle h = open_here(file);
  mt_locks_admin r = {0};
  h.s->locks->init(h.s, &r);
  assert_int_equal(finish(&h, &r.req), MORTISE_OK);
  assert_true(r.created && strlen(r.epoch.id) == 32);
  one(&h, "i", MT_WRITE_INDEX, "a", "{}");
  shut(&h);
  char locks[128];
  snprintf(locks, sizeof locks, "%s-locks", file);
  expect_open(locks, MORTISE_CORRUPT_TABLE, "not one for documents");
  sql(file, "PRAGMA user_version = 99");
  expect_open(file, MORTISE_CORRUPT_TABLE, "format 99");
}

static void refuses_bad_names(void **state) {
  (void)state;
  char name[128];
  snprintf(name, sizeof name, "%s/none/store", folder);
  expect_open(name, MORTISE_NOT_FOUND, "no folder");
  expect_open(folder, MORTISE_INVALID_ARGUMENT, "is a folder");
  expect_open(":memory:", MORTISE_INVALID_ARGUMENT, "a store is a file");
  expect_open("", MORTISE_INVALID_ARGUMENT, "missing");
}

/* The answers of a store without files to each request that only reads. */
static void expect_missing(handle *h, mt_req *req) {
  assert_int_equal(finish(h, req), MORTISE_NOT_FOUND);
  if (!strstr(req->error.message, file)) fail_msg("names no file: %s", req->error.message);
}

static void read_documents(handle *h) {
  mt_slice id = MT_SLICE("a");
  mt_mget get = {.index = "i", .ids = &id, .n = 1};
  h->s->docs->mget(h->s, &get);
  expect_missing(h, &get.req);
  mt_count count = {.index = "i"};
  h->s->docs->count(h->s, &count);
  expect_missing(h, &count.req);
  mt_refresh refresh = {.index = "i"};
  h->s->docs->refresh(h->s, &refresh);
  expect_missing(h, &refresh.req);
  mt_search search = {.index = "i", .body = MT_SLICE("{}")};
  h->s->docs->search(h->s, &search);
  expect_missing(h, &search.req);
  mt_scan_open scan = {.index = "i"};
  h->s->docs->scan_open(h->s, &scan);
  expect_missing(h, &scan.req);
  mt_index_admin drop = {.index = "i"};
  h->s->docs->index_drop(h->s, &drop);
  expect_missing(h, &drop.req);
  mt_describe describe = {.index = "i"};
  h->s->docs->describe(h->s, &describe);
  assert_int_equal(finish(h, &describe.req), MORTISE_OK);
  assert_false(describe.exists);
}

static void count_files(size_t want) {
  glob_t found = {0};
  char pattern[128];
  snprintf(pattern, sizeof pattern, "%s/*", folder);
  int failed = glob(pattern, 0, NULL, &found);
  assert_int_equal(failed ? 0 : found.gl_pathc, want);
  globfree(&found);
}

static void print_the_table(handle *h) {
  mt_locks_admin print = {.print = true};
  h->s->locks->init(h->s, &print);
  assert_int_equal(finish(h, &print.req), MORTISE_OK);
  assert_non_null(strstr(print.text, "CREATE TABLE"));
  mt_locks_admin_deinit(&print);
}

static void reading_makes_no_file(void **state) {
  (void)state;
  handle h = open_here(file);
  read_documents(&h);
  print_the_table(&h);
  mt_locks_admin verify = {.look = true};
  h.s->locks->verify(h.s, &verify);
  expect_missing(&h, &verify.req);
  mt_lock_list list = {0};
  h.s->locks->list(h.s, &list);
  expect_missing(&h, &list.req);
  count_files(0);
  one(&h, "i", MT_WRITE_INDEX, "a", "{}");
  verify = (mt_locks_admin){.look = true};
  h.s->locks->verify(h.s, &verify);
  assert_int_equal(finish(&h, &verify.req), MORTISE_OK);
  assert_string_equal(verify.epoch.id, "");
  list = (mt_lock_list){0};
  h.s->locks->list(h.s, &list);
  assert_int_equal(finish(&h, &list.req), MORTISE_OK);
  assert_string_equal(list.json, "[]");
  assert_null(list.listing);
  mt_lock_list_deinit(&list);
  mt_lock_read read = {.ns = "default", .places = &(mt_place){{"/", 1}, 0}, .n = 1};
  h.s->locks->lock_read(h.s, &read);
  assert_int_equal(finish(&h, &read.req), MORTISE_OK);
  assert_string_equal(read.json, "[]");
  mt_lock_read_deinit(&read);
  assert_int_equal(access(file, F_OK), 0);
  char locks[128];
  snprintf(locks, sizeof locks, "%s-locks", file);
  assert_int_equal(access(locks, F_OK), -1);
  shut(&h);
}

static void damaged_locks_are_said(void **state) {
  (void)state;
  char locks[128];
  snprintf(locks, sizeof locks, "%s-locks", file);
  handle h = open_here(file);
  FILE *f = fopen(locks, "wb");
  for (int i = 0; i < 500; i++) fputs("this is no database\n", f);
  fclose(f);
  mt_locks_admin r = {0};
  h.s->locks->verify(h.s, &r);
  assert_int_equal(finish(&h, &r.req), MORTISE_CORRUPT_TABLE);
  assert_non_null(strstr(r.req.error.message, locks));
  unlink(locks); /* a failure is not remembered */
  r = (mt_locks_admin){0};
  h.s->locks->verify(h.s, &r);
  assert_int_equal(finish(&h, &r.req), MORTISE_OK);
  shut(&h);
}

static void notices_a_replaced_file(void **state) {
  (void)state;
  handle h = open_here(file);
  assert_int_equal(one(&h, "i", MT_WRITE_INDEX, "a", "{}").result, MT_WRITE_APPLIED);
  assert_int_equal(unlink(file), 0);
  mt_count r = {.index = "i"};
  h.s->docs->count(h.s, &r);
  assert_int_equal(finish(&h, &r.req), MORTISE_CORRUPT_TABLE);
  assert_non_null(strstr(r.req.error.message, "removed or replaced"));
  shut(&h);
}

/* In a process's life: a document and a session. */
static void write_both(unsigned i) {
  char session[33];
  snprintf(session, sizeof session, "%032x", i);
  handle h = open_here(file);
  mt_session_write w = {.verb = MT_SESSION_OPEN,
                        .ns = "default",
                        .session = session,
                        .owner = MT_SLICE("{}"),
                        .lease_ms = 60000};
  h.s->locks->session(h.s, &w);
  assert_int_equal(finish(&h, &w.req), MORTISE_OK);
  assert_int_equal(w.result, MT_SESSION_ACKED);
  assert_int_equal(one(&h, "i", MT_WRITE_INDEX, "a", "{}").result, MT_WRITE_APPLIED);
  shut(&h);
}

/* The lock table's log stays, and never grows long; that of the documents goes; one without its file is no harm. */
static void keeps_short_logs_of_locks(void **state) {
  (void)state;
  char locks[112], log[128], documents_log[112];
  struct stat info;
  unsigned stayed = 0;
  snprintf(locks, sizeof locks, "%s-locks", file);
  snprintf(log, sizeof log, "%s-wal", locks);
  snprintf(documents_log, sizeof documents_log, "%s-wal", file);
  for (unsigned i = 0; i < 100; i++) {
    write_both(i);
    bool there = stat(log, &info) == 0;
    if (there) assert_in_range(info.st_size, 1, 400000);
    stayed += there;
    assert_int_equal(access(documents_log, F_OK), -1);
  }
  assert_in_range(stayed, 80, 99);
  write_both(100); /* so that there is a log in any case */
  assert_int_equal(unlink(locks), 0);
  write_both(0);
}

/* Runs in a child; the parent asserts that it says 0. */
static void in_child(int (*run)(void)) {
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) _exit(run());
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("child: status %x", (unsigned)status);
}

static int create_read_only(void) {
  if (getuid() == 0 && setresuid(65534, 65534, 65534)) return 1;
  handle h = open_here(file);
  mt_index_admin r = {.index = "i"};
  h.s->docs->index_create(h.s, &r);
  if (finish(&h, &r.req) != MORTISE_AUTH) return 2;
  const mortise_error *err = &r.req.error;
  bool said =
      strstr(err->message, "permission denied") && strstr(err->message, file) && !err->retryable;
  shut(&h);
  return said ? 0 : 3;
}

static int open_read_only(void) {
  handle h;
  mortise_error err = {0};
  if (getuid() == 0 && setresuid(65534, 65534, 65534)) return 1;
  if (try_open(&h, file, &err) != MORTISE_AUTH) return 2;
  return strstr(err.message, "permission denied") && strstr(err.message, file) && !err.retryable
             ? 0
             : 3;
}

static void says_read_only(void **state) {
  (void)state;
  assert_int_equal(chmod(folder, 0555), 0);
  in_child(create_read_only); /* a folder in which nothing can be made */
  assert_int_equal(chmod(folder, 0755), 0);
  handle h = open_here(file);
  one(&h, "i", MT_WRITE_INDEX, "a", "{}");
  shut(&h);
  assert_int_equal(chmod(file, 0444), 0);
  in_child(open_read_only);
}

static void limit(rlim_t bytes) {
  struct rlimit l;
  getrlimit(RLIMIT_FSIZE, &l);
  l.rlim_cur = bytes;
  setrlimit(RLIMIT_FSIZE, &l);
}

static int fill_disk(void) {
  static char body[8192];
  char id[24];
  snprintf(body, sizeof body, "{\"x\":\"%08000d\"}", 7);
  signal(SIGXFSZ, SIG_IGN);
  handle h = open_here(file);
  limit(1 << 20);
  int acked = 0;
  mt_write w;
  mt_bulk r;
  for (;; acked++) {
    if (acked > 1000) return 1;
    snprintf(id, sizeof id, "d%d", acked);
    w = (mt_write){.kind = MT_WRITE_CREATE, .id = mt_slice_of(id), .body = mt_slice_of(body)};
    r = (mt_bulk){.index = "i", .items = &w, .n = 1};
    h.s->docs->bulk(h.s, &r);
    if (finish(&h, &r.req)) break;
    if (w.result != MT_WRITE_APPLIED) return 2;
  }
  if (r.req.error.code != MORTISE_UNAVAILABLE || !strstr(r.req.error.message, "no space")) {
    fprintf(stderr, "%d: %s\n", (int)r.req.error.code, r.req.error.message);
    return 3;
  }
  if (w.result != MT_WRITE_NONE) return 4;
  limit(RLIM_INFINITY);
  uint64_t there = count_of(&h, "i", "");
  if (there < (uint64_t)acked || there > (uint64_t)acked + 1) return 5; /* one was ambiguous */
  if (one(&h, "i", MT_WRITE_INDEX, "after", "{}").result != MT_WRITE_APPLIED) return 6;
  shut(&h);
  return 0;
}

static void survives_a_full_disk(void **state) {
  (void)state;
  in_child(fill_disk);
}

/* ---- processes ---- */

typedef struct shared {
  _Atomic uint64_t acked, worst_us, beats;
  _Atomic bool stop;
} shared;

static shared *share(void) {
  void *p = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(p != MAP_FAILED);
  return p;
}

/* Bulks of `n` documents, each saying its number twice, far apart. */
static bool write_some(handle *h, const char *index, uint64_t from, size_t n, mt_write_kind kind) {
  enum { BODY = 700 };
  char(*bodies)[BODY] = malloc(n * BODY), (*ids)[24] = malloc(n * 24);
  mt_write *items = calloc(n, sizeof *items);
  for (size_t i = 0; i < n; i++) {
    unsigned long long k = from + i;
    snprintf(ids[i], sizeof ids[i], "d%llu", k);
    snprintf(bodies[i], BODY, "{\"n\":%llu,\"pad\":\"%0600d\",\"path\":\"/p/%llu\",\"m\":%llu}", k,
             0, k * 7919 % 100003, k);
    items[i] = (mt_write){.kind = kind, .id = mt_slice_of(ids[i]), .body = mt_slice_of(bodies[i])};
  }
  mt_bulk r = {.index = index, .items = items, .n = n};
  h->s->docs->bulk(h->s, &r);
  bool ok = !finish(h, &r.req);
  for (size_t i = 0; ok && i < n; i++) ok = items[i].result == MT_WRITE_APPLIED;
  free(items);
  free(bodies);
  free(ids);
  return ok;
}

static void write_for_ever(shared *s) {
  handle h = open_here(file);
  while (write_some(&h, "k", s->acked, 300, MT_WRITE_INDEX)) s->acked += 300;
}

static void check_documents(handle *h, uint64_t acked) {
  mt_scan_open open = {.index = "k"};
  h->s->docs->scan_open(h->s, &open);
  assert_int_equal(finish(h, &open.req), MORTISE_OK);
  assert_true(open.total >= acked);
  for (;;) {
    mt_scan_next next = {.scan = open.scan};
    h->s->docs->scan_next(h->s, &next);
    assert_int_equal(finish(h, &next.req), MORTISE_OK);
    if (!next.page) break;
    for (size_t i = 0; i < next.page->n; i++) {
      mt_json root;
      uint64_t n = 0, m = 1;
      assert_int_equal(mt_json_parse(next.page->docs[i].source, "doc", &root, NULL), MORTISE_OK);
      assert_true(mt_json_uint(mt_json_get(root, "n"), &n) &&
                  mt_json_uint(mt_json_get(root, "m"), &m) && n == m);
    }
    mt_page_free(next.page);
  }
  h->s->docs->scan_close(h->s, open.scan);
  for (uint64_t k = 0; k < acked; k += 97) { /* and their entries are there */
    char query[64];
    snprintf(query, sizeof query, "{\"term\":{\"path\":\"/p/%llu\"}}",
             (unsigned long long)(k * 7919 % 100003));
    assert_true(count_of(h, "k", query) >= 1);
  }
}

static int integrity_row(void *ctx, int n, char **values, char **names) {
  (void)names;
  if (n != 1 || strcmp(values[0], "ok") != 0) *(bool *)ctx = false;
  return 0;
}

static const char keyed[] = "{\"mappings\":{\"properties\":{\"path\":{\"type\":\"keyword\"},"
                            "\"tag\":{\"type\":\"keyword\"},\"a\":{\"properties\":{\"b\":"
                            "{\"type\":\"keyword\"}}}}}}";

static void survives_kill(void **state) {
  (void)state;
  shared *s = share();
  handle h = open_here(file);
  create(&h, "k", keyed);
  shut(&h);
  for (int round = 0; round < 6; round++) {
    s->acked = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
      write_for_ever(s);
      _exit(1);
    }
    while (s->acked == 0) usleep(1000);
    usleep((useconds_t)roll(150000));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    h = open_here(file);
    check_documents(&h, s->acked);
    shut(&h);
    bool ok = true;
    sqlite3 *db;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA integrity_check", integrity_row, &ok, NULL);
    sqlite3_close(db);
    assert_true(ok);
  }
  munmap(s, sizeof *s);
}

static void write_until_stop(shared *s, unsigned number) {
  char index[24];
  handle h = open_here(file);
  snprintf(index, sizeof index, "w%u", number);
  while (!s->stop) {
    if (!write_some(&h, index, roll(5000), 1000, MT_WRITE_INDEX)) _exit(1);
    s->acked++;
  }
  shut(&h);
  _exit(0);
}

static void note(shared *s, int64_t us) {
  if ((uint64_t)us > s->worst_us) s->worst_us = (uint64_t)us;
  s->beats++;
}

/* Four processes write large bulks without a pause; a fifth one writes one document now and then.
 */
static void single_writes_do_not_starve(void **state) {
  (void)state;
  enum { WRITERS = 4, TIMES = 60 };
  pid_t pids[WRITERS];
  shared *s = share();
  handle h = open_here(file);
  create(&h, "w0", keyed);
  shut(&h);
  fflush(NULL);
  for (unsigned i = 0; i < WRITERS; i++)
    if ((pids[i] = fork()) == 0) write_until_stop(s, i);
  h = open_here(file);
  while (s->acked < WRITERS) usleep(1000);
  int64_t sum_us = 0, locks_us = 0;
  for (int i = 0; i < TIMES; i++) {
    int64_t at = mt_clock_boot_us();
    assert_int_equal(one(&h, "single", MT_WRITE_INDEX, "a", "{}").result, MT_WRITE_APPLIED);
    at = mt_clock_boot_us() - at;
    sum_us += at;
    note(s, at);
    at = mt_clock_boot_us();
    mt_session_write beat = {.verb = i ? MT_SESSION_BEAT : MT_SESSION_OPEN,
                             .ns = "default",
                             .session = "0123456789abcdef0123456789abcdef",
                             .owner = MT_SLICE("{}"),
                             .lease_ms = 60000};
    h.s->locks->session(h.s, &beat);
    assert_int_equal(finish(&h, &beat.req), MORTISE_OK);
    assert_int_equal(beat.result, MT_SESSION_ACKED);
    at = mt_clock_boot_us() - at;
    if (at > locks_us) locks_us = at;
    usleep((useconds_t)roll(20000));
  }
  s->stop = true;
  for (unsigned i = 0; i < WRITERS; i++) {
    int status;
    waitpid(pids[i], &status, 0);
    assert_int_equal(status, 0);
  }
  shut(&h);
  printf("# one document beside %d writers (%llu bulks): mean %.1f ms, worst %.1f ms; a heartbeat: "
         "worst %.1f ms\n",
         WRITERS, (unsigned long long)s->acked, (double)sum_us / TIMES / 1e3,
         (double)s->worst_us / 1e3, (double)locks_us / 1e3);
  assert_true(s->worst_us < 5000000);
  munmap(s, sizeof *s);
}

/* ---- cancelling ---- */

static void cancelled_bulks_are_a_prefix(void **state) {
  (void)state;
  enum { N = 4000, ROUNDS = 25 };
  handle h = open_here(file);
  for (int round = 0; round < ROUNDS; round++) {
    char index[24], *ids = malloc(N * 16);
    snprintf(index, sizeof index, "c%d", round);
    mt_write *items = calloc(N, sizeof *items);
    for (size_t i = 0; i < N; i++) {
      snprintf(ids + 16 * i, 16, "d%05zu", i);
      items[i] = (mt_write){.id = mt_slice_of(ids + 16 * i), .body = MT_SLICE("{\"x\":1}")};
    }
    mt_bulk r = {.index = index, .items = items, .n = N};
    h.s->docs->bulk(h.s, &r);
    if (roll(4)) usleep((useconds_t)roll(120000));
    mt_store_cancel(h.s, &r.req);
    memset(ids, 'z', N * 16); /* the store is done with them */
    free(ids);
    free(items);
    one(&h, index, MT_WRITE_INDEX, "last", "{}");
    uint64_t n = count_of(&h, index, "") - 1;
    char query[96];
    snprintf(query, sizeof query, "{\"range\":{\"_id\":{\"lt\":\"d%05llu\"}}}",
             (unsigned long long)n);
    assert_int_equal(count_of(&h, index, query), n);
  }
  shut(&h);
}

/* ---- scans ---- */

static void scans_account_for_what_left(void **state) {
  (void)state;
  handle h = open_here(file);
  char id[16];
  for (int i = 0; i < 30; i++) {
    snprintf(id, sizeof id, "d%02d", i);
    one(&h, "i", MT_WRITE_INDEX, id, "{\"tag\":\"in\"}");
  }
  mt_scan_open open = {.index = "i", .page = 7, .query = MT_SLICE("{\"term\":{\"tag\":\"in\"}}")};
  h.s->docs->scan_open(h.s, &open);
  assert_int_equal(finish(&h, &open.req), MORTISE_OK);
  mt_version gone = one(&h, "i", MT_WRITE_DELETE, "d03", "").version;
  one(&h, "i", MT_WRITE_INDEX, "d10", "{\"tag\":\"out\"}");
  mt_version newer = one(&h, "i", MT_WRITE_INDEX, "d20", "{\"tag\":\"in\",\"x\":1}").version;
  one(&h, "i", MT_WRITE_INDEX, "d99", "{\"tag\":\"in\"}");
  size_t n = 0;
  for (;;) {
    mt_scan_next next = {.scan = open.scan};
    h.s->docs->scan_next(h.s, &next);
    assert_int_equal(finish(&h, &next.req), MORTISE_OK);
    if (!next.page) break;
    for (size_t i = 0; i < next.page->n; i++, n++) {
      const mt_doc *d = &next.page->docs[i];
      assert_int_equal(d->found, n != 3 && n != 10);
      assert_int_equal(d->source.n == 0, n == 3 || n == 10);
      if (n == 20) assert_int_equal(d->version.seq_no, newer.seq_no);
      if (n == 3) assert_true(d->version.seq_no < gone.seq_no && d->version.term == 1);
    }
    mt_page_free(next.page);
  }
  assert_int_equal(n, 30);
  assert_int_equal(open.total, 30);
  h.s->docs->scan_close(h.s, open.scan);
  shut(&h);
}

/* ---- without memory ---- */

static _Atomic long
    left; /* allocations that still succeed; below zero: one fails, then all do not */

static bool allow(void *ctx, size_t size) {
  (void)ctx;
  (void)size;
  return left-- != 0;
}

static void may_lack_memory(handle *h, mt_req *req) {
  mortise_status status = finish(h, req);
  if (status != MORTISE_OK && status != MORTISE_OUT_OF_MEMORY)
    fail_msg("%d: %s", (int)status, req->error.message);
}

static void try_scan(handle *h) {
  mt_scan_open open = {.index = "keyed",
                       .query = MT_SLICE("{\"bool\":{\"should\":[{\"prefix\":{\"path\":\"/\"}},"
                                         "{\"terms\":{\"tag\":[\"a\\u0062\",\"c\"]}}]}}")};
  h->s->docs->scan_open(h->s, &open);
  may_lack_memory(h, &open.req);
  if (!open.scan) return;
  mt_scan_next next = {.scan = open.scan};
  h->s->docs->scan_next(h->s, &next);
  may_lack_memory(h, &next.req);
  mt_page_free(next.page);
  h->s->docs->scan_close(h->s, open.scan);
}

static void try_documents(handle *h) {
  mt_write items[] = {
      {.kind = MT_WRITE_INDEX, .id = MT_SLICE("a"), .body = MT_SLICE("{\"path\":\"/\\u0061\"}")},
      {.kind = MT_WRITE_UPDATE,
       .id = MT_SLICE("a"),
       .body = MT_SLICE("{\"doc\":{\"tag\":\"ab\"}}")}};
  mt_bulk bulk = {.index = "keyed", .items = items, .n = 2};
  h->s->docs->bulk(h->s, &bulk);
  may_lack_memory(h, &bulk.req);
  if (bulk.req.error.code) assert_int_equal(items[0].result, MT_WRITE_NONE);
  mt_search search = {.index = "keyed", .body = MT_SLICE("{\"sort\":\"path\"}")};
  h->s->docs->search(h->s, &search);
  may_lack_memory(h, &search.req);
  mt_search_deinit(&search);
  mt_slice ids[] = {MT_SLICE("a"), MT_SLICE("b")};
  mt_mget get = {.index = "keyed", .ids = ids, .n = 2};
  h->s->docs->mget(h->s, &get);
  may_lack_memory(h, &get.req);
  mt_mget_deinit(&get);
}

static void try_locks(handle *h) {
  static const char *const sessions[] = {"0123456789abcdef0123456789abcdef",
                                         "1123456789abcdef0123456789abcdef"};
  for (uint64_t i = 0; i < 2; i++) {
    mt_lock_item item = {.verb = MT_LOCK_SET,
                         .place.path = MT_SLICE("/"),
                         .n = i + 1,
                         .mode = MT_X,
                         .fresh = true,
                         .enqueue = true};
    mt_lock_batch batch = {.ns = "default", .session = sessions[i], .items = &item, .n = 1};
    h->s->locks->batch(h->s, &batch);
    may_lack_memory(h, &batch.req);
    if (batch.req.error.code) assert_int_equal(item.result, MT_LOCK_NO_ANSWER);
    mt_lock_batch_deinit(&batch);
  }
  mt_session_read read = {.ns = "default", .ids = sessions, .n = 2};
  h->s->locks->session_read(h->s, &read);
  may_lack_memory(h, &read.req);
  mt_session_read_deinit(&read);
  mt_lock_list list = {0};
  h->s->locks->list(h->s, &list);
  may_lack_memory(h, &list.req);
  mt_lock_list_deinit(&list);
  h->s->locks->list_close(h->s, list.listing);
  mt_lock_read locks = {.ns = "default", .places = &(mt_place){{"/", 1}, 0}, .n = 1};
  h->s->locks->lock_read(h->s, &locks);
  may_lack_memory(h, &locks.req);
  mt_lock_read_deinit(&locks);
}

/* Each allocation fails once, in turn. */
static void outlives_lack_of_memory(void **state) {
  (void)state;
  handle h = open_here(file);
  create(&h, "keyed", keyed);
  one(&h, "keyed", MT_WRITE_INDEX, "b", "{\"tag\":[\"ab\",\"c\"]}");
  for (long n = 0; n < 120; n++) {
    left = n;
    mt_mem_hook(allow, NULL);
    try_documents(&h);
    try_scan(&h);
    try_locks(&h);
    mt_mem_hook(NULL, NULL);
    assert_true(n > 5 || left < 0);
  }
  assert_int_equal(one(&h, "keyed", MT_WRITE_INDEX, "z", "{}").result, MT_WRITE_APPLIED);
  shut(&h);
}

int main(void) {
  seed_dice();
  const struct CMUnitTest tests[] = {
      CASE(refuses_foreign_files),
      CASE(refuses_the_wrong_kind),
      CASE(refuses_bad_names),
      CASE(reading_makes_no_file),
      CASE(damaged_locks_are_said),
      CASE(notices_a_replaced_file),
      CASE(keeps_short_logs_of_locks),
      CASE(says_read_only),
      CASE(survives_a_full_disk),
      CASE(survives_kill),
      CASE(single_writes_do_not_starve),
      CASE(cancelled_bulks_are_a_prefix),
      CASE(scans_account_for_what_left),
      CASE(outlives_lack_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
