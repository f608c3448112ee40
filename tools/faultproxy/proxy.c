#include "proxy.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "bulk.h"
#include "message.h"
#include "past.h"
#include "rule.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RULES_MAX = 64, POOL_MAX = 16, MESSAGE_MAX = 256 << 20, READ = 65536, PACE_MS = 50 };

typedef struct job job;

/* A client's connection. It handles one request at a time; later bytes wait in `in`. */
typedef struct client {
  fault_proxy *p;
  mt_watch watch;
  mt_timer pace; /* sends the next part of a slow answer */
  unsigned number;
  mt_buf in, out, again; /* `again`: the answer that is repeated before the next one */
  size_t sent;
  int64_t per_pace; /* bytes of a slow answer in PACE_MS; 0: as fast as possible */
  bool last;        /* the connection is closed when `out` is sent */
  job *job;
  struct client *prev, *next;
} client;

/* A request on its way to the server. It continues even if its client has left. */
struct job {
  fault_proxy *p;
  client *client; /* NULL: the client has left, or this is a second copy */
  mt_watch watch;
  mt_timer timer; /* ends the time for which it is held back */
  unsigned number;
  mt_buf out, in, item, old; /* `old`: the answer to an earlier request of this kind */
  size_t sent;
  size_t item_at;
  mt_slice method, path, body; /* in `out`, or in `whole` where `out` has less */
  mt_buf whole;
  bool headless;
  fault_rule rule; /* action FAULT_NONE: nothing is wrong */
  job *prev, *next;
};

struct fault_proxy {
  mt_loop *loop;
  mt_watch listening;
  uint16_t port;
  struct sockaddr_storage server;
  socklen_t server_n;
  FILE *record;
  bool anonymous;
  fault_past past;
  uint64_t seed;
  int64_t opened_ms;
  unsigned connections, hits;
  fault_rule rules[RULES_MAX];
  size_t n_rules;
  client *clients;
  job *jobs;
  size_t n_jobs;
  int pool[POOL_MAX]; /* idle connections to the server */
  size_t n_pool;
};

static void job_start(job *j);
static void client_next(client *c);

/* ---- The record ----------------------------------------------------------------------------- */

static void write_record(fault_proxy *p, unsigned connection, const fault_message *m,
                         const fault_rule *rule, int status) {
  if (!p->record) return;
  mt_buf line;
  mt_buf_init(&line, 8192);
  mt_buf_addf(&line, "{\"time\":%lld,\"connection\":%u,\"method\":",
              (long long)(mt_clock_boot_ms() - p->opened_ms), connection);
  mt_json_add_string(&line, m->method);
  mt_buf_adds(&line, ",\"path\":");
  mt_json_add_string(&line, (mt_slice){m->path.p, m->path.n < 100 ? m->path.n : 100});
  mt_buf_adds(&line, ",\"body\":");
  mt_json_add_string(&line, (mt_slice){m->body.p, m->body.n < 200 ? m->body.n : 200});
  if (rule && rule->action) mt_buf_adds(&line, ",\"rule\":");
  if (rule && rule->action) mt_json_add_string(&line, mt_slice_of(rule->text));
  mt_buf_addf(&line, ",\"status\":%d}\n", status);
  if (!line.failed) fwrite(line.p, 1, line.n, p->record);
  mt_buf_deinit(&line);
}

static void record_job(const job *j, int status) {
  const fault_message m = {.method = j->method, .path = j->path, .body = j->body};
  write_record(j->p, j->number, &m, &j->rule, status);
}

/* ---- Clients -------------------------------------------------------------------------------- */

static void client_free(client *c) {
  fault_proxy *p = c->p;
  mt_watch_stop(p->loop, &c->watch);
  mt_timer_stop(p->loop, &c->pace);
  close(c->watch.fd);
  if (c->job) c->job->client = NULL;
  if (c->prev)
    c->prev->next = c->next;
  else
    p->clients = c->next;
  if (c->next) c->next->prev = c->prev;
  mt_buf_deinit(&c->in);
  mt_buf_deinit(&c->out);
  mt_buf_deinit(&c->again);
  mt_free(c);
}

static void client_reset(client *c) {
  const struct linger now = {.l_onoff = 1};
  setsockopt(c->watch.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  client_free(c);
}

static void watch_client(client *c) {
  bool waiting = c->sent < c->out.n && !c->pace.slot;
  if (mt_watch_set(c->p->loop, &c->watch, waiting ? EPOLLIN | EPOLLOUT : EPOLLIN, NULL))
    client_free(c);
}

/* Sends as much as it may now, and after the last byte starts the next request. May free the
 * client. */
static void client_flush(client *c) {
  size_t left = c->out.n - c->sent;
  size_t most = c->per_pace && (size_t)c->per_pace < left ? (size_t)c->per_pace : left;
  ssize_t n = send(c->watch.fd, c->out.p + c->sent, most, MSG_NOSIGNAL);
  if (n < 0 && errno != EAGAIN && errno != EINTR) {
    client_free(c);
    return;
  }
  if (n > 0) c->sent += (size_t)n;
  if (c->sent == c->out.n) {
    mt_buf_clear(&c->out);
    c->sent = 0;
    c->per_pace = 0;
    if (c->last)
      client_free(c);
    else
      client_next(c);
    return;
  }
  if (c->per_pace) mt_timer_start(c->p->loop, &c->pace, mt_clock_boot_ms() + PACE_MS, NULL);
  watch_client(c);
}

static void client_paced(void *ctx) {
  client_flush(ctx);
}

/* With `last` the connection is closed after it. */
static void client_answer(client *c, mt_slice bytes, bool last, int64_t bytes_a_second) {
  mt_buf_addslice(&c->out, bytes);
  c->last |= last;
  c->per_pace = bytes_a_second * PACE_MS / 1000;
  if (bytes_a_second && !c->per_pace) c->per_pace = 1;
  if (c->out.failed || !c->out.n)
    client_free(c);
  else
    client_flush(c);
}

/* `id` is the id of the request, as a server repeats it. It is empty if the answer is the proxy's own. */
static void client_answer_status(client *c, int status, mt_slice id, mt_slice body) {
  mt_buf text, answer;
  mt_buf_init(&text, 1024);
  mt_buf_init(&answer, MESSAGE_MAX);
  if (!body.p) {
    mt_buf_addf(&text, "{\"error\":{\"type\":\"%s\",\"reason\":\"said by the fault proxy\"},",
                fault_error_type(status));
    mt_buf_addf(&text, "\"status\":%d}", status);
    body = mt_buf_slice(&text);
  }
  mt_buf_addf(&answer, "HTTP/1.1 %d Status\r\nContent-Type: application/json\r\n", status);
  if (id.n) mt_buf_addf(&answer, "X-Opaque-Id: %.*s\r\n", (int)id.n, id.p);
  mt_buf_addf(&answer, "Content-Length: %zu\r\n\r\n", body.n);
  mt_buf_addslice(&answer, body);
  client_answer(c, mt_buf_slice(&answer), answer.failed, 0);
  mt_buf_deinit(&answer);
  mt_buf_deinit(&text);
}

/* ---- Requests on their way ------------------------------------------------------------------ */

/* Copies the head of a request, without the lines that the proxy removes or writes itself. */
static void add_lines(mt_buf *out, mt_slice head, bool length, bool identity) {
  const char *p = memchr(head.p, '\n', head.n), *end = head.p + head.n;
  while (p && ++p < end && *p != '\r') {
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    bool keeps = (length || strncasecmp(p, "Content-Length:", 15) != 0) &&
                 (identity || strncasecmp(p, "X-Opaque-Id:", 12) != 0);
    if (stop && keeps) mt_buf_add(out, p, (size_t)(stop + 1 - p));
    p = stop;
  }
}

static void add_request_line(mt_buf *out, const fault_message *m) {
  mt_buf_addf(out, "%.*s %.*s HTTP/1.1\r\n", (int)m->method.n, m->method.p, (int)m->path.n,
              m->path.p);
}

static void add_message(mt_buf *out, const fault_message *m, bool anonymous) {
  if (!anonymous) {
    mt_buf_add(out, m->head.p, m->n);
    return;
  }
  add_request_line(out, m);
  add_lines(out, m->head, true, false);
  mt_buf_adds(out, "\r\n");
  mt_buf_addslice(out, m->body);
}

static job *job_new(fault_proxy *p, client *c, const fault_message *m, const fault_rule *rule) {
  job *j = mt_calloc(1, sizeof *j);
  if (!j) return NULL;
  *j = (job){.p = p, .client = c, .watch.fd = -1, .number = c->number};
  mt_buf_init(&j->out, MESSAGE_MAX);
  mt_buf_init(&j->in, MESSAGE_MAX);
  mt_buf_init(&j->item, MESSAGE_MAX);
  mt_buf_init(&j->old, MESSAGE_MAX);
  mt_buf_init(&j->whole, MESSAGE_MAX);
  mt_buf_add(&j->whole, m->head.p, m->n);
  add_message(&j->out, m, p->anonymous);
  if (j->whole.failed || j->out.failed) {
    mt_buf_deinit(&j->whole);
    mt_buf_deinit(&j->out);
    mt_free(j);
    return NULL;
  }
  j->method = (mt_slice){j->whole.p + (m->method.p - m->head.p), m->method.n};
  j->path = (mt_slice){j->whole.p + (m->path.p - m->head.p), m->path.n};
  j->body = (mt_slice){j->whole.p + m->head.n, m->body.n};
  j->headless = mt_slice_eq(m->method, MT_SLICE("HEAD"));
  if (rule) j->rule = *rule;
  j->next = p->jobs;
  if (j->next) j->next->prev = j;
  p->jobs = j;
  p->n_jobs++;
  return j;
}

static void job_free(job *j) {
  fault_proxy *p = j->p;
  mt_watch_stop(p->loop, &j->watch);
  mt_timer_stop(p->loop, &j->timer);
  if (j->watch.fd >= 0) close(j->watch.fd);
  if (j->client) j->client->job = NULL;
  if (j->prev)
    j->prev->next = j->next;
  else
    p->jobs = j->next;
  if (j->next) j->next->prev = j->prev;
  p->n_jobs--;
  mt_buf_deinit(&j->out);
  mt_buf_deinit(&j->in);
  mt_buf_deinit(&j->item);
  mt_buf_deinit(&j->old);
  mt_buf_deinit(&j->whole);
  mt_free(j);
}

/* No answer came, or none may be given. */
static void job_break(job *j, int status) {
  client *c = j->client;
  record_job(j, status);
  job_free(j);
  if (c) client_free(c);
}

static void keep_connection(job *j, const fault_message *m) {
  fault_proxy *p = j->p;
  if (m->last || p->n_pool == POOL_MAX || j->in.n != m->n) return;
  mt_watch_stop(p->loop, &j->watch);
  p->pool[p->n_pool++] = j->watch.fd;
  j->watch.fd = -1;
}

static mt_slice head_of(const job *j) {
  return (mt_slice){j->whole.p, (size_t)(j->body.p - j->whole.p)};
}

static size_t cut_at(int64_t amount, size_t n) {
  if (amount < 0) return (size_t)-amount < n ? n - (size_t)-amount : 0;
  return (size_t)amount < n ? (size_t)amount : n;
}

static mt_slice id_of(const job *j) {
  return j->p->anonymous ? (mt_slice){0} : fault_message_header(head_of(j), "X-Opaque-Id");
}

static void answer_spliced(client *c, const job *j, const fault_message *m) {
  mt_buf body, spliced;
  mt_buf_init(&body, MESSAGE_MAX);
  mt_buf_init(&spliced, MESSAGE_MAX);
  bool instead = j->rule.action == FAULT_ITEM_LIE;
  bool good = !m || fault_message_body(m, &body);
  good = good && fault_bulk_splice(mt_buf_slice(&body), mt_buf_slice(&j->item), j->item_at,
                                   (int)j->rule.amount, instead, &spliced);
  if (good && !spliced.failed)
    client_answer_status(c, 200, id_of(j), mt_buf_slice(&spliced));
  else
    client_free(c);
  mt_buf_deinit(&body);
  mt_buf_deinit(&spliced);
}

/* Gives the client the server's answer, or what the rule makes of it. */
static void give(client *c, const job *j, const fault_message *m) {
  mt_slice bytes = {m->head.p, m->n};
  int64_t amount = j->rule.amount;
  switch (j->rule.action) {
  case FAULT_DROP_ANSWER:
    client_free(c);
    return;
  case FAULT_RESET_ANSWER:
    client_reset(c);
    return;
  case FAULT_CUT_ANSWER:
    bytes.n = cut_at(amount, bytes.n);
    client_answer(c, bytes, true, 0);
    return;
  case FAULT_LATE_STATUS:
    client_answer_status(c, (int)amount, (mt_slice){0}, (mt_slice){0});
    return;
  case FAULT_ITEM_STATUS:
  case FAULT_ITEM_LIE:
    if (m->status >= 300)
      client_answer(c, bytes, m->last, 0);
    else
      answer_spliced(c, j, m);
    return;
  case FAULT_SLOW:
    client_answer(c, bytes, m->last, amount < 1 ? 1 : amount);
    return;
  case FAULT_REPEAT_ANSWER:
    mt_buf_addslice(&c->again, bytes);
    client_answer(c, bytes, m->last, 0);
    return;
  case FAULT_OLD_ANSWER:
    client_answer(c, j->old.n ? mt_buf_slice(&j->old) : bytes, m->last, 0);
    return;
  default:
    client_answer(c, bytes, m->last, 0);
  }
}

static void job_answered(job *j, const fault_message *m) {
  client *c = j->client;
  if (c) fault_past_add(&j->p->past, j->path, j->body, (mt_slice){m->head.p, m->n});
  keep_connection(j, m);
  record_job(j, m->status);
  if (c) c->job = NULL;
  j->client = NULL;
  if (c) give(c, j, m);
  job_free(j);
}

static void job_read(job *j) {
  fault_message m;
  char *room = mt_buf_room(&j->in, READ);
  ssize_t n = room ? recv(j->watch.fd, room, READ, 0) : 0;
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) j->in.n += (size_t)n;
  switch (fault_message_answer(mt_buf_slice(&j->in), j->headless, n <= 0, &m)) {
  case FAULT_MORE:
    return;
  case FAULT_WHOLE:
    job_answered(j, &m);
    return;
  case FAULT_BAD:
    job_break(j, 0);
  }
}

static void job_ready(void *ctx, uint32_t events) {
  job *j = ctx;
  if (j->sent == j->out.n) {
    job_read(j);
    return;
  }
  (void)events;
  ssize_t n = send(j->watch.fd, j->out.p + j->sent, j->out.n - j->sent, MSG_NOSIGNAL);
  if (n < 0 && errno != EAGAIN && errno != EINTR) {
    job_break(j, 0);
    return;
  }
  if (n > 0) j->sent += (size_t)n;
  if (j->sent < j->out.n) return;
  if (j->rule.action == FAULT_CUT_REQUEST || mt_watch_set(j->p->loop, &j->watch, EPOLLIN, NULL))
    job_break(j, 0);
}

/* ---- Connections to the server -------------------------------------------------------------- */

/* An idle connection that the server has not closed meanwhile; -1 if there is none. */
static int from_pool(fault_proxy *p) {
  while (p->n_pool) {
    int fd = p->pool[--p->n_pool];
    char byte;
    if (recv(fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN) return fd;
    close(fd);
  }
  return -1;
}

static int connect_new(fault_proxy *p) {
  int fd = socket(p->server.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (!connect(fd, (struct sockaddr *)&p->server, p->server_n) || errno == EINPROGRESS) return fd;
  close(fd);
  return -1;
}

static void job_start(job *j) {
  int fd = from_pool(j->p);
  if (fd < 0) fd = connect_new(j->p);
  j->watch = (mt_watch){.ready = job_ready, .ctx = j, .fd = fd};
  if (fd < 0 || mt_watch_set(j->p->loop, &j->watch, EPOLLOUT, NULL)) job_break(j, 0);
}

static void job_due(void *ctx) {
  job_start(ctx);
}

static void job_hold(job *j, int64_t ms) {
  j->timer = (mt_timer){.fire = job_due, .ctx = j};
  if (ms <= 0 || mt_timer_start(j->p->loop, &j->timer, mt_clock_boot_ms() + ms, NULL)) job_start(j);
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* xorshift64*, so that the same seed gives the same faults. */
static uint64_t chance(fault_proxy *p) {
  p->seed ^= p->seed >> 12;
  p->seed ^= p->seed << 25;
  p->seed ^= p->seed >> 27;
  return (p->seed * 0x2545F4914F6CDD1DULL) >> 16;
}

static fault_rule *find_rule(fault_proxy *p, const fault_message *m) {
  for (size_t i = 0; i < p->n_rules; i++)
    if (fault_rule_applies(&p->rules[i], m->method, m->path, m->body, chance(p)))
      return &p->rules[i];
  return NULL;
}

/* Finds the item with the fault and, unless only its answer is falsified, removes it from the
 * request. false: there is no such item. */
static bool prepare_item(job *j) {
  mt_slice item;
  size_t i = (size_t)j->rule.item;
  if (j->rule.item == FAULT_ITEM_BY_TEXT && !fault_bulk_find(j->body, j->rule.item_text, &i))
    return false;
  if (!fault_bulk_item(j->body, i, &item)) return false;
  j->item_at = i;
  mt_buf_addslice(&j->item, item);
  if (j->rule.action == FAULT_ITEM_LIE) return !j->item.failed;
  /* The new head has only what the server needs of the old one. */
  mt_buf_clear(&j->out);
  const fault_message m = {.method = j->method, .path = j->path};
  add_request_line(&j->out, &m);
  add_lines(&j->out, head_of(j), false, !j->p->anonymous);
  mt_buf_addf(&j->out, "Content-Length: %zu\r\n\r\n", j->body.n - item.n);
  mt_buf_add(&j->out, j->body.p, (size_t)(item.p - j->body.p));
  mt_buf_add(&j->out, item.p + item.n, (size_t)(j->body.p + j->body.n - (item.p + item.n)));
  return !j->item.failed && !j->out.failed;
}

static void forward_without_item(job *j) {
  if (!prepare_item(j)) {
    j->rule.action = FAULT_NONE;
    job_start(j);
  } else if (j->rule.action == FAULT_ITEM_STATUS && j->item.n == j->body.n) {
    client *c = j->client; /* nothing is left to forward */
    c->job = NULL;
    j->client = NULL;
    record_job(j, 0);
    answer_spliced(c, j, NULL);
    job_free(j);
  } else {
    job_start(j);
  }
}

static void send_twice(fault_proxy *p, client *c, const fault_message *m, const fault_rule *rule,
                       job *first) {
  job *second = job_new(p, c, m, rule);
  if (second) second->client = NULL; /* nobody gets its answer */
  job_start(first);
  if (second) job_hold(second, rule->amount);
}

static void forward(fault_proxy *p, client *c, const fault_message *m, const fault_rule *rule) {
  job *j = job_new(p, c, m, rule);
  if (!j) {
    client_free(c);
    return;
  }
  c->job = j;
  switch (j->rule.action) {
  case FAULT_HOLD:
    job_hold(j, rule->amount);
    return;
  case FAULT_DUPLICATE:
    send_twice(p, c, m, rule, j);
    return;
  case FAULT_CUT_REQUEST:
    mt_buf_cut(&j->out, cut_at(rule->amount ? rule->amount : (int64_t)(m->n / 2), m->n));
    job_start(j);
    return;
  case FAULT_ITEM_STATUS:
  case FAULT_ITEM_LIE:
    forward_without_item(j);
    return;
  case FAULT_OLD_ANSWER:
    mt_buf_addslice(&j->old, fault_past_find(&p->past, j->path, j->body));
    job_start(j);
    return;
  default:
    job_start(j);
  }
}

/* The second copy of an answer, which the client takes for the one to the request it just sent. */
static bool send_again(client *c) {
  ssize_t n = send(c->watch.fd, c->again.p, c->again.n, MSG_NOSIGNAL);
  bool sent = n >= 0 && (size_t)n == c->again.n;
  mt_buf_clear(&c->again);
  if (!sent) client_free(c);
  return sent;
}

/* May free the client. */
static void handle(client *c, const fault_message *m) {
  fault_proxy *p = c->p;
  if (c->again.n && !send_again(c)) return;
  const fault_rule *rule = find_rule(p, m);
  c->last |= m->last;
  if (rule) p->hits++;
  switch (rule ? rule->action : FAULT_NONE) {
  case FAULT_DROP_REQUEST:
    write_record(p, c->number, m, rule, 0);
    client_free(c);
    return;
  case FAULT_RESET:
    write_record(p, c->number, m, rule, 0);
    client_reset(c);
    return;
  case FAULT_STATUS:
    write_record(p, c->number, m, rule, (int)rule->amount);
    client_answer_status(c, (int)rule->amount, (mt_slice){0}, (mt_slice){0});
    return;
  default:
    forward(p, c, m, rule);
  }
}

/* The next request, once it is whole and the one before it is answered. May free the client. */
static void client_next(client *c) {
  fault_message m;
  if (c->job || c->out.n) return;
  switch (fault_message_request(mt_buf_slice(&c->in), &m)) {
  case FAULT_BAD:
    client_free(c);
    return;
  case FAULT_MORE:
    watch_client(c);
    return;
  case FAULT_WHOLE:
    break;
  }
  /* Taken out first, since handling it may start the next one. */
  mt_buf request = c->in;
  mt_buf_init(&c->in, MESSAGE_MAX);
  mt_buf_add(&c->in, request.p + m.n, request.n - m.n);
  if (!mt_watch_set(c->p->loop, &c->watch, EPOLLIN, NULL))
    handle(c, &m);
  else
    client_free(c);
  mt_buf_deinit(&request);
}

static void client_ready(void *ctx, uint32_t events) {
  client *c = ctx;
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
    char *room = mt_buf_room(&c->in, READ);
    ssize_t n = room ? recv(c->watch.fd, room, READ, 0) : 0;
    bool later = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (n <= 0 && !later) {
      client_free(c);
      return;
    }
    if (n > 0) c->in.n += (size_t)n;
  }
  if (!c->out.n)
    client_next(c);
  else if ((events & EPOLLOUT) && !c->pace.slot)
    client_flush(c);
}

/* ---- The proxy ------------------------------------------------------------------------------ */

static void take_client(fault_proxy *p, int fd) {
  client *c = mt_calloc(1, sizeof *c);
  if (!c) {
    close(fd);
    return;
  }
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  *c = (client){.p = p,
                .watch = {.ready = client_ready, .ctx = c, .fd = fd},
                .pace = {.fire = client_paced, .ctx = c},
                .number = ++p->connections,
                .next = p->clients};
  mt_buf_init(&c->in, MESSAGE_MAX);
  mt_buf_init(&c->out, MESSAGE_MAX);
  mt_buf_init(&c->again, MESSAGE_MAX);
  if (c->next) c->next->prev = c;
  p->clients = c;
  watch_client(c);
}

static void accept_all(void *ctx, uint32_t events) {
  fault_proxy *p = ctx;
  int fd;
  (void)events;
  while ((fd = accept4(p->listening.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
    take_client(p, fd);
}

static mortise_status resolve(fault_proxy *p, const char *upstream, mortise_error *err) {
  char host[256];
  const char *start = strstr(upstream, "://");
  start = start ? start + 3 : upstream;
  const char *colon = strchr(start, ':');
  if (!colon || (size_t)(colon - start) >= sizeof host)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s is no HOST:PORT", upstream);
  char port[16] = "";
  memcpy(host, start, (size_t)(colon - start));
  host[colon - start] = '\0';
  strncat(port, colon + 1,
          strspn(colon + 1, "0123456789") < 6 ? strspn(colon + 1, "0123456789") : 5);
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  struct addrinfo *found;
  if (getaddrinfo(host, port, &hints, &found))
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s cannot be resolved", upstream);
  memcpy(&p->server, found->ai_addr, found->ai_addrlen);
  p->server_n = found->ai_addrlen;
  freeaddrinfo(found);
  return MORTISE_OK;
}

static mortise_status listen_on(fault_proxy *p, uint16_t port, mortise_error *err) {
  int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct sockaddr_in at = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof at;
  p->listening = (mt_watch){.ready = accept_all, .ctx = p, .fd = fd};
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
      bind(fd, (struct sockaddr *)&at, n) || listen(fd, 128) ||
      getsockname(fd, (struct sockaddr *)&at, &n))
    return mt_error_set(err, MORTISE_UNAVAILABLE, "cannot listen on port %u: %s", port,
                        strerror(errno));
  p->port = ntohs(at.sin_port);
  return mt_watch_set(p->loop, &p->listening, EPOLLIN, err);
}

fault_proxy *fault_proxy_new(mt_loop *loop, const fault_config *config, mortise_error *err) {
  fault_proxy *p = mt_calloc(1, sizeof *p);
  if (!p) {
    mt_error_memory(err);
    return NULL;
  }
  p->loop = loop;
  p->listening.fd = -1;
  p->record = config->record;
  p->anonymous = config->anonymous;
  fault_past_init(&p->past);
  p->seed = config->seed ^ 0x9E3779B97F4A7C15ULL;
  if (!p->seed) p->seed = 1;
  p->opened_ms = mt_clock_boot_ms();
  if (!resolve(p, config->upstream, err) && !listen_on(p, config->port, err)) return p;
  fault_proxy_free(p);
  return NULL;
}

void fault_proxy_free(fault_proxy *p) {
  if (!p) return;
  mt_watch_stop(p->loop, &p->listening);
  if (p->listening.fd >= 0) close(p->listening.fd);
  while (p->jobs) job_free(p->jobs);
  while (p->clients) client_free(p->clients);
  while (p->n_pool) close(p->pool[--p->n_pool]);
  fault_past_deinit(&p->past);
  mt_free(p);
}

uint16_t fault_proxy_port(const fault_proxy *p) {
  return p->port;
}

mortise_status fault_proxy_rule(fault_proxy *p, const char *line, mortise_error *err) {
  if (p->n_rules == RULES_MAX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%d rules at most", RULES_MAX);
  if (fault_rule_parse(line, &p->rules[p->n_rules], err)) return err->code;
  p->n_rules++;
  return MORTISE_OK;
}

void fault_proxy_clear(fault_proxy *p) {
  p->n_rules = 0;
}

unsigned fault_proxy_hits(const fault_proxy *p) {
  return p->hits;
}

size_t fault_proxy_busy(const fault_proxy *p) {
  return p->n_jobs;
}
