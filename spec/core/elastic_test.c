/* What only a server can show, on each one in MORTISE_TEST_URLS: tables that are wrong, gone,
 * cloned or made by two at once; that nothing is made by accident; the scripts' matrix against
 * core/store/mode.c. */
#include "support/support.h"

#include "base/mem.h"
#include "elastic/elastic.h"

#include <stdio.h>
#include <stdlib.h>

static const char a_[] = "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";
static const char b_[] = "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b";
static const char c_[] = "0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c";

typedef struct fixture {
  const mt_test_place *home;
  mt_test_place place; /* with a table of its own for this case */
  const struct test *what;
  mt_test_store handle;
  mt_store *s;
} fixture;

/* ---- Helpers -------------------------------------------------------------------------------- */

static int raw(fixture *f, const char *method, const char *path, const char *body, char **answer) {
  mt_raw r = {.method = method, .path = path, .body = mt_slice_of(body)};
  f->s->docs->raw(f->s, &r);
  mortise_status status = mt_test_pump(f->s, &r.req);
  MT_CHECK(!status, "%s %s: %s", method, path, r.req.error.message);
  if (answer)
    *answer = r.answer;
  else
    mt_raw_deinit(&r);
  return r.status;
}

static void must(fixture *f, const char *method, const char *path, const char *body) {
  char *answer = NULL;
  int status = raw(f, method, path, body, &answer);
  MT_CHECK(status < 300, "%s %s: %d %s", method, path, status, answer);
  mt_free(answer);
}

#define PATH(buffer, ...) (snprintf(buffer, sizeof buffer, __VA_ARGS__), buffer)

static mortise_status admin(fixture *f, void (*verb)(mt_store *, mt_locks_admin *),
                            mt_locks_admin *r) {
  verb(f->s, r);
  return mt_test_pump(f->s, &r->req);
}

static void init(fixture *f, mt_locks_admin *r) {
  MT_CHECK(!admin(f, f->s->locks->init, r), "init: %s", r->req.error.message);
}

static mortise_status verify(fixture *f, mt_locks_admin *r) {
  *r = (mt_locks_admin){0};
  return admin(f, f->s->locks->verify, r);
}

static void expect_corrupt(fixture *f, const char *says) {
  mt_locks_admin r;
  mortise_status status = verify(f, &r);
  MT_CHECK(status == MORTISE_CORRUPT_TABLE && strstr(r.req.error.message, says),
           "expected a message with \"%s\", got %s: %s", says, mortise_status_name(status),
           r.req.error.message);
}

static mortise_status batch(fixture *f, const char *session, mt_lock_item *items, size_t n,
                            mortise_error *err) {
  mt_lock_batch r = {.ns = "n", .session = session, .items = items, .n = n};
  f->s->locks->batch(f->s, &r);
  mortise_status status = mt_test_pump(f->s, &r.req);
  if (err) *err = r.req.error;
  return status;
}

static mt_lock_result one(fixture *f, const char *session, mt_lock_item item) {
  mortise_error err;
  MT_CHECK(!batch(f, session, &item, 1, &err), "%s", err.message);
  mt_lock_batch_deinit(&(mt_lock_batch){.items = &item, .n = 1});
  return item.result;
}

static uint64_t documents(fixture *f) {
  mt_refresh refresh = {.index = f->place.table};
  f->s->docs->refresh(f->s, &refresh);
  MT_CHECK(!mt_test_pump(f->s, &refresh.req), "%s", refresh.req.error.message);
  mt_count count = {.index = f->place.table};
  f->s->docs->count(f->s, &count);
  MT_CHECK(!mt_test_pump(f->s, &count.req), "%s", count.req.error.message);
  return count.count;
}

/* The index behind the alias. */
static void index_of(fixture *f, char *out, size_t size) {
  mt_describe r = {.index = f->place.table};
  f->s->docs->describe(f->s, &r);
  MT_CHECK(!mt_test_pump(f->s, &r.req) && r.exists, "%s", r.req.error.message);
  snprintf(out, size, "%s", r.name);
  mt_describe_deinit(&r);
}

static bool exists(fixture *f, const char *index) {
  char path[256];
  return raw(f, "HEAD", PATH(path, "/%s", index), NULL, NULL) == 200;
}

/* ---- Tables --------------------------------------------------------------------------------- */

static void no_table(fixture *f) {
  mt_locks_admin r;
  MT_CHECK(verify(f, &r) == MORTISE_NOT_FOUND && strstr(r.req.error.message, "mortise init"), "%s",
           r.req.error.message);
  mt_lock_item items[] = {
      {.verb = MT_LOCK_CREATE, .place.path = MT_SLICE("/a"), .n = 1, .mode = MT_X},
      {.verb = MT_LOCK_SET, .place.path = MT_SLICE("/"), .n = 2, .mode = MT_IX}};
  mortise_error err;
  MT_CHECK(batch(f, a_, items, 2, &err) == MORTISE_CORRUPT_TABLE && strstr(err.message, "gone"),
           "%s", err.message);
  mt_session_write w = {.verb = MT_SESSION_OPEN, .ns = "n", .session = a_, .lease_ms = 1000};
  f->s->locks->session(f->s, &w);
  MT_CHECK(mt_test_pump(f->s, &w.req) == MORTISE_CORRUPT_TABLE, "%s", w.req.error.message);
  const char *ids[] = {a_};
  mt_session_read read = {.ns = "n", .ids = ids, .n = 1};
  f->s->locks->session_read(f->s, &read);
  MT_CHECK(mt_test_pump(f->s, &read.req) == MORTISE_CORRUPT_TABLE, "%s", read.req.error.message);
  MT_CHECK(!exists(f, f->place.table), "no index was made by a write");
}

static void made_once(fixture *f) {
  mt_locks_admin first = {0}, second = {0}, third;
  init(f, &first);
  MT_CHECK(first.created && first.epoch.id[0], "made, epoch \"%s\"", first.epoch.id);
  init(f, &second);
  MT_CHECK(!second.created && !strcmp(first.epoch.id, second.epoch.id), "the same epoch");
  MT_CHECK(!verify(f, &third) && !strcmp(first.epoch.id, third.epoch.id), "%s",
           third.req.error.message);
}

static void gone_in_use(fixture *f) {
  mt_locks_admin r = {0};
  char index[256], path[300];
  init(f, &r);
  index_of(f, index, sizeof index);
  mt_lock_item set = {
      .verb = MT_LOCK_SET, .place.path = MT_SLICE("/"), .n = 1, .mode = MT_IX, .fresh = true};
  MT_CHECK(one(f, a_, set) == MT_LOCK_ACKED, "granted");
  must(f, "DELETE", PATH(path, "/%s", index), NULL);
  set.n = 2;
  mortise_error err;
  MT_CHECK(batch(f, a_, &set, 1, &err) == MORTISE_CORRUPT_TABLE, "%s", err.message);
  MT_CHECK(set.result == MT_LOCK_FAILED, "result %d", (int)set.result);
  MT_CHECK(!exists(f, f->place.table), "not made again by a write");
}

/* A definition as init makes it, with one part changed. */
static void make_wrong(fixture *f, const char *find, const char *replace) {
  mt_locks_admin print = {.print = true, .wanted = 1};
  init(f, &print);
  char head[160], path[160];
  const char *start = strstr(print.text, PATH(head, "PUT /%s-000001\n", f->place.table));
  MT_CHECK(start, "the text has the request: %s", print.text);
  start += strlen(head);
  const char *end = strchr(start, '\n'), *at = strstr(start, find);
  MT_CHECK(at && at < end, "no %s in the definition", find);
  mt_buf body;
  mt_buf_init(&body, 1 << 16);
  mt_buf_add(&body, start, (size_t)(at - start));
  mt_buf_adds(&body, replace);
  at += strlen(find);
  mt_buf_add(&body, at, (size_t)(end - at));
  must(f, "PUT", PATH(path, "/%s-000001", f->place.table), body.p);
  mt_buf_clear(&body);
  mt_buf_addf(&body, "{\"actions\":[{\"add\":{\"index\":\"%s-000001\",\"alias\":\"%s\"}}]}",
              f->place.table, f->place.table);
  must(f, "POST", "/_aliases", body.p);
  mt_buf_deinit(&body);
  mt_locks_admin_deinit(&print);
}

static void refuses(fixture *f, const char *find, const char *replace, const char *says) {
  char path[160];
  make_wrong(f, find, replace);
  expect_corrupt(f, says);
  mt_locks_admin r = {0};
  MT_CHECK(admin(f, f->s->locks->init, &r) == MORTISE_CORRUPT_TABLE, "init leaves it alone");
  must(f, "DELETE", PATH(path, "/%s-000001", f->place.table), NULL);
}

static void wrong_tables(fixture *f) {
  refuses(f, "\"holders\":{\"type\":\"object\",\"enabled\":false}",
          "\"holders\":{\"type\":\"text\"}", "field `holders` is `text`, expected `object`");
  refuses(f, "\"queue\":{\"type\":\"object\",\"enabled\":false}", "\"queue\":{\"type\":\"object\"}",
          "field `queue` is");
  refuses(f, "\"state\":{\"type\":\"keyword\"},", "", "field `state` is missing");
  refuses(f, "\"kind\":", "\"colour\":{\"type\":\"keyword\"},\"kind\":", "field `colour` does not");
  refuses(f, "\"strict\"", "\"true\"", "not `strict`");
  refuses(f, "\"format\":1", "\"format\":7", "`_meta.format` is 7");
  refuses(f, "\"number_of_shards\":1", "\"number_of_shards\":2",
          "`index.number_of_shards` is \"2\"");
  refuses(f, "\"request\"", "\"async\"", "`index.translog.durability` is \"async\"");
  refuses(f, "\"hidden\":true", "\"hidden\":true,\"default_pipeline\":\"x\"", "default_pipeline");
}

/* Their number is never guessed: who believed in another one would not be excluded. */
static void wrong_stripes(fixture *f) {
  static const char *const bad[] = {"0", "1", "65", "-2", "2.5", "\"2\"", "[2]"};
  char meta[64], says[64];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    snprintf(meta, sizeof meta, "\"format\":2,\"stripes\":%s", bad[i]);
    snprintf(says, sizeof says, "`_meta.stripes` is %s, which format 2", bad[i]);
    refuses(f, "\"format\":1", meta, says);
  }
  refuses(f, "\"format\":1", "\"format\":2", "`_meta.stripes` is missing, which format 2");
  refuses(f, "\"format\":1", "\"format\":1,\"stripes\":2",
          "`_meta.stripes` is 2, which format 1 does not allow");
}

static void index_instead_of_alias(fixture *f) {
  char path[160];
  must(f, "PUT", PATH(path, "/%s", f->place.table), NULL);
  mt_locks_admin r;
  MT_CHECK(verify(f, &r) == MORTISE_CORRUPT_TABLE &&
               strstr(r.req.error.message, "expected an alias"),
           "%s", r.req.error.message);
  mt_lock_item set = {
      .verb = MT_LOCK_SET, .place.path = MT_SLICE("/"), .n = 1, .mode = MT_IX, .fresh = true};
  mortise_error err;
  MT_CHECK(batch(f, a_, &set, 1, &err) == MORTISE_CORRUPT_TABLE, "nothing is written: %s",
           err.message);
  MT_CHECK(documents(f) == 0, "nothing was written");
}

/* ---- An index that takes no writes now ------------------------------------------------------ */

static mt_write_result write_one(fixture *f, const char *index) {
  mt_write w = {.kind = MT_WRITE_INDEX, .id = MT_SLICE("x"), .body = MT_SLICE("{\"n\":1}")};
  mt_bulk r = {.index = index, .items = &w, .n = 1};
  f->s->docs->bulk(f->s, &r);
  MT_CHECK(!mt_test_pump(f->s, &r.req), "%s", r.req.error.message);
  MT_CHECK(w.result != MT_WRITE_BUSY || strstr(w.reason, index), "it names the index: %s",
           w.reason);
  return w.result;
}

static void blocked_index(fixture *f) {
  static const char *const blocks[] = {"write", "read_only", "read_only_allow_delete"};
  char index[256], path[300], body[96];
  must(f, "PUT", PATH(path, "/%s", PATH(index, "%s-docs", f->place.table)), NULL);
  PATH(path, "/%s/_settings", index);
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
    must(f, "PUT", path, PATH(body, "{\"index.blocks.%s\":true}", blocks[i]));
    MT_CHECK(write_one(f, index) == MT_WRITE_BUSY, "%s: not the document's fault", blocks[i]);
    must(f, "PUT", path, PATH(body, "{\"index.blocks.%s\":null}", blocks[i]));
  }
  MT_CHECK(write_one(f, index) == MT_WRITE_APPLIED, "and goes on afterwards");
}

static void two_indices(fixture *f) {
  mt_locks_admin r = {0};
  char body[300];
  init(f, &r);
  must(f, "PUT", PATH(body, "/%s-extra", f->place.table), NULL);
  must(
      f, "POST", "/_aliases",
      PATH(body,
           "{\"actions\":[{\"add\":{\"index\":\"%s-extra\",\"alias\":\"%s\",\"is_hidden\":true}}]}",
           f->place.table, f->place.table));
  expect_corrupt(f, "stands for 2 indices");
}

/* The clone takes the alias over, as a restore under another name would. */
static void clone_table(fixture *f, const char *index, const char *clone) {
  char path[1200];
  must(f, "PUT", PATH(path, "/%s/_settings", index), "{\"index.blocks.write\":true}");
  must(f, "POST", PATH(path, "/%s/_clone/%s", index, clone),
       "{\"settings\":{\"index.blocks.write\":null}}");
  must(f, "POST", "/_aliases",
       PATH(path,
            "{\"actions\":[{\"remove_index\":{\"index\":\"%s\"}},{\"add\":{\"index\":\"%s\","
            "\"alias\":\"%s\",\"is_hidden\":true}}]}",
            index, clone, f->place.table));
  must(f, "GET", PATH(path, "/_cluster/health/%s?wait_for_status=yellow&timeout=10s", clone), NULL);
}

static void cloned_table(fixture *f) {
  mt_locks_admin r = {0}, again = {0};
  char index[256], clone[300], now[256];
  init(f, &r);
  mt_lock_item set = {
      .verb = MT_LOCK_SET, .place.path = MT_SLICE("/"), .n = 1, .mode = MT_IX, .fresh = true};
  MT_CHECK(one(f, a_, set) == MT_LOCK_ACKED, "granted");
  index_of(f, index, sizeof index);
  clone_table(f, index, PATH(clone, "%s-clone", index));
  expect_corrupt(f, "restored or cloned");
  MT_CHECK(admin(f, f->s->locks->init, &again) == MORTISE_CORRUPT_TABLE &&
               strstr(again.req.error.message, "not empty"),
           "a lock is left: %s", again.req.error.message);
  mt_lock_item evict = {.verb = MT_LOCK_EVICT, .place.path = MT_SLICE("/"), .session = a_};
  MT_CHECK(one(f, b_, evict) == MT_LOCK_ACKED, "taken out by hand");
  again = (mt_locks_admin){0};
  init(f, &again);
  index_of(f, now, sizeof now);
  MT_CHECK(strcmp(again.epoch.id, r.epoch.id) != 0, "a new epoch");
  MT_CHECK(strcmp(now, clone) != 0, "in an index of its own: %s", now);
  mt_locks_admin after;
  MT_CHECK(!verify(f, &after) && !strcmp(after.epoch.id, again.epoch.id), "%s",
           after.req.error.message);
}

/* An init that is cut short after any step is finished by the next one. */
static void half_made(fixture *f) {
  char path[200];
  mt_locks_admin r = {0};
  make_wrong(f, "\"EPOCH\"", "\"00ff\"");
  must(f, "DELETE", PATH(path, "/%s-000001/_alias/%s", f->place.table, f->place.table), NULL);
  init(f, &r);
  MT_CHECK(!strcmp(r.epoch.id, "00ff"), "the epoch that was there first: %s", r.epoch.id);
  MT_CHECK(!verify(f, &r), "%s", r.req.error.message);
  must(f, "DELETE", PATH(path, "/%s-000001/_alias/%s", f->place.table, f->place.table), NULL);
  r = (mt_locks_admin){0};
  init(f, &r);
  MT_CHECK(!strcmp(r.epoch.id, "00ff"), "%s", r.epoch.id);
}

static void two_at_once(fixture *f) {
  enum { N = 6 };
  mt_locks_admin r[N];
  memset(r, 0, sizeof r);
  size_t created = 0;
  for (size_t i = 0; i < N; i++) f->s->locks->init(f->s, &r[i]);
  for (size_t i = 0; i < N; i++) {
    MT_CHECK(!mt_test_pump(f->s, &r[i].req), "init %zu: %s", i, r[i].req.error.message);
    MT_CHECK(!strcmp(r[i].epoch.id, r[0].epoch.id), "one epoch for all");
    created += r[i].created;
  }
  MT_CHECK(created == 1, "%zu made it", created);
  MT_CHECK(!verify(f, &r[0]), "%s", r[0].req.error.message);
}

static void printed(fixture *f) {
  uint64_t before = f->s->stats.requests;
  mt_locks_admin r = {.print = true};
  init(f, &r);
  MT_CHECK(strstr(r.text, "PUT /_scripts/mortise-lock-set-1/update") &&
               strstr(r.text, "cluster_composite_ops_ro") && strstr(r.text, "view_index_metadata"),
           "%s", r.text);
  MT_CHECK(f->s->stats.requests == before && !exists(f, f->place.table), "nothing was sent");
  mt_locks_admin_deinit(&r);
}

/* Scripts belong to the cluster, not to a table: run this only if nobody else runs tests on it. */
static void missing_script(fixture *f) {
  if (!getenv("MORTISE_TEST_ALONE")) {
    printf("# MORTISE_TEST_ALONE is not set: others may need the script\n");
    skip();
  }
  mt_locks_admin r = {0};
  init(f, &r);
  must(f, "DELETE", "/_scripts/mortise-lock-adopt-1", NULL);
  mt_lock_item set = {
      .verb = MT_LOCK_SET, .place.path = MT_SLICE("/"), .n = 1, .mode = MT_IX, .fresh = true};
  MT_CHECK(one(f, b_, set) == MT_LOCK_ACKED, "granted");
  mt_lock_item adopt = {.verb = MT_LOCK_ADOPT, .place.path = MT_SLICE("/"), .n = 1, .session = b_};
  mortise_error err;
  batch(f, a_, &adopt, 1, &err);
  MT_CHECK(adopt.result == MT_LOCK_FAILED && err.code == MORTISE_CORRUPT_TABLE &&
               strstr(err.message, "mortise init"),
           "%d: %s", (int)adopt.result, err.message);
  r = (mt_locks_admin){0};
  init(f, &r);
  MT_CHECK(one(f, a_, adopt) == MT_LOCK_ACKED, "stored again");
}

/* ---- Locks ---------------------------------------------------------------------------------- */

static void noop_leaves_nothing(fixture *f) {
  mt_locks_admin r = {0};
  init(f, &r);
  mt_lock_item items[] = {
      {.verb = MT_LOCK_SET, .place.path = MT_SLICE("/a"), .n = 5, .mode = MT_IX},
      {.verb = MT_LOCK_SET, .place.path = MT_SLICE("/b"), .n = 5, .mode = MT_IX, .enqueue = true},
      {.verb = MT_LOCK_RELEASE, .place.path = MT_SLICE("/c"), .n = 5},
      {.verb = MT_LOCK_EVICT, .place.path = MT_SLICE("/d"), .session = b_},
      {.verb = MT_LOCK_ADOPT, .place.path = MT_SLICE("/e"), .n = 5, .session = b_},
      {.verb = MT_LOCK_DELETE, .place.path = MT_SLICE("/f"), .if_version = {1, 1}},
  };
  static const mt_lock_result want[] = {MT_LOCK_STALE,  MT_LOCK_STALE,  MT_LOCK_ABSENT,
                                        MT_LOCK_ABSENT, MT_LOCK_ABSENT, MT_LOCK_CONFLICT};
  mortise_error err;
  MT_CHECK(!batch(f, a_, items, 6, &err), "%s", err.message);
  for (size_t i = 0; i < 6; i++)
    MT_CHECK(items[i].result == want[i], "item %zu: %d", i, (int)items[i].result);
  MT_CHECK(documents(f) == 0, "%llu documents", (unsigned long long)documents(f));
}

/* For each pair of modes: the second is granted beside the first exactly if they are compatible;
 * and for each three: an upgrade is granted beside another's mode exactly if the new one is. */
static void matrix(fixture *f) {
  mt_locks_admin r = {0};
  init(f, &r);
  uint64_t n = 1;
  for (mt_mode held = MT_IS; held <= MT_X; held++) {
    for (mt_mode want = MT_IS; want <= MT_X; want++) {
      mt_lock_item first = {
          .place.path = MT_SLICE("/m"), .n = n++, .mode = held, .fresh = true, .verb = MT_LOCK_SET};
      mt_lock_item second = {
          .place.path = MT_SLICE("/m"), .n = n++, .mode = want, .fresh = true, .verb = MT_LOCK_SET};
      MT_CHECK(one(f, a_, first) == MT_LOCK_ACKED, "%s alone", mt_mode_name(held));
      mt_lock_result expected = mt_mode_compatible(held, want) ? MT_LOCK_ACKED : MT_LOCK_DENIED;
      MT_CHECK(one(f, b_, second) == expected, "%s beside %s", mt_mode_name(want),
               mt_mode_name(held));
      for (mt_mode up = MT_IS; expected == MT_LOCK_ACKED && up <= MT_X; up++) {
        mt_lock_item upgrade = {
            .place.path = MT_SLICE("/m"), .n = n++, .mode = up, .verb = MT_LOCK_SET};
        MT_CHECK(one(f, b_, upgrade) ==
                     (mt_mode_compatible(held, up) ? MT_LOCK_ACKED : MT_LOCK_DENIED),
                 "%s to %s beside %s", mt_mode_name(want), mt_mode_name(up), mt_mode_name(held));
      }
      mt_lock_item gone = {.place.path = MT_SLICE("/m"), .n = n++, .verb = MT_LOCK_RELEASE};
      MT_CHECK(one(f, a_, gone) == MT_LOCK_ACKED, "given back");
      one(f, b_, gone);
    }
  }
  MT_CHECK(documents(f) == 0, "all gone");
}

/* If the adopter holds something there itself, the least upper bound results. */
static void adopt_joins(fixture *f) {
  mt_locks_admin r = {0};
  init(f, &r);
  uint64_t n = 1;
  for (mt_mode own = MT_IS; own <= MT_X; own++) {
    for (mt_mode theirs = MT_IS; theirs <= MT_X; theirs++) {
      if (!mt_mode_compatible(own, theirs)) continue;
      mt_lock_item set = {
          .place.path = MT_SLICE("/j"), .n = n++, .mode = own, .fresh = true, .verb = MT_LOCK_SET};
      MT_CHECK(one(f, a_, set) == MT_LOCK_ACKED, "mine");
      set.mode = theirs;
      MT_CHECK(one(f, b_, set) == MT_LOCK_ACKED, "theirs");
      mt_lock_item adopt = {
          .place.path = MT_SLICE("/j"), .n = n++, .session = b_, .verb = MT_LOCK_ADOPT};
      MT_CHECK(one(f, a_, adopt) == MT_LOCK_ACKED, "adopted");
      mt_mode joined = mt_mode_join(own, theirs);
      for (mt_mode m = MT_IS; m <= MT_X; m++) {
        mt_lock_item other = {
            .place.path = MT_SLICE("/j"), .n = n++, .mode = m, .fresh = true, .verb = MT_LOCK_SET};
        MT_CHECK((one(f, c_, other) == MT_LOCK_ACKED) == mt_mode_compatible(joined, m),
                 "%s beside %s joined with %s", mt_mode_name(m), mt_mode_name(own),
                 mt_mode_name(theirs));
        mt_lock_item gone = {.place.path = MT_SLICE("/j"), .n = n++, .verb = MT_LOCK_RELEASE};
        one(f, c_, gone);
      }
      mt_lock_item gone = {.place.path = MT_SLICE("/j"), .n = n++, .verb = MT_LOCK_RELEASE};
      MT_CHECK(one(f, a_, gone) == MT_LOCK_ACKED, "given back");
      MT_CHECK(one(f, b_, gone) == MT_LOCK_ABSENT, "nothing of theirs is left");
    }
  }
}

/* An _id has 512 bytes: a longer path is found by its hash, and listed in full. */
static void long_paths(fixture *f) {
  static char text[3][4097];
  static const size_t lengths[] = {510, 511, 4096};
  mt_locks_admin r = {0};
  init(f, &r);
  for (size_t i = 0; i < 3; i++) {
    memset(text[i], 'p', lengths[i]);
    for (size_t k = 0; k < lengths[i]; k += 100) text[i][k] = '/';
    text[i][lengths[i]] = '\0';
    mt_lock_item item = {
        .place.path = mt_slice_of(text[i]), .n = 1, .mode = MT_X, .verb = MT_LOCK_CREATE};
    MT_CHECK(one(f, a_, item) == MT_LOCK_ACKED, "%zu bytes", lengths[i]);
    item.verb = MT_LOCK_SET;
    item.fresh = true;
    MT_CHECK(one(f, b_, item) == MT_LOCK_DENIED, "%zu bytes", lengths[i]);
  }
  char path[128], *answer;
  mt_lock_list list = {.ns = "n"};
  f->s->locks->list(f->s, &list);
  MT_CHECK(!mt_test_pump(f->s, &list.req), "%s", list.req.error.message);
  for (size_t i = 0; i < 3; i++)
    MT_CHECK(strstr(list.json, text[i]), "%zu bytes are listed", lengths[i]);
  mt_lock_list_deinit(&list);
  raw(f, "GET", PATH(path, "/%s/_search?size=10&_source=false", f->place.table), NULL, &answer);
  MT_CHECK(strstr(answer, "n:sha256:") && !strstr(answer, text[1]), "by its hash");
  mt_free(answer);
}

/* ---- Documents ------------------------------------------------------------------------------ */

static mt_describe described(fixture *f, const char *index) {
  mt_describe r = {.index = index};
  f->s->docs->describe(f->s, &r);
  MT_CHECK(!mt_test_pump(f->s, &r.req), "%s", r.req.error.message);
  return r;
}

/* Settings that make writing whole sources unsafe are noticed. */
static void flags(fixture *f) {
  static const struct {
    const char *body;
    bool disabled, filtered, final;
  } rows[] = {
      {"{}", false, false, false},
      {"{\"mappings\":{\"_source\":{\"enabled\":false}}}", true, false, false},
      {"{\"mappings\":{\"_source\":{\"excludes\":[\"x\"]}}}", false, true, false},
      {"{\"mappings\":{\"_source\":{\"includes\":[\"x\"]}}}", false, true, false},
      {"{\"settings\":{\"index.final_pipeline\":\"p\",\"number_of_shards\":3}}", false, false,
       true},
      {"{\"settings\":{\"index.final_pipeline\":\"_none\"}}", false, false, false},
  };
  char index[128], alias[128], path[400];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    PATH(index, "%sflags%zu", f->place.prefix, i);
    PATH(alias, "%sother%zu", f->place.prefix, i);
    must(f, "PUT", PATH(path, "/%s", index), rows[i].body);
    must(f, "POST", "/_aliases",
         PATH(path, "{\"actions\":[{\"add\":{\"index\":\"%s\",\"alias\":\"%s\"}}]}", index, alias));
    mt_describe r = described(f, alias);
    MT_CHECK(r.exists && !strcmp(r.name, index) && r.source_disabled == rows[i].disabled &&
                 r.source_filtered == rows[i].filtered && r.final_pipeline == rows[i].final &&
                 !r.source_synthetic && !r.data_stream && r.shards >= 1,
             "row %zu: %s", i, r.json);
    mt_describe_deinit(&r);
    must(f, "DELETE", PATH(path, "/%s", index), NULL);
  }
}

/* Elasticsearch has them in a module that may be left out. */
static void data_stream(fixture *f) {
  char name[128], path[300], body[300];
  PATH(name, "%sstream", f->place.prefix);
  PATH(body, "{\"index_patterns\":[\"%s\"],\"data_stream\":{},\"priority\":900}", name);
  if (raw(f, "PUT", PATH(path, "/_index_template/%s", name), body, NULL) >= 300 ||
      raw(f, "PUT", PATH(path, "/_data_stream/%s", name), NULL, NULL) >= 300) {
    raw(f, "DELETE", PATH(path, "/_index_template/%s", name), NULL, NULL);
    printf("# this server has no data streams\n");
    skip();
  }
  mt_describe r = described(f, name);
  MT_CHECK(r.exists && r.data_stream, "%s", r.json);
  mt_describe_deinit(&r);
  must(f, "DELETE", PATH(path, "/_data_stream/%s", name), NULL);
  must(f, "DELETE", PATH(path, "/_index_template/%s", name), NULL);
}

/* "all shards failed" comes with its reason, which servers give elsewhere in the answer. */
static void all_shards_failed(fixture *f) {
  static const struct {
    const char *body, *says;
  } rows[] = {
      {"{\"query\":{\"script\":{\"script\":\"int x = 0; return 1 / x == 1\"}}}",
       "all shards failed: runtime error: / by zero"},
      {"{\"query\":{\"script\":{\"script\":\"foo bar\"}}}", "all shards failed: compile error: "},
      {"{\"sort\":[\"text\"]}", "fielddata"},
  };
  char index[128], path[200];
  PATH(index, "%sshards", f->place.prefix);
  must(f, "PUT", PATH(path, "/%s", index),
       "{\"mappings\":{\"properties\":{\"text\":{\"type\":\"text\"}}}}");
  must(f, "PUT", PATH(path, "/%s/_doc/1?refresh=true", index), "{\"text\":\"a\"}");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    mt_search r = {.index = index, .body = mt_slice_of(rows[i].body)};
    f->s->docs->search(f->s, &r);
    MT_CHECK(mt_test_pump(f->s, &r.req) == MORTISE_REJECTED, "%s", rows[i].body);
    MT_CHECK(strstr(r.req.error.message, rows[i].says), "%s", r.req.error.message);
    mt_search_deinit(&r);
  }
  must(f, "DELETE", PATH(path, "/%s", index), NULL);
}

static void expect_no_cursor(fixture *f, const char *index) {
  char path[200], *answer;
  for (int i = 0; i < 50; i++) {
    raw(f, "GET", PATH(path, "/%s/_stats/search", index), NULL, &answer);
    bool none = strstr(answer, "\"scroll_current\":0") != NULL;
    mt_free(answer);
    if (none) return;
    mt_test_sleep_ms(100);
  }
  MT_CHECK(false, "cursors are left on %s", index);
}

/* Lists that are read to the end, ended before it, and closed before it. */
static void list_cursors(fixture *f) {
  char path[32];
  mt_locks_admin admin = {0};
  init(f, &admin);
  for (unsigned i = 0; i < 30; i++) {
    snprintf(path, sizeof path, "/c/%u", i);
    mt_lock_item item = {
        .place.path = mt_slice_of(path), .n = i + 1, .mode = MT_X, .verb = MT_LOCK_CREATE};
    MT_CHECK(one(f, a_, item) == MT_LOCK_ACKED, "%s", path);
  }
  for (int round = 0; round < 3; round++) {
    mt_lock_list r = {.ns = "n", .page = 10};
    for (unsigned pages = 0; pages == 0 || (r.listing && !r.end); pages++) {
      r.end = round == 1 && pages == 1;
      f->s->locks->list(f->s, &r);
      MT_CHECK(!mt_test_pump(f->s, &r.req), "%s", r.req.error.message);
      mt_lock_list_deinit(&r);
      if (round == 2) break;
    }
    MT_CHECK(!r.listing == (round != 2), "round %d", round);
    f->s->locks->list_close(f->s, r.listing);
    expect_no_cursor(f, f->place.table);
  }
}

/* Scans release the server's cursors, even when they are left early. */
static void cursors(fixture *f) {
  char index[128], path[200];
  PATH(index, "%scursors", f->place.prefix);
  must(f, "PUT", PATH(path, "/%s", index), NULL);
  mt_buf body;
  mt_buf_init(&body, 1 << 20);
  for (int i = 0; i < 500; i++)
    mt_buf_addf(&body, "{\"index\":{\"_id\":\"%d\"}}\n{\"n\":%d}\n", i, i);
  must(f, "POST", PATH(path, "/%s/_bulk?refresh=true", index), body.p);
  mt_buf_deinit(&body);
  for (int round = 0; round < 2; round++) {
    mt_scan_open open = {.index = index, .page = 20};
    f->s->docs->scan_open(f->s, &open);
    MT_CHECK(!mt_test_pump(f->s, &open.req) && open.total == 500, "%s", open.req.error.message);
    mt_scan_next next = {.scan = open.scan};
    uint64_t seen = 0;
    do {
      f->s->docs->scan_next(f->s, &next);
      MT_CHECK(!mt_test_pump(f->s, &next.req), "%s", next.req.error.message);
      seen += next.page ? next.page->n : 0;
      mt_page_free(next.page);
    } while (next.page && (round || seen < 100));
    MT_CHECK(!round || seen == 500, "%llu", (unsigned long long)seen);
    f->s->docs->scan_close(f->s, open.scan);
  }
  expect_no_cursor(f, index);
  must(f, "DELETE", PATH(path, "/%s", index), NULL);
}

/* ---- Servers that are none ------------------------------------------------------------------ */

static void stranger(fixture *f) {
  mt_test_place place = f->place;
  snprintf(place.url, sizeof place.url, "%.200s/_cat", f->home->url); /* answers, but no version */
  mt_test_store t;
  MT_CHECK(mt_test_store_open(&t, &place), "opens: nothing is sent yet");
  mt_locks_admin r = {0};
  t.store->locks->verify(t.store, &r);
  mortise_status status = mt_test_pump(t.store, &r.req);
  MT_CHECK(status == MORTISE_UNSUPPORTED && strstr(r.req.error.message, "no Elasticsearch"),
           "%s: %s", mortise_status_name(status), r.req.error.message);
  mt_test_store_close(&t);
}

/* ---- Running -------------------------------------------------------------------------------- */

typedef struct test {
  const char *name;
  void (*run)(fixture *f);
} test;

static const test all[] = {
    {"table: none", no_table},
    {"table: made once", made_once},
    {"table: deleted while in use", gone_in_use},
    {"table: wrong ones are refused", wrong_tables},
    {"table: wrong stripes are refused", wrong_stripes},
    {"table: an index of that name", index_instead_of_alias},
    {"table: an alias of two indices", two_indices},
    {"table: a clone is refused until it is empty", cloned_table},
    {"table: its making was cut short", half_made},
    {"table: six inits at once", two_at_once},
    {"table: what init would send", printed},
    {"table: a script is missing", missing_script},
    {"documents: an index that takes no writes now", blocked_index},
    {"locks: a noop leaves no document", noop_leaves_nothing},
    {"locks: the scripts' matrix", matrix},
    {"locks: adopting joins modes", adopt_joins},
    {"locks: long paths", long_paths},
    {"locks: a list's cursor is given back", list_cursors},
    {"documents: unsafe indices are described", flags},
    {"documents: a data stream is described", data_stream},
    {"documents: cursors are given back", cursors},
    {"documents: all shards failed", all_shards_failed},
    {"server: one that is none of ours", stranger},
};
enum { TESTS = sizeof all / sizeof *all };

typedef struct run {
  const mt_test_place *place;
  const test *what;
  char name[128];
} run;

static int open_fixture(void **state) {
  const run *r = *state;
  static unsigned count;
  char suffix[16];
  fixture *f = calloc(1, sizeof *f);
  if (!f) return -1;
  snprintf(suffix, sizeof suffix, "t%u", count++);
  f->home = r->place;
  f->what = r->what;
  f->place = mt_test_place_beside(r->place, suffix);
  *state = f;
  if (!mt_test_store_open(&f->handle, &f->place)) {
    free(f);
    return -1;
  }
  f->s = f->handle.store;
  return 0;
}

static int close_fixture(void **state) {
  fixture *f = *state;
  mt_test_store_close(&f->handle);
  free(f);
  return 0;
}

static void run_one(void **state) {
  fixture *f = *state;
  f->what->run(f);
}

int main(void) {
  static mt_test_place places[MT_TEST_PLACES];
  static run runs[TESTS];
  static struct CMUnitTest tests[TESTS];
  const char *filter = getenv("MORTISE_TEST_FILTER");
  if (filter) cmocka_set_test_filter(filter);
  size_t n = mt_test_places(places);
  int failed = 0;
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; places[i].elastic && k < TESTS; k++) {
      runs[k] = (run){.place = &places[i], .what = &all[k]};
      snprintf(runs[k].name, sizeof runs[k].name, "%.60s: %.60s", places[i].name, all[k].name);
      tests[k] = (struct CMUnitTest){runs[k].name, run_one, open_fixture, close_fixture, &runs[k]};
    }
    if (places[i].elastic)
      failed += _cmocka_run_group_tests(places[i].name, tests, TESTS, NULL, NULL);
    mt_test_place_clean(&places[i]);
  }
  return failed ? 1 : 0;
}
