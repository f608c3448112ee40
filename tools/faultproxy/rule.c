#include "rule.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
  const char *name;
  fault_action action;
  int args, optional;
} actions[] = {
    {"drop-request", FAULT_DROP_REQUEST, 0, 0},
    {"drop-answer", FAULT_DROP_ANSWER, 0, 0},
    {"duplicate", FAULT_DUPLICATE, 0, 1},
    {"hold", FAULT_HOLD, 1, 0},
    {"cut-request", FAULT_CUT_REQUEST, 0, 1},
    {"cut-answer", FAULT_CUT_ANSWER, 1, 0},
    {"reset", FAULT_RESET, 0, 0},
    {"reset-answer", FAULT_RESET_ANSWER, 0, 0},
    {"status", FAULT_STATUS, 1, 0},
    {"late-status", FAULT_LATE_STATUS, 1, 0},
    {"item-status", FAULT_ITEM_STATUS, 2, 0},
    {"item-lie", FAULT_ITEM_LIE, 2, 0},
    {"slow", FAULT_SLOW, 1, 0},
    {"repeat-answer", FAULT_REPEAT_ANSWER, 0, 0},
    {"old-answer", FAULT_OLD_ANSWER, 0, 0},
};
enum { ACTIONS = sizeof actions / sizeof *actions };

/* The next word of a line, quotes removed; false at its end, or when it does not fit. */
static bool next_word(const char **p, char *out, size_t size) {
  size_t n = 0;
  bool quoted = false;
  while (**p == ' ' || **p == '\t') ++*p;
  if (!**p || **p == '\n') return false;
  for (; **p && **p != '\n' && (quoted || (**p != ' ' && **p != '\t')); ++*p) {
    if (**p == '\'') {
      quoted = !quoted;
      continue;
    }
    if (n + 1 >= size) return false;
    out[n++] = **p;
  }
  out[n] = '\0';
  return !quoted;
}

static bool put(char *out, size_t size, const char *text) {
  return (size_t)snprintf(out, size, "%s", text) < size;
}

static bool number(const char *text, int64_t *out) {
  char *end;
  *out = strtoll(text, &end, 10);
  return *text && !*end;
}

static bool count(const char *text, unsigned *out) {
  int64_t value;
  if (!number(text, &value) || value < 0 || value > 1000000) return false;
  *out = (unsigned)value;
  return true;
}

static bool read_condition(fault_rule *r, const char *name, const char *value) {
  if (!strcmp(name, "method")) return put(r->method, sizeof r->method, value);
  if (!strcmp(name, "path")) return put(r->path, sizeof r->path, value);
  if (!strcmp(name, "item")) return put(r->item_text, sizeof r->item_text, value);
  if (!strcmp(name, "larger")) return count(value, &r->larger);
  if (!strcmp(name, "nth")) return count(value, &r->nth) && r->nth;
  if (!strcmp(name, "times")) return count(value, &r->times);
  if (!strcmp(name, "rate")) return count(value, &r->rate) && r->rate && r->rate <= 1000;
  if (strcmp(name, "body") != 0 || r->n_bodies == FAULT_TEXTS) return false;
  return put(r->bodies[r->n_bodies++], FAULT_TEXT_MAX, value);
}

static bool read_action(fault_rule *r, const char *name, const char **rest) {
  char word[64];
  for (size_t i = 0; i < ACTIONS; i++) {
    if (strcmp(actions[i].name, name) != 0) continue;
    r->action = actions[i].action;
    int args = actions[i].args;
    if (args == 2) {
      if (!next_word(rest, word, sizeof word)) return false;
      if (!strcmp(word, "*"))
        r->item = FAULT_ITEM_BY_TEXT;
      else if (!number(word, &r->item) || r->item < 0)
        return false;
    }
    bool more = next_word(rest, word, sizeof word);
    if (!more) return !args;
    return (args || actions[i].optional) && number(word, &r->amount);
  }
  return false;
}

/* Splits at the first '=' of what looks like a condition: `body={"a=b"` has a value with one. */
static char *condition(char *word) {
  size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz");
  return n && word[n] == '=' ? word + n : NULL;
}

mortise_status fault_rule_parse(const char *line, fault_rule *out, mortise_error *err) {
  char word[FAULT_TEXT_MAX + 16], *equals;
  const char *p = line;
  *out = (fault_rule){.nth = 1, .times = 1};
  bool good = put(out->text, sizeof out->text, line);
  out->text[strcspn(out->text, "\n")] = '\0';
  while (good && !out->action) {
    if (!next_word(&p, word, sizeof word)) break;
    equals = condition(word);
    if (equals) *equals = '\0';
    good = equals ? read_condition(out, word, equals + 1) : read_action(out, word, &p);
  }
  if (good && out->action && !next_word(&p, word, sizeof word)) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "not understood: %.300s", out->text);
}

static bool contains(mt_slice text, const char *part) {
  return !*part || (text.n && memmem(text.p, text.n, part, strlen(part)));
}

bool fault_rule_applies(fault_rule *r, mt_slice method, mt_slice path, mt_slice body,
                        uint64_t chance) {
  if (*r->method && !mt_slice_eq(method, mt_slice_of(r->method))) return false;
  bool matches = contains(path, r->path) && (!r->larger || body.n > r->larger);
  for (size_t i = 0; i < r->n_bodies; i++) matches = matches && contains(body, r->bodies[i]);
  if (!matches) return false;
  r->seen++;
  bool now =
      r->rate ? chance % 1000 < r->rate : r->seen >= r->nth && (!r->times || r->hits < r->times);
  r->hits += now;
  return now;
}
