/* mortise/job.h: a verb of a declared job, carried out by stdlib/mortise/declared.lua. */
#include "bindings/host.h"
#include "bindings/lua_options.h"

#include "base/mem.h"
#include "client/options.h"

#include <mortise/job.h>

#include <lauxlib.h>
#include <stddef.h>
#include <string.h>

/* A request while it is carried out. */
typedef struct job_call {
  mortise_job_progress_fn *progress;
  void *progress_ctx;
  mortise_job_done_fn *done;
  void *ctx;
} job_call;

typedef struct job_asked {
  const mortise_job_request *request;
  job_call *call;
} job_asked;

static const char *const verbs[] = {
    [MORTISE_JOB_RUN] = "run",
    [MORTISE_JOB_RESUME] = "resume",
    [MORTISE_JOB_ROLLBACK] = "rollback",
    [MORTISE_JOB_ACCEPT] = "accept",
    [MORTISE_JOB_PLAN] = "plan",
    [MORTISE_JOB_PLAN_ROLLBACK] = "plan_rollback",
    [MORTISE_JOB_STATUS] = "status",
    [MORTISE_JOB_PAUSE] = "pause",
    [MORTISE_JOB_GO_ON] = "go_on",
    [MORTISE_JOB_THROTTLE] = "throttle",
    [MORTISE_JOB_CANCEL] = "cancel",
    [MORTISE_JOB_CUTOVER] = "cutover",
    [MORTISE_JOB_FINISH] = "finish",
};

enum { VERBS = sizeof verbs / sizeof *verbs, ARGUMENTS = 6 };

void mortise_job_request_init_size(mortise_job_request *r, size_t size) {
  mt_struct_give(r, &(mortise_job_request){.size = size}, size, sizeof *r);
}

static mortise_status take_job_request(mortise_job_request *out, const mortise_job_request *given, mortise_error *err) {
  mortise_job_request_init(out);
  mortise_status bad =
      mt_struct_take(out, sizeof *out, given, offsetof(mortise_job_request, options), "mortise_job_request", err);
  if (bad) return bad;
  if ((unsigned)out->verb >= VERBS)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "there is no verb %d of a job", (int)out->verb);
  if ((unsigned)out->kind > MORTISE_JOB_MIGRATION)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "there is no kind %d of jobs", (int)out->kind);
  if (!out->spec == !out->id)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a job request has either a spec or an id");
  return MORTISE_OK;
}

static uint64_t count_at(lua_State *L, int index) {
  lua_Integer n = lua_tointeger(L, index);
  return n > 0 ? (uint64_t)n : 0;
}

/* (id, done, all, conflicts, rejected, waits, over); upvalue: the call */
static int tell_job_progress(lua_State *L) {
  const job_call *call = lua_touserdata(L, lua_upvalueindex(1));
  const mortise_job_progress progress = {.id = mt_check_string(L, 1),
                                         .done = count_at(L, 2),
                                         .total = count_at(L, 3),
                                         .conflicts = count_at(L, 4),
                                         .rejected = count_at(L, 5),
                                         .waits = lua_tostring(L, 6),
                                         .over = lua_toboolean(L, 7)};
  call->progress(call->progress_ctx, &progress);
  return 0;
}

/* (asked) -> the function, and its arguments */
static int push_job(lua_State *L) {
  const job_asked *asked = lua_touserdata(L, 1);
  const mortise_job_request *r = asked->request;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mortise.declared");
  lua_call(L, 1, 1);
  lua_pushstring(L, verbs[r->verb]);
  lua_pushstring(L, r->kind == MORTISE_JOB_MIGRATION ? "migrate" : "job");
  lua_pushstring(L, r->spec);
  lua_pushstring(L, r->id);
  lua_pushstring(L, r->options);
  if (r->progress) {
    lua_pushlightuserdata(L, asked->call);
    lua_pushcclosure(L, tell_job_progress, 1);
  } else {
    lua_pushnil(L);
  }
  return ARGUMENTS + 1;
}

static mortise_status push_asked(mortise_host *host, const mortise_job_request *r, job_call *call, mortise_error *err) {
  job_asked asked = {.request = r, .call = call};
  *call = (job_call){.progress = r->progress, .progress_ctx = r->progress_ctx};
  return mt_host_push(host, push_job, &asked, ARGUMENTS + 1, err);
}

/* ---- Waiting for it ------------------------------------------------------------------------------ */

static mortise_status take_result(lua_State *L, char **result, mortise_error *err) {
  const char *text = lua_tostring(L, -1);
  if (result) *result = text ? mt_strdup(text) : NULL;
  return result && !*result ? mt_error_memory(err) : MORTISE_OK;
}

mortise_status mortise_job_run(mortise_host *host, const mortise_job_request *request, char **result, mortise_error *err) {
  mortise_job_request taken;
  job_call call;
  mt_error_clear(err);
  if (result) *result = NULL;
  mortise_status status = take_job_request(&taken, request, err);
  if (!status) status = push_asked(host, &taken, &call, err);
  if (status) return status;
  lua_State *L = mortise_host_state(host);
  int below = lua_gettop(L) - (ARGUMENTS + 1);
  status = mortise_host_call(host, ARGUMENTS, 1, err);
  if (!status) status = take_result(L, result, err);
  lua_settop(L, below); /* a call that could not begin has left its arguments */
  return status;
}

void mortise_job_result_free(char *result) {
  mt_free(result);
}

/* ---- In the caller's loop ------------------------------------------------------------------------- */

static void tell_job(void *ctx, mortise_host *host, int nresults, const mortise_error *error) {
  const job_call *call = ctx;
  const char *text = nresults > 0 ? lua_tostring(mortise_host_state(host), -nresults) : NULL;
  if (call->done) call->done(call->ctx, host, error->code ? NULL : text, error);
}

mortise_run *mortise_job_start(mortise_host *host, const mortise_job_request *request, mortise_job_done_fn *done, void *ctx,
                               mortise_error *err) {
  mortise_job_request taken;
  mt_error_clear(err);
  if (take_job_request(&taken, request, err)) return NULL;
  job_call *call = mt_alloc(sizeof *call);
  if (!call) {
    mt_error_memory(err);
    return NULL;
  }
  if (push_asked(host, &taken, call, err)) {
    mt_free(call);
    return NULL;
  }
  call->done = done;
  call->ctx = ctx;
  lua_State *L = mortise_host_state(host);
  int below = lua_gettop(L) - (ARGUMENTS + 1);
  mortise_run *run = mt_host_start_with(host, ARGUMENTS, tell_job, call, mt_free, err);
  lua_settop(L, below); /* one that could not begin has left its arguments */
  return run;
}
