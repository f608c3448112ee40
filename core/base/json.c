#include "base/json.h"

#include "base/json_scan.h"
#include "base/number.h"

#include <stdarg.h>

/* ---- bytes ---- */

/* The type that a value's first byte tells. */
static const unsigned char types[256] = {
    ['n'] = MT_JSON_NULL,   ['f'] = MT_JSON_FALSE,  ['t'] = MT_JSON_TRUE,   ['"'] = MT_JSON_STRING,
    ['['] = MT_JSON_ARRAY,  ['{'] = MT_JSON_OBJECT, ['-'] = MT_JSON_NUMBER, ['0'] = MT_JSON_NUMBER,
    ['1'] = MT_JSON_NUMBER, ['2'] = MT_JSON_NUMBER, ['3'] = MT_JSON_NUMBER, ['4'] = MT_JSON_NUMBER,
    ['5'] = MT_JSON_NUMBER, ['6'] = MT_JSON_NUMBER, ['7'] = MT_JSON_NUMBER, ['8'] = MT_JSON_NUMBER,
    ['9'] = MT_JSON_NUMBER};

static inline mt_json_type type_of(char first) {
  return (mt_json_type)types[(unsigned char)first];
}

static inline bool is_json_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static inline const char *skip_spaces_to(const char *p, const char *end) {
  while (p < end && is_json_space(*p)) p++;
  return p;
}

static inline const char *skip_digits(const char *p, const char *end) {
  while (p < end && is_digit(*p)) p++;
  return p;
}

#define EACH_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

/* The top bit of each byte that is '"', '\\' or a control. Bits above the lowest one set may be
 * wrong (the subtraction borrows), so only that one is used. */
static inline uint64_t string_stops(uint64_t w) {
  uint64_t quote = w ^ EACH_BYTE('"'), backslash = w ^ EACH_BYTE('\\');
  return (((w - EACH_BYTE(0x20)) & ~w) | ((quote - EACH_BYTE(1)) & ~quote) |
          ((backslash - EACH_BYTE(1)) & ~backslash)) &
         EACH_BYTE(0x80);
}

/* The first byte from `p` that is '"', '\\' or a control; else `end`. */
static inline const char *skip_plain(const char *p, const char *end) {
  for (; end - p >= 8; p += 8) {
    uint64_t w;
    memcpy(&w, p, sizeof w);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    uint64_t stops = string_stops(w);
    if (stops) return p + (__builtin_ctzll(stops) >> 3);
  }
  while (p < end && (unsigned char)*p >= 0x20 && *p != '"' && *p != '\\') p++;
  return p;
}

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  c = (char)(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four hex digits at `p`, or -1. */
static long hex4(const char *p, const char *end) {
  if (end - p < 4) return -1;
  long value = 0;
  for (int i = 0; i < 4; i++) {
    int digit = hex_digit(p[i]);
    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

/* ---- validating ---- */

typedef struct reader {
  const char *end;
  const char *problem, *where; /* set once, when a check below returns NULL */
} reader;

static const char *fail_at(reader *r, const char *where, const char *problem) {
  r->where = where;
  r->problem = where == r->end ? "the text ends too early" : problem;
  return NULL;
}

/* Each check starts at its first byte and returns the place behind, or NULL. */
static const char *check_escape(reader *r, const char *p) {
  if (++p == r->end) return fail_at(r, p, NULL);
  switch (*p) {
  case '"':
  case '\\':
  case '/':
  case 'b':
  case 'f':
  case 'n':
  case 'r':
  case 't':
    return p + 1;
  case 'u':
    if (hex4(p + 1, r->end) >= 0) return p + 5;
    return fail_at(r, r->end - p < 5 ? r->end : p, "four hex digits are missing");
  default:
    return fail_at(r, p, "an unknown escape");
  }
}

static inline const char *check_string(reader *r, const char *p) {
  for (p++;;) {
    p = skip_plain(p, r->end);
    if (p == r->end) return fail_at(r, p, NULL);
    if (*p == '"') return p + 1;
    if (*p != '\\') return fail_at(r, p, "a control character in a string");
    if (!(p = check_escape(r, p))) return NULL;
  }
}

static const char *check_digits(reader *r, const char *p) {
  const char *behind = skip_digits(p, r->end);
  return behind > p ? behind : fail_at(r, p, "a digit is missing");
}

static const char *check_json_number(reader *r, const char *p) {
  if (*p == '-') p++;
  if (p < r->end && *p == '0')
    p++; /* a digit behind it is found out of place by the caller */
  else if (!(p = check_digits(r, p)))
    return NULL;
  if (p < r->end && *p == '.' && !(p = check_digits(r, p + 1))) return NULL;
  if (p < r->end && (*p == 'e' || *p == 'E')) {
    p++;
    if (p < r->end && (*p == '+' || *p == '-')) p++;
    return check_digits(r, p);
  }
  return p;
}

static const char *check_word(reader *r, const char *p, const char *word) {
  for (; *word; word++, p++)
    if (p == r->end || *p != *word) return fail_at(r, p, "an unknown word");
  return p;
}

static inline const char *check_scalar(reader *r, const char *p) {
  switch (type_of(*p)) {
  case MT_JSON_STRING:
    return check_string(r, p);
  case MT_JSON_NUMBER:
    return check_json_number(r, p);
  case MT_JSON_NULL:
    return check_word(r, p, "null");
  case MT_JSON_TRUE:
    return check_word(r, p, "true");
  case MT_JSON_FALSE:
    return check_word(r, p, "false");
  default:
    return fail_at(r, p, "a value is missing");
  }
}

static inline const char *check_member_name(reader *r, const char *p) {
  p = skip_spaces_to(p, r->end);
  if (p == r->end || *p != '"') return fail_at(r, p, "a member's name is missing");
  if (!(p = check_string(r, p))) return NULL;
  p = skip_spaces_to(p, r->end);
  if (p == r->end || *p != ':') return fail_at(r, p, "a ':' is missing");
  return p + 1;
}

/* What may stand behind a value: closing brackets, then a ',' (and a name, in an object), which
 * leaves `*depth` above zero, or the end of the outermost value. */
static inline const char *check_behind(reader *r, const char *p, const char *open, size_t *depth) {
  while (*depth) {
    p = skip_spaces_to(p, r->end);
    if (p == r->end) return fail_at(r, p, NULL);
    bool object = open[*depth - 1] == '{';
    if (*p == ',') return object ? check_member_name(r, p + 1) : p + 1;
    if (*p != (object ? '}' : ']')) return fail_at(r, p, "a ',' or a closing bracket is missing");
    p++;
    --*depth;
  }
  return p;
}

static const char *check_json_value(reader *r, const char *p) {
  char open[MT_JSON_DEPTH];
  size_t depth = 0;
  do {
    p = skip_spaces_to(p, r->end);
    if (p == r->end) return fail_at(r, p, NULL);
    if (*p == '{' || *p == '[') {
      if (depth == MT_JSON_DEPTH) return fail_at(r, p, "nested too deep");
      bool object = *p == '{';
      open[depth++] = *p;
      p = skip_spaces_to(p + 1, r->end);
      if (p == r->end || *p != (object ? '}' : ']')) {
        if (object && !(p = check_member_name(r, p))) return NULL;
        continue;
      }
    } else if (!(p = check_scalar(r, p))) {
      return NULL;
    }
    if (!(p = check_behind(r, p, open, &depth))) return NULL;
  } while (depth);
  return p;
}

mortise_status mt_json_parse(mt_slice text, const char *what, mt_json *root, mortise_error *err) {
  *root = (mt_json){0};
  if (!text.p) text = MT_SLICE("");
  reader r = {.end = text.p + text.n};
  const char *first = skip_spaces_to(text.p, r.end);
  const char *behind = check_json_value(&r, first);
  if (behind && skip_spaces_to(behind, r.end) != r.end)
    fail_at(&r, skip_spaces_to(behind, r.end), "something follows the value");
  if (r.where)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s is not JSON: %s at byte %zu", what,
                        r.problem, (size_t)(r.where - text.p));
  *root = (mt_json){type_of(*first), {first, (size_t)(behind - first)}};
  return MORTISE_OK;
}

/* ---- stepping through validated text ----
 * Text that was not validated gives nonsense, but nothing here reads past its end. */

static inline const char *string_end_before(const char *p, const char *end) {
  for (p++; p < end;) {
    p = skip_plain(p, end);
    if (p == end) break;
    if (*p == '"') return p + 1;
    p += *p == '\\' && end - p > 1 ? 2 : 1;
  }
  return end;
}

static const char *value_end(const char *p, const char *end) {
  if (*p == '"') return string_end_before(p, end);
  if (*p == '{' || *p == '[') return mt_scan_container(p, end);
  while (p < end && *p != ',' && *p != ']' && *p != '}' && !is_json_space(*p)) p++;
  return p;
}

mt_json_iter mt_json_items(mt_json container) {
  mt_json_iter it = {0};
  if (container.type != MT_JSON_OBJECT && container.type != MT_JSON_ARRAY) return it;
  it.object = container.type == MT_JSON_OBJECT;
  it.p = container.raw.p + 1;
  it.end = container.raw.p + container.raw.n - 1;
  return it;
}

bool mt_json_next(mt_json_iter *it) {
  const char *p = it->p, *end = it->end;
  while (p < end && (*p == ',' || is_json_space(*p))) p++;
  if (p < end && it->object) {
    const char *behind = string_end_before(p, end);
    it->key = (mt_slice){p + 1, behind - p >= 2 ? (size_t)(behind - p) - 2 : 0};
    p = behind;
    while (p < end && (*p == ':' || is_json_space(*p))) p++;
  }
  it->p = p;
  if (p >= end) return false;
  it->p = value_end(p, end);
  if (it->p == p) return false; /* no value: not validated */
  it->value = (mt_json){type_of(*p), {p, (size_t)(it->p - p)}};
  return true;
}

size_t mt_json_count(mt_json container) {
  size_t n = 0;
  for (mt_json_iter it = mt_json_items(container); mt_json_next(&it);) n++;
  return n;
}

mt_json mt_json_member(mt_json object, mt_slice name) {
  if (object.type == MT_JSON_OBJECT)
    for (mt_json_iter it = mt_json_items(object); mt_json_next(&it);)
      if (mt_json_key_is(it.key, name)) return it.value;
  return (mt_json){0};
}

mt_json mt_json_get(mt_json object, const char *name) {
  return mt_json_member(object, mt_slice_of(name));
}

mt_json mt_json_at(mt_json object, ...) {
  va_list names;
  va_start(names, object);
  const char *name;
  while ((name = va_arg(names, const char *))) object = mt_json_get(object, name);
  va_end(names);
  return object;
}

/* ---- strings ---- */

static size_t put_utf8(unsigned long code, char out[4]) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = n - 1; i; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
  out[0] = (char)(leads[n] | code);
  return n;
}

/* Decodes the escape at *p, moves behind it, returns the number of bytes. */
static size_t decode_escape(const char **p, const char *end, char out[4]) {
  static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
  const char *at = *p + 1;
  *p = end;
  if (at >= end) return 0;
  if (*at != 'u') {
    const char *letter = memchr(letters, *at, sizeof letters - 1);
    out[0] = letter ? meanings[letter - letters] : *at;
    *p = at + 1;
    return 1;
  }
  long code = hex4(at + 1, end);
  if (code < 0) return 0;
  at += 5;
  if (code >= 0xD800 && code < 0xDC00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
    long low = hex4(at + 2, end);
    if (low >= 0xDC00 && low < 0xE000) {
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      at += 6;
    }
  }
  *p = at;
  return put_utf8((unsigned long)code, out);
}

size_t mt_json_piece(const char **p, const char *end, char out[4]) {
  if (**p == '\\') return decode_escape(p, end, out);
  out[0] = *(*p)++;
  return 1;
}

static bool has_escape(mt_slice s) {
  return s.n && memchr(s.p, '\\', s.n);
}

static bool decoded_equals(mt_slice raw, mt_slice name) {
  const char *p = raw.p, *end = raw.p + raw.n;
  size_t i = 0;
  while (p < end) {
    char piece[4];
    size_t n = mt_json_piece(&p, end, piece);
    if (n > name.n - i || memcmp(name.p + i, piece, n) != 0) return false;
    i += n;
  }
  return i == name.n;
}

bool mt_json_key_is(mt_slice raw_key, mt_slice name) {
  if (raw_key.n == name.n && memcmp(raw_key.p, name.p, name.n) == 0) return !has_escape(raw_key);
  /* An escape is longer than what it means. */
  return raw_key.n > name.n && has_escape(raw_key) && decoded_equals(raw_key, name);
}

static bool content(mt_json value, mt_slice *out) {
  if (value.type != MT_JSON_STRING) return false;
  *out = (mt_slice){value.raw.p + 1, value.raw.n - 2};
  return true;
}

bool mt_json_text(mt_json value, mt_buf *out) {
  mt_slice s;
  if (!content(value, &s)) return false;
  const char *p = s.p, *end = s.p + s.n;
  while (p < end) {
    const char *escape = memchr(p, '\\', (size_t)(end - p));
    mt_buf_add(out, p, (size_t)((escape ? escape : end) - p));
    if (!escape) break;
    char piece[4];
    p = escape;
    size_t n = decode_escape(&p, end, piece);
    mt_buf_add(out, piece, n);
  }
  return true;
}

/* The length without a last character that was cut in the middle. */
static size_t whole_characters(const char *p, size_t n) {
  size_t lead = n;
  while (lead && n - lead < 3 && ((unsigned char)p[lead - 1] & 0xC0) == 0x80) lead--;
  if (!lead) return n;
  unsigned char c = (unsigned char)p[--lead];
  size_t need = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
  return need > n - lead ? lead : n;
}

char *mt_json_copy(mt_json value, char *out, size_t size) {
  if (!size) return out;
  mt_slice s = {"", 0};
  content(value, &s);
  const char *p = s.p, *end = s.p + s.n;
  size_t n = 0;
  while (p < end) {
    char piece[4];
    size_t add = mt_json_piece(&p, end, piece);
    if (add >= size - n) {
      n = whole_characters(out, n);
      break;
    }
    memcpy(out + n, piece, add);
    n += add;
  }
  out[n] = '\0';
  return out;
}

bool mt_json_plain(mt_json value, mt_slice *out) {
  mt_slice s;
  if (!content(value, &s) || has_escape(s)) return false;
  *out = s;
  return true;
}

bool mt_json_is(mt_json value, const char *text) {
  mt_slice s;
  return content(value, &s) && mt_json_key_is(s, mt_slice_of(text));
}

/* ---- numbers ---- */

/* The digits of an integer without its sign; false where it is none or too large. */
static bool magnitude(mt_json value, bool *negative, uint64_t *out) {
  if (value.type != MT_JSON_NUMBER) return false;
  const char *p = value.raw.p, *end = p + value.raw.n;
  *negative = *p == '-';
  if (*negative) p++;
  if (p == end) return false;
  uint64_t sum = 0;
  for (; p < end; p++) {
    if (!is_digit(*p)) return false;
    if (__builtin_mul_overflow(sum, 10, &sum) ||
        __builtin_add_overflow(sum, (uint64_t)(*p - '0'), &sum))
      return false;
  }
  *out = sum;
  return true;
}

bool mt_json_int(mt_json value, int64_t *out) {
  bool negative;
  uint64_t n;
  if (!magnitude(value, &negative, &n) || n > (uint64_t)INT64_MAX + negative) return false;
  *out = negative ? (int64_t)(0 - n) : (int64_t)n;
  return true;
}

bool mt_json_uint(mt_json value, uint64_t *out) {
  bool negative;
  uint64_t n;
  if (!magnitude(value, &negative, &n) || (negative && n)) return false;
  *out = n;
  return true;
}

bool mt_json_double(mt_json value, double *out) {
  return value.type == MT_JSON_NUMBER && mt_number_read(value.raw, out);
}

bool mt_json_bool(mt_json value, bool *out) {
  if (value.type != MT_JSON_TRUE && value.type != MT_JSON_FALSE) return false;
  *out = value.type == MT_JSON_TRUE;
  return true;
}

/* ---- writing ---- */

static void add_escaped(mt_buf *out, unsigned char c) {
  static const char letters[0x20] = {
      ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
  static const char hex[] = "0123456789abcdef";
  char escape[6] = {'\\', (char)c};
  size_t n = 2;
  if (c < 0x20 && letters[c]) {
    escape[1] = letters[c];
  } else if (c < 0x20) {
    memcpy(escape + 1, "u00", 3);
    escape[4] = hex[c >> 4];
    escape[5] = hex[c & 15];
    n = 6;
  }
  mt_buf_add(out, escape, n);
}

void mt_json_add_string(mt_buf *out, mt_slice text) {
  const char *p = text.p, *end = text.n ? text.p + text.n : text.p;
  mt_buf_addc(out, '"');
  while (p < end) {
    const char *stop = skip_plain(p, end);
    mt_buf_add(out, p, (size_t)(stop - p));
    if (stop < end) add_escaped(out, (unsigned char)*stop++);
    p = stop;
  }
  mt_buf_addc(out, '"');
}

void mt_json_add_key(mt_buf *out, const char *name) {
  char last = out->n ? out->p[out->n - 1] : '{';
  if (last != '{' && last != '[') mt_buf_addc(out, ',');
  mt_buf_addc(out, '"');
  mt_buf_adds(out, name);
  mt_buf_add(out, "\":", 2);
}

void mt_json_add_text(mt_buf *out, const char *name, mt_slice text) {
  mt_json_add_key(out, name);
  mt_json_add_string(out, text);
}

void mt_json_add_int(mt_buf *out, const char *name, int64_t n) {
  mt_json_add_key(out, name);
  mt_buf_addi(out, n);
}
