/* The command line, the configuration file, durations and sizes, as the program itself reads them:
 * any input leads to success or error objects only. Lines of the input are words; all of it is a
 * file. */
#include "fuzz.h"

#include <lua.h>
#include <mortise/host.h>

static const char chunk[] =
    "local parser, config = require 'mortise.cli.parser', require 'mortise.config'\n"
    "local settings, duration = require 'mortise.settings', require 'mortise.duration'\n"
    "local options, errors = require 'mortise.options', require 'mortise.errors'\n"
    "local file = os.tmpname()\n"
    "config.getenv = function() end\n"
    "config.command_line = {config = file}\n"
    "local rows = {{name = 'json', flag = '--json', short = '-j'}}\n"
    "table.move(settings.rows, 1, #settings.rows, 2, rows)\n"
    "local function try(what, f, ...)\n"
    "  local ok, why = pcall(f, ...)\n"
    "  if not ok and not (mortise.is_error(why) and why.code == 'invalid_argument') then\n"
    "    error(what .. ': ' .. tostring(why), 0)\n"
    "  end\n"
    "  return ok, why\n"
    "end\n"
    "local function file_of(text)\n"
    "  local out <close> = assert(io.open(file, 'wb'))\n"
    "  assert(out:write(text))\n"
    "end\n"
    "function fuzz(text)\n"
    "  local words = {}\n"
    "  for word in text:gmatch '[^\\n]+' do words[#words + 1] = word end\n"
    "  try('first', parser.first, words, function(flag)\n"
    "    return parser.find(rows, flag) or parser.refuse(rows, flag)\n"
    "  end)\n"
    "  try('parse', parser.parse, words, rows)\n"
    "  for _, word in ipairs(words) do\n"
    "    local ok, ms = try('duration', duration.ms, word, 'it')\n"
    "    assert(not ok or math.type(ms) == 'integer' and ms >= 0, word)\n"
    "    if ok then assert(duration.text(ms) ~= '') end\n"
    "    local size = options.parse_size(word)\n"
    "    assert(size == nil or math.type(size) == 'integer' and size > 0, word)\n"
    "  end\n"
    "  file_of(text)\n"
    "  try('resolve', config.resolve)\n"
    "end\n"
    "function done() os.remove(file) end\n";

static mortise_host *host;

/* libFuzzer does not see branches in Lua code, so it is given the executed lines. */
enum { COUNTERS = 8192 };
__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t lines[COUNTERS];

static void line(lua_State *L, lua_Debug *ar) {
  lua_getinfo(L, "Sl", ar);
  uint32_t h = (uint32_t)ar->currentline;
  for (const char *p = ar->short_src; *p; p++) h = (h ^ (unsigned char)*p) * 16777619u;
  lines[(h ^ h >> 15) % COUNTERS]++;
}

static void call(const char *name, const uint8_t *data, size_t n) {
  lua_State *L = mortise_host_state(host);
  mortise_error err;
  int top = lua_gettop(L);
  lua_getglobal(L, name);
  lua_pushlstring(L, data ? (const char *)data : "", n);
  if (mortise_host_call(host, 1, 0, &err)) {
    fprintf(stderr, "%s\n%s\n", err.message, mortise_host_traceback(host));
    abort();
  }
  MUST(lua_gettop(L) == top);
}

static void end(void) {
  call("done", NULL, 0);
  mortise_host_free(host);
}

static void begin(void) {
  mortise_error err;
  host = mortise_host_new(NULL, &err);
  MUST(host);
  if (mortise_host_run_string(host, chunk, "=fuzz", NULL, 0, &err)) {
    fprintf(stderr, "%s\n", mortise_host_traceback(host));
    abort();
  }
  atexit(end);
  lua_sethook(mortise_host_state(host), line, LUA_MASKLINE, 0); /* tasks inherit it */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (!host) begin();
  call("fuzz", data, n);
  return 0;
}
