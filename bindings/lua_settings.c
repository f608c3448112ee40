/* Files of settings and secrets, and folders. In `mortise.core`:
 *   read_file(file, most) -> text, access   nil, message, errno if it cannot be read; more than
 *                                 `most` bytes raise invalid_argument
 *   file_access(file) -> access   nil, message, errno; {mode = permission bits, owner = uid, ours =
 *                                 whether it belongs to this user or to root}
 *   folder(name) -> string        the names of what is in a folder, each with a "/" behind it, in no
 *                                 order; nil, message, errno
 *   settings(text, file) -> true, value, or false, message    runs a file of settings in a separate
 *                                 state without functions and with limited steps and memory, so it
 *                                 only computes a value and always ends soon
 * A caught signal ends waiting for a pipe. */
#include "bindings/lua_settings.h"

#include "bindings/driver.h"
#include "bindings/lua_buf.h"
#include "bindings/lua_class.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/lua_text.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 64 * 1024, PERMISSIONS = 07777 };

/* ---- Files ---------------------------------------------------------------------------------- */

static void push_access(lua_State *L, const struct stat *st) {
  lua_createtable(L, 0, 3);
  lua_pushinteger(L, st->st_mode & PERMISSIONS);
  lua_setfield(L, -2, "mode");
  lua_pushinteger(L, st->st_uid);
  lua_setfield(L, -2, "owner");
  lua_pushboolean(L, !st->st_uid || st->st_uid == geteuid());
  lua_setfield(L, -2, "ours");
}

static int core_file_access(lua_State *L) {
  const char *file = mt_check_string(L, 1);
  struct stat st;
  if (stat(file, &st)) return luaL_fileresult(L, 0, file);
  push_access(L, &st);
  return 1;
}

/* Returns 0 or an errno; the buffer's own status says if it is full. */
static int read_settings_file(int fd, mt_buf *b) {
  for (;;) {
    size_t left = b->max - b->n;
    char *room = mt_buf_room(b, left < PIECE ? left : PIECE);
    if (!room) return 0;
    ssize_t n = read(fd, room, left < PIECE ? left : PIECE);
    if (n < 0) return errno;
    if (!n) return 0;
    b->n += (size_t)n;
  }
}

static int read_open(int fd, mt_buf *b, struct stat *st) {
  int failed = fstat(fd, st) ? errno : read_settings_file(fd, b);
  close(fd);
  return failed;
}

static int core_read_file(lua_State *L) {
  const char *file = mt_check_string(L, 1);
  size_t most = (size_t)luaL_checkinteger(L, 2);
  mt_buf *b = mt_buf_push(L, most + 1);
  struct stat st;
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  int failed = fd < 0 ? errno : read_open(fd, b, &st);
  if (failed) {
    errno = failed;
    return luaL_fileresult(L, 0, file);
  }
  if (b->n > most)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "%s is larger than %zu bytes", file, most);
  mt_buf_check(L, b, file);
  lua_pushlstring(L, b->p ? b->p : "", b->n);
  push_access(L, &st);
  return 2;
}

/* ---- Folders -------------------------------------------------------------------------------- */

enum { FOLDER_MAX = 64 * 1024 * 1024 };

/* Returns 0 or an errno. */
static int read_names(DIR *dir, mt_buf *b) {
  for (;;) {
    errno = 0;
    const struct dirent *entry = readdir(dir);
    if (!entry) return errno;
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    mt_buf_adds(b, entry->d_name);
    mt_buf_addc(b, '/');
  }
}

static int core_folder(lua_State *L) {
  const char *name = mt_check_string(L, 1);
  mt_buf *b = mt_buf_push(L, FOLDER_MAX);
  DIR *dir = opendir(name);
  int failed = dir ? read_names(dir, b) : errno;
  if (dir) closedir(dir);
  if (failed) {
    errno = failed;
    return luaL_fileresult(L, 0, name);
  }
  mt_buf_check(L, b, name);
  lua_pushlstring(L, b->p ? b->p : "", b->n);
  return 1;
}

/* ---- Settings ------------------------------------------------------------------------------- */

enum { STEPS_MAX = 1000000, DEPTH_MAX = 8, VALUES_MAX = 100000 };
static const size_t used_max = (size_t)16 << 20, taken_max = (size_t)256 << 20;

/* A separate Lua state and its memory use. */
typedef struct sandbox {
  mt_owned owned;
  lua_State *S;
  size_t used, taken; /* bytes in use now; bytes allocated in total */
} sandbox;

static void *sandbox_alloc(void *ctx, void *p, size_t old, size_t size) {
  sandbox *s = ctx;
  if (!p) old = 0; /* then `old` is a type, not a size */
  if (!size) {
    mt_free(p);
    s->used -= old;
    return NULL;
  }
  bool grows = size > old;
  if (grows && (s->used - old + size > used_max || s->taken + size > taken_max)) return NULL;
  void *moved = mt_realloc(p, size);
  if (!moved) return NULL;
  s->used += size - old;
  if (grows) s->taken += size;
  return moved;
}

static void sandbox_end(mt_owned *owned) {
  sandbox *s = MT_CONTAINER(owned, sandbox, owned);
  if (s->S) lua_close(s->S);
  s->S = NULL;
}

static int sandbox_collect(lua_State *L) {
  mt_owned_end(lua_touserdata(L, 1));
  return 0;
}

static sandbox *sandbox_push(lua_State *L) {
  static const luaL_Reg metamethods[] = {{"__gc", sandbox_collect}, {NULL, NULL}};
  mt_driver *d = mt_driver_get(L);
  sandbox *s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = (sandbox){0};
  mt_class(L, "mortise.settings", metamethods);
  lua_setmetatable(L, -2);
  mt_own(d, &s->owned, sandbox_end);
  s->S = lua_newstate(sandbox_alloc, s);
  if (!s->S) mt_error_throw(L, MORTISE_OUT_OF_MEMORY, "out of memory");
  return s;
}

typedef struct chunk {
  const char *text, *name;
  size_t n;
} chunk;

static void too_long(lua_State *S, lua_Debug *ar) {
  lua_getinfo(S, "Sl", ar);
  lua_pushfstring(S, "%s:%d: runs too long for a file of settings", ar->short_src, ar->currentline);
  lua_error(S);
}

/* (chunk) -> value */
static int evaluate(lua_State *S) {
  const chunk *c = lua_touserdata(S, 1);
  lua_pushfstring(S, "@%s", c->name);
  if (luaL_loadbufferx(S, c->text, c->n, lua_tostring(S, -1), "t") != LUA_OK) return lua_error(S);
  lua_newtable(S); /* replaces the globals */
  lua_setupvalue(S, -2, 1);
  lua_sethook(S, too_long, LUA_MASKCOUNT, STEPS_MAX);
  lua_call(S, 0, 1);
  return 1;
}

static void copy_setting(lua_State *L, lua_State *S, int depth, int *left);

static void copy_table(lua_State *L, lua_State *S, int depth, int *left) {
  if (!depth || !lua_checkstack(S, 4))
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT,
                   "the settings are nested too deeply, or contain themselves");
  luaL_checkstack(L, 4, NULL);
  lua_newtable(L);
  for (lua_pushnil(S); lua_next(S, -2); lua_pop(S, 1)) {
    lua_pushvalue(S, -2);
    copy_setting(L, S, depth, left);
    lua_pop(S, 1);
    copy_setting(L, S, depth, left);
    lua_rawset(L, -3);
  }
}

/* Copies the value on top of S to the top of L. */
static void copy_setting(lua_State *L, lua_State *S, int depth, int *left) {
  size_t n;
  if (!(*left)--) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "there are too many settings");
  switch (lua_type(S, -1)) {
  case LUA_TSTRING: {
    const char *text = lua_tolstring(S, -1, &n);
    lua_pushlstring(L, text, n);
    return;
  }
  case LUA_TNUMBER:
    if (lua_isinteger(S, -1))
      lua_pushinteger(L, lua_tointeger(S, -1));
    else
      lua_pushnumber(L, lua_tonumber(S, -1));
    return;
  case LUA_TBOOLEAN:
    lua_pushboolean(L, lua_toboolean(S, -1));
    return;
  case LUA_TTABLE:
    copy_table(L, S, depth - 1, left);
    return;
  case LUA_TNIL:
    lua_pushnil(L);
    return;
  default:
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "a %s is no setting", luaL_typename(S, -1));
  }
}

static int core_settings(lua_State *L) {
  chunk c;
  c.text = mt_check_text(L, 1, &c.n);
  c.name = mt_check_string(L, 2);
  sandbox *s = sandbox_push(L);
  lua_pushcfunction(s->S, evaluate);
  lua_pushlightuserdata(s->S, &c);
  int status = lua_pcall(s->S, 1, 1, 0);
  lua_pushboolean(L, status == LUA_OK);
  int left = VALUES_MAX;
  if (status == LUA_ERRMEM)
    lua_pushfstring(L, "%s: takes too much memory for a file of settings", c.name);
  else
    copy_setting(L, s->S, DEPTH_MAX, &left);
  mt_owned_end(&s->owned);
  return 2;
}

const luaL_Reg mt_settings_functions[] = {{"read_file", core_read_file},
                                          {"file_access", core_file_access},
                                          {"folder", core_folder},
                                          {"settings", core_settings},
                                          {NULL, NULL}};
