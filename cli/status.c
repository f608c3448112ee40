#include "status.h"

#include "base/utf8.h"

#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

enum {
  TEXT_MAX = 1024,
  WAITS = 16,            /* at most so many concurrent waits are remembered */
  PLAIN_FIRST_MS = 2000, /* first pause between two lines, */
  PLAIN_MOST_MS = 60000, /* doubling up to this */
  COLUMNS = 80,
};

/* One item of the status. A change of `key` is written at once, a change of `text` at intervals. */
typedef struct slot {
  char key[TEXT_MAX], text[TEXT_MAX], told[TEXT_MAX];
  int64_t next_ms, pause_ms;
} slot;

enum { PROGRESS, WAIT, SILENCE, SLOTS };

typedef struct waiting {
  uint64_t wait; /* 0: free */
  int64_t since_ms;
  char what[TEXT_MAX];
} waiting;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything but the last words */
static mt_progress mode;
static slot slots[SLOTS];
static waiting waits[WAITS];
static volatile sig_atomic_t drawn; /* the status line is drawn */

static int64_t boottime_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_BOOTTIME, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool on_terminal(void) {
  static int known;
  const char *term = getenv("TERM");
  if (!known) known = isatty(STDERR_FILENO) && (!term || strcmp(term, "dumb") != 0) ? 1 : -1;
  return known > 0;
}

/* ---- The line ------------------------------------------------------------------------------- */

static size_t columns(void) {
  struct winsize size;
  bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : COLUMNS;
}

/* Character widths are those of UTF-8, whatever the program's locale. */
static locale_t utf8_locale(void) {
  static locale_t made;
  if (!made) made = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
  return made;
}

/* Would it change the direction of the rest of the line? */
static bool turns(wchar_t c) {
  return (c >= 0x200e && c <= 0x200f) || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

/* Copies as much of `text` as fits into `room` columns; invalid characters, and those that would
 * move the cursor, become "?". */
static void text_fit(char *out, size_t size, const char *text, size_t room) {
  locale_t utf8 = utf8_locale();
  locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
  mbstate_t state = {0};
  size_t n = 0;
  while (*text) {
    wchar_t c;
    size_t bytes = mbrtowc(&c, text, strlen(text), &state);
    bool bad = bytes == (size_t)-1 || bytes == (size_t)-2;
    int width = bad || turns(c) ? -1 : wcwidth(c);
    if (bad) {
      bytes = 1;
      memset(&state, 0, sizeof state);
    }
    size_t wide = width < 0 ? 1 : (size_t)width;
    size_t takes = width < 0 ? 1 : bytes;
    if (wide > room || n + takes >= size) break;
    memcpy(out + n, width < 0 ? "?" : text, takes);
    n += takes;
    room -= wide;
    text += bytes;
  }
  out[n] = '\0';
  if (utf8) uselocale(before);
}

static bool no_prompt(void) {
  return false;
}

static bool (*at_prompt)(void) = no_prompt;

static void wipe_status(void) {
  if (drawn) fputs("\r\033[K", stderr);
  drawn = 0;
}

static void draw_status(void) {
  char whole[SLOTS * TEXT_MAX], line[SLOTS * TEXT_MAX];
  size_t n = 0;
  whole[0] = '\0';
  if (mode != MT_PROGRESS_AUTO || !on_terminal() || at_prompt()) return;
  for (int i = 0; i < SLOTS; i++)
    if (slots[i].text[0])
      n += (size_t)snprintf(whole + n, sizeof whole - n, "%s%s", n ? "; " : "", slots[i].text);
  wipe_status();
  if (!n) return;
  text_fit(line, sizeof line, whole, columns() - 1); /* the last column would wrap */
  drawn = 1;
  fprintf(stderr, "\r%s\033[K", line);
}

static void say_line(const char *text) {
  char line[TEXT_MAX];
  text_fit(line, sizeof line, text, SIZE_MAX);
  wipe_status();
  fprintf(stderr, "mortise: %s\n", line);
}

/* ---- Lines for a file ----------------------------------------------------------------------- */

static void tell_plainly(slot *s) {
  int64_t now = boottime_ms();
  bool changed = strcmp(s->key, s->told) != 0;
  if (mode != MT_PROGRESS_PLAIN || !s->text[0] || (!changed && now < s->next_ms)) return;
  s->pause_ms = changed ? PLAIN_FIRST_MS : s->pause_ms * 2;
  if (s->pause_ms > PLAIN_MOST_MS) s->pause_ms = PLAIN_MOST_MS;
  s->next_ms = now + s->pause_ms;
  snprintf(s->told, sizeof s->told, "%s", s->key);
  say_line(s->text);
}

static void slot_set(slot *s, const char *key, const char *text) {
  snprintf(s->key, sizeof s->key, "%s", key);
  snprintf(s->text, sizeof s->text, "%s", text);
  if (!text[0]) s->told[0] = '\0';
  tell_plainly(s);
}

/* ---- Waits ---------------------------------------------------------------------------------- */

static void seconds(char *out, size_t size, int64_t ms) {
  long long s = (long long)(ms / 1000);
  if (s < 120)
    snprintf(out, size, "%lld s", s);
  else if (s < 7200)
    snprintf(out, size, "%lld min %lld s", s / 60, s % 60);
  else
    snprintf(out, size, "%lld h %lld min", s / 3600, s / 60 % 60);
}

/* Describes the first blocker. */
static void name(char *out, size_t size, const mortise_notice *n) {
  out[0] = '\0';
  if (!n->blockers || !n->blockers->shown) return;
  const mortise_blocker *b = &n->blockers->list[0];
  if (n->here) {
    snprintf(out, size, ": held in %s by another task of this process", b->mode);
    return;
  }
  if (b->damaged) {
    snprintf(out, size, ": %s in %s by what is damaged (see `mortise locks`)",
             b->queued ? "queued for" : "held", b->mode);
    return;
  }
  const char *runs = b->script[0] ? b->script : b->program;
  int used = snprintf(out, size, ": %s in %s by %s pid %lld%s%s", b->queued ? "queued for" : "held",
                      b->mode, b->host, (long long)b->pid, runs[0] ? " running " : "", runs);
  if (n->blockers->total > 1 && used > 0 && (size_t)used < size)
    snprintf(out + used, size - (size_t)used, ", and %zu more", n->blockers->total - 1);
}

static waiting *find_wait(uint64_t wait) {
  for (size_t i = 0; i < WAITS; i++)
    if (waits[i].wait == wait) return &waits[i];
  return NULL;
}

/* Shows the longest wait. */
static void show_waits(void) {
  const waiting *first = NULL;
  size_t others = 0;
  char text[TEXT_MAX + 64] = "", key[TEXT_MAX + 64] = "", lasts[32], more[48] = "";
  for (size_t i = 0; i < WAITS; i++) {
    if (!waits[i].wait) continue;
    others += first != NULL;
    if (!first || waits[i].since_ms < first->since_ms) first = &waits[i];
  }
  if (others) snprintf(more, sizeof more, " (and %zu more wait)", others);
  if (first) {
    seconds(lasts, sizeof lasts, boottime_ms() - first->since_ms);
    snprintf(text, sizeof text, "waiting %s for %s%s", lasts, first->what, more);
    snprintf(key, sizeof key, "%s", first->what);
  }
  slot_set(&slots[WAIT], key, text);
}

static void on_waiting(const mortise_notice *n) {
  char who[TEXT_MAX / 2];
  waiting *w = find_wait(n->wait);
  if (!w) w = find_wait(0);
  if (!w) return;
  w->wait = n->wait;
  w->since_ms = boottime_ms() - n->for_ms;
  name(who, sizeof who, n);
  const char *quote = mt_utf8_quote(mt_slice_of(n->path));
  snprintf(w->what, sizeof w->what, "%s%s%s in %s%s", quote, n->path, quote, n->mode, who);
  show_waits();
}

static void on_wait_over(const mortise_notice *n) {
  char text[64], lasts[32];
  waiting *w = find_wait(n->wait);
  if (!w) return;
  w->wait = 0;
  seconds(lasts, sizeof lasts, n->for_ms);
  snprintf(text, sizeof text, "the wait is over after %s", lasts);
  if (mode == MT_PROGRESS_PLAIN) say_line(text);
  show_waits();
}

/* ---- The store ------------------------------------------------------------------------------ */

static void on_no_answer(const mortise_notice *n) {
  char text[TEXT_MAX], lease[64] = "", left[32], lasts[32];
  seconds(left, sizeof left, n->lease_ms);
  seconds(lasts, sizeof lasts, n->for_ms);
  if (n->lease_ms > 0) snprintf(lease, sizeof lease, ", lease good for %s", left);
  if (n->lease_ms == 0) snprintf(lease, sizeof lease, ", the lease has run out");
  snprintf(text, sizeof text, "no answer from %.512s for %s, trying again%s", n->store, lasts,
           lease);
  slot_set(&slots[SILENCE], n->store, text);
}

static void on_answers(const mortise_notice *n) {
  char text[TEXT_MAX], lasts[32];
  bool told = slots[SILENCE].text[0] != '\0';
  slot_set(&slots[SILENCE], "", "");
  if (!told || n->lease_ms == 0 || at_prompt()) return;
  if (mode == MT_PROGRESS_NONE || (mode == MT_PROGRESS_AUTO && !on_terminal())) return;
  seconds(lasts, sizeof lasts, n->for_ms);
  snprintf(text, sizeof text, "%.512s answers again, after %s", n->store, lasts);
  say_line(text);
}

/* ---- From outside --------------------------------------------------------------------------- */

void mt_status_prompt(bool (*is_shown)(void)) {
  at_prompt = is_shown;
}

void mt_status_mode(mt_progress to) {
  pthread_mutex_lock(&lock);
  mode = to;
  pthread_mutex_unlock(&lock);
}

void mt_status_show(const char *text, const char *key) {
  char whole[TEXT_MAX];
  pthread_mutex_lock(&lock);
  snprintf(whole, sizeof whole, "progress%s", key);
  slot_set(&slots[PROGRESS], text ? whole : "", text ? text : "");
  draw_status();
  pthread_mutex_unlock(&lock);
}

void mt_status_notice(void *ctx, const mortise_notice *n) {
  (void)ctx;
  pthread_mutex_lock(&lock);
  switch (n->kind) {
  case MORTISE_NOTICE_WAITING:
    on_waiting(n);
    break;
  case MORTISE_NOTICE_WAIT_OVER:
    on_wait_over(n);
    break;
  case MORTISE_NOTICE_NO_ANSWER:
    on_no_answer(n);
    break;
  case MORTISE_NOTICE_ANSWERS:
    on_answers(n);
    break;
  }
  draw_status();
  pthread_mutex_unlock(&lock);
}

void mt_status_say(const char *fmt, ...) {
  char text[TEXT_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  pthread_mutex_lock(&lock);
  say_line(text);
  draw_status();
  pthread_mutex_unlock(&lock);
}

void mt_status_line(const char *line) {
  pthread_mutex_lock(&lock);
  wipe_status();
  fprintf(stderr, "%s\n", line);
  draw_status();
  pthread_mutex_unlock(&lock);
}

void mt_status_clear(void) {
  pthread_mutex_lock(&lock);
  wipe_status();
  pthread_mutex_unlock(&lock);
}

/* ---- The last words -------------------------------------------------------------------------- */

/* Two buffers, so that the one that a signal handler finds is always complete. */
static char words[2][TEXT_MAX];
static volatile sig_atomic_t spoken = -1;

void mt_status_last_words(const char *text) {
  if (!text) {
    spoken = -1;
    return;
  }
  int next = spoken == 0;
  snprintf(words[next], sizeof words[next], "%s\n", text);
  words[next][TEXT_MAX - 2] = '\n'; /* in case it was cut */
  spoken = next;
}

void mt_status_end(void) {
  static const char erase[] = "\r\033[K";
  ssize_t sent = 0;
  if (drawn) sent = write(STDERR_FILENO, erase, sizeof erase - 1);
  if (spoken >= 0) sent = write(STDERR_FILENO, words[spoken], strlen(words[spoken]));
  (void)sent;
}
