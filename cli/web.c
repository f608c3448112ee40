#include "web.h"

#include "mhd.h"
#include "web_guard.h"

#include "base/clock.h"
#include "base/mem.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  CONNECTIONS_MAX = 320,
  CONNECTION_MEMORY = 24 * 1024, /* headers, and what is on its way */
  SILENCE_S = 20,                /* without a byte in either direction */
  PATIENCE_MS = 30000,           /* for one request, or for one event to be read */
  QUEUE_MAX = 256,               /* requests that wait for mt_web_next or their answer */
  BODY_MAX = 4096,
  ARGUMENTS_MAX = 16 * 1024,
  EVENT_BLOCK = 8192,
};

/* The newest event; whoever sends one keeps it. */
typedef struct web_event {
  size_t users, n;
  uint64_t number;
  char text[];
} web_event;

typedef struct web_connection {
  struct web_connection *next, **slot;
  int fd;
  int64_t since_ms; /* since when it is waited for; 0: it waits for us */
} web_connection;

typedef enum web_phase {
  WEB_READING = 0, /* its body */
  WEB_WAITING,     /* suspended, for mt_web_next */
  WEB_TAKEN,       /* suspended, for its answer */
  WEB_ANSWERED,
} web_phase;

typedef struct web_request {
  struct web_request *next, **slot; /* those that are suspended, the oldest last */
  struct MHD_Connection *connection;
  web_connection *of;
  uint64_t id;
  web_phase phase;
  bool is_order;
  char *path;
  mt_buf arguments, body;
  struct MHD_Response *answer; /* owned; NULL: it cannot be answered */
  unsigned status;
} web_request;

typedef struct web_reader {
  struct web_reader *next, **slot;
  mt_web *web;
  struct MHD_Connection *connection;
  web_connection *of;
  web_event *event; /* what it is being sent, or NULL */
  size_t sent;
  uint64_t number; /* of the last event that it got */
  bool suspended;
} web_reader;

struct mt_web {
  const mt_mhd *mhd;
  struct MHD_Daemon *daemon;
  pthread_mutex_t mutex; /* of all below */
  char *name, *token, *policy;
  void (*asked)(void *ctx);
  void *ctx;
  struct MHD_Response *published[MT_WEB_SLOTS];
  unsigned statuses[MT_WEB_SLOTS];
  web_event *event;
  web_connection *connections;
  web_request *requests;
  web_reader *readers;
  size_t n_connections, n_requests, n_readers;
  uint64_t last_id;
  int64_t last_ms, healthy_until_ms;
  bool stopping;
};

/* ---- Lists: `slot` is where the pointer to it stands ----------------------------------------- */

#define LINK(list, item) \
  do { \
    (item)->next = (list); \
    if ((list)) (list)->slot = &(item)->next; \
    (list) = (item); \
    (item)->slot = &(list); \
  } while (0)

#define UNLINK(item) \
  do { \
    if (!(item)->slot) break; \
    *(item)->slot = (item)->next; \
    if ((item)->next) (item)->next->slot = (item)->slot; \
    (item)->slot = NULL; \
  } while (0)

/* ---- Answers ------------------------------------------------------------------------------------ */

static const char *const types[MT_WEB_SLOTS] = {"text/html; charset=utf-8", "application/json",
                                                "text/plain; version=0.0.4; charset=utf-8", "application/json"};

static const char *const headers[][2] = {{"Cache-Control", "no-store"},
                                         {"X-Content-Type-Options", "nosniff"},
                                         {"X-Frame-Options", "DENY"},
                                         {"Referrer-Policy", "no-referrer"},
                                         {"Cross-Origin-Resource-Policy", "same-origin"},
                                         {"Cross-Origin-Opener-Policy", "same-origin"},
                                         {NULL, NULL}};

static const char policy_of_data[] = "default-src 'none'; frame-ancestors 'none'";

/* Destroys the response unless all headers could be set. */
static struct MHD_Response *with_headers(const mt_web *web, struct MHD_Response *made, const char *type,
                                         const char *policy) {
  bool ok = made && web->mhd->MHD_add_response_header(made, "Content-Type", type) == MHD_YES &&
            web->mhd->MHD_add_response_header(made, "Content-Security-Policy", policy) == MHD_YES;
  for (size_t i = 0; ok && headers[i][0]; i++)
    ok = web->mhd->MHD_add_response_header(made, headers[i][0], headers[i][1]) == MHD_YES;
  if (ok || !made) return made;
  web->mhd->MHD_destroy_response(made);
  return NULL;
}

static struct MHD_Response *new_answer(const mt_web *web, mt_slice text, const char *type, const char *policy) {
  struct MHD_Response *made = web->mhd->MHD_create_response_from_buffer(text.n, (void *)(uintptr_t)text.p,
                                                                        MHD_RESPMEM_MUST_COPY);
  return with_headers(web, made, type, policy);
}

/* Answers it with an error; MHD_NO, which closes the connection, where there is no memory. */
static enum MHD_Result refuse(const mt_web *web, struct MHD_Connection *connection, unsigned status,
                              const char *code, const char *message) {
  char text[256];
  snprintf(text, sizeof text, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\"}}\n", code, message);
  struct MHD_Response *answer = new_answer(web, mt_slice_of(text), "application/json", policy_of_data);
  if (!answer) return MHD_NO;
  enum MHD_Result result = web->mhd->MHD_queue_response(connection, status, answer);
  web->mhd->MHD_destroy_response(answer);
  return result;
}

/* ---- Events ------------------------------------------------------------------------------------- */

static void drop_event(web_event *event) {
  if (event && --event->users == 0) mt_free(event);
}

/* Takes the newest, or waits for it: then it is suspended. Under the mutex. */
static bool take_event(web_reader *r) {
  web_event *newest = r->web->event;
  drop_event(r->event);
  r->event = NULL;
  r->of->since_ms = mt_clock_boot_ms();
  if (newest && newest->number > r->number) {
    newest->users++;
    r->event = newest;
    r->sent = 0;
    r->number = newest->number;
    return true;
  }
  if (r->web->stopping) return false;
  r->of->since_ms = 0;
  r->suspended = true;
  r->web->mhd->MHD_suspend_connection(r->connection);
  return true;
}

static ssize_t read_event(void *ctx, uint64_t at, char *out, size_t max) {
  (void)at;
  web_reader *r = ctx;
  ssize_t n = 0;
  pthread_mutex_lock(&r->web->mutex);
  bool open = (r->event && r->sent < r->event->n) || take_event(r);
  if (open && r->event) {
    size_t left = r->event->n - r->sent;
    n = (ssize_t)(left < max ? left : max);
    memcpy(out, r->event->text + r->sent, (size_t)n);
    r->sent += (size_t)n;
  }
  pthread_mutex_unlock(&r->web->mutex);
  return open ? n : MHD_CONTENT_READER_END_OF_STREAM;
}

static void free_reader(void *ctx) {
  web_reader *r = ctx;
  pthread_mutex_lock(&r->web->mutex);
  UNLINK(r);
  r->web->n_readers--;
  drop_event(r->event);
  pthread_mutex_unlock(&r->web->mutex);
  mt_free(r);
}

static enum MHD_Result answer_events(mt_web *web, struct MHD_Connection *connection, web_connection *of) {
  web_reader *r = mt_calloc(1, sizeof *r);
  if (!r) return MHD_NO;
  *r = (web_reader){.web = web, .connection = connection, .of = of};
  pthread_mutex_lock(&web->mutex);
  LINK(web->readers, r);
  web->n_readers++;
  pthread_mutex_unlock(&web->mutex);
  struct MHD_Response *answer =
      web->mhd->MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENT_BLOCK, read_event, r, free_reader);
  if (!answer) free_reader(r);
  answer = with_headers(web, answer, "text/event-stream", policy_of_data);
  if (!answer) return MHD_NO;
  enum MHD_Result result = web->mhd->MHD_queue_response(connection, MHD_HTTP_OK, answer);
  web->mhd->MHD_destroy_response(answer);
  return result;
}

mortise_status mt_web_tell(mt_web *web, mt_slice event, mortise_error *err) {
  web_event *made = mt_alloc(sizeof *made + event.n);
  if (!made) return mt_error_memory(err);
  *made = (web_event){.users = 1, .n = event.n};
  memcpy(made->text, event.p, event.n);
  pthread_mutex_lock(&web->mutex);
  made->number = web->event ? web->event->number + 1 : 1;
  drop_event(web->event);
  web->event = made;
  for (web_reader *r = web->readers; r; r = r->next) {
    if (!r->suspended) continue;
    r->suspended = false;
    web->mhd->MHD_resume_connection(r->connection);
  }
  pthread_mutex_unlock(&web->mutex);
  return MORTISE_OK;
}

/* ---- What is published -------------------------------------------------------------------------- */

static enum MHD_Result answer_published(mt_web *web, struct MHD_Connection *connection, mt_web_slot slot) {
  pthread_mutex_lock(&web->mutex);
  struct MHD_Response *answer = web->published[slot];
  bool stale = slot == MT_WEB_HEALTH && mt_clock_boot_ms() > web->healthy_until_ms;
  enum MHD_Result result =
      answer && !stale ? web->mhd->MHD_queue_response(connection, web->statuses[slot], answer) : MHD_NO;
  pthread_mutex_unlock(&web->mutex);
  if (answer && !stale) return result;
  return refuse(web, connection, MHD_HTTP_SERVICE_UNAVAILABLE, "unavailable",
                stale ? "the store was not read for too long" : "the store was not read yet");
}

mortise_status mt_web_publish(mt_web *web, mt_web_slot slot, unsigned status, mt_slice text, mortise_error *err) {
  struct MHD_Response *made =
      new_answer(web, text, types[slot], slot == MT_WEB_PAGE ? web->policy : policy_of_data);
  if (!made) return mt_error_memory(err);
  pthread_mutex_lock(&web->mutex);
  struct MHD_Response *before = web->published[slot];
  web->published[slot] = made;
  web->statuses[slot] = status;
  pthread_mutex_unlock(&web->mutex);
  if (before) web->mhd->MHD_destroy_response(before); /* who is being sent it keeps it */
  return MORTISE_OK;
}

void mt_web_health_until(mt_web *web, int64_t boot_ms) {
  pthread_mutex_lock(&web->mutex);
  web->healthy_until_ms = boot_ms;
  pthread_mutex_unlock(&web->mutex);
}

/* ---- Requests for others ------------------------------------------------------------------------ */

static void free_request(mt_web *web, web_request *r) {
  if (r->answer) web->mhd->MHD_destroy_response(r->answer);
  mt_buf_deinit(&r->arguments);
  mt_buf_deinit(&r->body);
  mt_free(r->path);
  mt_free(r);
}

static enum MHD_Result add_argument(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value) {
  (void)kind;
  mt_buf *out = ctx;
  mt_buf_add(out, name, strlen(name) + 1);
  mt_buf_add(out, value ? value : "", value ? strlen(value) + 1 : 1);
  return MHD_YES;
}

static web_request *new_web_request(mt_web *web, struct MHD_Connection *connection, web_connection *of,
                                const char *path, bool is_order) {
  web_request *r = mt_calloc(1, sizeof *r);
  if (!r) return NULL;
  *r = (web_request){.connection = connection, .of = of, .is_order = is_order, .path = mt_strdup(path)};
  mt_buf_init(&r->arguments, ARGUMENTS_MAX);
  mt_buf_init(&r->body, BODY_MAX);
  if (!is_order) web->mhd->MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_argument, &r->arguments);
  if (r->path && !r->arguments.failed) return r;
  free_request(web, r);
  return NULL;
}

/* Suspends it until it is answered. -> is there room for it? */
static bool enqueue(mt_web *web, web_request *r) {
  pthread_mutex_lock(&web->mutex);
  bool room = web->n_requests < QUEUE_MAX && !web->stopping;
  if (room) {
    r->id = ++web->last_id;
    r->phase = WEB_WAITING;
    LINK(web->requests, r);
    web->n_requests++;
    r->of->since_ms = 0;
    web->mhd->MHD_suspend_connection(r->connection);
  }
  pthread_mutex_unlock(&web->mutex);
  if (room) web->asked(web->ctx);
  return room;
}

static enum MHD_Result ask_others(mt_web *web, web_request *r) {
  if (enqueue(web, r)) return MHD_YES;
  r->phase = WEB_ANSWERED;
  return refuse(web, r->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "overloaded", "too many ask at the same time");
}

static enum MHD_Result answer_others(mt_web *web, web_request *r) {
  if (r->answer) return web->mhd->MHD_queue_response(r->connection, r->status, r->answer);
  return refuse(web, r->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "unavailable", "the board is being closed");
}

/* Under the mutex. */
static web_request *oldest_waiting(mt_web *web) {
  web_request *oldest = NULL;
  for (web_request *r = web->requests; r; r = r->next)
    if (r->phase == WEB_WAITING) oldest = r;
  return oldest;
}

bool mt_web_is_asked(mt_web *web) {
  pthread_mutex_lock(&web->mutex);
  bool asked = oldest_waiting(web) != NULL;
  pthread_mutex_unlock(&web->mutex);
  return asked;
}

bool mt_web_next(mt_web *web, mt_web_request *out) {
  pthread_mutex_lock(&web->mutex);
  web_request *oldest = oldest_waiting(web);
  if (oldest) {
    oldest->phase = WEB_TAKEN;
    *out = (mt_web_request){oldest->id, oldest->is_order, oldest->path, mt_buf_slice(&oldest->arguments),
                            mt_buf_slice(&oldest->body)};
  }
  pthread_mutex_unlock(&web->mutex);
  return oldest != NULL;
}

/* Under the mutex. It is answered in the server's thread. */
static void resume_request(mt_web *web, web_request *r) {
  UNLINK(r);
  web->n_requests--;
  r->phase = WEB_ANSWERED;
  r->of->since_ms = mt_clock_boot_ms();
  web->mhd->MHD_resume_connection(r->connection);
}

mortise_status mt_web_answer(mt_web *web, uint64_t id, unsigned status, mt_slice text, mortise_error *err) {
  struct MHD_Response *made = new_answer(web, text, "application/json", policy_of_data);
  pthread_mutex_lock(&web->mutex);
  web_request *r = web->requests;
  while (r && r->id != id) r = r->next;
  if (r) {
    r->answer = made;
    r->status = status;
    resume_request(web, r);
  }
  pthread_mutex_unlock(&web->mutex);
  if (!r && made) web->mhd->MHD_destroy_response(made);
  return made ? MORTISE_OK : mt_error_memory(err);
}

/* ---- The server's thread ------------------------------------------------------------------------ */

typedef struct web_route {
  const char *path;
  bool looks; /* somebody looks at the page */
  mt_web_slot slot;
} web_route;

static const web_route routes[] = {{"/", true, MT_WEB_PAGE},
                                   {"/data.json", true, MT_WEB_DATA},
                                   {"/metrics", false, MT_WEB_METRICS},
                                   {"/healthz", false, MT_WEB_HEALTH},
                                   {NULL, true, MT_WEB_SLOTS}};

static const web_route *route_of(const char *path) {
  const web_route *route = routes;
  while (route->path && strcmp(route->path, path)) route++;
  return route;
}

static const char *header_of(mt_web *web, struct MHD_Connection *connection, const char *name) {
  return web->mhd->MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Why it must not be answered; NULL: it may. */
static const char *find_fault(mt_web *web, struct MHD_Connection *connection, bool is_page) {
  const char *host = header_of(web, connection, "Host");
  if (!mt_web_host_ok(host, web->name))
    return "the Host header names another host than this board's: open it by its address, or by the name in --listen";
  if (!mt_web_origin_ok(header_of(web, connection, "Origin"), host)) return "another site asks";
  const char *site = header_of(web, connection, "Sec-Fetch-Site");
  if (!mt_web_site_ok(site, header_of(web, connection, "Sec-Fetch-Mode"), is_page)) return "another site asks";
  return NULL;
}

static enum MHD_Result begin_order(mt_web *web, struct MHD_Connection *connection, web_connection *of, const char *path,
                                   void **state) {
  if (!web->token)
    return refuse(web, connection, MHD_HTTP_FORBIDDEN, "auth",
                  "this board only shows: it was started without --control");
  if (!mt_web_same_secret(header_of(web, connection, "X-Mortise-Token"), web->token))
    return refuse(web, connection, MHD_HTTP_FORBIDDEN, "auth", "this is not the token that the board has printed");
  *state = new_web_request(web, connection, of, path, true);
  return *state ? MHD_YES : MHD_NO;
}

/* MHD asks twice: after the headers, where an answer would also end the connection, and after the body. This is
 * the state of a request between the two that has nothing to keep. */
static char between;

/* Only what must not be answered is answered here. */
static enum MHD_Result begin_answer(mt_web *web, struct MHD_Connection *connection, web_connection *of,
                                     const char *path, const char *method, void **state) {
  const char *fault = find_fault(web, connection, route_of(path)->slot == MT_WEB_PAGE);
  if (fault) return refuse(web, connection, MHD_HTTP_FORBIDDEN, "auth", fault);
  if (!strcmp(method, "POST")) return begin_order(web, connection, of, path, state);
  if (strcmp(method, "GET") && strcmp(method, "HEAD"))
    return refuse(web, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "invalid_argument", "GET, HEAD or POST");
  *state = &between;
  return MHD_YES;
}

static enum MHD_Result answer_get(mt_web *web, struct MHD_Connection *connection, web_connection *of,
                                      const char *path, const char *method, void **state) {
  const web_route *route = route_of(path);
  if (route->looks) {
    pthread_mutex_lock(&web->mutex);
    web->last_ms = mt_clock_boot_ms();
    pthread_mutex_unlock(&web->mutex);
  }
  if (route->path) return answer_published(web, connection, route->slot);
  if (!strcmp(path, "/events") && !strcmp(method, "GET")) return answer_events(web, connection, of);
  web_request *r = new_web_request(web, connection, of, path, false);
  if (!r) return refuse(web, connection, MHD_HTTP_URI_TOO_LONG, "invalid_argument", "the arguments are too long");
  *state = r;
  return ask_others(web, r);
}

/* More of an order's body, or its end. */
static enum MHD_Result go_on_request(mt_web *web, web_request *r, const char *data, size_t *n) {
  if (r->phase == WEB_ANSWERED) return answer_others(web, r);
  if (r->phase != WEB_READING) return MHD_YES;
  if (*n == 0 && r->body.failed)
    return refuse(web, r->connection, MHD_HTTP_CONTENT_TOO_LARGE, "invalid_argument", "the order is too long");
  if (*n == 0) return ask_others(web, r);
  mt_buf_add(&r->body, data, *n);
  *n = 0;
  return MHD_YES;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *data, size_t *n, void **state) {
  (void)version;
  mt_web *web = ctx;
  if (*state && *state != &between) return go_on_request(web, *state, data, n);
  const union MHD_ConnectionInfo *info =
      web->mhd->MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  web_connection *of = info ? info->socket_context : NULL;
  if (!of) return MHD_NO;
  if (*state && *n == 0) return answer_get(web, connection, of, path, method, state);
  *n = 0; /* what is sent along with a GET */
  if (*state) return MHD_YES;
  pthread_mutex_lock(&web->mutex);
  of->since_ms = mt_clock_boot_ms();
  pthread_mutex_unlock(&web->mutex);
  return begin_answer(web, connection, of, path, method, state);
}

static void on_request_end(void *ctx, struct MHD_Connection *connection, void **state,
                           enum MHD_RequestTerminationCode why) {
  (void)connection;
  (void)why;
  mt_web *web = ctx;
  if (!*state || *state == &between) return;
  web_request *r = *state;
  pthread_mutex_lock(&web->mutex);
  if (r->slot) web->n_requests--;
  UNLINK(r);
  pthread_mutex_unlock(&web->mutex);
  free_request(web, r);
  *state = NULL;
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode what) {
  mt_web *web = ctx;
  web_connection *c = *state;
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    const union MHD_ConnectionInfo *info =
        web->mhd->MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    c = mt_calloc(1, sizeof *c);
    *state = c;
    if (!c) return; /* its request is refused */
    c->fd = info ? info->connect_fd : -1;
    c->since_ms = mt_clock_boot_ms();
    pthread_mutex_lock(&web->mutex);
    LINK(web->connections, c);
    web->n_connections++;
    pthread_mutex_unlock(&web->mutex);
  } else if (c) {
    pthread_mutex_lock(&web->mutex);
    UNLINK(c);
    web->n_connections--;
    pthread_mutex_unlock(&web->mutex);
    mt_free(c);
    *state = NULL;
  }
}

void mt_web_sweep(mt_web *web) {
  int64_t now = mt_clock_boot_ms();
  pthread_mutex_lock(&web->mutex);
  for (web_connection *c = web->connections; c; c = c->next)
    if (c->since_ms && now - c->since_ms > PATIENCE_MS && c->fd >= 0) shutdown(c->fd, SHUT_RDWR);
  pthread_mutex_unlock(&web->mutex);
}

mt_web_looks mt_web_look(mt_web *web) {
  pthread_mutex_lock(&web->mutex);
  mt_web_looks looks = {web->n_readers, web->n_connections, web->last_ms};
  pthread_mutex_unlock(&web->mutex);
  return looks;
}

/* ---- Its life ----------------------------------------------------------------------------------- */

static bool own_text(char **to, const char *from) {
  *to = from ? mt_strdup(from) : NULL;
  return !from || *to;
}

static void free_web(mt_web *web) {
  for (int i = 0; i < MT_WEB_SLOTS; i++)
    if (web->published[i]) web->mhd->MHD_destroy_response(web->published[i]);
  drop_event(web->event);
  pthread_mutex_destroy(&web->mutex);
  mt_free(web->name);
  mt_free_secret(web->token);
  mt_free(web->policy);
  mt_free(web);
}

/* Its thread blocks all signals, which are the main thread's. */
static struct MHD_Daemon *start_daemon(mt_web *web, int listener) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct MHD_Daemon *daemon = web->mhd->MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, web,
      MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT,
      (unsigned)SILENCE_S, MHD_OPTION_NOTIFY_COMPLETED, on_request_end, web, MHD_OPTION_NOTIFY_CONNECTION,
      on_connection, web, MHD_OPTION_END);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return daemon;
}

mt_web *mt_web_start(const mt_web_options *o, mortise_error *err) {
  const mt_mhd *mhd = mt_mhd_load(err);
  mt_web *web = mhd ? mt_calloc(1, sizeof *web) : NULL;
  if (!web) {
    close(o->listener);
    if (mhd) mt_error_memory(err);
    return NULL;
  }
  web->mhd = mhd;
  web->asked = o->asked;
  web->ctx = o->ctx;
  pthread_mutex_init(&web->mutex, NULL);
  bool ok = own_text(&web->name, o->name) && own_text(&web->token, o->token) && own_text(&web->policy, o->policy);
  if (!ok) mt_error_memory(err);
  web->daemon = ok ? start_daemon(web, o->listener) : NULL;
  if (web->daemon) return web;
  if (ok) mt_error_set(err, MORTISE_UNAVAILABLE, "libmicrohttpd cannot start its server");
  close(o->listener);
  free_web(web);
  return NULL;
}

void mt_web_stop(mt_web *web) {
  pthread_mutex_lock(&web->mutex);
  web->stopping = true;
  while (web->requests) resume_request(web, web->requests);
  for (web_reader *r = web->readers; r; r = r->next) {
    if (r->suspended) web->mhd->MHD_resume_connection(r->connection);
    r->suspended = false;
  }
  pthread_mutex_unlock(&web->mutex);
  web->mhd->MHD_stop_daemon(web->daemon); /* and its socket */
  free_web(web);
}
