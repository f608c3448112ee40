/* The store: requests go to two threads, one for documents and one for locks, so that a heartbeat
 * never waits behind a batch of documents; answers come back through a descriptor that the loop
 * watches. */
#include "sqlite/sqlite.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/thread.h"
#include "sqlite/internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct op {
  mt_req *req;
  mt_work_fn *run;
  mt_work_fn *missing; /* run instead if the file is missing; NULL: create it */
  struct worker *worker;
  int64_t deadline_ms;
  atomic_bool cancelled;
  struct op *next;
} op;

typedef struct ops {
  op *first, *last;
  size_t n;
} ops;

typedef struct worker {
  struct sqlite_store *store;
  pthread_t thread;
  bool started, stop;
  pthread_cond_t wake; /* there is work, or `stop` is set */
  pthread_cond_t idle; /* `running` has changed */
  ops queue;
  op *running;
  mt_db db; /* used only by the thread */
} worker;

typedef struct sqlite_store {
  mt_store base;
  char *url;
  pthread_mutex_t mutex; /* guards the queues, `running`, `stop` and `finished` */
  worker documents, locks;
  ops finished;
  int event;
  mt_watch watch;
  mt_req *unsent; /* without memory for an op; linked by `op`, the last points to the store */
} sqlite_store;

/* ---- lines of work ---- */

static void push_op(ops *list, op *o) {
  o->next = NULL;
  if (list->last)
    list->last->next = o;
  else
    list->first = o;
  list->last = o;
  list->n++;
}

static op *pop_op(ops *list) {
  op *o = list->first;
  if (!o) return NULL;
  list->first = o->next;
  if (!list->first) list->last = NULL;
  list->n--;
  return o;
}

static bool remove_op(ops *list, op *o) {
  op *before = NULL;
  for (op *at = list->first; at; before = at, at = at->next) {
    if (at != o) continue;
    if (before)
      before->next = o->next;
    else
      list->first = o->next;
    if (list->last == o) list->last = before;
    list->n--;
    return true;
  }
  return false;
}

static void signal_loop(sqlite_store *s) {
  uint64_t one = 1;
  /* EAGAIN: the counter is full, so the loop will wake. */
  while (write(s->event, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

static void perform(worker *k, op *o) {
  mt_work w = {.db = &k->db,
               .documents = k->store->documents.db.file,
               .patience = {o->deadline_ms, &o->cancelled},
               .req = o->req};
  mortise_error *err = &o->req->error;
  mt_error_clear(err);
  mortise_status status = mt_work_check(&w, err);
  bool missing = o->missing && !w.db->handle && mt_file_is_missing(w.db->file);
  if (!status && !missing) status = mt_db_open(w.db, &w.patience, err);
  if (!status && !(missing ? o->missing : o->run)(&w, o->req, err)) mt_error_clear(err);
  if (w.db->handle) mt_db_end(w.db);
}

static void *work(void *ctx) {
  worker *k = ctx;
  sqlite_store *s = k->store;
  pthread_mutex_lock(&s->mutex);
  for (;;) {
    while (!k->stop && !k->queue.first) pthread_cond_wait(&k->wake, &s->mutex);
    if (k->stop) break;
    op *o = k->running = pop_op(&k->queue);
    pthread_mutex_unlock(&s->mutex);
    perform(k, o);
    pthread_mutex_lock(&s->mutex);
    k->running = NULL;
    push_op(&s->finished, o);
    signal_loop(s);
    pthread_cond_broadcast(&k->idle);
    pthread_mutex_unlock(&s->mutex);
    mt_db_tidy(&k->db);
    pthread_mutex_lock(&s->mutex);
  }
  pthread_mutex_unlock(&s->mutex);
  return NULL;
}

/* ---- submitting and delivering, on the loop's thread ---- */

static sqlite_store *store_of(mt_store *base) {
  return (sqlite_store *)base;
}

static mortise_status start_worker(worker *k, mortise_error *err) {
  if (k->started) return MORTISE_OK;
  int failed = mt_thread_start(&k->thread, work, k);
  if (failed)
    return mt_error_set(err, MORTISE_UNAVAILABLE, "cannot start a thread: %s", strerror(failed));
  k->started = true;
  return MORTISE_OK;
}

/* Makes the loop finish a request that never reached a worker. */
static void req_refuse(sqlite_store *s, mt_req *req) {
  req->op = s->unsent ? (void *)s->unsent : (void *)s;
  s->unsent = req;
  signal_loop(s);
}

static void submit(worker *k, mt_req *req, mt_work_fn *run, mt_work_fn *missing) {
  sqlite_store *s = k->store;
  MT_MUST(!req->op);
  req->finished = req->writes = false;
  mt_error_clear(&req->error);
  if (start_worker(k, &req->error)) {
    req_refuse(s, req);
    return;
  }
  op *o = mt_calloc(1, sizeof *o);
  if (!o) {
    mt_error_memory(&req->error);
    req_refuse(s, req);
    return;
  }
  o->req = req;
  o->run = run;
  o->missing = missing;
  o->worker = k;
  o->deadline_ms =
      req->deadline_ms ? req->deadline_ms : mt_loop_now(s->base.loop) + s->base.request_ms;
  req->op = o;
  s->base.stats.requests++;
  pthread_mutex_lock(&s->mutex);
  push_op(&k->queue, o);
  pthread_cond_signal(&k->wake);
  pthread_mutex_unlock(&s->mutex);
}

static op *take_finished_op(sqlite_store *s, size_t *left) {
  pthread_mutex_lock(&s->mutex);
  op *o = *left ? pop_op(&s->finished) : NULL;
  pthread_mutex_unlock(&s->mutex);
  if (o) --*left;
  return o;
}

static size_t count_finished(sqlite_store *s) {
  pthread_mutex_lock(&s->mutex);
  size_t n = s->finished.n;
  pthread_mutex_unlock(&s->mutex);
  return n;
}

static mt_req *take_unsent(sqlite_store *s) {
  mt_req *req = s->unsent;
  if (req) s->unsent = req->op == (void *)s ? NULL : req->op;
  return req;
}

static void count_conflicts(sqlite_store *s, const op *o) {
  if (o->run != mt_locks_batch) return;
  const mt_lock_batch *batch = (const mt_lock_batch *)(const void *)o->req;
  for (size_t i = 0; i < batch->n; i++)
    if (batch->items[i].result == MT_LOCK_CONFLICT) s->base.stats.conflicts++;
}

/* What callbacks submit is delivered in another step. */
static void deliver_finished(void *ctx, uint32_t events) {
  (void)events;
  sqlite_store *s = ctx;
  uint64_t count;
  while (read(s->event, &count, sizeof count) < 0 && errno == EINTR) {
  }
  size_t left = count_finished(s);
  op *o;
  while ((o = take_finished_op(s, &left)) != NULL) {
    mt_req *req = o->req;
    count_conflicts(s, o);
    mt_free(o);
    mt_req_finish(req);
  }
  mt_req *req;
  while ((req = take_unsent(s)) != NULL) mt_req_finish(req);
  if (count_finished(s)) signal_loop(s); /* a callback that pumped the loop consumed their signal */
}

/* Frees results of a cancelled request that no deinit function would free. */
static void drop_answer(const op *o) {
  if (o->run == mt_docs_scan_open) {
    mt_scan_open *r = (mt_scan_open *)(void *)o->req;
    mt_docs_scan_free(r->scan);
    r->scan = NULL;
  }
  if (o->run == mt_docs_scan_next) {
    mt_scan_next *r = (mt_scan_next *)(void *)o->req;
    mt_page_free(r->page);
    r->page = NULL;
  }
  if (o->run == mt_locks_list) {
    mt_lock_list *r = (mt_lock_list *)(void *)o->req;
    mt_locks_listing_free(r->listing);
    r->listing = NULL;
  }
}

static bool cancel_unsent(sqlite_store *s, mt_req *req) {
  mt_req *before = NULL;
  for (mt_req *at = s->unsent; at; before = at, at = at->op == (void *)s ? NULL : at->op) {
    if (at != req) continue;
    if (before)
      before->op = req->op;
    else
      s->unsent = req->op == (void *)s ? NULL : req->op;
    return true;
  }
  return false;
}

/* A running op is told to stop and waited for, for one transaction at most. */
static bool cancel_op(mt_store *base, mt_req *req) {
  sqlite_store *s = store_of(base);
  if (cancel_unsent(s, req)) {
    req->op = NULL;
    return false;
  }
  op *o = req->op;
  req->op = NULL;
  atomic_store_explicit(&o->cancelled, true, memory_order_release);
  pthread_mutex_lock(&s->mutex);
  while (o->worker->running == o) pthread_cond_wait(&o->worker->idle, &s->mutex);
  bool done = !remove_op(&o->worker->queue, o);
  if (done) remove_op(&s->finished, o);
  pthread_mutex_unlock(&s->mutex);
  if (done) drop_answer(o);
  mt_free(o);
  return done && mt_req_applied(req);
}

/* ---- the two tables ---- */

#define DOCS(name, type, missing)                                                                  \
  static void submit_##name(mt_store *s, type *r) {                                                \
    submit(&store_of(s)->documents, &r->req, mt_docs_##name, missing);                             \
  }
DOCS(describe, mt_describe, mt_docs_describe_missing)
DOCS(index_create, mt_index_admin, NULL)
DOCS(index_drop, mt_index_admin, mt_work_missing)
DOCS(settings, mt_index_admin, mt_work_missing)
DOCS(block, mt_index_admin, mt_work_missing)
DOCS(unblock, mt_index_admin, mt_work_missing)
DOCS(aliases, mt_aliases, mt_docs_aliases_missing)
DOCS(alias_move, mt_alias_move, mt_work_missing)
DOCS(mget, mt_mget, mt_work_missing)
DOCS(bulk, mt_bulk, NULL)
DOCS(count, mt_count, mt_work_missing)
DOCS(refresh, mt_refresh, mt_work_missing)
DOCS(search, mt_search, mt_work_missing)
DOCS(scan_open, mt_scan_open, mt_work_missing)
DOCS(scan_next, mt_scan_next, mt_work_missing)
DOCS(shards, mt_shards, mt_work_missing)
DOCS(intervals, mt_intervals, mt_work_missing)
DOCS(range, mt_range, mt_work_missing)
DOCS(range_end, mt_index_admin, mt_work_missing)
DOCS(update_by_query, mt_update_by_query, mt_work_missing)
DOCS(task, mt_server_task, mt_docs_task)
DOCS(task_find, mt_server_task_find, mt_docs_task_find)
#undef DOCS

#define LOCKS(name, run, type, missing)                                                            \
  static void submit_##name(mt_store *s, type *r) {                                                \
    submit(&store_of(s)->locks, &r->req, run, missing);                                            \
  }
LOCKS(init, mt_locks_init, mt_locks_admin, r->print ? mt_locks_print : NULL)
LOCKS(verify, mt_locks_init, mt_locks_admin, r->look ? mt_locks_verify_missing : NULL)
LOCKS(session, mt_locks_session, mt_session_write, NULL)
LOCKS(session_read, mt_locks_session_read, mt_session_read, mt_work_missing)
LOCKS(batch, mt_locks_batch, mt_lock_batch, NULL)
LOCKS(list, mt_locks_list, mt_lock_list, mt_locks_list_missing)
LOCKS(lock_read, mt_locks_read, mt_lock_read, mt_locks_read_missing)
#undef LOCKS

static void abandon_scan(mt_store *s, mt_scan *scan) {
  (void)s;
  mt_docs_scan_free(scan);
}

static void close_listing(mt_store *s, mt_listing *listing) {
  (void)s;
  mt_locks_listing_free(listing);
}

static void raw(mt_store *s, mt_raw *r) {
  r->req.finished = false;
  mt_error_set(&r->req.error, MORTISE_UNSUPPORTED,
               "%s: the embedded store answers no requests of HTTP", s->url);
  req_refuse(store_of(s), &r->req);
}

static const mt_docs_ops docs_ops = {
    .describe = submit_describe,
    .index_create = submit_index_create,
    .index_drop = submit_index_drop,
    .settings = submit_settings,
    .block = submit_block,
    .unblock = submit_unblock,
    .aliases = submit_aliases,
    .alias_move = submit_alias_move,
    .mget = submit_mget,
    .bulk = submit_bulk,
    .count = submit_count,
    .refresh = submit_refresh,
    .search = submit_search,
    .scan_open = submit_scan_open,
    .scan_next = submit_scan_next,
    .scan_close = abandon_scan,
    .shards = submit_shards,
    .intervals = submit_intervals,
    .range = submit_range,
    .range_end = submit_range_end,
    .update_by_query = submit_update_by_query,
    .task = submit_task,
    .task_find = submit_task_find,
    .raw = raw,
};

/* Verifying also creates missing tables, unless it only looks. */
static const mt_locks_ops locks_ops = {
    .init = submit_init,
    .verify = submit_verify,
    .session = submit_session,
    .session_read = submit_session_read,
    .batch = submit_batch,
    .list = submit_list,
    .list_close = close_listing,
    .lock_read = submit_lock_read,
};

/* ---- opening and closing ---- */

static void stop_worker(worker *k) {
  if (!k->started) return;
  pthread_mutex_lock(&k->store->mutex);
  k->stop = true;
  if (k->running) atomic_store_explicit(&k->running->cancelled, true, memory_order_release);
  pthread_cond_signal(&k->wake);
  pthread_mutex_unlock(&k->store->mutex);
  pthread_join(k->thread, NULL);
}

/* Call once both workers have stopped, since each may use the other's file. */
static void deinit_worker(worker *k) {
  mt_db_deinit(&k->db);
  pthread_cond_destroy(&k->wake);
  pthread_cond_destroy(&k->idle);
}

/* Cancels the ops without calling `done`. */
static void drop_ops(ops *list, bool done) {
  for (op *o; (o = pop_op(list)) != NULL; mt_free(o)) {
    o->req->op = NULL;
    if (done || o->run == mt_locks_list) drop_answer(o);
  }
}

static void close_sqlite(mt_store *base) {
  sqlite_store *s = store_of(base);
  stop_worker(&s->documents);
  stop_worker(&s->locks);
  deinit_worker(&s->documents);
  deinit_worker(&s->locks);
  drop_ops(&s->documents.queue, false);
  drop_ops(&s->locks.queue, false);
  drop_ops(&s->finished, true);
  for (mt_req *req; (req = take_unsent(s)) != NULL;) req->op = NULL;
  mt_watch_stop(s->base.loop, &s->watch);
  if (s->event >= 0) close(s->event);
  pthread_mutex_destroy(&s->mutex);
  mt_free(s->url);
  mt_free(s);
}

static mortise_status init_worker(worker *k, sqlite_store *s, const mt_db_kind *kind,
                                  const char *file, const char *suffix, mortise_error *err) {
  k->store = s;
  pthread_cond_init(&k->wake, NULL); /* cannot fail with default attributes */
  pthread_cond_init(&k->idle, NULL);
  mt_buf name;
  mt_buf_init(&name, 8192);
  mt_buf_adds(&name, file);
  mt_buf_adds(&name, suffix);
  mortise_status status = mt_buf_status(&name, "the file's name", err);
  if (!status) status = mt_db_init(&k->db, kind, name.p, err);
  mt_buf_deinit(&name);
  return status;
}

static mortise_status init_event(sqlite_store *s, mortise_error *err) {
  s->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (s->event < 0)
    return mt_error_set(err, MORTISE_UNAVAILABLE, "cannot make a descriptor: %s", strerror(errno));
  s->watch = (mt_watch){.ready = deliver_finished, .ctx = s, .fd = s->event};
  return mt_watch_set(s->base.loop, &s->watch, EPOLLIN, err);
}

static mortise_status init_store(sqlite_store *s, const char *file, bool again,
                                 mortise_error *err) {
  size_t size = strlen(file) + sizeof "sqlite:";
  s->url = mt_alloc(size);
  if (!s->url) return mt_error_memory(err);
  snprintf(s->url, size, "sqlite:%s", file);
  s->base.url = s->url;
  mortise_status status = init_event(s, err);
  if (status || again) return status;
  status = mt_db_place(&s->documents.db, err);
  if (status || mt_file_is_missing(file)) return status;
  mt_patience patience = {mt_clock_boot_ms() + s->base.request_ms, NULL};
  return mt_db_open(&s->documents.db, &patience, err);
}

static mortise_status check_name(const char *file, mortise_error *err) {
  if (!file || !*file)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "sqlite: the file's name is missing");
  if (file[0] == ':')
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                        "sqlite:%s: a store is a file; for a name that begins with ':' write ./%s",
                        file, file);
  return MORTISE_OK;
}

static mt_store *open_file(mt_loop *loop, const char *file, int64_t request_ms, const mt_log *log,
                           bool again, mortise_error *err) {
  if (check_name(file, err)) return NULL;
  sqlite_store *s = mt_calloc(1, sizeof *s);
  if (!s) {
    mt_error_memory(err);
    return NULL;
  }
  s->base = (mt_store){.docs = &docs_ops,
                       .locks = &locks_ops,
                       .cancel = cancel_op,
                       .close = close_sqlite,
                       .loop = loop,
                       .request_ms = request_ms};
  if (log) s->base.log = *log;
  s->event = -1;
  pthread_mutex_init(&s->mutex, NULL);
  mortise_status status = init_worker(&s->documents, s, &mt_docs_kind, file, "", err);
  mortise_status second = init_worker(&s->locks, s, &mt_locks_kind, file, "-locks", err);
  if (!status && !second) status = init_store(s, file, again, err);
  if (!status && !second) return &s->base;
  close_sqlite(&s->base);
  return NULL;
}

mt_store *mt_sqlite_open(mt_loop *loop, const char *file, int64_t request_ms, const mt_log *log,
                         mortise_error *err) {
  return open_file(loop, file, request_ms, log, false, err);
}

mt_store *mt_sqlite_open_again(mt_loop *loop, const char *file, int64_t request_ms,
                               const mt_log *log, mortise_error *err) {
  return open_file(loop, file, request_ms, log, true, err);
}
