/* `mortise.terminal`:
 *   readline(prompt) -> line      without its newline; nil at the end of the input. Waits like any
 *                                 operation, so other tasks run; ^C raises `interrupted` and clears
 *                                 the line. Without a terminal it reads plain lines and shows no
 *                                 prompt
 *   add_history(line)
 *   complete(fn or nil)           fn(word, line, start) -> array of candidates for `word`, which
 *                                 begins at byte `start` of `line`
 *   progress(mode)                of the status line: "auto", "plain" or "none" (status.h)
 *   status(text or nil)           the text of that line
 *   last_words(text or nil)       what is written if a second interrupt ends the program
 *   clear()                       removes the status line, before something else is written
 *   isatty(fd) -> boolean         0 input, 1 output, 2 errors
 *   unread() -> boolean           has everybody stopped reading our output?
 *   width() -> integer            columns; 80 if unknown
 *   editor                        "readline", "libedit" or "none" */
#include "terminal.h"

#include "bindings/await.h"
#include "bindings/interrupt.h"
#include "bindings/lua_class.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/op.h"
#include "signals.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#if defined(MORTISE_LIBEDIT)
#include <editline/readline.h>
#elif defined(MORTISE_READLINE)
#include <readline/history.h>
#include <readline/readline.h>
#endif

static struct termios saved;
static bool has_saved;

void mt_terminal_save(void) {
  has_saved = tcgetattr(STDIN_FILENO, &saved) == 0;
}

void mt_terminal_restore(void) {
  if (has_saved) tcsetattr(STDIN_FILENO, TCSANOW, &saved);
}

/* ---- Without an editor ---------------------------------------------------------------------- */

/* getline's buffer, freed by __gc. */
typedef struct plain_text {
  char *p;
  size_t cap;
} plain_text;

static int collect_text(lua_State *L) {
  plain_text *t = lua_touserdata(L, 1);
  free(t->p);
  t->p = NULL;
  return 0;
}

static int read_plain(lua_State *L) {
  static const luaL_Reg metamethods[] = {{"__gc", collect_text}, {NULL, NULL}};
  plain_text *t = lua_newuserdatauv(L, sizeof *t, 0);
  *t = (plain_text){NULL, 0};
  mt_class(L, "mortise.text", metamethods);
  lua_setmetatable(L, -2);
  ssize_t n = getline(&t->p, &t->cap, stdin);
  if (n < 0) return 0;
  if (n && t->p[n - 1] == '\n') n--;
  lua_pushlstring(L, t->p, (size_t)n);
  return 1;
}

#if defined(MORTISE_LIBEDIT) || defined(MORTISE_READLINE)

/* ---- With one: its state is the process's, so there is one prompt at a time ------------------ */

typedef struct prompt {
  mt_op op;
  mt_watch watch;
  char *line; /* owned; NULL at the end of the input */
  bool got;
} prompt;

static prompt *showing;
static lua_State *asking; /* the state that runs the editor now, for completion */
static const char complete_key;

bool mt_terminal_at_prompt(void) {
  return showing != NULL;
}

static void hide_prompt(prompt *p) {
  if (showing != p) return;
  showing = NULL;
  mt_watch_stop(p->op.driver->loop, &p->watch);
  rl_callback_handler_remove();
}

static void on_line(char *line) {
  if (!showing) {
    free(line);
    return;
  }
  showing->line = line;
  showing->got = true;
  hide_prompt(showing); /* at once, or the editor shows the prompt again */
}

static void on_input(void *ctx, uint32_t events) {
  (void)events;
  prompt *p = ctx;
  mt_watch_stop(p->op.driver->loop, &p->watch);
  mt_op_done(&p->op);
}

static void clear_line(bool interrupted) {
#if defined(MORTISE_READLINE)
  rl_free_line_state();
  rl_callback_sigcleanup();
#endif
  if (!interrupted) return;
  fputs("^C\n", stdout);
  fflush(stdout);
}

static bool cancel_prompt(mt_op *op) {
  prompt *p = (prompt *)op;
  if (showing == p) clear_line(op->stop == mt_interrupted_text);
  hide_prompt(p);
  return false;
}

static void deinit_prompt(mt_op *op) {
  prompt *p = (prompt *)op;
  hide_prompt(p);
  free(p->line);
  p->line = NULL;
}

static int wait_for_input(lua_State *L, prompt *p, int index) {
  mortise_error err;
  p->op.done = false;
  if (mt_watch_set(p->op.driver->loop, &p->watch, EPOLLIN, &err)) mt_error_raise(L, &err);
  mt_op_start(&p->op);
  return mt_await(L, index);
}

/* ^C empties the terminal's queue, so input that was reported may be gone; an editor that then
 * reads would block all tasks. So the check for input takes a byte without waiting, through a
 * descriptor of our own, because O_NONBLOCK affects everyone who shares a descriptor. Without such
 * a descriptor, or a way to hand the byte over, polling right before is the best possible. */
static int keyboard = -1;
enum { NO_KEY = -2 }; /* EOF is a key */
static int key = NO_KEY;

static int has_input(void) {
  unsigned char byte;
  if (key != NO_KEY) return true;
  if (keyboard < 0) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
  }
  ssize_t n = read(keyboard, &byte, 1);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  key = n == 1 ? byte : EOF;
  return true;
}

#if defined(MORTISE_READLINE)
static int take_key(FILE *input) {
  int taken = key;
  key = NO_KEY;
  return taken == NO_KEY ? rl_getc(input) : taken;
}
#endif

/* Input is available: the editor reads it here, where Lua may be called, not in the loop's
 * callback. */
static int finish_prompt(lua_State *L, mt_op *op, int index) {
  prompt *p = (prompt *)op;
  if (!has_input()) return wait_for_input(L, p, index);
  asking = L;
  rl_callback_read_char();
  asking = NULL;
  if (!p->got) return wait_for_input(L, p, index);
  if (!p->line) return 0;
  lua_pushstring(L, p->line);
  return 1;
}

static const mt_op_type prompt_type = {cancel_prompt, finish_prompt, deinit_prompt, false, NULL};

static int read_edited(lua_State *L, const char *text) {
  if (showing) return luaL_error(L, "there is a prompt already");
  if (mt_signals_ending) return 0;
  mt_signals_forget();
  prompt *p = mt_lua_op_new(L, sizeof *p, 0, &prompt_type);
  p->watch.ready = on_input;
  p->watch.ctx = p;
  p->watch.fd = STDIN_FILENO;
  showing = p;
  rl_callback_handler_install(text, on_line);
  return wait_for_input(L, p, lua_gettop(L));
}

/* ---- Completion ----------------------------------------------------------------------------- */

/* (word, line, start) -> string "a\nb\n", so that nothing of Lua is held across errors */
static int list_candidates(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &complete_key);
  lua_insert(L, 1);
  lua_call(L, 3, 1);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (lua_Integer i = 1; lua_geti(L, 1, i) == LUA_TSTRING; i++) {
    luaL_addvalue(&b);
    luaL_addchar(&b, '\n');
  }
  lua_pop(L, 1);
  luaL_pushresult(&b);
  return 1;
}

/* The editor's generator: returns the next line of the list, allocated with malloc. */
static const char *list_at;

static char *next_candidate(const char *word, int state) {
  (void)word;
  (void)state;
  const char *end = list_at ? strchr(list_at, '\n') : NULL;
  if (!end) return NULL;
  char *copy = strndup(list_at, (size_t)(end - list_at));
  list_at = end + 1;
  return copy;
}

static char **complete_word(const char *word, int start, int end) {
  (void)end;
  rl_attempted_completion_over = 1; /* never file names */
  rl_completion_append_character = '\0';
  lua_State *L = asking;
  if (!L || !lua_checkstack(L, LUA_MINSTACK)) return NULL;
  int top = lua_gettop(L);
  char **matches = NULL;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &complete_key) == LUA_TFUNCTION) {
    lua_pushcfunction(L, list_candidates);
    lua_pushstring(L, word);
    lua_pushstring(L, rl_line_buffer);
    lua_pushinteger(L, start + 1);
    if (lua_pcall(L, 3, 1, 0) == LUA_OK) {
      list_at = lua_tostring(L, -1);
      matches = rl_completion_matches(word, next_candidate);
      list_at = NULL;
    }
  }
  lua_settop(L, top);
  return matches;
}

static int terminal_complete(lua_State *L) {
  if (!lua_isnoneornil(L, 1)) luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &complete_key);
  return 0;
}

/* ---- History -------------------------------------------------------------------------------- */

static int terminal_add_history(lua_State *L) {
  const char *line = mt_check_string(L, 1);
  if (line[0]) add_history(line);
  return 0;
}

static void set_up_editor(void) {
#if defined(MORTISE_READLINE)
  rl_catch_signals = 0; /* main.c handles them */
  rl_getc_function = take_key;
  rl_input_available_hook = has_input;
  if (isatty(STDIN_FILENO))
    keyboard = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
#endif
  rl_readline_name = "mortise";
  rl_attempted_completion_function = complete_word;
  using_history();
}

#else

static int terminal_complete(lua_State *L) {
  (void)L;
  return 0;
}

static int terminal_add_history(lua_State *L) {
  (void)L;
  return 0;
}

static void set_up_editor(void) {}

bool mt_terminal_at_prompt(void) {
  return false;
}

static int read_edited(lua_State *L, const char *text) {
  mt_signals_forget();
  fputs(text, stdout);
  fflush(stdout);
  return read_plain(L);
}

#endif

/* ---- The module ----------------------------------------------------------------------------- */

static int terminal_readline(lua_State *L) {
  const char *text = lua_isnoneornil(L, 1) ? "" : mt_check_string(L, 1);
  lua_settop(L, 1);
  return isatty(STDIN_FILENO) ? read_edited(L, text) : read_plain(L);
}

static int terminal_isatty(lua_State *L) {
  lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
  return 1;
}

static int terminal_unread(lua_State *L) {
  lua_pushboolean(L, mt_signals_unread > 0);
  return 1;
}

static int terminal_width(lua_State *L) {
  struct winsize size;
  bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  lua_pushinteger(L, known ? size.ws_col : 80);
  return 1;
}

static int terminal_progress(lua_State *L) {
  static const char *const modes[] = {"auto", "plain", "none", NULL};
  mt_status_mode((mt_progress)luaL_checkoption(L, 1, NULL, modes));
  return 0;
}

static int terminal_status(lua_State *L) {
  const char *of = lua_isnoneornil(L, 2) ? "" : mt_check_string(L, 2);
  mt_status_show(lua_isnoneornil(L, 1) ? NULL : mt_check_string(L, 1), of);
  return 0;
}

static int terminal_last_words(lua_State *L) {
  mt_status_last_words(lua_isnoneornil(L, 1) ? NULL : mt_check_string(L, 1));
  return 0;
}

static int terminal_clear(lua_State *L) {
  (void)L;
  mt_status_clear();
  return 0;
}

int mt_terminal_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"readline", terminal_readline},
                                       {"add_history", terminal_add_history},
                                       {"complete", terminal_complete},
                                       {"progress", terminal_progress},
                                       {"status", terminal_status},
                                       {"last_words", terminal_last_words},
                                       {"clear", terminal_clear},
                                       {"isatty", terminal_isatty},
                                       {"unread", terminal_unread},
                                       {"width", terminal_width},
                                       {NULL, NULL}};
  set_up_editor();
  luaL_newlib(L, functions);
#if defined(MORTISE_READLINE)
  lua_pushliteral(L, "readline");
#elif defined(MORTISE_LIBEDIT)
  lua_pushliteral(L, "libedit");
#else
  lua_pushliteral(L, "none");
#endif
  lua_setfield(L, -2, "editor");
  return 1;
}
