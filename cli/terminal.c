/* `mortise.terminal`:
 *   line() -> line                of standard input, without its newline; nil at the end of the
 *                                 input. Waits like any operation, so other tasks run, and ^C
 *                                 raises `interrupted` whenever it comes
 *   readline(prompt) -> line      the same with a prompt and an editor, which ^C clears. Without a
 *                                 terminal it reads plain lines and shows no prompt
 *   add_history(line)
 *   complete(fn or nil)           fn(word, line, start) -> array of candidates for `word`, which
 *                                 begins at byte `start` of `line`; and a line to show, or nil
 *   progress(mode)                of the status line: "auto", "plain" or "none" (status.h)
 *   status(text or nil)           the text of that line
 *   last_words(text or nil)       what is written if a second interrupt ends the program
 *   log(level, json)              from "debug", "info" or "warning" on, or "none"; nil: as it is. Each as a
 *                                 JSON object? -> the level before
 *   log_file(name)                every line as JSON there, too; raises unavailable
 *   clear()                       removes the status line, before something else is written
 *   isatty(fd) -> boolean         0 input, 1 output, 2 errors
 *   unread() -> boolean           has everybody stopped reading our output?
 *   width() -> integer            columns; 80 if unknown
 *   height() -> integer           lines; 24 if unknown
 *   keys(on)                      of standard input, a terminal: each key comes at once, unshown; ^C stays
 *                                 what it is, ^Z is a key. False, and the end of the program: as before
 *   key() -> integer              a byte that was typed, -1 at the end of the input, nil where there is none
 *   suspend()                     stops the program as ^Z does; returns when it goes on
 *   editor                        "readline", "libedit" or "none" */
#include "terminal.h"

#include "bindings/await.h"
#include "bindings/interrupt.h"
#include "bindings/lua_buf.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/op.h"
#include "log.h"
#include "signals.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
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

/* The shell may have set its own while the program was stopped, so it is set whole each time. */
static void set_keys(bool on) {
  if (!has_saved) return;
  struct termios mode = saved;
  if (on) {
    mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    mode.c_cc[VMIN] = 1;
    mode.c_cc[VTIME] = 0;
    mode.c_cc[VSUSP] = _POSIX_VDISABLE;
  }
  tcsetattr(STDIN_FILENO, TCSANOW, &mode);
}

/* ---- Waiting for input ---------------------------------------------------------------------- */

/* A signal that comes right before a read that blocks is seen only after it. So nothing here reads before
 * there is something, and what waits is the loop, which an interrupt ends. */
typedef struct input_op {
  mt_op op;
  mt_watch watch;
} input_op;

static void on_input(void *ctx, uint32_t events) {
  (void)events;
  input_op *input = ctx;
  mt_watch_stop(input->op.driver->loop, &input->watch);
  mt_op_done(&input->op);
}

static input_op *new_input(lua_State *L, size_t size, int anchors, const mt_op_type *type) {
  input_op *input = mt_lua_op_new(L, size, anchors, type);
  input->watch.ready = on_input;
  input->watch.ctx = input;
  input->watch.fd = STDIN_FILENO;
  return input;
}

static int wait_for_input(lua_State *L, input_op *input, int index) {
  mortise_error err;
  input->op.done = false;
  if (mt_watch_set(input->op.driver->loop, &input->watch, EPOLLIN, &err)) mt_error_raise(L, &err);
  mt_op_start(&input->op);
  return mt_await(L, index);
}

static bool is_readable(void) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  return poll(&input, 1, 0) > 0;
}

/* ^C empties the terminal's queue, so input that was reported may be gone, and who then reads blocks all
 * tasks. So the check for input takes a byte without waiting, through a descriptor of our own, because
 * O_NONBLOCK affects everyone who shares a descriptor. Without such a descriptor, or a way to hand the byte
 * over, polling right before is the best possible. */
static int keyboard = -1;
enum { NO_KEY = -2 }; /* EOF is a key */
static int key = NO_KEY;

static void open_keyboard(void) {
  if (isatty(STDIN_FILENO))
    keyboard = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static bool has_byte(void) {
  unsigned char byte;
  if (key != NO_KEY) return true;
  if (keyboard < 0) return is_readable();
  ssize_t n = read(keyboard, &byte, 1);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  key = n == 1 ? byte : EOF;
  return true;
}

static int take_byte(void) {
  int taken = key;
  key = NO_KEY;
  return taken == NO_KEY ? getc(stdin) : taken;
}

/* ---- Without an editor ---------------------------------------------------------------------- */

enum { LINE_BYTES_MAX = 64 << 20 };

typedef struct line_op {
  input_op input;
  mt_buf *text; /* its anchor */
} line_op;

static bool cancel_line(mt_op *op) {
  mt_watch_stop(op->driver->loop, &((line_op *)op)->input.watch);
  return false;
}

static int finish_line(lua_State *L, mt_op *op, int index) {
  line_op *line = (line_op *)op;
  int byte = NO_KEY;
  while (has_byte() && (byte = take_byte()) != EOF && byte != '\n') {
    mt_buf_addc(line->text, (char)byte);
    byte = NO_KEY;
  }
  if (byte == NO_KEY) return wait_for_input(L, &line->input, index);
  if (byte == EOF && ferror(stdin) && errno != EINTR)
    mt_error_throw(L, MORTISE_UNAVAILABLE, "standard input cannot be read: %s", strerror(errno));
  mt_buf_check(L, line->text, "a line of standard input");
  if (byte == EOF && !line->text->n) return 0;
  mt_slice text = mt_buf_slice(line->text);
  lua_pushlstring(L, text.p, text.n);
  return 1;
}

static const mt_op_type line_type = {cancel_line, finish_line, NULL, false, NULL};

/* What the C library has read ahead would be invisible to poll; and what it does not read ahead, a script's
 * own io.read finds. */
static void read_nothing_ahead(void) {
  static bool done;
  if (keyboard < 0 && !done) setvbuf(stdin, NULL, _IONBF, 0);
  done = true;
}

static int read_plain(lua_State *L) {
  read_nothing_ahead();
  mt_buf *text = mt_buf_push(L, LINE_BYTES_MAX);
  line_op *line = (line_op *)new_input(L, sizeof *line, 1, &line_type);
  int index = lua_gettop(L);
  line->text = text;
  mt_op_anchor(L, index, 1, index - 1);
  mt_op_start(&line->input.op);
  mt_op_done(&line->input.op); /* there may be a line already, and a file cannot be watched */
  return mt_await(L, index);
}

#if defined(MORTISE_LIBEDIT) || defined(MORTISE_READLINE)

/* ---- With one: its state is the process's, so there is one prompt at a time ------------------ */

typedef struct prompt {
  input_op input;
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
  mt_watch_stop(p->input.op.driver->loop, &p->input.watch);
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

#if defined(MORTISE_READLINE)
static int has_key(void) {
  return has_byte();
}

static int take_key(FILE *input) {
  return key == NO_KEY ? rl_getc(input) : take_byte();
}
#else
static int has_key(void) { /* the editor reads by itself */
  return is_readable();
}
#endif

/* Input is available: the editor reads it here, where Lua may be called, not in the loop's
 * callback. */
static int finish_prompt(lua_State *L, mt_op *op, int index) {
  prompt *p = (prompt *)op;
  if (!has_key()) return wait_for_input(L, &p->input, index);
  asking = L;
  rl_callback_read_char();
  asking = NULL;
  if (!p->got) return wait_for_input(L, &p->input, index);
  if (!p->line) return 0;
  lua_pushstring(L, p->line);
  return 1;
}

static const mt_op_type prompt_type = {cancel_prompt, finish_prompt, deinit_prompt, false, NULL};

static int read_edited(lua_State *L, const char *text) {
  if (showing) return luaL_error(L, "there is a prompt already");
  if (mt_signals_ending) return 0;
  mt_signals_forget();
  prompt *p = (prompt *)new_input(L, sizeof *p, 0, &prompt_type);
  showing = p;
  rl_callback_handler_install(text, on_line);
  return wait_for_input(L, &p->input, lua_gettop(L));
}

/* ---- Completion ----------------------------------------------------------------------------- */

/* (word, line, start) -> string "a\nb\n", so that nothing of Lua is held across errors; a note, or nil */
static int list_candidates(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &complete_key);
  lua_insert(L, 1);
  lua_call(L, 3, 2);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (lua_Integer i = 1; lua_geti(L, 1, i) == LUA_TSTRING; i++) {
    luaL_addvalue(&b);
    luaL_addchar(&b, '\n');
  }
  lua_pop(L, 1);
  luaL_pushresult(&b);
  lua_pushvalue(L, 2);
  return 2;
}

/* The line stays as it is, below the note. */
static void show_note(const char *note) {
  fprintf(stdout, "\n%s\n", note);
  fflush(stdout);
  rl_on_new_line();
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
    if (lua_pcall(L, 3, 2, 0) == LUA_OK) {
      if (lua_type(L, -1) == LUA_TSTRING) show_note(lua_tostring(L, -1));
      list_at = lua_tostring(L, -2);
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
  rl_input_available_hook = has_key;
  rl_basic_quote_characters = ""; /* no string is closed: a path may be the beginning of the one that is meant */
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

static int terminal_line(lua_State *L) {
  return read_plain(L);
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

static int terminal_height(lua_State *L) {
  struct winsize size;
  bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  lua_pushinteger(L, known ? size.ws_row : 24);
  return 1;
}

static int terminal_keys(lua_State *L) {
  read_nothing_ahead();
  set_keys(lua_toboolean(L, 1));
  return 0;
}

static int terminal_key(lua_State *L) {
  if (!has_byte()) return 0;
  lua_pushinteger(L, take_byte());
  return 1;
}

/* The whole group, as the terminal does: a pager or a shell script around it stops too. */
static int terminal_suspend(lua_State *L) {
  (void)L;
  if (kill(0, SIGTSTP)) raise(SIGTSTP);
  return 0;
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

static int terminal_log(lua_State *L) {
  static const char *const levels[] = {"debug", "info", "warning", "none", NULL};
  if (!lua_isnoneornil(L, 2)) mt_log_as_json(lua_toboolean(L, 2));
  int before = lua_isnoneornil(L, 1) ? mt_log_least() : mt_log_from(luaL_checkoption(L, 1, NULL, levels));
  lua_pushstring(L, levels[before]);
  return 1;
}

static int terminal_log_file(lua_State *L) {
  const char *name = mt_check_string(L, 1);
  if (!mt_log_to_file(name)) mt_error_throw(L, MORTISE_UNAVAILABLE, "%s: %s", name, strerror(errno));
  return 0;
}

static int terminal_clear(lua_State *L) {
  (void)L;
  mt_status_clear();
  return 0;
}

int mt_terminal_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"line", terminal_line},
                                       {"readline", terminal_readline},
                                       {"add_history", terminal_add_history},
                                       {"complete", terminal_complete},
                                       {"progress", terminal_progress},
                                       {"status", terminal_status},
                                       {"last_words", terminal_last_words},
                                       {"log", terminal_log},
                                       {"log_file", terminal_log_file},
                                       {"clear", terminal_clear},
                                       {"isatty", terminal_isatty},
                                       {"unread", terminal_unread},
                                       {"width", terminal_width},
                                       {"height", terminal_height},
                                       {"keys", terminal_keys},
                                       {"key", terminal_key},
                                       {"suspend", terminal_suspend},
                                       {NULL, NULL}};
  open_keyboard();
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
