#include "bindings/sandbox_pattern.h"

#include "bindings/sandbox_budget.h"
#include "bindings/sandbox_text.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

enum {
  CAPTURES_MAX = 32,
  NESTED_MAX = 200,   /* calls of match_here within one another */
  STEPS_AT_ONCE = 256,
  CAPTURE_OPEN = -1,  /* a capture's length while it is not closed */
  CAPTURE_PLACE = -2, /* of (), which captures where it is */
};

typedef struct matcher {
  lua_State *L;
  const char *subject, *subject_end, *pattern_end;
  unsigned steps; /* that are not charged yet */
  int nested, captures;
  struct {
    const char *at;
    ptrdiff_t n;
  } capture[CAPTURES_MAX];
} matcher;

static void count_step(matcher *m) {
  if (++m->steps < STEPS_AT_ONCE) return;
  m->steps = 0;
  mt_budget_charge(m->L, STEPS_AT_ONCE);
}

/* ---- One character ---------------------------------------------------------------------------- */

static bool is_between(unsigned char c, unsigned char first, unsigned char last) {
  return c >= first && c <= last;
}

static bool is_letter(unsigned char c) {
  return is_between(c | 0x20, 'a', 'z');
}

static bool is_digit_char(unsigned char c) {
  return is_between(c, '0', '9');
}

static bool is_visible_char(unsigned char c) {
  return is_between(c, 0x21, 0x7e);
}

/* Is `c` in the class of this letter, as in the C locale? */
static bool in_class(unsigned char c, char letter, bool *known) {
  *known = true;
  switch (letter | 0x20) {
  case 'a':
    return is_letter(c);
  case 'c':
    return c < 0x20 || c == 0x7f;
  case 'd':
    return is_digit_char(c);
  case 'g':
    return is_visible_char(c);
  case 'l':
    return is_between(c, 'a', 'z');
  case 'p':
    return is_visible_char(c) && !is_letter(c) && !is_digit_char(c);
  case 's':
    return c == ' ' || is_between(c, '\t', '\r');
  case 'u':
    return is_between(c, 'A', 'Z');
  case 'w':
    return is_letter(c) || is_digit_char(c);
  case 'x':
    return is_digit_char(c) || is_between(c | 0x20, 'a', 'f');
  case 'z': /* of old, and still there */
    return !c;
  default:
    *known = false;
    return false;
  }
}

/* What `letter` means behind a %. */
static bool matches_class(unsigned char c, char letter) {
  if (!is_letter((unsigned char)letter)) return (unsigned char)letter == c;
  bool known, in = in_class(c, letter, &known);
  if (!known) return (unsigned char)letter == c;
  return in != is_between((unsigned char)letter, 'A', 'Z');
}

/* The set from its [ to its ]. */
static bool matches_set(unsigned char c, const char *p, const char *close) {
  bool wanted = true;
  if (p[1] == '^') {
    wanted = false;
    p++;
  }
  for (p++; p < close; p++) {
    if (*p == '%') {
      p++;
      if (matches_class(c, *p)) return wanted;
    } else if (p[1] == '-' && p + 2 < close) {
      p += 2;
      if (is_between(c, (unsigned char)p[-2], (unsigned char)*p)) return wanted;
    } else if ((unsigned char)*p == c) {
      return wanted;
    }
  }
  return !wanted;
}

/* Behind the item (a character, a class, a set) that begins at p. */
static const char *item_end(matcher *m, const char *p) {
  char first = *p++;
  if (first == '%') {
    if (p == m->pattern_end) luaL_error(m->L, "malformed pattern (ends with '%%')");
    return p + 1;
  }
  if (first != '[') return p;
  if (p < m->pattern_end && *p == '^') p++;
  do { /* a ] that comes first is in the set */
    if (p == m->pattern_end) luaL_error(m->L, "malformed pattern (missing ']')");
    if (*p++ == '%' && p < m->pattern_end) p++;
    count_step(m);
  } while (p == m->pattern_end || *p != ']');
  return p + 1;
}

static bool matches_item(matcher *m, const char *s, const char *p, const char *end) {
  if (s >= m->subject_end) return false;
  unsigned char c = (unsigned char)*s;
  count_step(m);
  switch (*p) {
  case '.':
    return true;
  case '%':
    return matches_class(c, p[1]);
  case '[':
    m->steps += (unsigned)((end - p) / 8);
    return matches_set(c, p, end - 1);
  default:
    return (unsigned char)*p == c;
  }
}

/* ---- What is captured ------------------------------------------------------------------------- */

static const char *match_here(matcher *m, const char *s, const char *p);

static const char *open_capture(matcher *m, const char *s, const char *p, ptrdiff_t n) {
  if (m->captures >= CAPTURES_MAX) luaL_error(m->L, "too many captures");
  m->capture[m->captures].at = s;
  m->capture[m->captures].n = n;
  m->captures++;
  const char *end = match_here(m, s, p);
  if (!end) m->captures--;
  return end;
}

static const char *close_capture(matcher *m, const char *s, const char *p) {
  int i = m->captures - 1;
  while (i >= 0 && m->capture[i].n != CAPTURE_OPEN) i--;
  if (i < 0) luaL_error(m->L, "invalid pattern capture");
  m->capture[i].n = s - m->capture[i].at;
  const char *end = match_here(m, s, p);
  if (!end) m->capture[i].n = CAPTURE_OPEN;
  return end;
}

/* Behind what is the same as the capture of that digit. */
static const char *match_again(matcher *m, const char *s, char digit) {
  int i = digit - '1';
  if (i < 0 || i >= m->captures || m->capture[i].n == CAPTURE_OPEN)
    luaL_error(m->L, "invalid capture index %%%d", i + 1);
  ptrdiff_t n = m->capture[i].n;
  if (n < 0 || m->subject_end - s < n) return NULL;
  mt_budget_charge_bytes(m->L, (size_t)n);
  return memcmp(m->capture[i].at, s, (size_t)n) ? NULL : s + n;
}

/* ---- Matching --------------------------------------------------------------------------------- */

/* %bxy: behind the y that closes the x at s. */
static const char *match_balanced(matcher *m, const char *s, const char *p) {
  if (p + 1 >= m->pattern_end) luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
  if (s >= m->subject_end || *s != *p) return NULL;
  size_t open = 1;
  for (const char *at = s + 1; at < m->subject_end; at++) {
    count_step(m);
    if (*at == p[1]) {
      if (!--open) return at + 1;
    } else if (*at == p[0]) {
      open++;
    }
  }
  return NULL;
}

static bool is_frontier(matcher *m, const char *s, const char *set, const char *end) {
  unsigned char before = s == m->subject ? 0 : (unsigned char)s[-1];
  unsigned char here = s < m->subject_end ? (unsigned char)*s : 0;
  m->steps += (unsigned)((end - set) / 4);
  return !matches_set(before, set, end - 1) && matches_set(here, set, end - 1);
}

/* As many as there are, then fewer. */
static const char *match_greedy(matcher *m, const char *s, const char *p, const char *end) {
  ptrdiff_t n = 0;
  while (matches_item(m, s + n, p, end)) n++;
  for (; n >= 0; n--) {
    count_step(m);
    const char *last = match_here(m, s + n, end + 1);
    if (last) return last;
  }
  return NULL;
}

/* As few as will do. */
static const char *match_lazy(matcher *m, const char *s, const char *p, const char *end) {
  for (;; s++) {
    const char *last = match_here(m, s, end + 1);
    if (last) return last;
    if (!matches_item(m, s, p, end)) return NULL;
  }
}

/* An item and what may stand behind it. Sets *s and *p where the match goes on; false: *s has its end, or NULL. */
static bool match_repeated(matcher *m, const char **s, const char **p) {
  const char *item = *p, *end = item_end(m, item);
  char repeated = end < m->pattern_end ? *end : '\0';
  switch (repeated) {
  case '?':
    if (matches_item(m, *s, item, end)) {
      const char *last = match_here(m, *s + 1, end + 1);
      if (last) {
        *s = last;
        return false;
      }
    }
    *p = end + 1;
    return true;
  case '+':
    *s = matches_item(m, *s, item, end) ? match_greedy(m, *s + 1, item, end) : NULL;
    return false;
  case '*':
    *s = match_greedy(m, *s, item, end);
    return false;
  case '-':
    *s = match_lazy(m, *s, item, end);
    return false;
  default:
    if (!matches_item(m, *s, item, end)) {
      *s = NULL;
      return false;
    }
    ++*s;
    *p = end;
    return true;
  }
}

/* What has a % and is no class. The same. */
static bool match_escape(matcher *m, const char **s, const char **p) {
  char what = *p + 1 < m->pattern_end ? (*p)[1] : '\0';
  if (what == 'b') {
    *s = match_balanced(m, *s, *p + 2);
    *p += 4;
    return *s != NULL;
  }
  if (what == 'f') {
    const char *set = *p + 2;
    if (set >= m->pattern_end || *set != '[') luaL_error(m->L, "missing '[' after '%%%c' in pattern", what);
    const char *end = item_end(m, set);
    if (!is_frontier(m, *s, set, end)) *s = NULL;
    *p = end;
    return *s != NULL;
  }
  if (is_digit_char((unsigned char)what)) {
    *s = match_again(m, *s, what);
    *p += 2;
    return *s != NULL;
  }
  return match_repeated(m, s, p);
}

/* The end of what the pattern from p on matches at s, or NULL. */
static const char *match_here(matcher *m, const char *s, const char *p) {
  if (++m->nested > NESTED_MAX) luaL_error(m->L, "pattern too complex");
  bool goes_on = true;
  while (goes_on && p < m->pattern_end) {
    count_step(m);
    if (*p == '(') {
      bool place = p + 1 < m->pattern_end && p[1] == ')';
      s = place ? open_capture(m, s, p + 2, CAPTURE_PLACE) : open_capture(m, s, p + 1, CAPTURE_OPEN);
      goes_on = false;
    } else if (*p == ')') {
      s = close_capture(m, s, p + 1);
      goes_on = false;
    } else if (*p == '$' && p + 1 == m->pattern_end) {
      if (s != m->subject_end) s = NULL;
      goes_on = false;
    } else if (*p == '%') {
      goes_on = match_escape(m, &s, &p);
    } else {
      goes_on = match_repeated(m, &s, &p);
    }
  }
  m->nested--;
  return s;
}

/* ---- Captures as values ----------------------------------------------------------------------- */

static void begin_matcher(matcher *m, lua_State *L, mt_slice subject, const char *pattern_end) {
  m->L = L;
  m->subject = subject.p;
  m->subject_end = subject.p + subject.n;
  m->pattern_end = pattern_end;
  m->steps = 0;
}

static const char *match_at(matcher *m, const char *s, const char *p) {
  m->nested = m->captures = 0;
  return match_here(m, s, p);
}

/* Capture i of a match from s to end; the first is all of it where there are none. */
static void push_capture(matcher *m, int i, const char *s, const char *end) {
  if (i >= m->captures) {
    if (i) luaL_error(m->L, "invalid capture index %%%d", i + 1);
    lua_pushlstring(m->L, s, (size_t)(end - s));
  } else if (m->capture[i].n == CAPTURE_PLACE) {
    lua_pushinteger(m->L, m->capture[i].at - m->subject + 1);
  } else if (m->capture[i].n == CAPTURE_OPEN) {
    luaL_error(m->L, "unfinished capture");
  } else {
    lua_pushlstring(m->L, m->capture[i].at, (size_t)m->capture[i].n);
  }
}

/* `whole`: all of it where there are no captures. */
static int push_captures(matcher *m, const char *s, const char *end, bool whole) {
  int n = m->captures || !whole ? m->captures : 1;
  luaL_checkstack(m->L, n + 1, "too many captures");
  for (int i = 0; i < n; i++) push_capture(m, i, s, end);
  return n;
}

/* ---- find, match ------------------------------------------------------------------------------ */

static size_t start_of(lua_Integer at, size_t n) {
  if (at > 0) return (size_t)at - 1;
  if (at == 0 || at < -(lua_Integer)n) return 0;
  return n - (size_t)-at;
}

static bool has_no_magic(mt_slice pattern) {
  for (size_t i = 0; i < pattern.n; i++)
    if (pattern.p[i] && strchr("^$*+?.([%-", pattern.p[i])) return false;
  return true;
}

static int find_plain(lua_State *L, mt_slice s, mt_slice what, size_t from) {
  mt_budget_charge_bytes(L, s.n - from + what.n);
  const char *found = what.n ? memmem(s.p + from, s.n - from, what.p, what.n) : s.p + from;
  if (!found) {
    luaL_pushfail(L);
    return 1;
  }
  lua_pushinteger(L, found - s.p + 1);
  lua_pushinteger(L, found - s.p + (lua_Integer)what.n);
  return 2;
}

static int search_pattern(lua_State *L, bool find) {
  mt_slice s = mt_sandbox_check_text(L, 1), pattern = mt_sandbox_check_text(L, 2);
  size_t from = start_of(luaL_optinteger(L, 3, 1), s.n);
  if (from > s.n) {
    luaL_pushfail(L);
    return 1;
  }
  mt_budget_charge_bytes(L, pattern.n);
  if (find && (lua_toboolean(L, 4) || has_no_magic(pattern))) return find_plain(L, s, pattern, from);
  const char *p = pattern.p;
  bool anchored = pattern.n && *p == '^';
  if (anchored) p++;
  matcher m;
  begin_matcher(&m, L, s, pattern.p + pattern.n);
  for (const char *at = s.p + from; at <= m.subject_end; at++) {
    count_step(&m);
    const char *end = match_at(&m, at, p);
    if (end && find) {
      lua_pushinteger(L, at - s.p + 1);
      lua_pushinteger(L, end - s.p);
      return 2 + push_captures(&m, NULL, NULL, false);
    }
    if (end) return push_captures(&m, at, end, true);
    if (anchored) break;
  }
  luaL_pushfail(L);
  return 1;
}

static int pattern_find(lua_State *L) {
  return search_pattern(L, true);
}

static int pattern_match(lua_State *L) {
  return search_pattern(L, false);
}

/* ---- gmatch ----------------------------------------------------------------------------------- */

/* Upvalues: the string, the pattern, where it goes on, the end of the last match (-1: none). */
static int next_match(lua_State *L) {
  mt_slice s = mt_sandbox_check_text(L, lua_upvalueindex(1)), pattern = mt_sandbox_check_text(L, lua_upvalueindex(2));
  size_t from = (size_t)lua_tointeger(L, lua_upvalueindex(3));
  lua_Integer last = lua_tointeger(L, lua_upvalueindex(4));
  matcher m;
  begin_matcher(&m, L, s, pattern.p + pattern.n);
  for (const char *at = s.p + from; from <= s.n && at <= m.subject_end; at++) {
    count_step(&m);
    const char *end = match_at(&m, at, pattern.p);
    if (!end || end - s.p == last) continue;
    for (int i = 3; i <= 4; i++) {
      lua_pushinteger(L, end - s.p);
      lua_replace(L, lua_upvalueindex(i));
    }
    return push_captures(&m, at, end, true);
  }
  return 0;
}

static int pattern_gmatch(lua_State *L) {
  mt_slice s = mt_sandbox_check_text(L, 1);
  mt_sandbox_check_text(L, 2);
  size_t from = start_of(luaL_optinteger(L, 3, 1), s.n);
  if (from > s.n) from = s.n + 1;
  lua_settop(L, 2);
  lua_pushinteger(L, (lua_Integer)from);
  lua_pushinteger(L, -1);
  lua_pushcclosure(L, next_match, 4);
  return 1;
}

/* ---- gsub ------------------------------------------------------------------------------------- */

/* The replacement text at 3, with its %0 to %9. */
static void add_text(matcher *m, luaL_Buffer *b, const char *s, const char *end) {
  lua_State *L = m->L;
  mt_slice text = mt_sandbox_check_text(L, 3);
  const char *p = text.p, *last = text.p + text.n;
  mt_budget_charge_bytes(L, text.n);
  while (p < last) {
    const char *mark = memchr(p, '%', (size_t)(last - p));
    if (!mark) mark = last;
    luaL_addlstring(b, p, (size_t)(mark - p));
    if (mark == last) break;
    char what = mark + 1 < last ? mark[1] : '\0';
    if (what == '%') {
      luaL_addchar(b, '%');
    } else if (what == '0') {
      luaL_addlstring(b, s, (size_t)(end - s));
    } else if (is_digit_char((unsigned char)what)) {
      push_capture(m, what - '1', s, end);
      luaL_addvalue(b);
    } else {
      luaL_error(L, "invalid use of '%%' in replacement string");
    }
    p = mark + 2;
  }
}

/* What stands for the match from s to end. -> is it anything else? */
static bool add_replacement(matcher *m, luaL_Buffer *b, const char *s, const char *end, int type) {
  lua_State *L = m->L;
  if (type == LUA_TSTRING || type == LUA_TNUMBER) {
    add_text(m, b, s, end);
    return true;
  }
  if (type == LUA_TFUNCTION) {
    lua_pushvalue(L, 3);
    lua_call(L, push_captures(m, s, end, true), 1);
  } else {
    push_capture(m, 0, s, end);
    lua_gettable(L, 3);
  }
  if (!lua_toboolean(L, -1)) {
    lua_pop(L, 1);
    luaL_addlstring(b, s, (size_t)(end - s));
    return false;
  }
  if (!lua_isstring(L, -1)) luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
  luaL_addvalue(b);
  return true;
}

/* gsub(s, pattern, replacement, most) */
static int pattern_gsub(lua_State *L) {
  mt_slice s = mt_sandbox_check_text(L, 1), pattern = mt_sandbox_check_text(L, 2);
  int type = lua_type(L, 3);
  luaL_argexpected(L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE, 3,
                   "string/function/table");
  lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)s.n + 1), n = 0;
  const char *p = pattern.p, *at = s.p, *last = NULL;
  bool anchored = pattern.n && *p == '^', changed = false;
  if (anchored) p++;
  matcher m;
  luaL_Buffer b;
  begin_matcher(&m, L, s, pattern.p + pattern.n);
  luaL_buffinit(L, &b);
  while (n < most) {
    count_step(&m);
    const char *end = match_at(&m, at, p);
    if (end && end != last) {
      n++;
      if (add_replacement(&m, &b, at, end, type)) changed = true;
      at = last = end;
    } else if (at < m.subject_end) {
      luaL_addchar(&b, *at);
      at++;
    } else {
      break;
    }
    if (anchored) break;
  }
  if (changed) {
    luaL_addlstring(&b, at, (size_t)(m.subject_end - at));
    luaL_pushresult(&b);
  } else {
    lua_pushvalue(L, 1);
  }
  lua_pushinteger(L, n);
  return 2;
}

const luaL_Reg mt_pattern_functions[] = {
    {"find", pattern_find}, {"match", pattern_match}, {"gmatch", pattern_gmatch}, {"gsub", pattern_gsub}, {NULL, NULL}};
