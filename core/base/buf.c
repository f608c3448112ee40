#include "base/buf.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

mt_slice mt_slice_cut(mt_slice *rest, char c) {
  const char *at = rest->n ? memchr(rest->p, c, rest->n) : NULL;
  mt_slice part = {rest->p, at ? (size_t)(at - rest->p) : rest->n};
  size_t used = part.n + (at != NULL);
  *rest = (mt_slice){rest->p + used, rest->n - used};
  return part;
}

int mt_slice_cmp(mt_slice a, mt_slice b) {
  size_t n = a.n < b.n ? a.n : b.n;
  int order = n ? memcmp(a.p, b.p, n) : 0;
  if (order) return order;
  return (a.n > b.n) - (a.n < b.n);
}

void mt_buf_init(mt_buf *b, size_t max) {
  *b = (mt_buf){.max = max};
}

void mt_buf_deinit(mt_buf *b) {
  mt_free(b->p);
  *b = (mt_buf){.max = b->max};
}

void mt_buf_wipe(mt_buf *b) {
  if (b->p) explicit_bzero(b->p, b->cap);
  mt_buf_deinit(b);
}

void mt_buf_clear(mt_buf *b) {
  b->n = 0;
  b->failed = MORTISE_OK;
  if (b->p) b->p[0] = '\0';
}

char *mt_buf_room(mt_buf *b, size_t n) {
  if (b->failed) return NULL;
  if (n > b->max - b->n) {
    b->failed = MORTISE_REJECTED;
    return NULL;
  }
  /* One more byte for the NUL. */
  if (b->n + n + 1 > b->cap) {
    size_t cap = b->cap ? b->cap : 64;
    while (cap < b->n + n + 1) cap *= 2;
    if (cap - 1 > b->max) cap = b->max + 1;
    char *p = mt_realloc(b->p, cap);
    if (!p) {
      b->failed = MORTISE_OUT_OF_MEMORY;
      return NULL;
    }
    b->p = p;
    b->cap = cap;
  }
  return b->p + b->n;
}

void mt_buf_add(mt_buf *b, const void *p, size_t n) {
  char *room = mt_buf_room(b, n);
  if (!room) return;
  if (n) memcpy(room, p, n);
  b->n += n;
  b->p[b->n] = '\0';
}

void mt_buf_adds(mt_buf *b, const char *s) {
  mt_buf_add(b, s, strlen(s));
}

void mt_buf_addc(mt_buf *b, char c) {
  mt_buf_add(b, &c, 1);
}

void mt_buf_addslice(mt_buf *b, mt_slice s) {
  mt_buf_add(b, s.p, s.n);
}

void mt_buf_addu(mt_buf *b, uint64_t value) {
  char digits[20];
  size_t i = sizeof digits;
  do digits[--i] = (char)('0' + value % 10);
  while (value /= 10);
  mt_buf_add(b, digits + i, sizeof digits - i);
}

void mt_buf_addi(mt_buf *b, int64_t value) {
  if (value < 0) mt_buf_addc(b, '-');
  mt_buf_addu(b, value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value);
}

void mt_buf_addf(mt_buf *b, const char *fmt, ...) {
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  char *room = n < 0 ? NULL : mt_buf_room(b, (size_t)n);
  if (room) {
    vsnprintf(room, (size_t)n + 1, fmt, again);
    b->n += (size_t)n;
  }
  va_end(again);
}

void mt_buf_cut(mt_buf *b, size_t n) {
  if (n >= b->n) return;
  b->n = n;
  b->p[n] = '\0';
}

char *mt_buf_take(mt_buf *b, size_t *n) {
  mt_buf_add(b, "", 0); /* an empty buffer becomes an allocated "" */
  if (b->failed) return NULL;
  char *p = b->p;
  if (n) *n = b->n;
  *b = (mt_buf){.max = b->max};
  return p;
}

mortise_status mt_buf_status(const mt_buf *b, const char *what, mortise_error *err) {
  if (b->failed == MORTISE_OUT_OF_MEMORY) return mt_error_memory(err);
  if (b->failed)
    return mt_error_set(err, MORTISE_REJECTED, "%s is larger than %zu bytes", what, b->max);
  return MORTISE_OK;
}
