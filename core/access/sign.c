#include "access/sign.h"

#include "base/hash.h"
#include "base/mem.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <time.h>

enum { HASH = 32, HEX = 2 * HASH + 1, TEXT_MAX = 1 << 20, PARAMETERS_MAX = 1024 };

static const char algorithm[] = "AWS4-HMAC-SHA256";

/* ---- Escaping ------------------------------------------------------------------------------- */

static bool is_unreserved(unsigned char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr("-_.~", c));
}

static void add_byte(mt_buf *out, unsigned char c) {
  if (is_unreserved(c))
    mt_buf_addc(out, (char)c);
  else
    mt_buf_addf(out, "%%%02X", c);
}

static int value_of_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = (char)(c | 32);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte at s.p[*i], decoded where it is an escape; moves *i behind it. */
static unsigned char next_byte(mt_slice s, size_t *i) {
  size_t at = (*i)++;
  if (s.p[at] != '%' || at + 2 >= s.n || value_of_digit(s.p[at + 1]) < 0 || value_of_digit(s.p[at + 2]) < 0)
    return (unsigned char)s.p[at];
  *i = at + 3;
  return (unsigned char)(value_of_digit(s.p[at + 1]) * 16 + value_of_digit(s.p[at + 2]));
}

void mt_sign_target(mt_slice target, mt_buf *out) {
  bool in_query = false;
  for (size_t i = 0; i < target.n;) {
    char c = target.p[i];
    bool parts = in_query ? c == '&' || c == '=' : c == '/' || c == '?';
    in_query |= c == '?';
    if (parts)
      mt_buf_addc(out, c), i++;
    else if (in_query && c == '+')
      mt_buf_adds(out, "%20"), i++;
    else
      add_byte(out, next_byte(target, &i));
  }
}

/* ---- The canonical request ------------------------------------------------------------------ */

typedef struct parameter {
  mt_slice name, value;
} parameter;

static int compare_parameters(const void *a, const void *b) {
  const parameter *x = a, *y = b;
  int order = mt_slice_cmp(x->name, y->name);
  return order ? order : mt_slice_cmp(x->value, y->value);
}

static void add_sorted_query(mt_buf *out, mt_slice query) {
  parameter *all = NULL;
  size_t n = 0, cap = 0;
  while (query.n) {
    mt_slice one = mt_slice_cut(&query, '&');
    if (!one.n) continue;
    if (!mt_grow((void **)&all, &cap, n + 1, sizeof *all, PARAMETERS_MAX)) {
      mt_buf_fail(out, MORTISE_OUT_OF_MEMORY);
      break;
    }
    all[n].name = mt_slice_cut(&one, '=');
    all[n++].value = one;
  }
  if (n) qsort(all, n, sizeof *all, compare_parameters);
  for (size_t i = 0; i < n; i++) {
    if (i) mt_buf_addc(out, '&');
    mt_buf_addslice(out, all[i].name);
    mt_buf_addc(out, '=');
    mt_buf_addslice(out, all[i].value);
  }
  mt_free(all);
}

/* Each segment of the path is escaped once more. */
static void add_path(mt_buf *out, mt_slice path) {
  for (size_t i = 0; i < path.n; i++)
    if (path.p[i] == '/')
      mt_buf_addc(out, '/');
    else
      add_byte(out, (unsigned char)path.p[i]);
}

typedef struct moment {
  char date[9], time[17]; /* "20261126", "20261126T101112Z" */
} moment;

static void add_canonical(mt_buf *out, const mt_sign *s, const moment *at, const char *hash) {
  mt_slice query = s->target, path = mt_slice_cut(&query, '?');
  mt_buf_addf(out, "%s\n", s->method);
  add_path(out, path);
  mt_buf_addc(out, '\n');
  add_sorted_query(out, query);
  mt_buf_adds(out, "\nhost:");
  mt_buf_addslice(out, s->host);
  mt_buf_addf(out, "\nx-amz-content-sha256:%s\nx-amz-date:%s\n", hash, at->time);
  if (*s->session) mt_buf_addf(out, "x-amz-security-token:%s\n", s->session);
}

/* ---- The signature -------------------------------------------------------------------------- */

static bool mac(const void *key, size_t n, const char *text, unsigned char out[HASH]) {
  unsigned size = 0;
  return HMAC(EVP_sha256(), key, (int)n, (const unsigned char *)text, strlen(text), out, &size) && size == HASH;
}

static bool sign_text(const mt_sign *s, const moment *at, const char *text, char hex[HEX]) {
  unsigned char a[HASH], b[HASH];
  mt_buf first;
  mt_buf_init(&first, TEXT_MAX);
  mt_buf_addf(&first, "AWS4%s", s->secret);
  bool ok = !first.failed && mac(first.p, first.n, at->date, a) && mac(a, HASH, s->region, b) &&
            mac(b, HASH, s->service, a) && mac(a, HASH, "aws4_request", b) && mac(b, HASH, text, a);
  if (ok) mt_hex(a, HASH, hex);
  explicit_bzero(b, sizeof b);
  mt_buf_wipe(&first);
  return ok;
}

static bool tell_moment(int64_t at_s, moment *out) {
  time_t t = (time_t)at_s;
  struct tm utc;
  return gmtime_r(&t, &utc) && strftime(out->date, sizeof out->date, "%Y%m%d", &utc) &&
         strftime(out->time, sizeof out->time, "%Y%m%dT%H%M%SZ", &utc);
}

/* Fills `canonical` and `text`; false if the library fails. */
static bool sign_canonical(const mt_sign *s, const moment *at, const char *hash, mt_buf *canonical, mt_buf *text,
                           char hex[HEX]) {
  char digest[HEX];
  add_canonical(canonical, s, at, hash);
  mt_buf_addf(canonical, "\nhost;x-amz-content-sha256;x-amz-date%s\n%s", *s->session ? ";x-amz-security-token" : "",
              hash);
  if (canonical->failed || !mt_sha256_hex(mt_buf_slice(canonical), digest)) return false;
  mt_buf_addf(text, "%s\n%s\n%s/%s/%s/aws4_request\n%s", algorithm, at->time, at->date, s->region, s->service,
              digest);
  return !text->failed && sign_text(s, at, text->p, hex);
}

mortise_status mt_sign_request(const mt_sign *s, mt_buf *out, size_t *n, mortise_error *err) {
  moment at;
  char hash[HEX], hex[HEX];
  mt_buf canonical, text;
  mt_buf_init(&canonical, 4 * TEXT_MAX);
  mt_buf_init(&text, TEXT_MAX);
  mt_buf_clear(out);
  *n = 0;
  bool ok = tell_moment(s->at_s, &at) && mt_sha256_hex(s->body, hash) &&
            sign_canonical(s, &at, hash, &canonical, &text, hex);
  if (ok) {
    mt_buf_addf(out, "Authorization: %s Credential=%s/%s/%s/%s/aws4_request, SignedHeaders=host;x-amz-content-sha256;"
                "x-amz-date%s, Signature=%s", algorithm, s->id, at.date, s->region, s->service,
                *s->session ? ";x-amz-security-token" : "", hex);
    mt_buf_addc(out, '\0');
    mt_buf_addf(out, "x-amz-date: %s", at.time);
    mt_buf_addc(out, '\0');
    mt_buf_addf(out, "x-amz-content-sha256: %s", hash);
    mt_buf_addc(out, '\0');
    *n = 3;
  }
  if (ok && *s->session) {
    mt_buf_addf(out, "x-amz-security-token: %s", s->session);
    mt_buf_addc(out, '\0');
    ++*n;
  }
  mortise_status status = mt_buf_status(out, "a signature", err);
  if (!status) status = mt_buf_status(&canonical, "a signature", err);
  if (!status) status = mt_buf_status(&text, "a signature", err);
  mt_buf_wipe(&canonical); /* it has the session's token */
  mt_buf_deinit(&text);
  if (!status && !ok) status = mt_error_set(err, MORTISE_UNSUPPORTED, "a request cannot be signed: libcrypto fails");
  return status;
}
