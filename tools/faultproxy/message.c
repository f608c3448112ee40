#include "message.h"

#include <stdlib.h>
#include <strings.h>

static mt_slice find_head(mt_slice bytes) {
  const char *end = bytes.n ? memmem(bytes.p, bytes.n, "\r\n\r\n", 4) : NULL;
  return (mt_slice){bytes.p, end ? (size_t)(end + 4 - bytes.p) : 0};
}

mt_slice fault_message_header(mt_slice head, const char *name) {
  size_t n = strlen(name);
  const char *end = head.p + head.n;
  for (const char *line = memchr(head.p, '\n', head.n); line && ++line < end;
       line = memchr(line, '\n', (size_t)(end - line))) {
    if ((size_t)(end - line) <= n || strncasecmp(line, name, n) != 0 || line[n] != ':') continue;
    const char *p = line + n + 1, *stop = memchr(p, '\r', (size_t)(end - p));
    while (stop && p < stop && *p == ' ') p++;
    return (mt_slice){p, stop ? (size_t)(stop - p) : 0};
  }
  return (mt_slice){0};
}

static bool says(mt_slice value, const char *word) {
  size_t n = strlen(word);
  return value.n >= n && strncasecmp(value.p + value.n - n, word, n) == 0;
}

static bool length_of(mt_slice head, size_t *out) {
  mt_slice value = fault_message_header(head, "Content-Length");
  *out = 0;
  for (size_t i = 0; i < value.n; i++) {
    if (value.p[i] < '0' || value.p[i] > '9' || *out > SIZE_MAX / 16) return false;
    *out = *out * 10 + (size_t)(value.p[i] - '0');
  }
  return value.n > 0;
}

static fault_progress with_length(mt_slice bytes, size_t n, fault_message *out) {
  if (bytes.n - out->head.n < n) return FAULT_MORE;
  out->body = (mt_slice){out->head.p + out->head.n, n};
  out->n = out->head.n + n;
  return FAULT_WHOLE;
}

/* "METHOD PATH VERSION" */
static bool read_request_line(mt_slice head, fault_message *out) {
  const char *space = memchr(head.p, ' ', head.n);
  const char *second = space ? memchr(space + 1, ' ', (size_t)(head.p + head.n - space - 1)) : NULL;
  if (!second) return false;
  out->method = (mt_slice){head.p, (size_t)(space - head.p)};
  out->path = (mt_slice){space + 1, (size_t)(second - space - 1)};
  return true;
}

fault_progress fault_message_request(mt_slice bytes, fault_message *out) {
  *out = (fault_message){.head = find_head(bytes)};
  size_t n;
  if (!out->head.n) return bytes.n > 65536 ? FAULT_BAD : FAULT_MORE;
  if (!read_request_line(out->head, out) || fault_message_header(out->head, "Transfer-Encoding").n)
    return FAULT_BAD;
  out->last = says(fault_message_header(out->head, "Connection"), "close");
  if (!length_of(out->head, &n)) n = 0;
  return with_length(bytes, n, out);
}

/* One chunk at `*p`: its data, and `*p` behind it. The last one is empty. */
static fault_progress next_chunk(const char **p, const char *end, mt_slice *data) {
  const char *line = memchr(*p, '\n', (size_t)(end - *p));
  char number[20] = "", *stop;
  if (!line) return end - *p > 1024 ? FAULT_BAD : FAULT_MORE;
  size_t n = (size_t)(line - *p);
  memcpy(number, *p, n < sizeof number ? n : sizeof number - 1);
  unsigned long long size = strtoull(number, &stop, 16);
  if (stop == number) return FAULT_BAD;
  if ((unsigned long long)(end - line - 1) < size + 2) return FAULT_MORE;
  *data = (mt_slice){line + 1, size};
  *p = line + 1 + size + 2; /* no trailers: the servers send none */
  return FAULT_WHOLE;
}

static fault_progress with_chunks(mt_slice bytes, fault_message *out) {
  const char *p = bytes.p + out->head.n, *end = bytes.p + bytes.n;
  mt_slice data;
  do {
    fault_progress progress = next_chunk(&p, end, &data);
    if (progress != FAULT_WHOLE) return progress;
  } while (data.n);
  out->n = (size_t)(p - bytes.p);
  out->body = (mt_slice){bytes.p + out->head.n, out->n - out->head.n};
  return FAULT_WHOLE;
}

static fault_progress final_answer(mt_slice bytes, bool headless, bool ended, fault_message *out) {
  size_t n;
  out->chunked = says(fault_message_header(out->head, "Transfer-Encoding"), "chunked");
  out->last = ended || says(fault_message_header(out->head, "Connection"), "close");
  if (headless || out->status == 204 || out->status == 304) return with_length(bytes, 0, out);
  if (out->chunked) return with_chunks(bytes, out);
  if (length_of(out->head, &n)) return with_length(bytes, n, out);
  out->last = true;
  return ended ? with_length(bytes, bytes.n - out->head.n, out) : FAULT_MORE;
}

fault_progress fault_message_answer(mt_slice bytes, bool headless, bool ended, fault_message *out) {
  for (;;) {
    *out = (fault_message){.head = find_head(bytes)};
    if (!out->head.n) return ended ? FAULT_BAD : FAULT_MORE;
    if (out->head.n < 16 || memcmp(out->head.p, "HTTP/1.", 7) != 0) return FAULT_BAD;
    out->status = atoi(out->head.p + 9);
    if (out->status >= 200) break;
    bytes = (mt_slice){bytes.p + out->head.n, bytes.n - out->head.n};
  }
  fault_progress progress = final_answer(bytes, headless, ended, out);
  return progress == FAULT_MORE && ended ? FAULT_BAD : progress;
}

bool fault_message_body(const fault_message *m, mt_buf *out) {
  if (!m->chunked) {
    mt_buf_addslice(out, m->body);
    return true;
  }
  const char *p = m->body.p, *end = p + m->body.n;
  mt_slice data;
  do {
    if (next_chunk(&p, end, &data) != FAULT_WHOLE) return false;
    mt_buf_addslice(out, data);
  } while (data.n);
  return true;
}
