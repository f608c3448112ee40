/* A slice of bytes, and a byte buffer that grows up to a given maximum. */
#ifndef MT_BASE_BUF_H
#define MT_BASE_BUF_H

#include "base/error.h"

#include <string.h>

/* Borrowed bytes, not terminated. {NULL, 0} means absent; {"", 0} means empty. */
typedef struct mt_slice {
  const char *p;
  size_t n;
} mt_slice;

#define MT_SLICE(literal) ((mt_slice){"" literal, sizeof(literal) - 1})

static inline mt_slice mt_slice_of(const char *s) {
  return (mt_slice){s, s ? strlen(s) : 0};
}
static inline bool mt_slice_eq(mt_slice a, mt_slice b) {
  return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
static inline bool mt_slice_starts(mt_slice s, mt_slice prefix) {
  return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}
/* What stands before the first `c`, or all of it; *rest is what stands behind. */
mt_slice mt_slice_cut(mt_slice *rest, char c);
/* Byte order, a prefix before its extensions: the total order of the lock protocol. */
int mt_slice_cmp(mt_slice a, mt_slice b);

/* An append past `max` or without memory sets `failed` and appends nothing; later appends do
 * nothing. So a writer can append freely and check mt_buf_status once at the end. */
typedef struct mt_buf {
  char *p; /* NUL-terminated once anything was appended */
  size_t n, cap, max;
  mortise_status failed; /* OK, OUT_OF_MEMORY, or REJECTED when over `max` */
} mt_buf;

void mt_buf_init(mt_buf *b, size_t max);
void mt_buf_deinit(mt_buf *b);
void mt_buf_wipe(mt_buf *b);  /* the same for one that holds a secret */
void mt_buf_clear(mt_buf *b); /* empties it and clears a failure; keeps the memory */
void mt_buf_add(mt_buf *b, const void *p, size_t n);
void mt_buf_adds(mt_buf *b, const char *s);
void mt_buf_addc(mt_buf *b, char c);
void mt_buf_addslice(mt_buf *b, mt_slice s);
void mt_buf_addu(mt_buf *b, uint64_t value);
void mt_buf_addi(mt_buf *b, int64_t value);
void mt_buf_addf(mt_buf *b, const char *fmt, ...) MORTISE_PRINTF(2, 3);
void mt_buf_cut(mt_buf *b, size_t n); /* shortens to n bytes */
/* Makes room for n more bytes at the end; the caller fills them and adds to b->n. NULL on
 * failure. */
char *mt_buf_room(mt_buf *b, size_t n);
/* Fails it, since another buffer that it needed has failed. Its first failure stays. */
static inline void mt_buf_fail(mt_buf *b, mortise_status why) {
  if (!b->failed) b->failed = why;
}
/* Moves the bytes to the caller, who frees them (mt_free), and leaves the buffer empty. NULL if it
 * failed. */
char *mt_buf_take(mt_buf *b, size_t *n);
/* OK, or the failure, with `what` ("the bulk body") in the message. */
mortise_status mt_buf_status(const mt_buf *b, const char *what, mortise_error *err);

static inline mt_slice mt_buf_slice(const mt_buf *b) {
  return (mt_slice){b->p ? b->p : "", b->n};
}

#endif
