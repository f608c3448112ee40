/* The error made of a server's refusal. The input is a status (two bytes) and the answer. */
#include "fuzz.h"
#include "http/http.h"

static bool ended(const char *text, size_t size) {
  return memchr(text, '\0', size) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (n < 2) return 0;
  mt_http_req req = {.status = 200 + (data[0] << 8 | data[1]) % 400, .node_url = "http://h:9200"};
  mortise_error err;
  mt_buf_init(&req.answer, 1 << 20);
  mt_buf_add(&req.answer, (const char *)data + 2, n - 2);
  req.idempotent = data[1] & 1;
  mortise_status status = mt_http_status(&req, "a test", &err);
  MUST((status == MORTISE_OK) == (req.status < 300));
  if (status) {
    MUST(err.code == status && err.http_status == req.status);
    MUST(ended(err.message, sizeof err.message) && ended(err.type, sizeof err.type) &&
         ended(err.reason, sizeof err.reason));
    MUST(!strncmp(err.message, "a test: http://h:9200 answered ", 31));
    MUST(err.ambiguous == (req.status >= 500 || req.status == 408)); /* a proxy gave up waiting */
    MUST(!err.retryable || !err.ambiguous || req.idempotent);
  }
  mt_buf_deinit(&req.answer);
  return 0;
}
