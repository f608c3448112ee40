/* bytecode OUT NAME BASE FILE...: compiles Lua files while the project is built, with the library that the
 * program is linked with. Writes a C source that defines what cmake/embed.cmake says. Line numbers and
 * names stay in, for tracebacks. */
#include <lauxlib.h>
#include <lua.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

extern const char lua_ident[] __attribute__((weak)); /* a Lua may hide it */

typedef struct bytes_out {
  FILE *out;
  size_t n;
} bytes_out;

static int write_bytes(lua_State *L, const void *p, size_t n, void *ctx) {
  (void)L;
  bytes_out *to = ctx;
  for (size_t i = 0; i < n; i++)
    fprintf(to->out, "%u,%s", ((const unsigned char *)p)[i], ++to->n % 32 ? "" : "\n");
  return ferror(to->out);
}

/* The chunk is named as bindings/modules.c names it. */
static bool write_file(lua_State *L, FILE *out, const char *base, const char *file, int i) {
  const char *path = lua_pushfstring(L, "%s/%s", base, file);
  FILE *in = fopen(path, "rb");
  if (!in) return false;
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  for (size_t n = 1; n;) {
    n = fread(luaL_prepbuffer(&text), 1, LUAL_BUFFERSIZE, in);
    luaL_addsize(&text, n);
  }
  bool read = !ferror(in);
  fclose(in);
  luaL_pushresult(&text);
  size_t n;
  const char *source = lua_tolstring(L, -1, &n), *chunk = lua_pushfstring(L, "@%s", file);
  if (!read || luaL_loadbufferx(L, source, n, chunk, "t") != LUA_OK) return false;
  bytes_out to = {out, 0};
  fprintf(out, "static const unsigned char code_%d[] = {\n", i);
  bool written = lua_dump(L, write_bytes, &to, false) == 0;
  fprintf(out, "};\n");
  lua_settop(L, 0);
  return written;
}

static void write_ident(FILE *out, const char *name) {
  fprintf(out, "extern const char %s_lua[];\nconst char %s_lua[] = \"", name, name);
  for (const char *p = lua_ident ? lua_ident : ""; *p; p++)
    if (*p == '"' || *p == '\\')
      fprintf(out, "\\%c", *p);
    else
      fputc(*p, out);
  fprintf(out, "\";\n");
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  const char *name = argv[2];
  lua_State *L = luaL_newstate();
  FILE *out = fopen(argv[1], "w");
  if (!L || !out) return perror(argv[1]), 1;
  fprintf(out, "/* Made by cmake/bytecode.c. */\n#include \"embedded.h\"\n\n");
  for (int i = 4; i < argc; i++)
    if (!write_file(L, out, argv[3], argv[i], i)) {
      const char *why = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
      fprintf(stderr, "%s/%s cannot be compiled: %s\n", argv[3], argv[i], why);
      fclose(out);
      remove(argv[1]);
      return 1;
    }
  write_ident(out, name);
  fprintf(out, "extern const mt_bytecode %s_bytecode[];\nconst mt_bytecode %s_bytecode[] = {\n", name, name);
  for (int i = 4; i < argc; i++) fprintf(out, "  {code_%d, sizeof code_%d},\n", i, i);
  fprintf(out, "};\n");
  lua_close(L);
  return fclose(out) ? 1 : 0;
}
