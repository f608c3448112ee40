/* The four allocators of the process, and counts of their live blocks. */
#include "fault.h"

#include "base/mem.h"

#include <curl/curl.h>
#include <dirent.h>
#include <lauxlib.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_int_fast64_t blocks, lua_blocks, curl_blocks, sqlite_blocks;

/* ---- All of them, as the sanitizer sees them ------------------------------------------------ */

extern int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *,
                                                                       size_t),
                                                     void (*on_free)(const volatile void *))
    __attribute__((weak));

static void on_malloc(const volatile void *p, size_t size) {
  (void)p;
  (void)size;
  atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
}

static void on_free(const volatile void *p) {
  (void)p;
  atomic_fetch_sub_explicit(&blocks, 1, memory_order_relaxed);
}

/* ---- Ours ----------------------------------------------------------------------------------- */

static bool allow(void *ctx, size_t size) {
  (void)ctx;
  (void)size;
  return !mt_fault_hits(MT_FAULT_OURS, "mt_alloc");
}

/* ---- Lua's: as luaL_newstate's own, which the linker replaces by this one ------------------- */

lua_State *__wrap_luaL_newstate(void);

static void *lua_memory(void *ctx, void *p, size_t old, size_t size) {
  (void)ctx;
  if (!size) {
    if (p) atomic_fetch_sub(&lua_blocks, 1);
    free(p);
    return NULL;
  }
  /* Lua's manual: it assumes that shrinking never fails. */
  if ((!p || size > old) && mt_fault_hits(MT_FAULT_LUA, p ? "lua realloc" : "lua alloc"))
    return NULL;
  void *given = realloc(p, size);
  if (given && !p) atomic_fetch_add(&lua_blocks, 1);
  return given;
}

lua_State *__wrap_luaL_newstate(void) {
  return lua_newstate(lua_memory, NULL);
}

/* ---- libcurl's ------------------------------------------------------------------------------ */

static void *curl_malloc(size_t size) {
  void *p = mt_fault_hits(MT_FAULT_CURL, "curl malloc") ? NULL : malloc(size);
  if (p) atomic_fetch_add(&curl_blocks, 1);
  return p;
}

static void curl_give_back(void *p) {
  if (p) atomic_fetch_sub(&curl_blocks, 1);
  free(p);
}

static void *curl_realloc(void *p, size_t size) {
  void *given = mt_fault_hits(MT_FAULT_CURL, "curl realloc") ? NULL : realloc(p, size);
  if (given && !p) atomic_fetch_add(&curl_blocks, 1);
  return given;
}

static char *curl_strdup(const char *s) {
  char *p = mt_fault_hits(MT_FAULT_CURL, "curl strdup") ? NULL : strdup(s);
  if (p) atomic_fetch_add(&curl_blocks, 1);
  return p;
}

static void *curl_calloc(size_t n, size_t size) {
  void *p = mt_fault_hits(MT_FAULT_CURL, "curl calloc") ? NULL : calloc(n, size);
  if (p) atomic_fetch_add(&curl_blocks, 1);
  return p;
}

/* ---- SQLite's: its own, with a gate before them --------------------------------------------- */

static sqlite3_mem_methods sqlite_own;

static void *sqlite_malloc(int size) {
  void *p = mt_fault_hits(MT_FAULT_SQLITE, "sqlite malloc") ? NULL : sqlite_own.xMalloc(size);
  if (p) atomic_fetch_add(&sqlite_blocks, 1);
  return p;
}

static void sqlite_give_back(void *p) {
  if (p) atomic_fetch_sub(&sqlite_blocks, 1);
  sqlite_own.xFree(p);
}

static void *sqlite_realloc(void *p, int size) {
  return mt_fault_hits(MT_FAULT_SQLITE, "sqlite realloc") ? NULL : sqlite_own.xRealloc(p, size);
}

/* ---- In place ------------------------------------------------------------------------------- */

void mt_fault_install_allocators(void) {
  if (__sanitizer_install_malloc_and_free_hooks)
    __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  mt_mem_hook(allow, NULL);
  if (curl_global_init_mem(CURL_GLOBAL_DEFAULT, curl_malloc, curl_give_back, curl_realloc,
                           curl_strdup, curl_calloc))
    abort();
  if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_own)) abort();
  sqlite3_mem_methods gated = sqlite_own;
  gated.xMalloc = sqlite_malloc;
  gated.xFree = sqlite_give_back;
  gated.xRealloc = sqlite_realloc;
  if (sqlite3_config(SQLITE_CONFIG_MALLOC, &gated)) abort();
  /* Without lookaside, small blocks are allocated here too. */
  if (sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0)) abort();
}

static int entries(const char *folder) {
  int n = 0;
  DIR *d = opendir(folder);
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

mt_fault_live mt_fault_alive(void) {
  return (mt_fault_live){
      .blocks = atomic_load(&blocks),
      .lua = atomic_load(&lua_blocks),
      .curl = atomic_load(&curl_blocks),
      .sqlite = atomic_load(&sqlite_blocks),
      .files = entries("/proc/self/fd"),
      .threads = entries("/proc/self/task"),
  };
}
