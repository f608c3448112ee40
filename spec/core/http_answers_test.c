/* Compressed answers, and endless headers. */
#include "http_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static bool send_bomb(test_conn *c, const test_request *req, void *ctx) {
  const size_t *size = ctx;
  (void)req;
  uLong bound = compressBound(*size) + 64;
  char *zeros = calloc(1, *size), *out = malloc(bound);
  z_stream z = {.next_in = (Bytef *)zeros,
                .avail_in = (uInt)*size,
                .next_out = (Bytef *)out,
                .avail_out = (uInt)bound};
  deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
  deflate(&z, Z_FINISH);
  test_sendf(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %lu\r\n\r\n",
             z.total_out);
  test_send(c, out, z.total_out);
  deflateEnd(&z);
  free(zeros);
  free(out);
  return true;
}

static void gzip_answers(void **state) {
  (void)state;
  for (int large = 0; large < 2; large++) {
    size_t size = large ? 20 << 20 : 1 << 20;
    fixture f = {.config = {.answer_max = 1 << 20}};
    fixture_open_far(&f, send_bomb, &size);
    mt_http_req req = fixture_request(&f, "GET", "/", NULL);
    fixture_run(&f, &req);
    if (large) {
      assert_failed(&req, MORTISE_REJECTED, true, "larger than 1048576 bytes");
    } else {
      assert_answer(&req, 200, NULL);
      assert_int_equal(req.answer.n, size);
    }
    mt_http_req_deinit(&req);
    fixture_close(&f);
  }
}

/* A gzip answer, as a test wants it. */
typedef struct packed {
  const char *encoding;
  char bytes[512];
  size_t n;    /* bytes that are sent */
  size_t step; /* in pieces of so many */
} packed;

static bool send_packed(test_conn *c, const test_request *req, void *ctx) {
  const packed *p = ctx;
  (void)req;
  test_sendf(c, "HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %zu\r\n\r\n",
             p->encoding, p->n);
  for (size_t at = 0; at < p->n; at += p->step)
    test_send(c, p->bytes + at, p->n - at < p->step ? p->n - at : p->step);
  return true;
}

static const char packed_text[] = "{\"count\":1,\"_shards\":{\"total\":1,\"successful\":1}}";

static packed pack_text(void) {
  packed p = {.encoding = "gzip", .step = sizeof p.bytes};
  z_stream z = {.next_in = (Bytef *)(uintptr_t)packed_text,
                .avail_in = sizeof packed_text - 1,
                .next_out = (Bytef *)p.bytes,
                .avail_out = sizeof p.bytes};
  deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  p.n = z.total_out;
  deflateEnd(&z);
  return p;
}

/* The server's answer to three requests in a row; NULL: each fails with `says`. */
static void unpacks(packed *p, bool far, size_t answer_max, const char *wanted, const char *says) {
  fixture f = {.config = {.answer_max = answer_max}};
  if (far)
    fixture_open_far(&f, send_packed, p);
  else
    fixture_open(&f, send_packed, p);
  for (int i = 0; i < 3; i++) {
    mt_http_req req = fixture_request(&f, "POST", "/", "{}");
    fixture_run(&f, &req);
    if (wanted)
      assert_answer(&req, 200, wanted);
    else
      assert_failed(&req, req.error.code, true, says);
    mt_http_req_deinit(&req);
  }
  fixture_close(&f);
}

static void packed_answers(void **state) {
  (void)state;
  for (int far = 0; far < 2; far++) {
    packed p = pack_text();
    const size_t whole = p.n;
    unpacks(&p, far, 0, packed_text, NULL);
    unpacks(&p, far, sizeof packed_text - 1, packed_text, NULL);
    unpacks(&p, far, sizeof packed_text - 2, NULL, "larger than");
    p.step = 1;
    unpacks(&p, far, 0, packed_text, NULL);
    p.encoding = "X-GZIP ";
    unpacks(&p, far, 0, packed_text, NULL);
    for (p.n = 1; p.n < whole; p.n++) unpacks(&p, far, 0, NULL, "compressed body ends too early");
    p.n = 0;
    unpacks(&p, far, 0, "", NULL);
    p.n = whole + 1;
    unpacks(&p, far, 0, NULL, "compression is broken or unknown");
    p.n = whole;
    p.bytes[whole - 6] ^= 1; /* the checksum */
    unpacks(&p, far, 0, NULL, "compression is broken or unknown");
    p.encoding = "br";
    unpacks(&p, far, 0, NULL, "compression is broken or unknown");
    p.encoding = "identity";
    p.n = 0;
    unpacks(&p, far, 0, "", NULL);
  }
}

/* ---- heads without end ---- */

typedef enum endless { LINES, LINE, INTERIM } endless;

static bool send_endless(test_conn *c, const test_request *req, void *ctx) {
  static char text[4000];
  (void)req;
  memset(text, 'a', sizeof text - 1);
  endless what = *(const endless *)ctx;
  test_sendf(c, what == INTERIM ? "" : "HTTP/1.1 200 OK\r\n");
  if (what == LINE) test_sendf(c, "X: ");
  for (int i = 0; i < 100; i++) {
    if (what == INTERIM) test_sendf(c, "HTTP/1.1 103 Early Hints\r\n");
    test_sendf(c, what == LINE ? "%s" : "X: %s\r\n", text);
    if (what == INTERIM) test_sendf(c, "\r\n");
  }
  return false;
}

static void endless_heads(void **state) {
  (void)state;
  static const char *const says[] = {"the answer's head is larger than 262144 bytes",
                                     "a line of the answer's head is longer than 100 KB",
                                     "the answer's head is larger than 262144 bytes"};
  for (endless what = LINES; what <= INTERIM; what++) {
    fixture f = {0};
    fixture_open(&f, send_endless, &what);
    mt_http_req req = fixture_request(&f, "POST", "/", "{}");
    fixture_run(&f, &req);
    assert_failed(&req, MORTISE_UNAVAILABLE, true, says[what]);
    mt_http_req_deinit(&req);
    fixture_close(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gzip_answers),
      cmocka_unit_test(packed_answers),
      cmocka_unit_test(endless_heads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
