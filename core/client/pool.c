#include "client/pool.h"

#include "base/mem.h"
#include "client/options.h"
#ifdef MORTISE_SERVERS
#include "elastic/elastic.h"
#endif
#ifdef MORTISE_EMBEDDED
#include "sqlite/sqlite.h"
#endif

typedef struct mt_pooled {
  mortise_options options; /* strings owned */
  mt_store *store;
  size_t users;
  struct mt_pooled *next;
} mt_pooled;

/* ---- Opening -------------------------------------------------------------------------------- */

#if !defined MORTISE_SERVERS || !defined MORTISE_EMBEDDED
static mt_store *refuse_store(const char *what, mortise_error *err) {
  mt_error_set(err, MORTISE_UNSUPPORTED, "store: this mortise was built without %s", what);
  return NULL;
}
#endif

#ifdef MORTISE_EMBEDDED
static mt_store *open_embedded(const mt_pool *pool, const mortise_options *o, const mt_log *log, mortise_error *err) {
  const char *file = o->store + 7;
  if (!*file) {
    mt_error_set(err, MORTISE_INVALID_ARGUMENT, "store: `sqlite:` names no file");
    return NULL;
  }
  mt_store *store = (pool->again ? mt_sqlite_open_again : mt_sqlite_open)(pool->loop, file, o->request_ms, log, err);
  if (!store && err && err->code == MORTISE_INVALID_ARGUMENT) mt_error_prefix(err, "store");
  return store;
}

#else
static mt_store *open_embedded(const mt_pool *pool, const mortise_options *o, const mt_log *log, mortise_error *err) {
  (void)pool, (void)o, (void)log;
  return refuse_store("embedded stores", err);
}
#endif

#ifdef MORTISE_SERVERS
static mt_store *open_server(const mt_pool *pool, const mortise_options *o, const mt_log *log, mortise_error *err) {
  const mt_http_config config = {
      .nodes = o->store,
      .user = o->user,
      .password = o->password,
      .api_key = o->api_key,
      .bearer = o->bearer,
      .api_key_command = o->api_key_command,
      .bearer_command = o->bearer_command,
      .aws = o->aws,
      .aws_region = o->aws_region,
      .ca_file = o->ca_file,
      .cert_file = o->cert_file,
      .key_file = o->key_file,
      .insecure = o->insecure,
      .proxy = o->proxy,
      .unix_socket = o->unix_socket,
      .sniff = o->sniff,
      .connect_ms = o->connect_ms,
      .request_ms = o->request_ms,
      .answer_max = o->answer_max,
      .gzip_min = 8192,
  };
  return mt_elastic_open(pool->loop, &config, o->table, log, err);
}

#else
static mt_store *open_server(const mt_pool *pool, const mortise_options *o, const mt_log *log, mortise_error *err) {
  (void)pool, (void)o, (void)log;
  return refuse_store("stores on Elasticsearch and OpenSearch", err);
}
#endif

static mt_store *open_pooled(const mt_pool *pool, const mortise_options *o, mortise_error *err) {
  const char *url = o->store;
  const mt_log log = {o->log, o->log_ctx};
  if (strncmp(url, "sqlite:", 7) == 0) return open_embedded(pool, o, &log, err);
  if (!strncmp(url, "http://", 7) || !strncmp(url, "https://", 8) || !strncmp(url, "cloud:", 6))
    return open_server(pool, o, &log, err);
  mt_error_set(err, MORTISE_INVALID_ARGUMENT, "store: %s, this is neither", mt_client_option_rows[MT_AT_store].help);
  return NULL;
}

/* ---- Sharing -------------------------------------------------------------------------------- */

static void free_pooled(mt_pooled *p) {
  mt_store_close(p->store);
  mt_client_options_deinit(&p->options);
  mt_free(p);
}

mt_store *mt_pool_get(mt_pool *pool, const mortise_options *options, mortise_error *err) {
  for (mt_pooled *p = pool->first; p; p = p->next)
    if (mt_client_options_same_store(&p->options, options)) {
      p->users++;
      return p->store;
    }
  mt_pooled *p = mt_calloc(1, sizeof *p);
  if (!p || !mt_client_options_copy(&p->options, options)) {
    if (p) free_pooled(p);
    mt_error_memory(err);
    return NULL;
  }
  p->store = open_pooled(pool, &p->options, err);
  if (!p->store) {
    free_pooled(p);
    return NULL;
  }
  p->users = 1;
  p->next = pool->first;
  pool->first = p;
  return p->store;
}

void mt_pool_put(mt_pool *pool, mt_store *store) {
  if (!store) return;
  mt_pooled **link = &pool->first;
  while ((*link)->store != store) link = &(*link)->next;
  mt_pooled *p = *link;
  if (--p->users) return;
  *link = p->next;
  free_pooled(p);
}
