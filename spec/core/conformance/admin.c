/* An index's settings, its write block, and aliases. */
#include "conformance/conformance.h"

#include <stdio.h>

static mortise_status administer(mt_fixture *f, void (*op)(mt_store *, mt_index_admin *), const char *index,
                                 const char *body) {
  mt_index_admin r = {.index = index, .body = body ? mt_slice_of(body) : (mt_slice){NULL, 0}};
  op(f->s, &r);
  return mt_test_pump(f->s, &r.req);
}

static mt_describe describe(mt_fixture *f, const char *index) {
  mt_describe r = {.index = index};
  f->s->docs->describe(f->s, &r);
  MT_OK(f, r);
  return r;
}

/* The JSON of the setting, or "": a server names it by its parts, and keeps texts. */
static void check_setting(mt_fixture *f, const char *name, const char *want) {
  mt_describe r = describe(f, f->index);
  json_t *root = json_loads(r.json, 0, NULL);
  const char *seen = "";
  json_t *at = json_object_get(json_object_iter_value(json_object_iter(root)), "settings");
  json_t *value = json_object_get(json_object_get(at, "index"), name);
  if (json_is_string(value)) seen = json_string_value(value);
  MT_CHECK(!strcmp(seen, want), "%s is \"%s\", not \"%s\" in %s", name, seen, want, r.json);
  json_decref(root);
  mt_describe_deinit(&r);
}

static void settings(mt_fixture *f) {
  const mt_docs_ops *docs = f->s->docs;
  mt_make_index(f, 1);
  check_setting(f, "gc_deletes", "");
  MT_CHECK(!administer(f, docs->settings, f->index, "{\"index\":{\"gc_deletes\":\"2d\",\"refresh_interval\":\"-1\"}}"),
           "set");
  check_setting(f, "gc_deletes", "2d");
  check_setting(f, "refresh_interval", "-1");
  MT_CHECK(!administer(f, docs->settings, f->index, "{\"index.gc_deletes\":\"3d\"}"), "set by its whole name");
  check_setting(f, "gc_deletes", "3d");
  MT_CHECK(!administer(f, docs->settings, f->index, "{\"index.gc_deletes\":null}"), "forgotten");
  check_setting(f, "gc_deletes", "");
  check_setting(f, "refresh_interval", "-1");
  MT_CHECK(administer(f, docs->settings, "no-such-index-of-these-tests", "{\"index.gc_deletes\":\"2d\"}") ==
               MORTISE_NOT_FOUND,
           "of no index");
  mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "a", "{\"tag\":\"t\"}"));
  mt_refresh_index(f);
  MT_CHECK(mt_count_of(f, "{\"term\":{\"tag\":\"t\"}}") == 1, "its mappings stand");
}

/* ---- The write block ------------------------------------------------------------------------ */

static void expect_blocked(mt_fixture *f, mt_write w) {
  w = mt_write_one(f, w);
  MT_CHECK(w.result == MT_WRITE_BUSY && w.status == 403 && !strcmp(w.type, "cluster_block_exception"),
           "%d %d %s: %s", (int)w.result, w.status, w.type, w.reason);
}

static void blocked(mt_fixture *f) {
  const mt_docs_ops *docs = f->s->docs;
  mt_make_index(f, 2);
  mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "a", "{\"n\":1}"));
  for (int i = 0; i < 2; i++) { /* also where it stands already */
    MT_CHECK(!administer(f, docs->block, f->index, NULL), "blocked");
    expect_blocked(f, mt_write_of(MT_WRITE_INDEX, "a", "{\"n\":2}"));
    expect_blocked(f, mt_write_of(MT_WRITE_CREATE, "b", "{\"n\":2}"));
    expect_blocked(f, mt_write_of(MT_WRITE_UPDATE, "a", "{\"doc\":{\"n\":2}}"));
    expect_blocked(f, mt_write_of(MT_WRITE_DELETE, "a", NULL));
  }
  mt_refresh_index(f);
  MT_CHECK(mt_count_of(f, NULL) == 1 && mt_get(f, MT_SLICE("a"), NULL, NULL), "it is read");
  for (int i = 0; i < 2; i++) MT_CHECK(!administer(f, docs->unblock, f->index, NULL), "lifted");
  mt_write w = mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "a", "{\"n\":3}"));
  MT_CHECK(w.result == MT_WRITE_APPLIED, "%s", w.reason);
  MT_CHECK(!administer(f, docs->block, f->index, NULL), "blocked again");
  MT_CHECK(administer(f, docs->block, "no-such-index-of-these-tests", NULL) == MORTISE_NOT_FOUND, "no index");
  MT_CHECK(administer(f, docs->unblock, "no-such-index-of-these-tests", NULL) == MORTISE_NOT_FOUND, "no index");
  MT_CHECK(!mt_drop_index(f, f->index), "a block does not keep it");
  f->index_made = false;
}

/* ---- Aliases -------------------------------------------------------------------------------- */

typedef struct names {
  char alias[112], one[112], two[112];
} names;

static names make_two(mt_fixture *f) {
  names n;
  snprintf(n.alias, sizeof n.alias, "%s.al", f->index);
  snprintf(n.one, sizeof n.one, "%s.one", f->index);
  snprintf(n.two, sizeof n.two, "%s.two", f->index);
  static const char body[] = "{\"settings\":{\"number_of_shards\":1,\"number_of_replicas\":0}}";
  MT_CHECK(!mt_create_index(f, n.one, body) && !mt_create_index(f, n.two, body), "made");
  return n;
}

static void drop_two(mt_fixture *f, const names *n) {
  MT_CHECK(!mt_drop_index(f, n->one) && !mt_drop_index(f, n->two), "dropped");
}

static mortise_status move_with(mt_fixture *f, const char *alias, const char *from, const char *to,
                                const char *mark) {
  mt_alias_move r = {.alias = alias, .from = from, .to = to, .mark = mark};
  f->s->docs->alias_move(f->s, &r);
  return mt_test_pump(f->s, &r.req);
}

static mortise_status move(mt_fixture *f, const char *alias, const char *from, const char *to) {
  return move_with(f, alias, from, to, NULL);
}

/* Of which index the name is an alias; "" of none. */
static void check_alias(mt_fixture *f, const char *name, const char *want) {
  mt_aliases r = {.name = name};
  f->s->docs->aliases(f->s, &r);
  MT_OK(f, r);
  json_t *root = json_loads(r.json, 0, NULL);
  void *first = json_object_iter(root);
  const char *seen = first ? json_object_iter_key(first) : "";
  MT_CHECK(root && !strcmp(seen, want), "%s, not of %s", r.json, want);
  if (first) MT_CHECK(json_object_get(json_object_get(json_object_iter_value(first), "aliases"), name), "%s", r.json);
  json_decref(root);
  mt_aliases_deinit(&r);
}

static uint64_t counted(mt_fixture *f, const char *index) {
  mt_refresh refresh = {.index = index};
  f->s->docs->refresh(f->s, &refresh);
  MT_OK(f, refresh);
  mt_count r = {.index = index};
  f->s->docs->count(f->s, &r);
  MT_OK(f, r);
  return r.count;
}

static void write_to(mt_fixture *f, const char *index, const char *id) {
  mt_write w = mt_write_of(MT_WRITE_INDEX, id, "{\"n\":1}");
  mt_bulk r = {.index = index, .items = &w, .n = 1};
  f->s->docs->bulk(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(w.result == MT_WRITE_APPLIED, "%s", w.reason);
}

static void aliases_move(mt_fixture *f) {
  names n = make_two(f);
  check_alias(f, n.alias, "");
  MT_CHECK(move(f, n.alias, n.one, n.two) == MORTISE_NOT_FOUND, "there is none yet");
  MT_CHECK(!move(f, n.alias, NULL, n.one), "new");
  check_alias(f, n.alias, n.one);
  write_to(f, n.alias, "a");
  for (int i = 0; i < 2; i++) MT_CHECK(!move(f, n.alias, n.one, n.two), "moved, or there already");
  check_alias(f, n.alias, n.two);
  write_to(f, n.alias, "b");
  write_to(f, n.alias, "c");
  MT_CHECK(counted(f, n.one) == 1 && counted(f, n.two) == 2 && counted(f, n.alias) == 2, "where it was");
  MT_CHECK(!move(f, n.alias, n.two, n.one), "moved back");
  MT_CHECK(counted(f, n.alias) == 1, "it names the first again");
  drop_two(f, &n);
  check_alias(f, n.alias, "");
}

/* The mark goes in the same step, and without it nothing does. */
static void aliases_move_with_a_mark(mt_fixture *f) {
  names n = make_two(f);
  char mark[sizeof n.alias + 8];
  snprintf(mark, sizeof mark, "%s-mark", n.alias);
  MT_CHECK(!move(f, n.alias, NULL, n.one), "new");
  MT_CHECK(move_with(f, n.alias, n.one, n.two, mark) == MORTISE_NOT_FOUND, "there is no mark");
  check_alias(f, n.alias, n.one);
  MT_CHECK(!move(f, mark, NULL, n.one), "the mark");
  MT_CHECK(!move_with(f, n.alias, n.one, n.two, mark), "moved");
  check_alias(f, n.alias, n.two);
  check_alias(f, mark, "");
  MT_CHECK(!move_with(f, n.alias, n.one, n.two, mark), "it is there already");
  MT_CHECK(!move(f, n.alias, n.two, NULL), "removed");
  check_alias(f, n.alias, "");
  MT_CHECK(move(f, n.alias, n.two, NULL) == MORTISE_NOT_FOUND, "once");
  MT_CHECK(move(f, n.alias, NULL, NULL) == MORTISE_INVALID_ARGUMENT, "neither from an index nor to one");
  drop_two(f, &n);
}

/* Every request takes an alias for the index that it names, and says which that is. */
static void aliases_are_names(mt_fixture *f) {
  names n = make_two(f);
  MT_CHECK(!move(f, n.alias, NULL, n.two), "new");
  write_to(f, n.alias, "a");
  mt_write both[] = {mt_write_of(MT_WRITE_INDEX, "b", "{}"), mt_write_of(MT_WRITE_INDEX, "c", "{}"),
                     mt_write_of(MT_WRITE_INDEX, "d", "{}")};
  both[1].index = mt_slice_of(n.two);
  mt_bulk bulk = {.index = n.alias, .items = both, .n = 3};
  f->s->docs->bulk(f->s, &bulk);
  MT_OK(f, bulk);
  for (int i = 1; i < 3; i++)
    MT_CHECK(both[i].version.seq_no == both[i - 1].version.seq_no + 1, "one order for the index and its alias");
  mt_describe about = describe(f, n.alias);
  MT_CHECK(about.exists && !strcmp(about.name, n.two), "%s", about.name);
  mt_describe_deinit(&about);
  mt_slice id = MT_SLICE("a");
  mt_mget get = {.index = n.alias, .ids = &id, .n = 1};
  f->s->docs->mget(f->s, &get);
  MT_OK(f, get);
  MT_CHECK(get.page->docs[0].found && mt_slice_eq(get.page->docs[0].index, mt_slice_of(n.two)), "its own index");
  mt_mget_deinit(&get);
  MT_CHECK(counted(f, n.alias) == 4, "all of them");
  mt_shards shards = {.index = n.alias};
  f->s->docs->shards(f->s, &shards);
  MT_EXPECT(f, shards, MORTISE_INVALID_ARGUMENT);
  MT_CHECK(mt_drop_index(f, n.alias) == MORTISE_REJECTED, "no index of that name");
  MT_CHECK(mt_create_index(f, n.alias, "{}") == MORTISE_REJECTED, "the name is taken");
  MT_CHECK(move(f, n.one, NULL, n.two) == MORTISE_REJECTED, "an index has that name");
  MT_CHECK(move(f, n.alias, n.two, "no-such-index-of-these-tests") == MORTISE_NOT_FOUND, "no index to move it to");
  check_alias(f, n.alias, n.two);
  drop_two(f, &n);
}

const mt_case mt_cases_admin[] = {
    {"admin: settings of an index in use", settings},
    {"admin: a write block", blocked},
    {"admin: an alias moves", aliases_move},
    {"admin: an alias moves with a mark", aliases_move_with_a_mark},
    {"admin: an alias is a name of its index", aliases_are_names},
    {0},
};
