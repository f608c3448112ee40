#include "bench.h"

#include "base/json.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>

enum { ANSWER_MAX = 256 << 20, THREADS_MAX = 16, SOCKET_BUFFER = 512 << 10 };

static size_t take(char *p, size_t size, size_t n, void *ctx) {
  mt_buf *b = ctx;
  mt_buf_add(b, p, size * n);
  return b->failed ? 0 : size * n;
}

static CURL *handle(mt_buf *answer, struct curl_slist **headers, const char *type) {
  CURL *c = curl_easy_init();
  *headers = curl_slist_append(NULL, type);
  *headers = curl_slist_append(*headers, "Expect:");
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, *headers);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, answer);
  curl_easy_setopt(c, CURLOPT_BUFFERSIZE, (long)SOCKET_BUFFER);
  curl_easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, (long)SOCKET_BUFFER);
  return c;
}

static long perform(CURL *c, const char *url, mt_slice body) {
  long status = 0;
  curl_easy_setopt(c, CURLOPT_URL, url);
  if (body.p) {
    curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
    curl_easy_setopt(c, CURLOPT_POSTFIELDS, body.p);
  }
  if (curl_easy_perform(c)) return 0;
  curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

long raw_call(const char *method, const char *url, mt_slice body, mt_buf *answer) {
  mt_buf own;
  struct curl_slist *headers;
  mt_buf_init(&own, ANSWER_MAX);
  CURL *c = handle(answer ? answer : &own, &headers, "Content-Type: application/json");
  if (body.p) curl_easy_setopt(c, CURLOPT_POST, 1L);
  curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
  long status = perform(c, url, body);
  curl_easy_cleanup(c);
  curl_slist_free_all(headers);
  mt_buf_deinit(&own);
  return status;
}

static void add(raw_stats *to, const raw_stats *from) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  to->requests += from->requests;
  to->sent += from->sent;
  to->received += from->received;
  to->hits += from->hits;
  to->failures += from->failures;
  pthread_mutex_unlock(&mutex);
}

/* ---- Posting -------------------------------------------------------------------------------- */

typedef struct poster {
  const char *url;
  const mt_slice *requests;
  size_t n;
  _Atomic size_t next;
  raw_stats *stats;
} poster;

static void *post_thread(void *ctx) {
  poster *p = ctx;
  raw_stats s = {0};
  mt_buf answer;
  struct curl_slist *headers;
  mt_buf_init(&answer, ANSWER_MAX);
  CURL *c = handle(&answer, &headers, "Content-Type: application/x-ndjson");
  curl_easy_setopt(c, CURLOPT_POST, 1L);
  for (size_t i; (i = p->next++) < p->n;) {
    mt_buf_clear(&answer);
    bool ok = perform(c, p->url, p->requests[i]) == 200 && strstr(answer.p, "\"errors\":false");
    if (!ok) fprintf(stderr, "bulk %zu: %.200s\n", i, answer.p ? answer.p : "");
    s.failures += !ok;
    s.requests++;
    s.sent += p->requests[i].n;
    s.received += answer.n;
  }
  curl_easy_cleanup(c);
  curl_slist_free_all(headers);
  mt_buf_deinit(&answer);
  add(p->stats, &s);
  return NULL;
}

static void in_threads(void *(*run)(void *), void *args[], int n) {
  pthread_t threads[THREADS_MAX];
  for (int i = 0; i < n; i++) pthread_create(&threads[i], NULL, run, args[i]);
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

void raw_post(const char *url, const mt_slice *requests, size_t n, int connections,
              raw_stats *stats) {
  poster p = {.url = url, .requests = requests, .n = n, .stats = stats};
  void *args[THREADS_MAX];
  for (int i = 0; i < connections; i++) args[i] = &p;
  in_threads(post_thread, args, connections);
}

/* ---- Scrolling ------------------------------------------------------------------------------ */

typedef struct scroller {
  const char *base, *index, *query;
  int page, slice, slices;
  raw_stats *stats;
} scroller;

/* Reads only the cursor, and whether this is the end. */
static bool next_body(const mt_buf *answer, mt_buf *body, raw_stats *s) {
  static const char key[] = "\"_scroll_id\":\"";
  const char *id = answer->p ? strstr(answer->p, key) : NULL;
  size_t hits = 0;
  for (const char *p = answer->p; p && (p = strstr(p, "\"_seq_no\":")); p++) hits++;
  s->hits += hits;
  if (!id || !hits) return false;
  id += sizeof key - 1;
  mt_buf_clear(body);
  mt_buf_addf(body, "{\"scroll\":\"1m\",\"scroll_id\":\"%.*s\"}", (int)strcspn(id, "\""), id);
  return true;
}

static void *scan_thread(void *ctx) {
  scroller *p = ctx;
  raw_stats s = {0};
  mt_buf answer, body;
  struct curl_slist *headers;
  char url[512], next[512];
  static const char filter[] = "filter_path=_scroll_id,hits.hits._id,hits.hits._source,"
                               "hits.hits._seq_no,hits.hits._primary_term";
  snprintf(url, sizeof url, "%s/%s/_search?scroll=1m&%s", p->base, p->index, filter);
  snprintf(next, sizeof next, "%s/_search/scroll?%s", p->base, filter);
  mt_buf_init(&answer, ANSWER_MAX);
  mt_buf_init(&body, 1 << 20);
  mt_buf_addf(&body, "{\"size\":%d,\"query\":%s,\"sort\":[\"_doc\"],\"seq_no_primary_term\":true",
              p->page, p->query);
  if (p->slices > 1) mt_buf_addf(&body, ",\"slice\":{\"id\":%d,\"max\":%d}", p->slice, p->slices);
  mt_buf_adds(&body, "}");
  CURL *c = handle(&answer, &headers, "Content-Type: application/json");
  curl_easy_setopt(c, CURLOPT_POST, 1L);
  bool more = true;
  for (const char *at = url; more; at = next) {
    mt_buf_clear(&answer);
    bool ok = perform(c, at, mt_buf_slice(&body)) == 200;
    if (!ok) fprintf(stderr, "scan: %.200s\n", answer.p ? answer.p : "");
    s.failures += !ok;
    s.requests++;
    s.received += answer.n;
    more = ok && next_body(&answer, &body, &s);
  }
  curl_easy_cleanup(c);
  curl_slist_free_all(headers);
  mt_buf_deinit(&answer);
  mt_buf_deinit(&body);
  add(p->stats, &s);
  return NULL;
}

void raw_scan(const char *base, const char *index, const char *query, int page, int slices,
              raw_stats *stats) {
  scroller parts[THREADS_MAX];
  void *args[THREADS_MAX];
  for (int i = 0; i < slices; i++) {
    parts[i] = (scroller){base, index, query, page, i, slices, stats};
    args[i] = &parts[i];
  }
  in_threads(scan_thread, args, slices);
}
