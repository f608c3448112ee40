#include "elastic/answer.h"

enum { DEPTH = 64 };

static inline void blank(mt_answers *a) {
  while (a->p < a->end && (unsigned char)*a->p <= ' ' &&
         (*a->p == ' ' || *a->p == '\n' || *a->p == '\r' || *a->p == '\t'))
    a->p++;
}

static inline bool fail_reading(mt_answers *a) {
  a->failed = true;
  a->p = a->end;
  return false;
}

static inline bool see(mt_answers *a, char c) {
  blank(a);
  if (a->p == a->end || *a->p != c) return false;
  a->p++;
  return true;
}

static inline bool want(mt_answers *a, char c) {
  return see(a, c) || fail_reading(a);
}

/* Reads a raw string with its quotes. */
static inline bool string(mt_answers *a, mt_slice *out) {
  blank(a);
  const char *start = a->p;
  if (start == a->end || *start != '"') return fail_reading(a);
  for (const char *p = start + 1; p < a->end; p++) {
    if (*p == '\\') {
      p++;
    } else if (*p == '"') {
      *out = (mt_slice){start, (size_t)(p + 1 - start)};
      a->p = p + 1;
      return true;
    }
  }
  return fail_reading(a);
}

static inline bool ends_scalar(char c) {
  return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\r' || c == '\t' || !c;
}

static bool scalar(mt_answers *a) {
  const char *start = a->p;
  while (a->p < a->end && !ends_scalar(*a->p)) a->p++;
  return a->p > start || fail_reading(a);
}

/* Skips any value by matching brackets only; whoever reads the value validates it. */
static bool skip(mt_answers *a, mt_slice *out) {
  mt_slice unused;
  blank(a);
  const char *start = a->p;
  size_t depth = 0;
  do {
    blank(a);
    if (a->p == a->end) return fail_reading(a);
    char c = *a->p;
    if (c == '"') {
      if (!string(a, &unused)) return false;
    } else if (c == '{' || c == '[') {
      if (++depth > DEPTH) return fail_reading(a);
      a->p++;
    } else if (c == '}' || c == ']') {
      if (!depth--) return fail_reading(a);
      a->p++;
    } else if (c == ',' || c == ':') {
      a->p++;
    } else if (!scalar(a)) {
      return false;
    }
  } while (depth);
  if (out) *out = (mt_slice){start, (size_t)(a->p - start)};
  return true;
}

static inline bool read_uint(mt_answers *a, uint64_t *out) {
  blank(a);
  const char *p = a->p;
  uint64_t value = 0;
  for (; p < a->end && *p >= '0' && *p <= '9'; p++) {
    if (value > (UINT64_MAX - 9) / 10) return fail_reading(a);
    value = value * 10 + (uint64_t)(*p - '0');
  }
  if (p == a->p) return fail_reading(a);
  a->p = p;
  *out = value;
  return true;
}

/* An unassigned _seq_no is -2: a write without a version. */
static void seq_no(mt_answers *a, mt_answer *out) {
  blank(a);
  out->placed = a->p < a->end && *a->p != '-';
  if (out->placed)
    read_uint(a, &out->version.seq_no);
  else
    skip(a, NULL);
}

/* Reads the next member's key without quotes; false at the end of the object. */
static inline bool key(mt_answers *a, bool *first, mt_slice *out) {
  if (see(a, '}')) return false;
  if (!*first && !want(a, ',')) return false;
  *first = false;
  if (!string(a, out) || !want(a, ':')) return false;
  out->p++;
  out->n -= 2;
  return true;
}

static inline bool is_name(mt_slice k, const char *name, size_t n) {
  return k.n == n && !memcmp(k.p, name, n);
}
#define NAMED(k, literal) is_name(k, literal, sizeof(literal) - 1)

static bool read_result_word(mt_answers *a, mt_applied *out) {
  static const struct {
    const char *text;
    size_t n;
    mt_applied applied;
  } words[] = {{"\"created\"", 9, MT_APPLIED_CREATED},
               {"\"updated\"", 9, MT_APPLIED_UPDATED},
               {"\"deleted\"", 9, MT_APPLIED_DELETED},
               {"\"noop\"", 6, MT_APPLIED_NOOP},
               {"\"not_found\"", 11, MT_APPLIED_NOT_FOUND}};
  mt_slice text;
  if (!string(a, &text)) return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (!is_name(text, words[i].text, words[i].n)) continue;
    *out = words[i].applied;
    return true;
  }
  return fail_reading(a);
}

static void read_error_texts(mt_answers *a, mt_slice *type, mt_slice *reason, mt_slice *cause) {
  bool first = true;
  mt_slice k;
  blank(a);
  if (a->p < a->end && *a->p == '"') { /* an error given as plain text */
    string(a, reason);
    return;
  }
  if (!want(a, '{')) return;
  while (!a->failed && key(a, &first, &k)) {
    if (NAMED(k, "type"))
      skip(a, type);
    else if (NAMED(k, "reason"))
      skip(a, reason);
    else if (NAMED(k, "caused_by"))
      skip(a, cause);
    else
      skip(a, NULL);
  }
}

/* The innermost cause is the most specific. */
static void read_cause(mt_slice cause, mt_answer *out) {
  for (int depth = 0; depth < 8 && cause.n; depth++) {
    mt_answers inner = {.p = cause.p, .end = cause.p + cause.n};
    mt_slice type = {0}, reason = {0};
    cause = (mt_slice){0};
    read_error_texts(&inner, &type, &reason, &cause);
    if (inner.failed) return;
    if (type.n) out->cause_type = type;
    if (reason.n) out->cause_reason = reason;
  }
}

static void read_get(mt_answers *a, mt_answer *out) {
  bool first = true;
  mt_slice k;
  if (!want(a, '{')) return;
  while (!a->failed && key(a, &first, &k)) skip(a, NAMED(k, "_source") ? &out->source : NULL);
}

static void read_member(mt_answers *a, mt_slice k, mt_answer *out) {
  uint64_t value = 0;
  mt_slice cause = {0};
  if (NAMED(k, "_id")) {
    string(a, &out->id);
  } else if (NAMED(k, "_seq_no")) {
    seq_no(a, out);
  } else if (NAMED(k, "_primary_term")) {
    read_uint(a, &out->version.term);
  } else if (NAMED(k, "status")) {
    read_uint(a, &value);
    out->status = value < 1000 ? (int)value : 0;
  } else if (NAMED(k, "result")) {
    read_result_word(a, &out->applied);
  } else if (NAMED(k, "error")) {
    read_error_texts(a, &out->type, &out->reason, &cause);
    read_cause(cause, out);
  } else if (NAMED(k, "get")) {
    read_get(a, out);
  } else {
    skip(a, NULL);
  }
}

void mt_answers_init(mt_answers *a, mt_slice text) {
  *a = (mt_answers){.p = text.p, .end = text.p + text.n};
  bool first = true;
  mt_slice k;
  if (!want(a, '{')) return;
  while (!a->failed && key(a, &first, &k)) {
    if (!NAMED(k, "items")) {
      skip(a, NULL);
      continue;
    }
    want(a, '[');
    return;
  }
  fail_reading(a);
}

/* After the items come other members and the end of the object, and nothing else. */
static bool end_items(mt_answers *a) {
  bool first = false;
  mt_slice k;
  while (!a->failed && key(a, &first, &k)) skip(a, NULL);
  blank(a);
  if (a->p != a->end) fail_reading(a);
  a->ended = true;
  return false;
}

bool mt_answers_next(mt_answers *a, mt_answer *out) {
  bool first = true;
  mt_slice k;
  if (a->failed || a->ended) return false;
  if (see(a, ']')) return end_items(a);
  see(a, ',');
  *out = (mt_answer){0};
  /* {"create":{...}} */
  if (!want(a, '{') || !string(a, &k) || !want(a, ':') || !want(a, '{')) return false;
  while (!a->failed && key(a, &first, &k)) read_member(a, k, out);
  if (a->failed || !want(a, '}')) return false;
  if (!out->placed || !out->version.term) out->version = (mt_version){0, 0};
  bool ranged = out->version.seq_no <= MT_SEQ_NO_MAX && out->version.term <= MT_TERM_MAX;
  return out->status >= 200 && ranged ? true : fail_reading(a);
}

bool mt_answer_is_of(const mt_answer *a, mt_slice id) {
  mt_json value;
  if (a->id.n == id.n + 2 && a->id.p[0] == '"' && !memcmp(a->id.p + 1, id.p, id.n)) return true;
  return a->id.n && !mt_json_parse(a->id, "the answer", &value, NULL) &&
         value.type == MT_JSON_STRING &&
         mt_json_key_is((mt_slice){value.raw.p + 1, value.raw.n - 2}, id);
}

char *mt_answer_text(mt_slice raw, char *out, size_t size) {
  mt_json value, none = {0};
  bool good = raw.n && !mt_json_parse(raw, "the answer", &value, NULL);
  return mt_json_copy(good ? value : none, out, size);
}

bool mt_answer_is(mt_slice raw, const char *text) {
  size_t n = strlen(text);
  return raw.n == n + 2 && !memcmp(raw.p + 1, text, n);
}

bool mt_answer_written(const mt_answer *a) {
  return a->status < 300 && a->version.term &&
         (a->applied == MT_APPLIED_CREATED || a->applied == MT_APPLIED_UPDATED);
}

bool mt_answer_blocked(const mt_answer *a) {
  return a->status >= 400 && mt_answer_is(a->type, "cluster_block_exception");
}

/* A cluster block (no cluster manager) lets nothing through, and a 429 comes before an item is
 * begun. */
bool mt_answer_busy(const mt_answer *a) {
  return a->status == 429 || (a->status == 503 && mt_answer_blocked(a));
}

/* The coordinating node resends an item when a primary goes away, so even "no active primary" may
 * follow a first copy that was applied. */
bool mt_answer_unsure(const mt_answer *a) {
  return a->status >= 500 && !mt_answer_busy(a) &&
         !mt_answer_is(a->type, "not_x_content_exception");
}
