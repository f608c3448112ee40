#include "client/options.h"

#include "base/error.h"
#include "base/mem.h"
#include "elastic/elastic.h"
#include "store/table.h"

#include <stddef.h>
#include <stdio.h>

#define C_TEXT const char *
#define C_FILE C_TEXT
#define C_SECRET C_TEXT
#define C_TIME int64_t
#define C_SIZE size_t
#define C_FLAG bool

/* Each member needs a row of its type; without one it would be neither checked nor copied. */
typedef struct described {
  size_t size;
  mortise_log_fn *log;
  void *log_ctx;
  mortise_notice_fn *notice;
  void *notice_ctx;
  mortise_loop *loop;
#define OPTION(kind, member, ...) C_##kind member;
#include "client/options.def"
#undef OPTION
} described;
_Static_assert(sizeof(described) == sizeof(mortise_options), "rows of options.def");
#define IS(type, member) _Generic(((mortise_options *)NULL)->member, type : true, default : false)
#define OPTION(kind, member, ...) _Static_assert(IS(C_##kind, member), #member);
#include "client/options.def"
#undef OPTION

const mt_client_option mt_client_option_rows[MT_CLIENT_OPTIONS] = {
#define OPTION(kind, member, initial, least, most, name, word, help)                               \
  {#member, name, word, help, MT_KIND_##kind, offsetof(mortise_options, member), least, most},
#include "client/options.def"
#undef OPTION
};

/* ---- Structs that may have another version's length ----------------------------------------- */

void mt_struct_give(void *out, const void *ours, size_t size, size_t our_size) {
  if (out) memcpy(out, ours, size < our_size ? size : our_size);
}

void mortise_options_init_size(mortise_options *o, size_t size) {
  const mortise_options ours = {
      .size = size,
#define OPTION(kind, member, initial, ...) .member = initial,
#include "client/options.def"
#undef OPTION
  };
  mt_struct_give(o, &ours, size, sizeof ours);
}

void mortise_lock_request_init_size(mortise_lock_request *r, size_t size) {
  const mortise_lock_request ours = {.size = size, .wait_ms = -1};
  mt_struct_give(r, &ours, size, sizeof ours);
}

mortise_status mt_struct_take(void *out, size_t our_size, const void *given, size_t least, const char *what,
                              mortise_error *err) {
  size_t size;
  if (!given) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the %s is NULL", what);
  memcpy(&size, given, sizeof size);
  if (size < least)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s: no %s_init was called, its size is %zu", what, what, size);
  if (size > our_size)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s: of a later version than this library's, %s", what,
                        mortise_version());
  memcpy(out, given, size);
  memcpy(out, &our_size, sizeof our_size);
  return MORTISE_OK;
}

mortise_status mt_client_options_take(mortise_options *out, const mortise_options *given, mortise_error *err) {
  mortise_options_init(out);
  return mt_struct_take(out, sizeof *out, given, offsetof(mortise_options, ns), "mortise_options", err);
}

mortise_status mt_client_request_take(mortise_lock_request *out, const mortise_lock_request *given,
                                      mortise_error *err) {
  mortise_lock_request_init(out);
  return mt_struct_take(out, sizeof *out, given, offsetof(mortise_lock_request, mode), "mortise_lock_request", err);
}

int64_t mt_margin_default(int64_t lease_ms) {
  enum { MOST_MS = 1000, PART = 10 };
  return lease_ms / PART < MOST_MS ? lease_ms / PART : MOST_MS;
}

/* ---- Copies --------------------------------------------------------------------------------- */

static bool is_string(const mt_client_option *row) {
  return row->kind == MT_KIND_TEXT || row->kind == MT_KIND_FILE || row->kind == MT_KIND_SECRET;
}

static char **string_option(const mortise_options *o, const mt_client_option *row) {
  return (char **)((char *)o + row->offset);
}

bool mt_client_options_copy(mortise_options *to, const mortise_options *from) {
  mortise_options defaults;
  mortise_options_init(&defaults);
  *to = *from;
  bool whole = true;
  for (const mt_client_option *row = mt_client_option_rows, *end = row + MT_CLIENT_OPTIONS;
       row < end; row++) {
    if (!is_string(row)) continue;
    char **s = string_option(to, row);
    if (!*s) *s = *string_option(&defaults, row);
    if (*s) whole &= (*s = mt_strdup(*s)) != NULL;
  }
  return whole;
}

void mt_client_options_deinit(mortise_options *o) {
  for (const mt_client_option *row = mt_client_option_rows, *end = row + MT_CLIENT_OPTIONS;
       row < end; row++) {
    if (!is_string(row)) continue;
    char **s = string_option(o, row);
    mt_free_secret(*s); /* some are */
    *s = NULL;
  }
}

/* What the clients of one store may differ in. */
static bool is_of_client_alone(size_t row) {
  static const size_t rows[] = {MT_AT_ns,       MT_AT_lease_ms, MT_AT_margin_ms, MT_AT_wait_ms,
                                MT_AT_no_hints, MT_AT_program,  MT_AT_script,    MT_AT_job};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i] == row) return true;
  return false;
}

static bool is_same_option(const mt_client_option *row, const mortise_options *a, const mortise_options *b) {
  const char *at = (const char *)a + row->offset, *bt = (const char *)b + row->offset;
  if (is_string(row)) {
    const char *s, *t;
    memcpy(&s, at, sizeof s);
    memcpy(&t, bt, sizeof t);
    return s == t || (s && t && strcmp(s, t) == 0);
  }
  if (row->kind == MT_KIND_FLAG) return *(const bool *)at == *(const bool *)bt;
  if (row->kind == MT_KIND_SIZE) return *(const size_t *)at == *(const size_t *)bt;
  return *(const int64_t *)at == *(const int64_t *)bt;
}

bool mt_client_options_same_store(const mortise_options *a, const mortise_options *b) {
  bool same = a->log == b->log && a->log_ctx == b->log_ctx;
  for (size_t i = 0; same && i < MT_CLIENT_OPTIONS; i++)
    same = is_of_client_alone(i) || is_same_option(&mt_client_option_rows[i], a, b);
  return same;
}

/* ---- Checks --------------------------------------------------------------------------------- */

void mt_client_option_show(const mt_client_option *row, int64_t value, char out[MT_NUMBER_TEXT]) {
  if (value < 0)
    snprintf(out, MT_NUMBER_TEXT, "%lld", (long long)value);
  else
    (row->kind == MT_KIND_TIME ? mt_time_text : mt_size_text)(value, out);
}

void mt_client_option_range(const mt_client_option *row, char out[MT_OPTION_RANGE]) {
  char least[MT_NUMBER_TEXT], most[MT_NUMBER_TEXT];
  mt_client_option_show(row, row->least, least);
  mt_client_option_show(row, row->most, most);
  if (row->kind == MT_KIND_TIME)
    snprintf(out, MT_OPTION_RANGE, "a time from %s to %s", least, most);
  else
    snprintf(out, MT_OPTION_RANGE, "a size of %s or more", least);
}

static mortise_status bad_number(const mt_client_option *row, int64_t value, int64_t initial,
                                 mortise_error *err) {
  char range[MT_OPTION_RANGE], shown[MT_NUMBER_TEXT], other[MT_NUMBER_TEXT] = "";
  mt_client_option_range(row, range);
  mt_client_option_show(row, value, shown);
  if (initial < row->least) snprintf(other, sizeof other, ", or %lld", (long long)initial);
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s: %s%s, not %s", row->member, range, other,
                      shown);
}

/* The default may be below `least`; it then stands for a value that depends on another option. */
static mortise_status check_number_option(const mt_client_option *row, const mortise_options *o,
                                          const mortise_options *defaults, mortise_error *err) {
  const char *at = (const char *)o + row->offset;
  if (row->kind == MT_KIND_SIZE) {
    size_t value = *(const size_t *)at;
    return value >= (size_t)row->least ? MORTISE_OK
                                       : bad_number(row, (int64_t)value, row->least, err);
  }
  int64_t value = *(const int64_t *)at;
  int64_t initial = *(const int64_t *)((const char *)defaults + row->offset);
  if (value == initial || (value >= row->least && value <= row->most)) return MORTISE_OK;
  return bad_number(row, value, initial, err);
}

static mortise_status check_margin(const mortise_options *o, mortise_error *err) {
  char most[MT_NUMBER_TEXT], shown[MT_NUMBER_TEXT];
  if (o->margin_ms <= o->lease_ms / 3) return MORTISE_OK;
  mt_time_text(o->lease_ms / 3, most);
  mt_time_text(o->margin_ms, shown);
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                      "margin_ms: at most a third of the lease, %s, not %s", most, shown);
}

mortise_status mt_client_options_check(const mortise_options *o, mortise_error *err) {
  mortise_options defaults;
  mortise_options_init(&defaults);
  if (!o) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the options are NULL");
  if (!o->store || !*o->store)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "store: none is named");
  if (!mt_ns_valid(o->ns))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "ns: 1 to 64 of a-z 0-9 _ -, not \"%.80s\"",
                        o->ns ? o->ns : "");
  for (const mt_client_option *row = mt_client_option_rows, *end = row + MT_CLIENT_OPTIONS;
       row < end; row++) {
    bool number = row->kind == MT_KIND_TIME || row->kind == MT_KIND_SIZE;
    if (number && check_number_option(row, o, &defaults, err)) return MORTISE_INVALID_ARGUMENT;
  }
  mt_error_clear(err);
  return check_margin(o, err);
}
