/* `mortise.core`, on which stdlib is built. The tables below list the functions and classes, which
 * the head of each lua_*.c describes; those of this file:
 *   version                       "0.1.0"
 *   path_check(path, others) -> path    normalised; raises invalid_argument, naming the rule. With
 *                                 `others` it may be a path that cannot be locked here
 *   path_segment(bytes) -> string any bytes as one segment of a path
 *   identity() -> string          JSON: {host, boot, pidns, pid, start, user} of this process
 *   default_options() -> table    those of the host, with the names of open{}; nil if none
 *   scan_page, list_page          default documents in a page of a scan, of a list
 *   warn(line) -> boolean         to the log of the host's options; false if the host is not ours
 *   inform(line)                  the same, as information
 * All calls look synchronous and raise error objects (lua_error.c). An argument of a wrong type, a
 * mistake of the calling code, raises Lua's own "bad argument" string. */
#include "bindings/lua_core.h"

#include "bindings/driver.h"
#include "bindings/interrupt.h"
#include "bindings/lua_admin.h"
#include "bindings/lua_break.h"
#include "bindings/lua_buf.h"
#include "bindings/lua_bulk.h"
#include "bindings/lua_class.h"
#include "bindings/lua_client.h"
#include "bindings/lua_doc.h"
#include "bindings/lua_error.h"
#include "bindings/lua_job.h"
#include "bindings/lua_json.h"
#include "bindings/lua_list.h"
#include "bindings/lua_lock.h"
#include "bindings/lua_lost.h"
#include "bindings/lua_outside.h"
#include "bindings/lua_pack.h"
#include "bindings/lua_query.h"
#include "bindings/lua_sandbox.h"
#include "bindings/lua_scan.h"
#include "bindings/lua_session.h"
#include "bindings/lua_settings.h"
#include "bindings/lua_span.h"
#include "bindings/lua_store.h"
#include "bindings/lua_task.h"
#include "bindings/lua_text.h"
#include "bindings/lua_transform.h"
#include "bindings/lua_work.h"
#include "bindings/lua_writer.h"

#include "client/identity.h"
#include "lock/path.h"

static int core_path_check(lua_State *L) {
  size_t n;
  const char *p = mt_check_text(L, 1, &n);
  mt_slice out;
  mortise_error err;
  mt_slice path = {p, n};
  bool others = lua_toboolean(L, 2);
  if (others ? mt_path_check_form(path, &out, &err) : mt_path_check(path, &out, &err))
    mt_error_raise(L, &err);
  lua_pushlstring(L, out.p, out.n);
  return 1;
}

static int core_path_segment(lua_State *L) {
  size_t n;
  const char *p = mt_check_text(L, 1, &n);
  mt_buf *b = mt_buf_push(L, 3 * n + 16);
  mt_path_add_segment(b, (mt_slice){p, n});
  mt_buf_check(L, b, "the segment");
  lua_pushlstring(L, b->p ? b->p : "", b->n);
  return 1;
}

/* A host without a log drops the line. */
static const mt_driver *write_log(lua_State *L, mortise_log_level level) {
  size_t n;
  const char *line = mt_check_text(L, 1, &n);
  const mt_driver *d = mt_driver_get(L);
  if (d->defaults && d->defaults->log) d->defaults->log(d->defaults->log_ctx, level, line);
  return d;
}

static int core_warn(lua_State *L) {
  lua_pushboolean(L, write_log(L, MORTISE_LOG_WARNING)->hosted);
  return 1;
}

static int core_inform(lua_State *L) {
  write_log(L, MORTISE_LOG_INFO);
  return 0;
}

static int core_identity(lua_State *L) {
  mortise_error err;
  mt_identity *id = mt_identity_new(NULL, NULL, NULL, &err);
  if (!id) mt_error_raise(L, &err);
  mt_buf *b = mt_buf_push(L, 8192); /* frees the text if Lua runs out of memory */
  mt_buf_adds(b, id->json);
  mt_identity_free(id);
  mt_buf_check(L, b, "the identity");
  lua_pushlstring(L, b->p, b->n);
  return 1;
}

static const luaL_Reg core_functions[] = {{"path_check", core_path_check},
                                          {"path_segment", core_path_segment},
                                          {"identity", core_identity},
                                          {"warn", core_warn},
                                          {"inform", core_inform},
                                          {NULL, NULL}};

/* ---- What there is -------------------------------------------------------------------------- */

static const luaL_Reg *const functions[] = {
    core_functions,        mt_error_functions, mt_task_functions, mt_text_functions,
    mt_settings_functions, mt_json_functions,  mt_doc_functions,  mt_client_functions,
    mt_job_functions,      mt_lock_functions,  mt_pack_functions, mt_span_functions,
    mt_transformer_functions, mt_sandbox_functions, mt_query_functions};

static const struct {
  const mt_lua_class *class;
  const luaL_Reg *more[13]; /* methods that other files add; NULL ends them */
} classes[] = {
    {&mt_task_class, {NULL}},
    {&mt_view_class, {NULL}},
    {&mt_page_class, {NULL}},
    {&mt_client_class,
     {mt_store_methods, mt_bulk_methods, mt_scan_methods, mt_session_methods, mt_acquire_methods,
      mt_holds_methods, mt_writer_methods, mt_list_methods, mt_break_methods, mt_job_client_methods,
      mt_span_methods, mt_admin_methods, NULL}},
    {&mt_session_class, {mt_acquire_methods, NULL}},
    {&mt_scan_class, {NULL}},
    {&mt_list_class, {NULL}},
    {&mt_breaking_class, {NULL}},
    {&mt_lock_class, {mt_writer_methods, mt_job_lock_methods, mt_outside_lock_methods, NULL}},
    {&mt_writer_class, {NULL}},
    {&mt_work_class, {NULL}},
    {&mt_outside_class, {NULL}},
    {&mt_transformer_class, {NULL}},
    {&mt_sandbox_class, {NULL}},
};

static const mt_driver_hooks hooks = {mt_interrupt_look, mt_lost_check, mt_lost_wake, mt_lost_read,
                                      mt_client_close_all};

int mt_core_open(lua_State *L) {
  luaL_checkversion(L);
  mt_driver_get(L)->hooks = &hooks;
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
    mt_class_open(L, classes[i].class, classes[i].more);
  lua_newtable(L);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    luaL_setfuncs(L, functions[i], 0);
  lua_pushstring(L, mortise_version());
  lua_setfield(L, -2, "version");
  mt_null_push(L);
  lua_setfield(L, -2, "null");
  mt_client_options_push(L);
  lua_setfield(L, -2, "options");
  mt_job_transforms_push(L);
  lua_setfield(L, -2, "transforms");
  lua_pushinteger(L, MORTISE_TIME_MAX_MS);
  lua_setfield(L, -2, "time_max");
  lua_pushinteger(L, MT_SCAN_PAGE);
  lua_setfield(L, -2, "scan_page");
  lua_pushinteger(L, MT_LIST_PAGE);
  lua_setfield(L, -2, "list_page");
  return 1;
}
