/* Error objects: tables {code, message, status, type, reason, retryable, ambiguous, blockers,
 * blockers_total, job, traceback}; `job` is orphaned_job's. tostring() of one is "code: message" and a
 * line for each blocker. In `mortise.core`:
 *   error{code=, message=, ...} -> object     to be raised with error(object, 0)
 *   is_error(value) -> boolean
 *   traceback(value) -> value                 for xpcall: a string becomes an object, which gets a traceback
 *   exit_status(code) -> integer              the program's exit status for such an error
 * `code` is one of mortise/error.h's; a blocker is {path, mode, session, host, user, program,
 * script, job, pid, since_ms, queued, damaged}, without what is unknown. */
#include "bindings/lua_error.h"

#include "bindings/lua_class.h"
#include "bindings/lua_text.h"

#include "base/error.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char error_name[] = "mortise.error";

enum { STATUSES = MORTISE_SCRIPT_ERROR + 1 };

/* ---- C to Lua ------------------------------------------------------------------------------- */

static void push_blocker(lua_State *L, const mortise_blocker *b) {
  lua_createtable(L, 0, 11);
  mt_set_text(L, "path", b->path);
  mt_set_text(L, "mode", b->mode);
  mt_set_text(L, "session", b->session);
  mt_set_text(L, "host", b->host);
  mt_set_text(L, "user", b->user);
  mt_set_text(L, "program", b->program);
  mt_set_text(L, "script", b->script);
  mt_set_text(L, "job", b->job);
  if (b->pid) {
    lua_pushinteger(L, b->pid);
    lua_setfield(L, -2, "pid");
  }
  if (b->since_ms) {
    lua_pushinteger(L, b->since_ms);
    lua_setfield(L, -2, "since_ms");
  }
  lua_pushboolean(L, b->queued);
  lua_setfield(L, -2, "queued");
  if (!b->damaged) return;
  lua_pushboolean(L, true);
  lua_setfield(L, -2, "damaged");
}

/* Sets them in the error on the stack. */
static void set_blockers(lua_State *L, const mortise_blockers *all) {
  if (!all->shown) return;
  lua_createtable(L, (int)all->shown, 0);
  for (size_t i = 0; i < all->shown; i++) {
    push_blocker(L, &all->list[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "blockers");
  lua_pushinteger(L, (lua_Integer)all->total);
  lua_setfield(L, -2, "blockers_total");
}

static int error_tostring(lua_State *L);

/* Allows handlers that expect a string to concatenate it. */
static int error_concat(lua_State *L) {
  mt_text_push(L, 1);
  mt_text_push(L, 2);
  lua_concat(L, 2);
  return 1;
}

void mt_error_set_class(lua_State *L) {
  static const luaL_Reg metamethods[] = {
      {"__tostring", error_tostring}, {"__concat", error_concat}, {NULL, NULL}};
  mt_class(L, error_name, metamethods);
  lua_setmetatable(L, -2);
}

void mt_error_push(lua_State *L, const mortise_error *e) {
  luaL_checkstack(L, 6, NULL);
  lua_createtable(L, 0, 8);
  mt_set_text(L, "code", mortise_status_name(e->code));
  lua_pushstring(L, e->message);
  lua_setfield(L, -2, "message");
  mt_set_text(L, "type", e->type);
  mt_set_text(L, "reason", e->reason);
  if (e->http_status) {
    lua_pushinteger(L, e->http_status);
    lua_setfield(L, -2, "status");
  }
  lua_pushboolean(L, e->retryable);
  lua_setfield(L, -2, "retryable");
  lua_pushboolean(L, e->ambiguous);
  lua_setfield(L, -2, "ambiguous");
  mt_error_set_class(L);
}

void mt_error_raise(lua_State *L, const mortise_error *e) {
  mt_error_push(L, e);
  lua_error(L);
  __builtin_unreachable();
}

void mt_error_raise_blocked(lua_State *L, const mortise_error *e, const mortise_blockers *all) {
  mt_error_push(L, e);
  luaL_checkstack(L, 6, NULL);
  set_blockers(L, all);
  if (e->code == MORTISE_ORPHANED_JOB) mt_set_text(L, "job", all->list[0].job);
  lua_error(L);
  __builtin_unreachable();
}

void mt_error_throw(lua_State *L, mortise_status code, const char *fmt, ...) {
  mortise_error e;
  char message[sizeof e.message];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  mt_error_set(&e, code, "%s", message);
  mt_error_raise(L, &e);
}

/* ---- Lua to C ------------------------------------------------------------------------------- */

bool mt_error_is(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index)) return false;
  luaL_getmetatable(L, error_name);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

static const char *push_raw_field(lua_State *L, int index, const char *key) {
  index = lua_absindex(L, index);
  lua_pushstring(L, key);
  lua_rawget(L, index);
  return lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
}

/* Valid until the next call that takes L, since the table keeps it. */
static const char *raw_string(lua_State *L, int index, const char *key) {
  const char *s = push_raw_field(L, index, key);
  lua_pop(L, 1);
  return s;
}

static lua_Integer raw_integer(lua_State *L, int index, const char *key) {
  index = lua_absindex(L, index);
  lua_pushstring(L, key);
  lua_rawget(L, index);
  lua_Integer value = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return value;
}

static bool raw_boolean(lua_State *L, int index, const char *key) {
  index = lua_absindex(L, index);
  lua_pushstring(L, key);
  lua_rawget(L, index);
  bool value = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return value;
}

static bool status_named(const char *name, mortise_status *out) {
  for (int i = 0; i < STATUSES; i++)
    if (!strcmp(name, mortise_status_name((mortise_status)i))) {
      *out = (mortise_status)i;
      return true;
    }
  return false;
}

static void copy_text(char *out, size_t size, const char *from) {
  snprintf(out, size, "%s", from);
}

static void read_blocker(lua_State *L, mortise_blocker *b) {
  copy_text(b->path, sizeof b->path, raw_string(L, -1, "path"));
  copy_text(b->mode, sizeof b->mode, raw_string(L, -1, "mode"));
  copy_text(b->session, sizeof b->session, raw_string(L, -1, "session"));
  copy_text(b->host, sizeof b->host, raw_string(L, -1, "host"));
  copy_text(b->user, sizeof b->user, raw_string(L, -1, "user"));
  copy_text(b->program, sizeof b->program, raw_string(L, -1, "program"));
  copy_text(b->script, sizeof b->script, raw_string(L, -1, "script"));
  copy_text(b->job, sizeof b->job, raw_string(L, -1, "job"));
  b->pid = raw_integer(L, -1, "pid");
  b->since_ms = raw_integer(L, -1, "since_ms");
  b->queued = raw_boolean(L, -1, "queued");
  b->damaged = raw_boolean(L, -1, "damaged");
}

static void take_blockers(lua_State *L, int index, mortise_blockers *out) {
  *out = (mortise_blockers){0};
  lua_pushliteral(L, "blockers");
  lua_rawget(L, index);
  if (lua_type(L, -1) == LUA_TTABLE) {
    for (lua_Integer i = 1; i <= MORTISE_BLOCKERS_SHOWN; i++) {
      bool there = lua_rawgeti(L, -1, i) == LUA_TTABLE;
      if (there) read_blocker(L, &out->list[out->shown++]);
      lua_pop(L, 1);
      if (!there) break;
    }
    lua_Integer total = raw_integer(L, index, "blockers_total");
    out->total = total > 0 ? (size_t)total : out->shown;
  }
  lua_pop(L, 1);
}

static void read_object(lua_State *L, int index, mortise_error *out) {
  mortise_status code = MORTISE_SCRIPT_ERROR;
  status_named(raw_string(L, index, "code"), &code);
  mt_error_set(out, code == MORTISE_OK ? MORTISE_SCRIPT_ERROR : code, "%s",
               raw_string(L, index, "message"));
  copy_text(out->type, sizeof out->type, raw_string(L, index, "type"));
  copy_text(out->reason, sizeof out->reason, raw_string(L, index, "reason"));
  out->http_status = (int)raw_integer(L, index, "status");
  out->retryable = raw_boolean(L, index, "retryable");
  out->ambiguous = raw_boolean(L, index, "ambiguous");
}

void mt_error_read(lua_State *L, int index, mortise_error *out) {
  index = lua_absindex(L, index);
  int top = lua_gettop(L);
  luaL_checkstack(L, 6, NULL);
  if (mt_error_is(L, index)) {
    read_object(L, index, out);
    return;
  }
  if (lua_type(L, index) == LUA_TSTRING || lua_type(L, index) == LUA_TNUMBER)
    mt_error_set(out, MORTISE_SCRIPT_ERROR, "%s", mt_text_push(L, index));
  else if (luaL_callmeta(L, index, "__tostring") && lua_type(L, -1) == LUA_TSTRING)
    mt_error_set(out, MORTISE_SCRIPT_ERROR, "%s", lua_tostring(L, -1));
  else
    mt_error_set(out, MORTISE_SCRIPT_ERROR, "(the error is a %s value)", luaL_typename(L, index));
  lua_settop(L, top);
}

/* ---- Message handler ------------------------------------------------------------------------ */

int mt_error_traceback(lua_State *L) {
  lua_settop(L, 1); /* a script may call it, with nothing */
  if (lua_type(L, 1) == LUA_TSTRING) {
    mortise_error e;
    mt_error_set(&e, MORTISE_SCRIPT_ERROR, "%s", lua_tostring(L, 1));
    mt_error_push(L, &e);
    lua_pushvalue(L, 1); /* the whole text, which the C error cuts */
    lua_setfield(L, -2, "message");
    lua_replace(L, 1);
  }
  if (!mt_error_is(L, 1)) return 1;
  if (raw_string(L, 1, "traceback")[0]) return 1;
  luaL_traceback(L, L, NULL, 1);
  lua_setfield(L, 1, "traceback");
  return 1;
}

/* ---- For people ----------------------------------------------------------------------------- */

static void add_since(luaL_Buffer *b, lua_Integer since_ms) {
  time_t seconds = (time_t)(since_ms / 1000);
  struct tm when;
  char text[32];
  if (!since_ms || !gmtime_r(&seconds, &when)) return;
  if (!strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &when)) return;
  luaL_addstring(b, " since ");
  luaL_addstring(b, text);
}

static void add_named(luaL_Buffer *b, const char *name, const char *value) {
  if (!value[0]) return;
  luaL_addstring(b, name);
  luaL_addstring(b, value);
}

static void add_blocker_line(luaL_Buffer *b, const mortise_blocker *who) {
  char pid[24];
  snprintf(pid, sizeof pid, "%lld", (long long)who->pid);
  const char *quote = mt_utf8_quote(mt_slice_of(who->path));
  luaL_addstring(b, "\n  ");
  add_named(b, quote, who->path);
  luaL_addstring(b, quote);
  add_named(b, who->queued ? ": waited for in " : ": held in ", who->mode);
  add_since(b, who->since_ms);
  luaL_addstring(b, who->program[0] ? " by " : " by a session");
  luaL_addstring(b, who->program);
  if (who->pid) add_named(b, ", pid ", pid);
  add_named(b, " on ", who->host);
  add_named(b, ", user ", who->user);
  add_named(b, ", script ", who->script);
  add_named(b, ", job ", who->job);
  add_named(b, ", session ", who->session);
  if (who->damaged) luaL_addstring(b, ", damaged: a person must break it");
}

typedef struct shown {
  mortise_error error;
  mortise_blockers blockers;
} shown;

/* Shown text may contain names that others chose. */
static void tame(shown *s) {
  mt_utf8_tame(s->error.type);
  mt_utf8_tame(s->error.reason);
  for (size_t i = 0; i < s->blockers.shown; i++) {
    mortise_blocker *who = &s->blockers.list[i];
    char *const texts[] = {who->path,    who->mode,   who->session, who->host,
                           who->program, who->script, who->job,     who->user};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) mt_utf8_tame(texts[k]);
  }
}

static void add_blockers(luaL_Buffer *b, const mortise_blockers *all) {
  char more[48];
  for (size_t i = 0; i < all->shown; i++) add_blocker_line(b, &all->list[i]);
  if (all->total <= all->shown) return;
  snprintf(more, sizeof more, "\n  and %zu more", all->total - all->shown);
  luaL_addstring(b, more);
}

/* An error with `lines` has lines that say what to type next, and scripts word their errors freely.
 * Any other line break came with somebody's name. */
static bool may_have_lines(lua_State *L, const char *code) {
  lua_pushliteral(L, "lines");
  lua_rawget(L, 1);
  bool may = lua_toboolean(L, -1) || !strcmp(code, mortise_status_name(MORTISE_SCRIPT_ERROR));
  lua_pop(L, 1);
  return may;
}

static void add_line(luaL_Buffer *b, const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (text[i] == '\n')
      luaL_addstring(b, "\\n");
    else
      luaL_addchar(b, text[i]);
  }
}

static int error_tostring(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  shown *s = lua_newuserdatauv(L, sizeof *s, 0);
  const mortise_error *e = &s->error;
  read_object(L, 1, &s->error);
  take_blockers(L, 1, &s->blockers);
  tame(s);
  const char *code = push_raw_field(L, 1, "code"), *message = push_raw_field(L, 1, "message");
  size_t line = may_have_lines(L, code) ? strcspn(message, "\n") : strlen(message);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  add_named(&b, "", code);
  luaL_addstring(&b, ": ");
  add_line(&b, message, line);
  if (e->reason[0] && !strstr(e->message, e->reason)) {
    luaL_addstring(&b, " (");
    add_named(&b, "", e->type);
    luaL_addstring(&b, e->type[0] ? ": " : "");
    luaL_addstring(&b, e->reason);
    luaL_addstring(&b, ")");
  }
  if (e->ambiguous) luaL_addstring(&b, "; what was asked for may have been applied, at least in part");
  luaL_addstring(&b, message + line);
  add_blockers(&b, &s->blockers);
  luaL_pushresult(&b);
  return 1;
}

/* ---- the module's functions ----------------------------------------------------------------- */

static int core_error(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  mortise_status code;
  const char *name = push_raw_field(L, 1, "code");
  if (!status_named(name, &code) || code == MORTISE_OK)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "unknown error code \"%s\"", name);
  lua_settop(L, 1);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, 2);
  }
  if (lua_getfield(L, 2, "message") != LUA_TSTRING) {
    lua_pushstring(L, mortise_status_name(code));
    lua_setfield(L, 2, "message");
  }
  lua_settop(L, 2);
  mt_error_set_class(L);
  return 1;
}

static int core_is_error(lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushboolean(L, mt_error_is(L, 1));
  return 1;
}

static int core_exit_status(lua_State *L) {
  mortise_status code = MORTISE_SCRIPT_ERROR;
  size_t n;
  status_named(mt_check_text(L, 1, &n), &code);
  lua_pushinteger(L, mortise_status_exit(code));
  return 1;
}

const luaL_Reg mt_error_functions[] = {{"error", core_error},
                                       {"is_error", core_is_error},
                                       {"exit_status", core_exit_status},
                                       {"traceback", mt_error_traceback},
                                       {NULL, NULL}};
