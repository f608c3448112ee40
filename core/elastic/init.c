/* Creating the lock table, and verifying it.
 *
 * If two clients do this at once, there must be one table in the end. The index is called
 * TABLE-000001, so only one client can create it; whoever finds it finishes the rest (noting its
 * UUID, adding the alias), in steps that are the same for everyone and so may be repeated. The
 * creator's mapping holds the epoch. After a restore or a clone, if the table is empty, the next
 * number is used, and one request moves the alias; only one client can succeed with it, because it
 * demands that the old index still has the alias. */
#include "base/clock.h"
#include "base/mem.h"
#include "elastic/internal.h"

#include <stdio.h>
#include <stdlib.h>

enum { NUMBERS_MAX = 200, ROUNDS_MAX = 500 };

typedef struct making {
  size_t script;
  unsigned number; /* of the index being tried, TABLE-number */
  unsigned rounds; /* bounds the loop */
  bool created;    /* by us */
  char index[MT_TABLE_MAX + 16];
  char old[256];       /* the index that must lose the alias, or "" */
  const char *counted; /* `index` or `old` */
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
    if (mt_table_check(c->e, root, &table, &err)) r->req.error = err;
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

static void number_index(mt_call *c, unsigned number) {
  making *m = c->state;
  m->number = number;
  snprintf(m->index, sizeof m->index, "%s-%06u", c->e->table, number);
}

static bool may_try_again(mt_call *c) {
  making *m = c->state;
  if (++m->rounds < ROUNDS_MAX && m->number < NUMBERS_MAX) return true;
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
  mt_call_again(c);
  mt_buf_adds(&c->path, "/_aliases");
  mt_table_add_alias(&c->body, c->e, m->index, m->old[0] ? m->old : NULL);
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

static void on_old_counted(mt_call *c) {
  making *m = c->state;
  uint64_t n = 0;
  mt_json root;
  if (!mt_call_ok(c, "count the locks of", m->counted)) return;
  if (!mt_call_json(c, "the count", &root)) return;
  if (!mt_json_uint(mt_json_get(root, "count"), &n) || n) {
    mt_call_error(c, MORTISE_CORRUPT_TABLE,
                  "index %s is no sound lock table and not empty (%llu locks): delete it if they "
                  "are of no use",
                  m->counted, (unsigned long long)n);
    return;
  }
  number_index(c, m->number + 1);
  if (may_try_again(c)) look_at_index(c);
}

static void on_old_refreshed(mt_call *c) {
  making *m = c->state;
  if (!mt_call_ok(c, "refresh", m->counted)) return;
  mt_call_again(c);
  mt_buf_addf(&c->path, "/%s/_count", m->counted);
  mt_buf_adds(&c->body, "{\"query\":{\"term\":{\"kind\":\"lock\"}}}");
  mt_call_send(c, "POST", on_old_counted);
}

/* If an index is not our table any more, the next number is used once it is empty. */
static void leave_behind(mt_call *c, const char *index) {
  making *m = c->state;
  m->counted = index;
  mt_call_again(c);
  mt_buf_addf(&c->path, "/%s/_refresh", m->counted);
  mt_call_send(c, "POST", on_old_refreshed);
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

/* Who knows the table may take locks in it at any time, so its stripes are never changed. */
static void found_table(mt_call *c, const mt_table *table) {
  mt_locks_admin *r = admin_of(c);
  r->epoch = table->epoch;
  r->stripes = table->stripes;
  if (r->wanted && r->wanted != table->stripes)
    mt_call_error(
        c, MORTISE_INVALID_ARGUMENT,
        "lock table \"%s\" (index %s): its stripes are %u and not %u: their number is chosen "
        "when the table is made, so while nobody uses it, delete the index and make it "
        "again, or use another table",
        c->e->table, table->index, table->stripes, r->wanted);
  else
    mt_call_finish(c);
}

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
