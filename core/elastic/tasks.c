/* Updates by query, which run as tasks on the servers. */
#include "base/mem.h"
#include "elastic/internal.h"
#include "elastic/transform.h"

#include <stdio.h>

enum { BATCH = 1000 };

static void task_not_understood(mt_call *c, const char *what) {
  mt_call_distrust(c);
  mt_call_error(c, MORTISE_UNAVAILABLE, "%s: what answered is not understood", what);
}

static bool all_of(const char *p, const char *end, const char *more) {
  for (; p < end; p++) {
    bool digit = *p >= '0' && *p <= '9';
    bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
    if (!digit && !(more && (letter || strchr(more, *p)))) return false;
  }
  return true;
}

/* NODE:NUMBER, as servers name tasks. */
static bool task_id_is_fit(const char *id) {
  const char *colon = id ? strchr(id, ':') : NULL;
  return colon && colon > id && colon[1] && strlen(id) < MT_SERVER_TASK_ID &&
         all_of(id, colon, "_-") && all_of(colon + 1, colon + strlen(colon), NULL);
}

/* ---- Beginning ------------------------------------------------------------------------------ */

static void on_task_begun(mt_call *c) {
  mt_update_by_query *r = (mt_update_by_query *)c->req;
  mt_json root;
  if (!mt_call_ok(c, "update by query", r->index)) return;
  if (!mt_call_json(c, "the answer to an update by query", &root)) return;
  mt_json task = mt_json_get(root, "task");
  mt_json_copy(task, r->task, sizeof r->task);
  if (task.raw.n != strlen(r->task) + 2 || !task_id_is_fit(r->task)) {
    r->task[0] = '\0';
    task_not_understood(c, "update by query");
    return;
  }
  r->state.phase = MT_SERVER_TASK_RUNNING;
  mt_call_finish(c);
}

/* `_none`: a default pipeline would change the documents. */
static void add_begin_path(mt_call *c, const mt_update_by_query *r) {
  mt_buf_addf(&c->path,
              "/_update_by_query?wait_for_completion=false&conflicts=proceed&pipeline=_none"
              "&scroll_size=%u",
              r->batch ? r->batch : BATCH);
  if (r->slices)
    mt_buf_addf(&c->path, "&slices=%u", r->slices);
  else
    mt_buf_adds(&c->path, "&slices=auto");
  if (r->per_second) mt_buf_addf(&c->path, "&requests_per_second=%u", r->per_second);
}

static bool task_name_is_fit(const char *name) {
  return *name && strlen(name) <= MT_SERVER_TASK_NAME_MAX && !strchr(name, '/');
}

static void add_member(mt_buf *out, const char *key, const char *value) {
  mt_json_add_key(out, key);
  mt_json_add_string(out, mt_slice_of(value));
}

/* The terms are read, in real time, when a search of the task begins. "*" is every index. */
static void add_gated_query(mt_buf *out, const mt_update_by_query *r) {
  mt_slice query = r->query.n ? r->query : MT_SLICE("{\"match_all\":{}}");
  if (!r->gate) {
    mt_buf_addslice(out, query);
    return;
  }
  mt_buf_adds(out, "{\"bool\":{\"filter\":[");
  mt_buf_addslice(out, query);
  mt_buf_adds(out, ",{\"terms\":{\"_index\":{");
  add_member(out, "index", r->gate->index);
  add_member(out, "id", r->gate->id);
  add_member(out, "path", r->gate->path);
  mt_buf_adds(out, "}}}]}}");
}

void mt_elastic_update_by_query(mt_store *s, mt_update_by_query *r) {
  r->task[0] = '\0';
  r->state = (mt_server_task_state){0};
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c || !mt_call_index(c, r->index, true)) return;
  if (r->name && !task_name_is_fit(r->name)) {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT, "\"%.200s\" is no name of a task", r->name);
    return;
  }
  add_begin_path(c, r);
  mt_buf_adds(&c->body, "{\"query\":");
  add_gated_query(&c->body, r);
  mt_buf_adds(&c->body, ",\"script\":");
  mt_elastic_add_transforms_by_query(&c->body, r->transforms, r->not_after_ms);
  mt_buf_adds(&c->body, "}");
  c->http.opaque_id = r->name;
  mt_call_send(c, "POST", on_task_begun);
}

/* ---- One task ------------------------------------------------------------------------------- */

/* False if one of them is missing. */
static bool read_counts(mt_json status, mt_server_task_state *out) {
  bool total = mt_json_uint(mt_json_get(status, "total"), &out->total);
  bool updated = mt_json_uint(mt_json_get(status, "updated"), &out->updated);
  bool noops = mt_json_uint(mt_json_get(status, "noops"), &out->noops);
  bool conflicts = mt_json_uint(mt_json_get(status, "version_conflicts"), &out->conflicts);
  return total && updated && noops && conflicts;
}

/* The innermost cause says most; the outer ones say "runtime error". */
static void read_task_error(mt_json error, mt_server_task_state *out) {
  mt_json_copy(mt_json_get(error, "type"), out->type, sizeof out->type);
  for (mt_json cause = error; cause.type; cause = mt_json_get(cause, "caused_by"))
    mt_json_copy(mt_json_get(cause, "reason"), out->reason, sizeof out->reason);
}

/* Each server says it in its own place. */
static bool was_cancelled(mt_json root, mt_json response) {
  bool yes = false;
  mt_json_bool(mt_json_at(root, "task", "cancelled", NULL), &yes);
  return yes || mt_json_get(response, "canceled").type ||
         mt_json_at(root, "task", "status", "canceled", NULL).type;
}

/* Did something keep it from looking at all documents? Then `out` says what. */
static bool read_why(mt_json root, mt_json response, mt_server_task_state *out) {
  bool late = false;
  mt_json error = mt_json_get(root, "error"), cancelled = mt_json_get(response, "canceled");
  mt_json_iter failures = mt_json_items(mt_json_get(response, "failures"));
  if (error.type) {
    read_task_error(error, out);
  } else if (mt_json_next(&failures)) {
    mt_json cause = mt_json_get(failures.value, "cause");
    read_task_error(cause.type ? cause : mt_json_get(failures.value, "reason"), out);
  } else if (mt_json_bool(mt_json_get(response, "timed_out"), &late) && late) {
    snprintf(out->type, sizeof out->type, "timed_out");
  } else if (cancelled.type) {
    mt_json_copy(cancelled, out->reason, sizeof out->reason);
  } else {
    return false;
  }
  /* It may have failed because it was cancelled in the middle of a search. */
  if (was_cancelled(root, response)) snprintf(out->type, sizeof out->type, "canceled");
  return true;
}

static void read_end(mt_json root, mt_server_task_state *out) {
  mt_json response = mt_json_get(root, "response");
  out->phase = MT_SERVER_TASK_ENDED;
  bool counted = read_counts(response, out) &&
                 mt_json_get(response, "failures").type == MT_JSON_ARRAY &&
                 out->updated + out->noops + out->conflicts == out->total;
  bool kept = read_why(root, response, out);
  out->complete = counted && !kept;
  if (!out->complete && !out->type[0] && !out->reason[0])
    snprintf(out->reason, sizeof out->reason, "the server does not say what became of all");
}

/* 404: the task is not known, or its node is not. */
static void read_missing(mt_call *c, mt_server_task_state *out) {
  mt_json root;
  char reason[512] = "";
  if (!mt_json_parse(mt_buf_slice(&c->http.answer), "", &root, NULL))
    mt_json_copy(mt_json_at(root, "error", "reason", NULL), reason, sizeof reason);
  out->phase = strstr(reason, "part of the cluster") ? MT_SERVER_TASK_LOST : MT_SERVER_TASK_UNKNOWN;
  mt_error_clear(&c->req->error);
  mt_call_finish(c);
}

/* A task's own id: of `node` and `id`. */
static bool read_task_id(mt_json task, char out[MT_SERVER_TASK_ID]) {
  char node[MT_SERVER_TASK_ID];
  uint64_t number;
  mt_json_copy(mt_json_get(task, "node"), node, sizeof node);
  if (!mt_json_uint(mt_json_get(task, "id"), &number)) return false;
  int n = snprintf(out, MT_SERVER_TASK_ID, "%s:%llu", node, (unsigned long long)number);
  return n < MT_SERVER_TASK_ID && task_id_is_fit(out);
}

static void on_task(mt_call *c) {
  mt_server_task *r = (mt_server_task *)c->req;
  mt_json root;
  char id[MT_SERVER_TASK_ID];
  bool completed;
  mortise_status status = mt_call_check(c, "look at a task", NULL);
  if (status == MORTISE_NOT_FOUND && !strcmp(r->req.error.type, "resource_not_found_exception")) {
    read_missing(c, &r->state);
    return;
  }
  if (status) {
    mt_call_finish(c);
    return;
  }
  if (!mt_call_json(c, "the answer about a task", &root)) return;
  if (!mt_json_bool(mt_json_get(root, "completed"), &completed) ||
      !read_task_id(mt_json_get(root, "task"), id) || strcmp(id, r->task) != 0) {
    task_not_understood(c, "look at a task");
    return;
  }
  r->state.phase = MT_SERVER_TASK_RUNNING;
  read_counts(mt_json_at(root, "task", "status", NULL), &r->state);
  if (completed) read_end(root, &r->state);
  mt_call_finish(c);
}

static void task_look(mt_call *c) {
  mt_server_task *r = (mt_server_task *)c->req;
  mt_buf_adds(&c->path, "/_tasks/");
  mt_path_add(&c->path, mt_slice_of(r->task));
  mt_call_send(c, "GET", on_task);
}

/* Not finding a task that has ended already is no error here. */
static void on_cancelled(mt_call *c) {
  mortise_status status = mt_call_check(c, "cancel a task", NULL);
  if (status && (status != MORTISE_NOT_FOUND || c->http.error.code)) {
    mt_call_finish(c);
    return;
  }
  mt_call_again(c);
  task_look(c);
}

void mt_elastic_task(mt_store *s, mt_server_task *r) {
  r->state = (mt_server_task_state){0};
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c) return;
  if (!task_id_is_fit(r->task)) {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT, "\"%.100s\" is no task's id",
                  r->task ? r->task : "");
    return;
  }
  if (!r->cancel) {
    task_look(c);
    return;
  }
  mt_buf_adds(&c->path, "/_tasks/");
  mt_path_add(&c->path, mt_slice_of(r->task));
  mt_buf_adds(&c->path, "/_cancel");
  mt_call_send(c, "POST", on_cancelled);
}

/* ---- Tasks by name -------------------------------------------------------------------------- */

enum { FOUND_MAX = 10000 };

/* http appends "/" and more to the name. A slice of another task does not count. */
static bool is_named(mt_json task, const char *name) {
  char id[MT_SERVER_TASK_NAME_MAX + 80];
  size_t n = strlen(name);
  mt_json_copy(mt_json_at(task, "headers", "X-Opaque-Id", NULL), id, sizeof id);
  return !mt_json_get(task, "parent_task_id").type && !strncmp(id, name, n) && id[n] == '/';
}

static mortise_status add_found_task(mt_server_task_find *r, size_t *cap, mt_json task,
                                     mortise_error *err) {
  char id[MT_SERVER_TASK_ID];
  if (!read_task_id(task, id))
    return mt_error_set(err, MORTISE_UNAVAILABLE, "list tasks: what answered is not understood");
  if (!mt_grow((void **)&r->tasks, cap, r->n + 1, sizeof *r->tasks, FOUND_MAX))
    return mt_error_memory(err);
  memcpy(r->tasks[r->n++], id, sizeof id);
  return MORTISE_OK;
}

static mortise_status read_tasks(mt_server_task_find *r, mt_json root, mortise_error *err) {
  size_t cap = 0;
  mt_json tasks = mt_json_get(root, "tasks");
  if (mt_json_count(mt_json_get(root, "node_failures")) ||
      mt_json_count(mt_json_get(root, "task_failures")))
    return mt_error_set(err, MORTISE_UNAVAILABLE, "list tasks: not all nodes answered");
  if (tasks.type != MT_JSON_ARRAY)
    return mt_error_set(err, MORTISE_UNAVAILABLE, "list tasks: what answered is not understood");
  mortise_status status = MORTISE_OK;
  for (mt_json_iter it = mt_json_items(tasks); !status && mt_json_next(&it);)
    if (is_named(it.value, r->name)) status = add_found_task(r, &cap, it.value, err);
  return status;
}

static void on_tasks(mt_call *c) {
  mt_server_task_find *r = (mt_server_task_find *)c->req;
  mt_json root;
  if (!mt_call_ok(c, "list tasks", NULL)) return;
  if (!mt_call_json(c, "the list of tasks", &root)) return;
  if (read_tasks(r, root, &r->req.error)) mt_server_task_find_deinit(r);
  mt_call_finish(c);
}

void mt_elastic_task_find(mt_store *s, mt_server_task_find *r) {
  r->tasks = NULL;
  r->n = 0;
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c) return;
  if (!r->name || !task_name_is_fit(r->name)) {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT, "\"%.200s\" is no name of a task",
                  r->name ? r->name : "");
    return;
  }
  mt_buf_adds(&c->path, "/_tasks?group_by=none&actions=*/update/byquery*");
  mt_call_send(c, "GET", on_tasks);
}
