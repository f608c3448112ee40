/* Creating the lock table, and verifying it.
 *
 * If two clients do this at once, there must be one table in the end. The index is called
 * TABLE-000001, so only one client can create it; whoever finds it finishes the rest (noting its
 * UUID, adding the alias), in steps that are the same for everyone and so may be repeated. The
 * creator's mapping holds the epoch. After a restore or a clone, if the table is empty, and for another number of
 * stripes, if nobody uses it, the next number is used, and one request moves the alias; only one client can succeed
 * with it, because it demands that the old index still has the alias, or still is there. */
#include "base/clock.h"
#include "base/mem.h"
#include "elastic/internal.h"

#include <stdio.h>
#include <stdlib.h>

enum {
  ROUNDS_MAX = 500,
  SEALED_MS = 5000, /* so long after it began to keep writes out, an init may give the alias away */
  CUT_OFF_MS = 10000, /* who keeps them out for longer was cut off */
  LOOK_MS = 250,
};

typedef void counted_fn(mt_call *c, uint64_t n);

typedef struct making {
  size_t script;
  unsigned number; /* of the index being tried, TABLE-number */
  unsigned rounds; /* bounds the loop */
  bool created;    /* by us */
  char index[MT_TABLE_MAX + 16];
  char old[256];       /* the index that must lose the alias, or "" */
  const char *counted; /* `index` or `old` */
  const char *query;
  counted_fn *go_on;   /* once it was counted */
  bool sealed;         /* `old` takes no writes; found empty then, it goes with its alias */
  int64_t sealed_ms;   /* when we asked for that */
  int64_t blocked_ms;  /* since when others are seen to keep writes out; 0: they do not */
  uint64_t users;      /* of `old`, when it was counted */
  char epoch[33];      /* ours, if we create */
  uint32_t stripes;    /* of a table that we create */
} making;

static void free_making(mt_call *c) {
  mt_free(c->state);
}

static mt_locks_admin *admin_of(mt_call *c) {
  return (mt_locks_admin *)c->req;
}

static void get_index(mt_call *c, const char *index, void (*answered)(mt_call *c)) {
  mt_call_again(c);
  mt_buf_addc(&c->path, '/');
  mt_path_add(&c->path, mt_slice_of(index));
  c->http.idempotent = true;
  mt_call_send(c, "GET", answered);
}

static bool is_type(const mt_call *c, const char *type) {
  return c->req && !strcmp(c->req->error.type, type);
}

/* ---- Verifying ------------------------------------------------------------------------------ */

static void on_verify(mt_call *c) {
  mt_locks_admin *r = admin_of(c);
  mortise_status status = mt_call_check(c, "verify the lock table", c->e->table);
  mt_table table;
  mt_json root;
  if (c->http.status == 404) {
    mt_error_set(&r->req.error, MORTISE_NOT_FOUND,
                 "there is no lock table \"%s\" on %s: run `mortise init`", c->e->table,
                 c->e->store.url);
    r->req.error.http_status = 404;
  } else if (!status) {
    if (!mt_call_json(c, "the definition of the lock table", &root)) return;
    mortise_error err;
    mt_error_clear(&err);
    if (!mt_table_check(c->e, root, &table, &err) && table.blocked) {
      mt_error_set(
          &err, MORTISE_UNAVAILABLE,
          "lock table \"%s\": its index %s takes no writes (index.blocks.write): where it was "
          "`mortise init --stripes` that was cut off, `mortise init` ends that",
          c->e->table, table.index);
      err.http_status = c->http.status; /* the store is there, and so it may pass */
    }
    if (err.code) r->req.error = err;
    if (!err.code) r->epoch = table.epoch;
    if (!err.code) r->stripes = table.stripes;
  }
  mt_call_finish(c);
}

static void verify_alias(mt_call *c) {
  get_index(c, c->e->table, on_verify);
}

static void begin_admin(mt_locks_admin *r) {
  r->epoch = (mt_epoch){0};
  r->created = false;
  r->stripes = 0;
  r->text = NULL;
}

void mt_elastic_verify(mt_store *s, mt_locks_admin *r) {
  begin_admin(r);
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (c) mt_server_need(c, verify_alias);
}

/* ---- Making --------------------------------------------------------------------------------- */

static void look_at_alias(mt_call *c);
static void look_at_index(mt_call *c);
static void let_writes_in(mt_call *c);

/* Parses the answer. One copy of the index that did not answer may be the one that has what is looked for. */
static bool all_answered(mt_call *c, const char *what, mt_json *root) {
  making *m = c->state;
  uint64_t failed = 1, good = 0;
  if (!mt_call_ok(c, what, m->counted) || !mt_call_json(c, "the answer", root)) return false;
  mt_json shards = mt_json_get(*root, "_shards");
  bool known = mt_json_uint(mt_json_get(shards, "failed"), &failed) &&
               mt_json_uint(mt_json_get(shards, "successful"), &good);
  if (known && good && !failed) return true;
  mt_call_error(c, MORTISE_UNAVAILABLE, "%s %s: not all of its copies answered: try again", what,
                m->counted);
  return false;
}

static void on_counted(mt_call *c) {
  making *m = c->state;
  uint64_t n = 0;
  mt_json root;
  if (!all_answered(c, "count the documents of", &root)) return;
  if (mt_json_uint(mt_json_get(root, "count"), &n))
    m->go_on(c, n);
  else
    mt_call_error(c, MORTISE_UNAVAILABLE, "the count of %s is not understood", m->counted);
}

static void on_refreshed(mt_call *c) {
  making *m = c->state;
  mt_json root;
  if (!all_answered(c, "refresh", &root)) return;
  mt_call_again(c);
  mt_buf_addf(&c->path, "/%s/_count", m->counted);
  mt_buf_addf(&c->body, "{\"query\":%s}", m->query);
  mt_call_send(c, "POST", on_counted);
}

static void number_index(mt_call *c, unsigned number) {
  making *m = c->state;
  m->number = number;
  snprintf(m->index, sizeof m->index, "%s-%06u", c->e->table, number);
}

static bool may_try_again(mt_call *c) {
  making *m = c->state;
  if (++m->rounds < ROUNDS_MAX) return true;
  mt_call_error(c, MORTISE_CONFLICT, "lock table \"%s\": others change it all the time",
                c->e->table);
  return false;
}

/* Either we added the alias or somebody else did just before; check what it points to now. */
static void on_alias_added(mt_call *c) {
  making *m = c->state;
  mortise_status status = mt_call_check(c, "add the alias of the lock table", c->e->table);
  if (!status) admin_of(c)->created = m->created;
  if (status && status != MORTISE_NOT_FOUND && !is_type(c, "aliases_not_found_exception")) {
    mt_call_finish(c);
    return;
  }
  if (may_try_again(c)) look_at_alias(c);
}

static void add_alias(mt_call *c) {
  making *m = c->state;
  bool late = m->sealed && mt_loop_now(c->e->store.loop) - m->sealed_ms > SEALED_MS;
  if (late) { /* soon others may let writes in, and what was counted is true no more */
    let_writes_in(c);
    return;
  }
  mt_call_again(c);
  mt_buf_adds(&c->path, "/_aliases");
  mt_table_add_alias(&c->body, c->e, m->index, m->old[0] ? m->old : NULL, m->sealed);
  mt_call_send(c, "POST", on_alias_added);
}

static void on_uuid_noted(mt_call *c) {
  making *m = c->state;
  if (mt_call_ok(c, "note the UUID of", m->index) && may_try_again(c)) look_at_index(c);
}

static void note_uuid(mt_call *c, const mt_table *table, mt_json root) {
  making *m = c->state;
  char uuid[64];
  mt_json_iter it = mt_json_items(root);
  mt_json_next(&it);
  mt_json_copy(mt_json_at(it.value, "settings", "index", "uuid", NULL), uuid, sizeof uuid);
  mt_buf body;
  mt_buf_init(&body, 4096);
  mt_table_add_uuid(&body, table->epoch.id, uuid, table->stripes);
  mt_call_again(c);
  mt_buf_addf(&c->path, "/%s/_mapping", m->index);
  mt_buf_addslice(&c->body, mt_buf_slice(&body));
  if (body.failed) c->body.failed = body.failed;
  mt_buf_deinit(&body);
  mt_call_send(c, "PUT", on_uuid_noted);
}

static void on_created(mt_call *c) {
  making *m = c->state;
  if (!mt_call_check(c, "create", m->index))
    m->created = true;
  else if (!is_type(c, "resource_already_exists_exception") &&
           !is_type(c, "index_already_exists_exception")) {
    mt_call_finish(c);
    return;
  }
  if (may_try_again(c)) look_at_index(c);
}

static void create_table(mt_call *c) {
  making *m = c->state;
  mt_call_again(c);
  mt_buf_addf(&c->path, "/%s", m->index);
  mt_table_add_definition(&c->body, m->epoch, m->stripes);
  mt_call_send(c, "PUT", on_created);
}

/* Refreshes `index` and counts what matches the query in it, then goes on. */
static void count_in(mt_call *c, const char *index, const char *query, counted_fn *go_on) {
  making *m = c->state;
  m->counted = index;
  m->query = query;
  m->go_on = go_on;
  mt_call_again(c);
  mt_buf_addf(&c->path, "/%s/_refresh", index);
  mt_call_send(c, "POST", on_refreshed);
}

static void next_index(mt_call *c) {
  number_index(c, ((making *)c->state)->number + 1);
  if (may_try_again(c)) look_at_index(c);
}

static void on_left_counted(mt_call *c, uint64_t n) {
  if (!n)
    next_index(c);
  else
    mt_call_error(c, MORTISE_CORRUPT_TABLE,
                  "index %s is no sound lock table and not empty (%llu locks): delete it if they "
                  "are of no use",
                  ((making *)c->state)->counted, (unsigned long long)n);
}

/* If an index is not our table any more, the next number is used once it is empty. */
static void leave_behind(mt_call *c, const char *index) {
  count_in(c, index, "{\"term\":{\"kind\":\"lock\"}}", on_left_counted);
}

static void on_index(mt_call *c) {
  making *m = c->state;
  mt_table table;
  mt_json root;
  mortise_error err;
  mt_error_clear(&err);
  mortise_status status = mt_call_check(c, "look at", m->index);
  if (c->http.status == 404 && !c->http.error.code) {
    create_table(c);
  } else if (status) {
    mt_call_finish(c);
  } else if (!mt_call_json(c, "the definition of the lock table", &root)) {
    return;
  } else if (!mt_table_check(c->e, root, &table, &err)) {
    add_alias(c);
  } else if (table.no_uuid) {
    note_uuid(c, &table, root);
  } else if (table.sound) {
    leave_behind(c, m->index);
  } else {
    mt_call_fail(c, &err);
  }
}

static void look_at_index(mt_call *c) {
  get_index(c, ((making *)c->state)->index, on_index);
}

/* The number in TABLE-000007, or 0. */
static unsigned number_of(const mt_elastic *e, const char *index) {
  size_t n = strlen(e->table);
  if (strncmp(index, e->table, n) != 0 || index[n] != '-') return 0;
  return (unsigned)strtoul(index + n + 1, NULL, 10);
}

/* ---- Another number of stripes -------------------------------------------------------------- */

/* Who has a session may take locks at any time, by the number of stripes that it knows. So a table gets another number
 * only by another index, of another epoch, and only while it has no lock, and no session that has not ended; while it
 * takes no writes, so that this stays so. It is counted before as well, so that nobody's writes are refused in vain.
 * A session that did not beat for two hours, twice the longest lease, relies on nothing, and on no table either: it is
 * not counted. */
static const char in_use[] =
    "{\"bool\":{\"should\":[{\"term\":{\"kind\":\"lock\"}},{\"bool\":{\"filter\":{\"term\":{"
    "\"kind\":"
    "\"session\"}},\"must_not\":[{\"terms\":{\"state\":[\"closed\",\"expired\"]}},{\"range\":{"
    "\"beat_at\":{\"lt\":\"now-2h\"}}}]}}]}}";

static void refuse_stripes(mt_call *c) {
  making *m = c->state;
  mt_call_error(
      c, MORTISE_INVALID_ARGUMENT,
      "lock table \"%s\" (index %s): its stripes are %u and not %u, and their number can be "
      "changed only while nobody uses the table: there are %llu locks and sessions (`mortise "
      "doctor "
      "--fix` removes what the dead have left)",
      c->e->table, m->old, admin_of(c)->stripes, m->stripes, (unsigned long long)m->users);
}

static void on_unblocked(mt_call *c) {
  making *m = c->state;
  if (!mt_call_ok(c, "let writes into", m->old)) return;
  if (m->users)
    refuse_stripes(c);
  else if (m->sealed)
    mt_call_error(c, MORTISE_UNAVAILABLE,
                  "lock table \"%s\": to change its stripes took too long: try again", c->e->table);
  else if (may_try_again(c))
    look_at_alias(c);
}

static void let_writes_in(mt_call *c) {
  making *m = c->state;
  mt_call_again(c);
  mt_buf_addf(&c->path, "/%s/_settings", m->old);
  mt_buf_adds(&c->body, "{\"index.blocks.write\":null}");
  mt_call_send(c, "PUT", on_unblocked);
}

static void on_users_counted(mt_call *c, uint64_t n);

static void on_blocked(mt_call *c) {
  making *m = c->state;
  mt_json root;
  bool everywhere = false;
  if (!mt_call_ok(c, "keep writes out of", m->old)) return;
  if (!mt_call_json(c, "the answer", &root)) return;
  if (!mt_json_bool(mt_json_get(root, "shards_acknowledged"), &everywhere) || !everywhere) {
    mt_call_error(c, MORTISE_UNAVAILABLE,
                  "not all copies of %s keep writes out, or another init does: try again", m->old);
    return;
  }
  m->sealed = true;
  count_in(c, m->old, in_use, on_users_counted);
}

/* Answers once the writes that were under way are over. */
static void keep_writes_out(mt_call *c) {
  making *m = c->state;
  m->sealed_ms = mt_loop_now(c->e->store.loop);
  mt_call_again(c);
  mt_buf_addf(&c->path, "/%s/_block/write", m->old);
  mt_call_send(c, "PUT", on_blocked);
}

static void on_users_counted(mt_call *c, uint64_t n) {
  making *m = c->state;
  m->users = n;
  if (n && m->sealed)
    let_writes_in(c);
  else if (n)
    refuse_stripes(c);
  else if (m->sealed)
    next_index(c);
  else
    keep_writes_out(c);
}

static void look_for_end(void *ctx) {
  look_at_alias(ctx);
}

/* Another init is at work, or was cut off. */
static void found_blocked(mt_call *c) {
  making *m = c->state;
  mt_loop *loop = c->e->store.loop;
  int64_t now = mt_loop_now(loop);
  mortise_error err;
  if (!m->blocked_ms) m->blocked_ms = now;
  if (now - m->blocked_ms >= CUT_OFF_MS) {
    let_writes_in(c);
    return;
  }
  c->pause = (mt_timer){.fire = look_for_end, .ctx = c};
  if (mt_timer_start(loop, &c->pause, now + LOOK_MS, &err)) mt_call_fail(c, &err);
}

static void found_table(mt_call *c, const mt_table *table) {
  making *m = c->state;
  mt_locks_admin *r = admin_of(c);
  r->epoch = table->epoch;
  r->stripes = table->stripes;
  snprintf(m->old, sizeof m->old, "%s", table->index);
  m->sealed = false;
  m->users = 0;
  number_index(c, number_of(c->e, table->index));
  if (!table->blocked) m->blocked_ms = 0;
  if (table->blocked)
    found_blocked(c);
  else if (r->wanted && r->wanted != table->stripes)
    count_in(c, m->old, in_use, on_users_counted);
  else
    mt_call_finish(c);
}

/* ---- The alias ------------------------------------------------------------------------------ */

static void on_alias(mt_call *c) {
  making *m = c->state;
  mt_table table;
  mt_json root;
  mortise_error err;
  mt_error_clear(&err);
  mortise_status status = mt_call_check(c, "look at the lock table", c->e->table);
  if (c->http.status == 404 && !c->http.error.code) {
    m->old[0] = '\0';
    number_index(c, 1);
    look_at_index(c);
  } else if (status) {
    mt_call_finish(c);
  } else if (!mt_call_json(c, "the definition of the lock table", &root)) {
    return;
  } else if (!mt_table_check(c->e, root, &table, &err)) {
    found_table(c, &table);
  } else if (table.sound) {
    snprintf(m->old, sizeof m->old, "%s", table.index);
    number_index(c, number_of(c->e, table.index));
    leave_behind(c, m->old);
  } else {
    mt_call_fail(c, &err);
  }
}

static void look_at_alias(mt_call *c) {
  get_index(c, c->e->table, on_alias);
}

static void store_script(mt_call *c);

static void on_script(mt_call *c) {
  making *m = c->state;
  if (!mt_call_ok(c, "store the script", mt_table_script_id(m->script))) return;
  m->script++;
  store_script(c);
}

static void store_script(mt_call *c) {
  making *m = c->state;
  mt_call_again(c);
  if (!mt_table_add_script(&c->body, m->script)) {
    look_at_alias(c);
    return;
  }
  mt_buf_addf(&c->path, "/_scripts/%s/update", mt_table_script_id(m->script));
  c->http.idempotent = true;
  mt_call_send(c, "PUT", on_script);
}

static void print(mt_call *c) {
  mt_locks_admin *r = admin_of(c);
  mt_buf text;
  mt_buf_init(&text, 1 << 20);
  mt_table_print(&text, c->e, r->wanted ? r->wanted : MT_STRIPES_DEFAULT);
  r->text = mt_buf_take(&text, NULL);
  if (!r->text) mt_error_memory(&r->req.error);
  mt_buf_deinit(&text);
  mt_call_finish_soon(c);
}

static mortise_status random_epoch(making *m, mortise_error *err) {
  unsigned char bytes[16];
  mortise_status status = mt_random_bytes(bytes, sizeof bytes, err);
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(m->epoch + 2 * i, 3, "%02x", bytes[i]);
  return status;
}

void mt_elastic_init(mt_store *s, mt_locks_admin *r) {
  begin_admin(r);
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c) return;
  if (r->wanted > MT_STRIPES_MAX) {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT, "%u stripes: 1 to %d are possible", r->wanted,
                  MT_STRIPES_MAX);
    return;
  }
  if (r->print) {
    print(c);
    return;
  }
  making *m = mt_calloc(1, sizeof *m);
  if (m) m->stripes = r->wanted ? r->wanted : MT_STRIPES_DEFAULT;
  c->state = m;
  c->dropped = free_making;
  if (!m || random_epoch(m, &r->req.error)) {
    if (!m) mt_error_memory(&r->req.error);
    mt_call_finish_soon(c);
    return;
  }
  mt_server_need(c, store_script);
}
