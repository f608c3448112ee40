/* Making changes of many documents (lua_work.h), and what they need:
 *   client:plan{index=, peeks=, identifies=, CHANGE}    of which nothing is written: `changed` is how many would
 *       be. `peeks`: it ends when it has its samples. `identifies`: the result has `identity`
 *   lock:change{index=, CHANGE}    without a journal: running another one finishes what it left
 *   lock:job{verb=, id=, spec=, standing=, index=, rate=, waits_at_start=, patience_ms=, unlisted=, accepted=, CHANGE}
 *       verb "run", "resume", "accept" or "undo", which need the CHANGE of the former two; or "clear" (MT_JOB_CLEAR), which
 *       needs none. `spec` is kept in a new job's document, `accepted` in that of one that is accepted. `standing`: resumed or undone only if it still stands half-done. A rename checks as
 *       another does, until something of it was changed.
 *   client:jobs_index() -> name    of the index that holds jobs and their journals
 *   client:job_tasks(ns, id) -> array of the ids of the server's tasks that are at work for a job now
 *   client:job_task(id) -> {running=, lost= (its node has left the cluster), updated=}: what one of them has done
 *   core.job_table() -> JSON       that index's settings and mappings
 *   core.job_id_check(id)          raises invalid_argument
 *   core.change_check{CHANGE}      raises what such a change would
 *   core.exact_field(json, field) -> name      by which searches find the field's values exactly, as the
 *                                  description of an index says it; raises unsupported
 *   core.within_query(json, field, paths) -> query     that finds at least all documents with a path there, as JSON
 *   core.transforms                their names
 *   core.bound_check(text)         the same of a CHANGE's max_rejected
 * `patience_ms`: how long a job waits while the store takes no writes.
 * CHANGE is {transforms=}, or {by_function=true}, which the caller makes (lua_work.h), or {fields=, from=, to=,
 * merge=, allow_empty=, ids=}, which renames a tree; and {query=, page=, slices=, in_flight=, passes=, bytes=, strength=,
 * stamp_field=, max_rejected= (result.h), within= (within.h)}. `spec`, `query` and `transforms` are JSON text, `fields` is one name a line. If there are documents
 * below `to`, a rename raises conflict without `merge`; if there are none below `from`, not_found without
 * `allow_empty`. */
#include "bindings/lua_job.h"

#include "bindings/await.h"
#include "bindings/lua_buf.h"
#include "bindings/lua_client.h"
#include "bindings/lua_error.h"
#include "bindings/lua_lock.h"
#include "bindings/lua_options.h"
#include "bindings/lua_text.h"
#include "bindings/lua_work.h"

#include "base/clock.h"
#include "job/sweep.h"

#include <string.h>

/* ---- The change ----------------------------------------------------------------------------- */

typedef struct job_options {
  const char *verb, *id, *spec, *index, *query, *transforms, *fields, *from, *to, *strength,
      *stamp_field, *strategy, *max_rejected, *accepted, *within;
  int64_t page, slices, in_flight, passes, bytes, rate, patience_ms;
  bool merge, allow_empty, ids, by_function, waits_at_start, standing, peeks, identifies, unlisted;
} job_options;

static const mt_option rows[] = {MT_TEXT_OPTION(job_options, verb),
                                 MT_TEXT_OPTION(job_options, id),
                                 MT_TEXT_OPTION(job_options, spec),
                                 MT_TEXT_OPTION(job_options, index),
                                 MT_TEXT_OPTION(job_options, query),
                                 MT_TEXT_OPTION(job_options, transforms),
                                 MT_TEXT_OPTION(job_options, fields),
                                 MT_TEXT_OPTION(job_options, from),
                                 MT_TEXT_OPTION(job_options, to),
                                 MT_TEXT_OPTION(job_options, strength),
                                 MT_TEXT_OPTION(job_options, stamp_field),
                                 MT_TEXT_OPTION(job_options, strategy),
                                 MT_TEXT_OPTION(job_options, max_rejected),
                                 MT_TEXT_OPTION(job_options, accepted),
                                 MT_TEXT_OPTION(job_options, within),
                                 MT_INT_OPTION(job_options, page, 1, MT_SCAN_PAGE_MAX),
                                 MT_INT_OPTION(job_options, slices, 1, 1024),
                                 MT_INT_OPTION(job_options, in_flight, 1, MT_WRITER_LANES),
                                 MT_INT_OPTION(job_options, passes, 1, 1000),
                                 MT_INT_OPTION(job_options, bytes, 1, 1 << 30),
                                 MT_INT_OPTION(job_options, rate, 1, UINT32_MAX),
                                 MT_INT_OPTION(job_options, patience_ms, 0, INT32_MAX),
                                 MT_FLAG_OPTION(job_options, merge),
                                 MT_FLAG_OPTION(job_options, allow_empty),
                                 MT_FLAG_OPTION(job_options, ids),
                                 MT_FLAG_OPTION(job_options, by_function),
                                 MT_FLAG_OPTION(job_options, waits_at_start),
                                 MT_FLAG_OPTION(job_options, unlisted),
                                 MT_FLAG_OPTION(job_options, standing),
                                 MT_FLAG_OPTION(job_options, peeks),
                                 MT_FLAG_OPTION(job_options, identifies),
                                 MT_NO_OPTION};

/* What an attempt before has moved lies below `to`, and may be all there was below `from`. */
static mortise_status count_resumed(mt_change *c, mortise_error *err) {
  mt_lua_work *self = MT_CONTAINER(c, mt_lua_work, rename.change);
  self->rename.merge |= self->job.began;
  self->rename.allow_empty |= self->job.began;
  mortise_status status = self->counted(c, err);
  self->job.counted |= !status;
  return status;
}

static mortise_status set_list(mt_lua_work *self, const job_options *o, mortise_error *err) {
  mt_change *c = &self->rename.change;
  mortise_status status = mt_transforms_parse(&self->list, mt_slice_of(o->transforms), err);
  if (status) return status;
  c->transform = mt_transform_once(&self->list);
  c->until_none = c->matches_on = true;
  c->query = mt_slice_of(o->query);
  return MORTISE_OK;
}

/* -> how many there are, at most `n`. */
static size_t split_lines(const char *text, mt_slice *out, size_t n) {
  size_t found = 0;
  for (const char *end; found < n; text = end + 1) {
    end = strchr(text, '\n');
    out[found++] = end ? (mt_slice){text, (size_t)(end - text)} : mt_slice_of(text);
    if (!end) break;
  }
  return found;
}

static mortise_status init_rename(mt_rename *r, const char *fields, const char *from,
                                  const char *to, mortise_error *err) {
  mt_slice list[MT_RENAME_FIELDS_MAX + 1];
  size_t n = split_lines(fields, list, MT_RENAME_FIELDS_MAX + 1);
  return mt_rename_init_fields(r, list, n, mt_slice_of(from), mt_slice_of(to), err);
}

static mortise_status set_rename(mt_lua_work *self, const job_options *o, mortise_error *err) {
  mt_change *c = &self->rename.change;
  mortise_status status = init_rename(&self->rename, o->fields, o->from, o->to, err);
  if (!status && o->ids) status = mt_rename_ids(&self->rename, err);
  if (status) return status;
  self->rename.also = mt_slice_of(o->query);
  self->rename.merge = o->merge;
  self->rename.allow_empty = o->allow_empty;
  self->counted = c->counted;
  c->counted = count_resumed;
  return MORTISE_OK;
}

static mortise_status set_within(mt_lua_work *self, const job_options *o, mortise_error *err) {
  mt_change *c = &self->rename.change;
  mortise_status status = mt_within_parse(&self->within, mt_slice_of(o->within), err);
  if (status) return status;
  c->within = &self->within;
  if (o->transforms) c->transform = mt_within_transform(&self->within, c->transform);
  return MORTISE_OK;
}

static mortise_status set_change(mt_lua_work *self, const job_options *o, mortise_error *err) {
  mortise_status status = MORTISE_OK;
  if (o->by_function) {
    self->rename.change.query = mt_slice_of(o->query);
    mt_work_by_function(self);
  } else {
    status = o->transforms ? set_list(self, o, err) : set_rename(self, o, err);
  }
  if (!status && o->within) status = set_within(self, o, err);
  mt_slice bound = mt_slice_of(o->max_rejected ? o->max_rejected : "");
  return status ? status : mt_bound_parse(bound, &self->rename.change.bound, err);
}

static bool has_change(const job_options *o) {
  return o->by_function || o->transforms || (o->fields && o->from && o->to);
}

/* ---- Making one ----------------------------------------------------------------------------- */

/* Pushes one that is not set up, for the lock or client at 1 and the options at 2. */
static mt_lua_work *new_work(lua_State *L, mt_driver *d, mt_work_kind kind, job_options *o,
                             const char *what) {
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  mt_options_read(L, 2, rows, o, what);
  return mt_work_new(L, d, kind);
}

static void make_change(lua_State *L, mt_lua_work *self, const job_options *o, const char *what) {
  mortise_error err;
  if (!o->index || !has_change(o))
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "%s: an index and a change are needed", what);
  if (set_change(self, o, &err)) mt_error_raise(L, &err);
}

static void set_up_change(mt_change *c, const job_options *o, const mortise_client *client) {
  c->store = client->store;
  c->env = mt_env_system();
  c->index = o->index;
  c->options.page = (uint32_t)o->page;
  c->options.slices = (uint32_t)o->slices;
  c->options.in_flight = (uint32_t)o->in_flight;
  c->options.passes = (uint32_t)o->passes;
  c->options.bytes = (size_t)o->bytes;
  c->options.patience_ms = o->patience_ms;
  c->options.stamp_field = o->stamp_field;
  if (o->strength && !strcmp(o->strength, "stamp")) c->options.strength = MT_STRENGTH_STAMP;
}

static void set_up_under(mt_lua_work *self, const job_options *o, const mt_lock_handle *lock) {
  set_up_change(&self->rename.change, o, lock->box->client);
  self->permit = mt_manager_permit(lock->lock);
  self->rename.change.permit = &self->permit;
}

static mt_strategy check_strategy(lua_State *L, const char *name) {
  for (mt_strategy s = MT_STRATEGY_CLIENT; name && s <= MT_STRATEGY_AUTO; s++)
    if (!strcmp(name, mt_strategy_name(s))) return s;
  if (name) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "job: strategy is client, server or auto");
  return MT_STRATEGY_CLIENT;
}

/* The opposite change, where there is one. */
static void make_inverse(lua_State *L, mt_lua_work *self, const job_options *o) {
  mt_job *j = &self->job;
  mortise_error err;
  if (!has_change(o) || o->by_function) return;
  const mt_transforms *list = o->transforms ? &self->list : &self->rename.list;
  mortise_status status = mt_transforms_inverse(list, &self->inverse, &err);
  if (status && status != MORTISE_UNSUPPORTED) mt_error_raise(L, &err);
  if (status) return;
  j->inverse = mt_transform_list(&self->inverse);
  j->list = list;
  if (j->verb != MT_JOB_UNDO || o->transforms) return;
  status = init_rename(&self->back, o->fields, o->to, o->from, &err);
  if (status == MORTISE_INVALID_ARGUMENT)
    return; /* a rename from there can have been no such job */
  if (status) mt_error_raise(L, &err);
  self->back.merge = self->back.allow_empty = true;
  mt_rename_touch(&self->rename);
  j->touch = &self->rename.change;
  j->back = &self->back.change;
}

static int client_plan(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  job_options o = {0};
  mt_check_client(L, 1);
  mt_lua_work *self = new_work(L, d, MT_WORK_PLAN, &o, "plan");
  make_change(L, self, &o, "plan");
  make_inverse(L, self, &o);
  self->job.strategy = check_strategy(L, o.strategy);
  mt_box *box = mt_check_client(L, 1);
  set_up_change(&self->rename.change, &o, box->client);
  self->rename.change.plan = true;
  self->rename.change.preview = &self->preview;
  self->rename.change.peeks = o.peeks;
  self->preview.identifies = o.identifies;
  mt_work_ready(self, &box->dependents);
  return 1;
}

static void set_up_outlook(mt_lua_work *self, const job_options *o, const mortise_client *client) {
  const mt_job *j = &self->job;
  self->outlook.of = (mt_journal_of){.store = client->store,
                                     .table = client->jobs,
                                     .ns = mt_client_options(client)->ns,
                                     .job = o->id};
  self->outlook.inverse = j->inverse;
  if (j->inverse.apply) self->outlook.forward = mt_transform_list(j->list);
}

static int client_outlook(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  job_options o = {0};
  mt_check_client(L, 1);
  mt_lua_work *self = new_work(L, d, MT_WORK_OUTLOOK, &o, "outlook");
  if (!o.id) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "outlook: an id is needed");
  if (!o.by_function) make_change(L, self, &o, "outlook");
  make_inverse(L, self, &o);
  mt_box *box = mt_check_client(L, 1);
  set_up_outlook(self, &o, box->client);
  mt_work_ready(self, &box->dependents);
  return 1;
}

static int lock_change(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  job_options o = {0};
  mt_check_lock(L, 1);
  mt_lua_work *self = new_work(L, d, MT_WORK_CHANGE, &o, "change");
  if (o.by_function)
    mt_error_throw(L, MORTISE_UNSUPPORTED, "change: only a job is made by a function");
  make_change(L, self, &o, "change");
  mt_lock_handle *lock = mt_check_lock(L, 1);
  set_up_under(self, &o, lock);
  mt_work_ready(self, &lock->users);
  return 1;
}

static mt_job_verb check_verb(lua_State *L, const char *name) {
  static const char *const names[] = {"run", "resume", "accept", "undo", "clear"};
  for (int i = 0; name && i < 5; i++)
    if (!strcmp(name, names[i])) return (mt_job_verb)i;
  mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "job: verb is run, resume, accept, undo or clear");
}

static void set_up_job(mt_lua_work *self, const job_options *o, const mt_lock_handle *lock) {
  const mortise_client *client = lock->box->client;
  mt_job *j = &self->job;
  set_up_under(self, o, lock);
  set_up_change(&self->back.change, o, client);
  self->back.change.permit = &self->permit;
  j->store = client->store;
  j->env = mt_env_system();
  j->permit = &self->permit;
  j->table = client->jobs;
  j->ns = mt_client_options(client)->ns;
  j->id = o->id;
  j->standing = o->standing;
  j->bound = self->rename.change.bound;
  j->accepted = o->accepted ? o->accepted : "";
  j->spec = mt_slice_of(o->spec);
  j->change = j->verb >= MT_JOB_UNDO ? NULL : &self->rename.change;
  j->waits_at_start = o->waits_at_start;
  j->unlisted = o->unlisted;
  j->limits.rate = (uint32_t)o->rate;
  j->patience_ms = o->patience_ms;
  j->wall_ms = mt_clock_wall_ms;
}

static int lock_job(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  job_options o = {0};
  mt_check_lock(L, 1);
  mt_lua_work *self = new_work(L, d, MT_WORK_JOB, &o, "job");
  self->job.verb = check_verb(L, o.verb);
  if (!o.id) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "job: an id is needed");
  if (self->job.verb != MT_JOB_CLEAR) make_change(L, self, &o, "job");
  make_inverse(L, self, &o);
  self->job.strategy = check_strategy(L, o.strategy);
  mt_lock_handle *lock = mt_check_lock(L, 1);
  set_up_job(self, &o, lock);
  mt_work_ready(self, &lock->users);
  return 1;
}

/* ---- What a server does for it -------------------------------------------------------------- */

static int push_tasks(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  const mt_server_task_find *r = &call->r.task_find;
  lua_createtable(L, (int)r->n, 0);
  for (size_t i = 0; i < r->n; i++) {
    lua_pushstring(L, r->tasks[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static void deinit_tasks(mt_lua_call *call) {
  mt_server_task_find_deinit(&call->r.task_find);
}

static int client_job_tasks(lua_State *L) {
  char name[MT_SERVER_TASK_NAME_MAX + 1];
  mortise_error err;
  const char *jobs = mt_check_client(L, 1)->client->jobs;
  if (mt_sweep_name(name, jobs, mt_check_string(L, 2), mt_check_string(L, 3), &err)) mt_error_raise(L, &err);
  lua_settop(L, 1);
  const char *kept = lua_pushstring(L, name);
  mt_lua_call *call = mt_lua_call_new(L, 1, push_tasks, deinit_tasks);
  mt_op_anchor(L, -1, 2, 2);
  call->r.task_find.name = kept;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.task_find.req);
  call->r.task_find.req.idempotent = true;
  store->docs->task_find(store, &call->r.task_find);
  return mt_await(L, lua_gettop(L));
}

static int push_task(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  const mt_server_task_state *state = &call->r.task.state;
  lua_createtable(L, 0, 3);
  lua_pushboolean(L, state->phase == MT_SERVER_TASK_RUNNING);
  lua_setfield(L, -2, "running");
  lua_pushboolean(L, state->phase == MT_SERVER_TASK_LOST);
  lua_setfield(L, -2, "lost");
  mt_set_count(L, "updated", state->updated);
  return 1;
}

static int client_job_task(lua_State *L) {
  mt_check_client(L, 1);
  const char *task = mt_check_string(L, 2);
  mt_lua_call *call = mt_lua_call_of(L, 2, push_task, NULL);
  call->r.task.task = task;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.task.req);
  call->r.task.req.idempotent = true;
  store->docs->task(store, &call->r.task);
  return mt_await(L, lua_gettop(L));
}

/* ---- Checks, and the index ------------------------------------------------------------------ */

static int client_jobs_index(lua_State *L) {
  lua_pushstring(L, mt_check_client(L, 1)->client->jobs);
  return 1;
}

static int core_job_table(lua_State *L) {
  mt_slice body = mt_job_table();
  lua_pushlstring(L, body.p, body.n);
  return 1;
}

static int core_job_id_check(lua_State *L) {
  mortise_error err;
  if (mt_job_check_id(mt_slice_of(mt_check_string(L, 1)), &err)) mt_error_raise(L, &err);
  return 0;
}

static int core_exact_field(lua_State *L) {
  enum { NAME_MAX_BYTES = 8192 };
  mortise_error err;
  bool ignores = false;
  mt_slice json = mt_check_slice(L, 1), field = mt_check_slice(L, 2);
  mt_buf *name = mt_buf_push(L, NAME_MAX_BYTES);
  if (mt_exact_field(json, field, name, &ignores, &err)) mt_error_raise(L, &err);
  lua_pushlstring(L, name->p, name->n);
  return 1;
}

static int core_within_query(lua_State *L) {
  enum { QUERY_MAX = 4 << 20 };
  mortise_error err;
  mt_slice json = mt_check_slice(L, 1), field = mt_check_slice(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  size_t n = lua_rawlen(L, 3);
  mt_slice *paths = lua_newuserdatauv(L, (n + 1) * sizeof *paths, 0);
  for (size_t i = 0; i < n; i++) { /* the table keeps them */
    lua_rawgeti(L, 3, (lua_Integer)i + 1);
    paths[i] = mt_check_slice(L, -1);
    lua_pop(L, 1);
  }
  mt_buf *out = mt_buf_push(L, QUERY_MAX);
  if (mt_below_query(json, field, paths, n, out, &err)) mt_error_raise(L, &err);
  lua_pushlstring(L, out->p, out->n);
  return 1;
}

static int core_bound_check(lua_State *L) {
  mt_bound bound;
  mortise_error err;
  if (mt_bound_parse(mt_slice_of(mt_check_string(L, 1)), &bound, &err)) mt_error_raise(L, &err);
  return 0;
}

/* By making one, which is thrown away. */
static int core_change_check(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  job_options o = {0};
  mortise_error err;
  lua_settop(L, 1);
  lua_pushnil(L);
  lua_insert(L, 1);
  mt_lua_work *self = new_work(L, d, MT_WORK_PLAN, &o, "change");
  if (!has_change(&o)) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "a change is needed");
  if (set_change(self, &o, &err)) mt_error_raise(L, &err);
  return 0;
}

void mt_job_transforms_push(lua_State *L) {
  const char *name;
  lua_newtable(L);
  for (size_t i = 0; (name = mt_transform_name(i)); i++) {
    lua_pushstring(L, name);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

const luaL_Reg mt_job_lock_methods[] = {{"job", lock_job}, {"change", lock_change}, {NULL, NULL}};
const luaL_Reg mt_job_client_methods[] = {
    {"plan", client_plan},           {"outlook", client_outlook},   {"jobs_index", client_jobs_index},
    {"job_tasks", client_job_tasks}, {"job_task", client_job_task}, {NULL, NULL}};
const luaL_Reg mt_job_functions[] = {{"job_table", core_job_table},
                                     {"job_id_check", core_job_id_check},
                                     {"exact_field", core_exact_field},
                                     {"within_query", core_within_query},
                                     {"change_check", core_change_check},
                                     {"bound_check", core_bound_check},
                                     {NULL, NULL}};
