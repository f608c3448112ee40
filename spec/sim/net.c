#include "net.h"

#include "store/order.h"

#include <stdio.h>
#include <stdlib.h>

enum {
  REQUEST_MS = 3000,
  ITEMS = 64,
  READ_IDS = 64,
  TRIP_MS = 8,
  PURGE_AFTER_MS = 60000, /* ten leases; of a server a week */
  /* Details of a call's keys. */
  D_TO = 0,
  D_BACK,
  D_AGAIN,
  D_LATER,
  D_CUT,
  D_ITEM,
};

/* ---- Machines ------------------------------------------------------------------------------- */

int64_t sim_machine_clock(const sim_machine *m, int64_t true_ms) {
  return true_ms + m->skew + (true_ms - m->since) * m->drift_ppm / 1000000;
}

int64_t sim_machine_true(const sim_machine *m, int64_t clock_ms) {
  int64_t elapsed = clock_ms - m->skew - m->since;
  int64_t at = m->since + elapsed * 1000000 / (1000000 + m->drift_ppm) - 1;
  while (sim_machine_clock(m, at) < clock_ms) at++;
  return at;
}

/* ---- A request on its way ------------------------------------------------------------------- */

typedef enum call_kind {
  CALL_BATCH,
  CALL_SESSION,
  CALL_READ,
  CALL_DOCUMENTS,
  CALL_LIST,
  CALL_PURGE,
  CALL_VERIFY
} call_kind;

typedef struct sim_store {
  mt_store base; /* first */
  mt_locks_ops locks;
  sim_net *net;
  sim_machine *machine;
  sim_thread thread;
  unsigned number;
  uint64_t calls;
  /* Answers come over it one after the other; a wrong answer is followed by a new connection. */
  uint64_t connection;
  mt_order order;
  struct sim_call *second; /* its answer's second copy is still unread */
  struct sim_call *behind; /* its own answer is, since it read another's */
} sim_store;

typedef struct reading {
  mt_session_read read;
  const char *ids[READ_IDS];
  char id_text[READ_IDS][MT_SESSION_ID];
} reading;

/* A request under way, with a copy of its contents. */
typedef struct sim_call {
  sim_net *net;
  sim_machine *machine;
  sim_thread thread;
  sim_store *from;
  unsigned store;
  uint64_t number, connection, after;
  call_kind kind;
  mt_req *req; /* NULL once finished or cancelled */
  bool answered, lose_answer, refused, unsure;
  bool told; /* the answer to its first arrival is on its way back, or there */
  bool came; /* its answer; or nobody wants it any more */
  bool heard;              /* its answer was handed over */
  struct sim_call *reads;  /* the call whose answer it gets instead of its own */
  struct sim_call *reader; /* the call that gets its answer instead */
  char session[MT_SESSION_ID];
  mt_lock_item *items;
  char (*paths)[SIM_PATH];
  char (*others)[MT_SESSION_ID];
  char (*dead)[MT_SESSION_ID]; /* of all items, one after another */
  size_t n;
  unsigned job;
  mt_place *documents; /* of CALL_DOCUMENTS: their paths are in `paths` */
  size_t n_documents;
  char *text;              /* and the answer */
  mt_session_write *write; /* of CALL_SESSION, with its texts */
  char *owner, *waiting;
  reading *reading; /* of CALL_READ */
  struct sim_call *next;
} sim_call;

static sim_key key_of(const sim_call *c, sim_what what, unsigned detail) {
  return sim_key_of(what, c->store, c->number, detail);
}

static bool happens(sim_call *c, sim_what what, unsigned detail, unsigned per_mille) {
  return sim_happens(c->net->w, key_of(c, what, detail), per_mille);
}

static int64_t dice(const sim_call *c, unsigned detail, int64_t least, int64_t most) {
  return sim_between(c->net->w, key_of(c, SIM_DICE, detail), least, most);
}

static void call_free(sim_call *c) {
  for (size_t i = 0; i < c->n; i++) free(c->items[i].blockers);
  if (c->reading) mt_session_read_deinit(&c->reading->read);
  free(c->reading);
  free(c->write);
  free(c->items);
  free(c->paths);
  free(c->documents);
  free(c->text);
  free(c->others);
  free(c->dead);
  free(c->owner);
  free(c->waiting);
  free(c);
}

void sim_net_deinit(sim_net *net) {
  while (net->calls) {
    sim_call *c = net->calls;
    net->calls = c->next;
    call_free(c);
  }
}

void sim_net_calm(sim_net *net) {
  net->faults = (sim_faults){0};
  net->old_until = 0;
}

void sim_net_fail_over(sim_net *net, int64_t for_ms, unsigned number) {
  sim_table_fail_over(net->table);
  net->old_until = sim_now(net->w) + for_ms;
  net->old_number = number;
}

/* ---- At the server -------------------------------------------------------------------------- */

/* Requests that reach the replaced primary do so until it learns that it was replaced. */
static bool reaches_old(sim_call *c) {
  sim_net *net = c->net;
  return net->old_until > sim_now(net->w) &&
         sim_happens(net->w, sim_key_of(SIM_OLD_PRIMARY, c->store, net->old_number, 0), 500);
}

/* Faults of one item: a conflict, a 429, or a failure of its shard before or after the write. */
static bool item_mishap(sim_call *c, size_t i, bool *unsure) {
  const sim_faults *f = &c->net->faults;
  mt_lock_item *item = &c->items[i];
  unsigned detail = D_ITEM + (unsigned)i;
  if (item->verb != MT_LOCK_CREATE && happens(c, SIM_CONFLICT, detail, f->conflict))
    item->result = MT_LOCK_CONFLICT;
  else if (happens(c, SIM_BUSY, detail, f->busy))
    item->result = MT_LOCK_BUSY;
  else if (happens(c, SIM_UNSURE, detail, f->unsure))
    *unsure = true;
  return item->result != MT_LOCK_NO_ANSWER || (*unsure && dice(c, detail, 0, 1));
}

static void forget_answer(mt_lock_item *item) {
  free(item->blockers);
  item->blockers = NULL;
  item->n_blockers = 0;
  item->contended = false;
  item->result = MT_LOCK_NO_ANSWER;
}

static bool apply_batch(sim_call *c, sim_primary at) {
  bool wrote = false;
  for (size_t i = 0; i < c->n; i++) {
    bool unsure = false;
    if (!item_mishap(c, i, &unsure))
      wrote |= sim_table_item(c->net->table, at, c->session, c->job, &c->items[i], false);
    if (!unsure) continue;
    c->unsure = true;
    forget_answer(&c->items[i]);
  }
  return wrote;
}

/* True: something was written. */
static bool apply(sim_call *c, sim_primary at) {
  if (c->kind == CALL_BATCH) return apply_batch(c, at);
  if (c->kind == CALL_SESSION) return sim_table_session(c->net->table, at, c->write);
  if (c->kind == CALL_DOCUMENTS) {
    free(c->text);
    c->text = sim_table_documents(c->net->table, at, c->documents, c->n_documents);
  }
  if (c->kind == CALL_LIST) {
    free(c->text);
    c->text = sim_table_list(c->net->table, at);
  }
  if (c->kind == CALL_PURGE)
    return sim_table_purge(c->net->table, at, sim_now(c->net->w) - PURGE_AFTER_MS) > 0;
  if (c->kind == CALL_READ) {
    mt_session_read_deinit(&c->reading->read);
    sim_table_read(c->net->table, at, &c->reading->read);
  }
  return false;
}

/* Applies the same request once more; nobody gets that answer. */
static void apply_again(sim_call *c) {
  for (size_t i = 0; i < c->n; i++) {
    mt_lock_item item = c->items[i];
    item.blockers = NULL;
    forget_answer(&item);
    sim_table_item(c->net->table, SIM_PRIMARY, c->session, c->job, &item, c->told);
    free(item.blockers);
  }
  if (c->kind != CALL_SESSION) return;
  mt_session_write write = *c->write;
  sim_table_session(c->net->table, SIM_PRIMARY, &write);
}

/* ---- The way back --------------------------------------------------------------------------- */

static void finish(sim_call *c) {
  mt_req *req = c->req;
  c->req = NULL;
  mt_req_finish(req);
}

/* An answer to a stopped thread waits in the socket. */
static bool held_up(sim_call *c, void (*fn)(void *ctx)) {
  if (c->machine->gone || !c->req) return true;
  int64_t until = c->machine->stopped_until[c->thread];
  if (until <= sim_now(c->net->w)) return false;
  sim_at(c->net->w, until, fn, c);
  return true;
}

static void hand_over_batch(sim_call *c) {
  mt_lock_batch *r = (mt_lock_batch *)c->req;
  for (size_t i = 0; i < c->n; i++) {
    mt_lock_item *to = &r->items[i], *from = &c->items[i];
    to->result = from->result;
    to->version = from->version;
    to->ahead = from->ahead;
    to->contended = from->contended;
    to->blockers = from->blockers;
    to->n_blockers = from->n_blockers;
    from->blockers = NULL;
  }
}

static char *text_copy(const char *s) {
  return s ? strcpy(sim_must(malloc(strlen(s) + 1)), s) : NULL;
}

static void hand_over_docs(sim_call *c, const sim_call *from) {
  const mt_session_read *read = &from->reading->read;
  mt_session_doc *docs = sim_must(calloc(read->n ? read->n : 1, sizeof *docs));
  for (size_t i = 0; i < read->n; i++) {
    docs[i] = read->docs[i];
    docs[i].owner = text_copy(docs[i].owner);
    docs[i].waiting = text_copy(docs[i].waiting);
  }
  ((mt_session_read *)c->req)->docs = docs;
}

static void fail(sim_call *c, const char *why, bool retryable, bool ambiguous) {
  mortise_error *err = &c->req->error;
  mt_error_set(err, MORTISE_UNAVAILABLE, "%s", why);
  err->retryable = retryable;
  err->ambiguous = ambiguous;
}

static void deliver_to_reader(sim_call *c);

static void prove(sim_call *c, bool proven) {
  if (c->kind == CALL_BATCH) ((mt_lock_batch *)c->req)->proven = proven;
}

static void deliver(void *ctx) {
  sim_call *c = ctx;
  c->came = true;
  if (c->reader) deliver_to_reader(c);
  if (held_up(c, deliver)) return;
  c->heard = !c->unsure;
  prove(c, !c->net->faults.anonymous);
  if (c->heard && happens(c, SIM_TWICE, 0, c->net->faults.twice)) c->from->second = c;
  if (c->refused) {
    fail(c, "429", true, false);
  } else if (c->kind == CALL_BATCH) {
    hand_over_batch(c);
    mt_lock_batch *r = (mt_lock_batch *)c->req;
    bool good = mt_order_judge(&c->from->order, c->after, r, !c->net->faults.anonymous);
    if (c->unsure || !good) fail(c, c->unsure ? "a shard failed" : "unproven", false, true);
  } else if (c->kind == CALL_SESSION) {
    mt_session_write *r = (mt_session_write *)c->req;
    r->result = c->write->result;
    r->version = c->write->version;
    bool acked = r->result == MT_SESSION_ACKED;
    if (acked && !mt_order_judge_session(&c->from->order, c->after, r->verb, r->version)) abort();
  } else if (c->kind == CALL_READ) {
    hand_over_docs(c, c);
  } else if (c->kind == CALL_DOCUMENTS) {
    ((mt_lock_read *)c->req)->json = text_copy(c->text);
  } else if (c->kind == CALL_LIST) {
    ((mt_lock_list *)c->req)->json = text_copy(c->text);
  } else if (c->kind == CALL_VERIFY) {
    ((mt_locks_admin *)c->req)->stripes = c->net->stripes;
  }
  finish(c);
}

/* ---- The answers of others ------------------------------------------------------------------ */

/* The result as the store reads it, which knows only what it asked for itself. */
static mt_lock_result read_written(const mt_lock_item *asked, const mt_lock_item *said) {
  bool grants =
      asked->verb == MT_LOCK_SET || asked->verb == MT_LOCK_CREATE || asked->verb == MT_LOCK_ADOPT;
  if (grants && said->verb == MT_LOCK_DELETE) return MT_LOCK_NO_ANSWER;
  return asked->enqueue && said->result == MT_LOCK_QUEUED ? MT_LOCK_QUEUED : MT_LOCK_ACKED;
}

static mt_lock_result read_noop(const mt_lock_item *asked, const mt_lock_item *said) {
  if (asked->verb == MT_LOCK_CREATE) return MT_LOCK_NO_ANSWER;
  if (asked->verb != MT_LOCK_SET) return MT_LOCK_ABSENT;
  return asked->brief || said->result == MT_LOCK_DENIED ? MT_LOCK_DENIED : MT_LOCK_STALE;
}

static mt_lock_result read_as(const mt_lock_item *asked, const mt_lock_item *said) {
  switch (said->result) {
  case MT_LOCK_ACKED:
  case MT_LOCK_QUEUED:
    return read_written(asked, said);
  case MT_LOCK_DENIED:
  case MT_LOCK_STALE:
  case MT_LOCK_ABSENT:
    return read_noop(asked, said);
  case MT_LOCK_EXISTS:
  case MT_LOCK_CONFLICT:
    return asked->verb == MT_LOCK_CREATE ? MT_LOCK_EXISTS : MT_LOCK_CONFLICT;
  default:
    return said->result;
  }
}

/* Are they about the same documents? */
static bool fits(const sim_call *c, const sim_call *other) {
  if (c->kind != other->kind || c->n != other->n || c->kind >= CALL_DOCUMENTS) return false;
  if (c->kind == CALL_SESSION) return strcmp(c->session, other->session) == 0;
  for (size_t i = 0; i < c->n; i++)
    if (!mt_place_equal(c->items[i].place, other->items[i].place)) return false;
  if (c->kind == CALL_BATCH) return true;
  const reading *a = c->reading, *b = other->reading;
  if (a->read.n != b->read.n) return false;
  for (size_t i = 0; i < a->read.n; i++)
    if (strcmp(a->ids[i], b->ids[i]) != 0) return false;
  return true;
}

/* False: it cannot be the answer to this request. */
static bool read_batch(sim_call *c, const sim_call *other) {
  mt_lock_batch *r = (mt_lock_batch *)c->req;
  for (size_t i = 0; i < c->n; i++) {
    mt_lock_item *to = &r->items[i];
    const mt_lock_item *said = &other->items[i];
    to->result = read_as(to, said);
    to->version = said->version;
    to->ahead = said->ahead;
    to->contended = said->contended;
    if (to->result == MT_LOCK_NO_ANSWER) return false;
  }
  return mt_order_judge(&c->from->order, c->after, r, false);
}

static bool read_session(sim_call *c, const sim_call *other) {
  mt_session_write *r = (mt_session_write *)c->req;
  r->result = other->write->result;
  r->version = other->write->version;
  return r->result != MT_SESSION_ACKED ||
         mt_order_judge_session(&c->from->order, c->after, r->verb, r->version);
}

/* 429, whatever was asked. */
static bool read_refused(sim_call *c) {
  fail(c, "429", true, false);
  prove(c, false);
  return true;
}

static bool read_answer(sim_call *c, const sim_call *other) {
  if (!c->net->faults.anonymous) return false;
  if (other->refused) return read_refused(c);
  if (!fits(c, other)) return false;
  if (c->kind == CALL_BATCH) return read_batch(c, other);
  if (c->kind == CALL_SESSION) return read_session(c, other);
  hand_over_docs(c, other);
  return true;
}

static void disbelieve(sim_call *c) {
  mt_lock_batch *r = (mt_lock_batch *)c->req;
  prove(c, false);
  for (size_t i = 0; i < c->n; i++) r->items[i].result = MT_LOCK_NO_ANSWER;
  if (c->kind == CALL_SESSION) ((mt_session_write *)c->req)->result = MT_SESSION_NO_ANSWER;
  fail(c, "the answer of another request", false, true);
}

/* Is the connection used again? A read's answer cannot prove that it is the right one. */
static bool goes_on(const sim_call *c, bool believed) {
  if (!believed || c->kind == CALL_READ || c->kind >= CALL_DOCUMENTS) return believed;
  if (c->kind == CALL_BATCH) return ((const mt_lock_batch *)c->req)->proven;
  return ((const mt_session_write *)c->req)->result == MT_SESSION_ACKED;
}

/* If the client cannot tell the wrong answer from its own, its own comes next over the same
 * connection. */
static void deliver_anothers(void *ctx) {
  sim_call *c = ctx;
  if (held_up(c, deliver_anothers)) return;
  bool believed = read_answer(c, c->reads);
  sim_trace(c->net->w, "store %u: call %llu gets the answer of call %llu%s", c->store,
            (unsigned long long)c->number, (unsigned long long)c->reads->number,
            believed ? "" : ", and does not believe it");
  if (!believed) disbelieve(c);
  if (goes_on(c, believed))
    c->from->behind = c;
  else
    c->from->connection++;
  finish(c);
}

/* An answer that nobody waits for is found when the connection is used next. */
static void deliver_to_reader(sim_call *c) {
  sim_call *reader = c->reader;
  c->reader = NULL;
  if (reader->connection == c->from->connection) deliver_anothers(reader);
}

static sim_call *earlier(const sim_call *c) {
  sim_call *last = NULL;
  for (sim_call *other = c->next; other; other = other->next) {
    if (other->store != c->store || !other->heard) continue;
    if (!last) last = other;
    if (fits(c, other)) return other;
  }
  return last;
}

/* The call whose answer it will read; NULL: its own. */
static sim_call *whose(sim_call *c) {
  sim_store *s = c->from;
  sim_call *second = s->second, *behind = s->behind;
  s->second = s->behind = NULL;
  const sim_faults *f = &c->net->faults;
  if (c->kind == CALL_VERIFY || !(f->twice || f->anothers)) return NULL;
  if (second && second->connection == s->connection) return second;
  if (behind && behind->connection == s->connection && !behind->came) return behind;
  return happens(c, SIM_ANOTHERS, 0, f->anothers) ? earlier(c) : NULL;
}

static void post_reader(sim_call *c) {
  c->reads = whose(c);
  if (!c->reads) return;
  if (c->reads->heard)
    sim_at(c->net->w, sim_now(c->net->w) + 1, deliver_anothers, c); /* before its own */
  else
    c->reads->reader = c;
}

static void time_out(void *ctx) {
  sim_call *c = ctx;
  if (held_up(c, time_out)) return;
  prove(c, true);
  fail(c, "no answer in time", true, true);
  finish(c);
}

static bool cut(const sim_call *c, unsigned which) {
  return c->machine->cut_until > sim_now(c->net->w) && (c->machine->cut & which);
}

static void answer(sim_call *c) {
  int64_t at = sim_now(c->net->w) + dice(c, D_BACK, 1, TRIP_MS);
  if (c->lose_answer) return;
  if (happens(c, SIM_LATE_ANSWER, 0, c->net->faults.late_answer)) at += dice(c, D_LATER, 100, 3500);
  /* What a cut holds up may still come after it. */
  if (cut(c, SIM_CUT_ANSWERS)) {
    if (dice(c, D_CUT, 0, 1)) return;
    at = c->machine->cut_until + dice(c, D_BACK, 1, TRIP_MS);
  }
  c->told = true;
  sim_at(c->net->w, at, deliver, c);
}

/* ---- The way there -------------------------------------------------------------------------- */

static void fresh_answer(sim_call *c) {
  for (size_t i = 0; i < c->n; i++) forget_answer(&c->items[i]);
  c->unsure = false;
}

static void at_primary(void *ctx) {
  sim_call *c = ctx;
  c->answered = true;
  apply(c, SIM_PRIMARY);
  answer(c);
}

/* The old primary answers reads. It does not answer writes, since no copy confirms them: a write is
 * lost, unless it is sent on to the new primary in the end. */
static void at_old_primary(sim_call *c) {
  c->answered = true;
  if (!apply(c, SIM_REPLACED)) {
    answer(c);
    return;
  }
  fresh_answer(c);
  if (dice(c, D_AGAIN, 0, 1))
    sim_at(c->net->w, sim_now(c->net->w) + dice(c, D_LATER, 1, 4000), at_primary, c);
}

static void at_server(void *ctx) {
  sim_call *c = ctx;
  if (c->answered)
    apply_again(c);
  else if (happens(c, SIM_REFUSE, 0, c->net->faults.refuse)) {
    c->refused = c->answered = true;
    answer(c);
  } else if (reaches_old(c))
    at_old_primary(c);
  else
    at_primary(c);
}

static void post(sim_call *c) {
  sim_net *net = c->net;
  const sim_faults *f = &net->faults;
  int64_t now = sim_now(net->w), at = now + dice(c, D_TO, 1, TRIP_MS);
  if (happens(c, SIM_LATE_REQUEST, 0, f->late_request)) at = now + dice(c, D_TO, 1, f->late_ms);
  c->lose_answer = happens(c, SIM_LOSE_ANSWER, 0, f->lose_answer);
  bool lost = happens(c, SIM_LOSE_REQUEST, 0, f->lose_request);
  if (cut(c, SIM_CUT_REQUESTS)) {
    lost |= dice(c, D_CUT, 0, 1) == 0;
    at = c->machine->cut_until + dice(c, D_TO, 1, TRIP_MS);
  }
  if (!lost) sim_at(net->w, at, at_server, c);
  if (!lost && happens(c, SIM_REPEAT, 0, f->repeat))
    sim_at(net->w, at + dice(c, D_AGAIN, 0, f->late_ms), at_server, c);
  int64_t deadline = now + REQUEST_MS;
  if (c->req->deadline_ms) deadline = sim_machine_true(c->machine, c->req->deadline_ms);
  sim_at(net->w, deadline, time_out, c);
  c->after = mt_order_ask(&c->from->order);
  if (c->kind == CALL_SESSION)
    c->after = mt_order_ask_session(&c->from->order, (mt_session_write *)c->req);
  post_reader(c);
}

/* ---- The store ------------------------------------------------------------------------------ */

static sim_call *call_new(mt_store *s, mt_req *req, call_kind kind) {
  sim_store *store = (sim_store *)s;
  sim_call *c = sim_must(calloc(1, sizeof *c));
  *c = (sim_call){.net = store->net,
                  .machine = store->machine,
                  .thread = store->thread,
                  .from = store,
                  .store = store->number,
                  .number = store->calls++,
                  .connection = store->connection,
                  .kind = kind,
                  .req = req};
  c->next = c->net->calls;
  c->net->calls = c;
  req->op = c;
  req->finished = false;
  req->writes = kind == CALL_BATCH || kind == CALL_SESSION || kind == CALL_PURGE;
  memset(&req->error, 0, sizeof req->error);
  return c;
}

/* A late copy of the request names the same sessions. */
static void keep_dead(sim_call *c) {
  size_t n = 0;
  for (size_t i = 0; i < c->n; i++) n += c->items[i].n_others;
  c->dead = sim_must(calloc(n ? n : 1, sizeof *c->dead));
  char(*to)[MT_SESSION_ID] = c->dead;
  for (size_t i = 0; i < c->n; i++) {
    mt_lock_item *item = &c->items[i];
    if (item->n_others) memcpy(to, item->others, item->n_others * sizeof *to);
    item->others = to;
    to += item->n_others;
  }
}

static void do_batch(mt_store *s, mt_lock_batch *r) {
  sim_call *c = call_new(s, &r->req, CALL_BATCH);
  c->n = r->n;
  c->job = sim_job_number(r->job);
  c->items = sim_must(calloc(r->n, sizeof *c->items));
  c->paths = sim_must(calloc(r->n, sizeof *c->paths));
  c->others = sim_must(calloc(r->n, sizeof *c->others));
  snprintf(c->session, sizeof c->session, "%s", r->session);
  for (size_t i = 0; i < r->n; i++) {
    c->items[i] = r->items[i];
    c->items[i].blockers = NULL;
    if (r->items[i].place.path.n >= sizeof c->paths[i]) abort();
    memcpy(c->paths[i], r->items[i].place.path.p, r->items[i].place.path.n);
    c->items[i].place.path.p = c->paths[i];
    if (!r->items[i].session) continue;
    snprintf(c->others[i], sizeof c->others[i], "%s", r->items[i].session);
    c->items[i].session = c->others[i];
  }
  keep_dead(c);
  fresh_answer(c);
  post(c);
}

static char *keep(mt_slice *s) {
  if (!s->n) return NULL;
  char *text = memcpy(sim_must(malloc(s->n)), s->p, s->n);
  s->p = text;
  return text;
}

static void do_session(mt_store *s, mt_session_write *r) {
  sim_call *c = call_new(s, &r->req, CALL_SESSION);
  r->result = MT_SESSION_NO_ANSWER;
  c->write = sim_must(malloc(sizeof *c->write));
  *c->write = *r;
  snprintf(c->session, sizeof c->session, "%s", r->session);
  c->write->session = c->session;
  c->owner = keep(&c->write->owner);
  c->waiting = keep(&c->write->waiting);
  post(c);
}

static void do_read(mt_store *s, mt_session_read *r) {
  sim_call *c = call_new(s, &r->req, CALL_READ);
  if (r->n > READ_IDS) abort();
  reading *copy = c->reading = sim_must(malloc(sizeof *copy));
  copy->read = *r;
  for (size_t i = 0; i < r->n; i++) {
    snprintf(copy->id_text[i], sizeof copy->id_text[i], "%s", r->ids[i]);
    copy->ids[i] = copy->id_text[i];
  }
  copy->read.ids = copy->ids;
  copy->read.docs = NULL;
  post(c);
}

static void do_documents(mt_store *s, mt_lock_read *r) {
  sim_call *c = call_new(s, &r->req, CALL_DOCUMENTS);
  c->n_documents = r->n;
  c->documents = sim_must(calloc(r->n, sizeof *c->documents));
  c->paths = sim_must(calloc(r->n, sizeof *c->paths));
  for (size_t i = 0; i < r->n; i++) {
    mt_slice path = r->places[i].path;
    if (path.n >= sizeof c->paths[i]) abort();
    memcpy(c->paths[i], path.p, path.n);
    c->documents[i] = (mt_place){{c->paths[i], path.n}, r->places[i].stripe};
  }
  post(c);
}

/* All in one page. */
static void do_list(mt_store *s, mt_lock_list *r) {
  r->json = NULL;
  post(call_new(s, &r->req, CALL_LIST));
}

static void do_purge(mt_store *s, mt_session_purge *r) {
  r->purged = 0;
  r->more = false;
  post(call_new(s, &r->req, CALL_PURGE));
}

static void do_verify(mt_store *s, mt_locks_admin *r) {
  post(call_new(s, &r->req, CALL_VERIFY));
}

static bool do_cancel(mt_store *s, mt_req *req) {
  (void)s;
  ((sim_call *)req->op)->req = NULL;
  req->op = NULL;
  return req->writes;
}

static void do_close(mt_store *s) {
  free(s);
}

mt_store *sim_store_new(sim_net *net, sim_machine *machine, sim_thread thread, unsigned number) {
  const mt_locks_ops locks = {.verify = do_verify,
                              .session = do_session,
                              .session_read = do_read,
                              .session_purge = do_purge,
                              .batch = do_batch,
                              .list = net->lists ? do_list : NULL,
                              .lock_read = do_documents};
  sim_store *s = sim_must(calloc(1, sizeof *s));
  *s = (sim_store){.locks = locks,
                   .base = {.locks = &s->locks,
                            .cancel = do_cancel,
                            .close = do_close,
                            .url = "sim:",
                            .request_ms = REQUEST_MS},
                   .net = net,
                   .machine = machine,
                   .thread = thread,
                   .number = number};
  return &s->base;
}
