#include "bench.h"

#include "elastic/internal.h"
#include "lock/path.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
  BODY_BYTES_MAX = 256 << 20,
  BUFFER = 256 << 10,
  THREADS_MAX = 16,
  TRIES_MAX = 200,
  BUSY_US = 50000
};

/* ---- Lines ----------------------------------------------------------------------------------- */

static void add_line(mt_buf *b, const char *action, const char *path) {
  mt_buf_addf(b, "{\"%s\":{\"_id\":\"" RAW_NS ":%s\"}}\n", action, path);
}

static void add_script(mt_buf *b, const char *id, const char *session, uint64_t n) {
  mt_buf_addf(b, "{\"script\":{\"id\":\"%s\",\"params\":{\"session\":\"%s\",\"n\":%llu", id,
              session, (unsigned long long)n);
}

void raw_add_set(mt_buf *b, const char *session, uint64_t n, const char *path) {
  add_line(b, "update", path);
  add_script(b, MT_SCRIPT_SET, session, n);
  mt_buf_addf(b,
              ",\"mode\":\"IX\",\"fresh\":true}},\"scripted_upsert\":"
              "true,\"upsert\":{\"kind\":\"lock\",\"path\":\"%s\",\"holders\":[],\"queue\":[]}}\n",
              path);
}

void raw_add_create(mt_buf *b, const char *session, uint64_t n, const char *path) {
  add_line(b, "create", path);
  mt_buf_addf(b,
              "{\"kind\":\"lock\",\"path\":\"%s\",\"holders\":[{\"session\":\"%s\",\"n\":%llu,"
              "\"mode\":\"X\",\"since\":1700000000000}],\"queue\":[],\"sessions\":[\"%s\"]}\n",
              path, session, (unsigned long long)n, session);
}

void raw_add_release(mt_buf *b, const char *session, uint64_t n, const char *path) {
  add_line(b, "update", path);
  add_script(b, MT_SCRIPT_RELEASE, session, n);
  mt_buf_adds(b, "}}}\n");
}

void raw_add_delete(mt_buf *b, const char *path) {
  add_line(b, "delete", path);
}

/* Calls `add` for the ancestors, the root first; or the other way round. */
static size_t ancestors(const char *path, mt_slice out[MT_PATH_DEPTH]) {
  size_t n = mt_path_depth(mt_slice_of(path));
  mt_slice at = mt_slice_of(path);
  for (size_t i = n; i-- > 0;) out[i] = at = mt_path_parent(at);
  return n;
}

void raw_tree_take(mt_buf *b, const char *session, const char *path) {
  mt_slice ups[MT_PATH_DEPTH];
  char text[MT_PATH_MAX + 1];
  size_t n = ancestors(path, ups);
  for (size_t i = 0; i < n; i++) {
    snprintf(text, sizeof text, "%.*s", (int)ups[i].n, ups[i].p);
    raw_add_set(b, session, i + 1, text);
  }
  raw_add_create(b, session, n + 1, path);
}

void raw_tree_give(mt_buf *b, const char *session, const char *path) {
  mt_slice ups[MT_PATH_DEPTH];
  char text[MT_PATH_MAX + 1];
  raw_add_delete(b, path);
  for (size_t i = ancestors(path, ups); i-- > 0;) {
    snprintf(text, sizeof text, "%.*s", (int)ups[i].n, ups[i].p);
    raw_add_release(b, session, i + 1, text);
  }
}

/* ---- One connection -------------------------------------------------------------------------- */

struct raw_link {
  CURL *curl;
  struct curl_slist *headers;
  mt_buf answer, again;
};

static size_t take(char *p, size_t size, size_t n, void *ctx) {
  mt_buf *b = ctx;
  mt_buf_add(b, p, size * n);
  return b->failed ? 0 : size * n;
}

raw_link *raw_open(const options *o) {
  char url[1024];
  raw_link *l = calloc(1, sizeof *l);
  if (!l) abort();
  snprintf(url, sizeof url,
           "%s/" TABLE "/_bulk?require_alias=true&filter_path=items.*.status,items.*._seq_no,"
           "items.*._primary_term,items.*.result,items.*.error.type,items.*.error.reason,"
           "items.*.error.caused_by,items.*.get._source&timeout=30000ms",
           o->url);
  mt_buf_init(&l->answer, BODY_BYTES_MAX);
  mt_buf_init(&l->again, BODY_BYTES_MAX);
  l->headers = curl_slist_append(NULL, "Content-Type: application/json");
  l->headers = curl_slist_append(l->headers, "Expect:");
  l->curl = curl_easy_init();
  curl_easy_setopt(l->curl, CURLOPT_URL, url);
  curl_easy_setopt(l->curl, CURLOPT_POST, 1L);
  curl_easy_setopt(l->curl, CURLOPT_HTTPHEADER, l->headers);
  curl_easy_setopt(l->curl, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(l->curl, CURLOPT_WRITEDATA, &l->answer);
  curl_easy_setopt(l->curl, CURLOPT_BUFFERSIZE, (long)BUFFER);
  curl_easy_setopt(l->curl, CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER);
  return l;
}

void raw_close(raw_link *l) {
  curl_easy_cleanup(l->curl);
  curl_slist_free_all(l->headers);
  mt_buf_deinit(&l->answer);
  mt_buf_deinit(&l->again);
  free(l);
}

static long post_once(raw_link *l, mt_slice body, sample *s) {
  long status = 0;
  mt_buf_clear(&l->answer);
  curl_easy_setopt(l->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
  curl_easy_setopt(l->curl, CURLOPT_POSTFIELDS, body.p);
  if (!curl_easy_perform(l->curl)) curl_easy_getinfo(l->curl, CURLINFO_RESPONSE_CODE, &status);
  s->trips++;
  return status;
}

/* A server that is short of memory answers 429, which means: try later. */
static bool post(raw_link *l, mt_slice body, sample *s) {
  long status = post_once(l, body, s);
  for (int tries = 0; status == 429 && tries < TRIES_MAX; tries++) {
    usleep(BUSY_US);
    status = post_once(l, body, s);
  }
  if (status == 200) return true;
  s->failures++;
  fprintf(stderr, "raw bulk: status %ld: %.200s\n", status, l->answer.p ? l->answer.p : "");
  return false;
}

/* The next action with its body, where it has one. */
static mt_slice next_item(mt_slice *body) {
  const char *end = memchr(body->p, '\n', body->n);
  if (!end) return (mt_slice){NULL, 0};
  if (!mt_slice_starts(*body, MT_SLICE("{\"delete\"")))
    end = memchr(end + 1, '\n', body->n - (size_t)(end + 1 - body->p));
  mt_slice item = {body->p, (size_t)(end + 1 - body->p)};
  *body = (mt_slice){end + 1, body->n - item.n};
  return item;
}

/* Collects what is to be sent again; other refusals are failures. */
static bool refused(raw_link *l, mt_slice body, mt_buf *again, sample *s) {
  static const char key[] = "\"status\":";
  const char *p = l->answer.p;
  mt_slice item;
  while ((item = next_item(&body)).p && p && (p = strstr(p, key))) {
    p += sizeof key - 1;
    int status = atoi(p);
    bool script = mt_slice_starts(item, MT_SLICE("{\"update\""));
    if (status == 409 && script) {
      s->conflicts++;
      mt_buf_addslice(again, item);
    } else if (status >= 300) {
      s->failures++;
    }
  }
  if (!p) s->failures++; /* fewer answers than items */
  return again->n > 0;
}

void raw_bulk(raw_link *l, mt_slice body, sample *s) {
  mt_buf again;
  mt_buf_init(&again, BODY_BYTES_MAX);
  for (int tries = 0; tries < TRIES_MAX && post(l, body, s); tries++) {
    mt_buf_clear(&again);
    if (!strstr(l->answer.p, "\"error\"") || !refused(l, body, &again, s)) break;
    mt_buf old = l->again;
    l->again = again;
    again = old;
    body = mt_buf_slice(&l->again);
  }
  mt_buf_deinit(&again);
}

bool raw_try(raw_link *l, mt_slice body, sample *s) {
  return post(l, body, s) && !strstr(l->answer.p, "\"error\"");
}

bool raw_drop_table(const options *o) {
  char url[1024];
  sample s = {0};
  raw_link *l = raw_open(o);
  snprintf(url, sizeof url, "%s/" TABLE "-000001", o->url);
  curl_easy_setopt(l->curl, CURLOPT_URL, url);
  curl_easy_setopt(l->curl, CURLOPT_CUSTOMREQUEST, "DELETE");
  curl_easy_setopt(l->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0);
  curl_easy_setopt(l->curl, CURLOPT_POSTFIELDS, "");
  long status = 0;
  if (!curl_easy_perform(l->curl)) curl_easy_getinfo(l->curl, CURLINFO_RESPONSE_CODE, &status);
  raw_close(l);
  (void)s;
  return status == 200 || status == 404;
}

bool raw_get(const options *o, const char *path, mt_buf *answer) {
  char url[1024];
  long status = 0;
  CURL *curl = curl_easy_init();
  snprintf(url, sizeof url, "%s%s", o->url, path);
  curl_easy_setopt(curl, CURLOPT_URL, url);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
  if (!curl_easy_perform(curl)) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_cleanup(curl);
  return status == 200;
}

/* ---- Several connections --------------------------------------------------------------------- */

typedef struct poster {
  const options *o;
  const mt_buf *bodies;
  size_t n, first, step;
  sample s;
} poster;

static void *post_thread(void *ctx) {
  poster *p = ctx;
  raw_link *l = raw_open(p->o);
  for (size_t i = p->first; i < p->n; i += p->step) raw_bulk(l, mt_buf_slice(&p->bodies[i]), &p->s);
  raw_close(l);
  return NULL;
}

void raw_all(const options *o, const mt_buf *bodies, size_t n, size_t connections, sample *s) {
  pthread_t threads[THREADS_MAX];
  poster posters[THREADS_MAX];
  for (size_t i = 0; i < connections; i++) {
    posters[i] = (poster){.o = o, .bodies = bodies, .n = n, .first = i, .step = connections};
    if (pthread_create(&threads[i], NULL, post_thread, &posters[i])) abort();
  }
  for (size_t i = 0; i < connections; i++) {
    pthread_join(threads[i], NULL);
    s->trips += posters[i].s.trips;
    s->conflicts += posters[i].s.conflicts;
    s->failures += posters[i].s.failures;
  }
}
