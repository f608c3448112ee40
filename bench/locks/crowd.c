/* Many sessions at once, in few processes: a thread for each drives a client of its own, with a heartbeat.
 *
 * Of ten sessions seven hold a lock each all the time and do nothing, two take and give back a lock of their own
 * about every five seconds, and one stands in the queue of one exclusive path, which each holds for 20 ms. One more
 * lists all locks every ten seconds. They open one after the other, so many a second, which does not count. */
#include "bench.h"

#include "base/json.h"
#include "client/client.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  PROCESSES = 8,
  OPEN_EACH_S = 20, /* a second */
  SETTLE_S = 15,
  PAIR_EVERY_S = 5,
  LIST_EVERY_S = 10,
  DOOR_US = 20000,
  TIMES = 4000
};
enum { HOLDS, PAIRS, WAITS, LISTS, ROLES };

static const char *const roles[ROLES] = {"holds", "pairs", "waits", "lists"};

/* What one session has done in the time that counts. */
typedef struct guest {
  int role;
  bool good;
  uint64_t trips, janitor, items;
  size_t n;
  float us[TIMES]; /* of a pair, a wait or a listing */
} guest;

typedef struct crowd {
  const options *o;
  double begin_us, end_us;
  size_t n;
  guest guests[];
} crowd;

typedef struct visit {
  const crowd *all;
  guest *me;
  size_t who;
  mortise_client *client;
  guest before;
} visit;

static void read_counts(const visit *v, guest *g) {
  mt_manager_stats stats = mt_manager_get_stats(v->client->own->manager);
  g->trips = v->client->store->stats.requests;
  g->janitor = stats.janitor;
  g->items = stats.items;
}

/* Its loop runs: a session that does nothing still clears away what the dead left. */
static void stay_until(const visit *v, double end_us) {
  for (double now; (now = now_us()) < end_us;) {
    double ms = (end_us - now) / 1000;
    mt_loop_step(v->client->loop, ms < 200 ? (int64_t)ms + 1 : 200, NULL);
  }
}

static bool counts(const visit *v) {
  return now_us() >= v->all->begin_us;
}

static void note(const visit *v, double start) {
  if (counts(v) && v->me->n < TIMES) v->me->us[v->me->n++] = (float)(now_us() - start);
}

static mortise_lock *take(const visit *v, const char *path) {
  mortise_error err;
  const mortise_lock_request r = {
      .size = sizeof(mortise_lock_request), .kind = MORTISE_LOCK_TREE, .paths = &path, .n = 1, .wait_ms = 600000};
  mortise_lock *lock = mortise_lock_acquire(v->client, &r, NULL, &err);
  if (!lock) fprintf(stderr, "crowd, session %zu: %s\n", v->who, err.message);
  return lock;
}

static bool give(const visit *v, mortise_lock *lock) {
  mortise_error err;
  if (!mortise_lock_release(lock, &err)) return true;
  fprintf(stderr, "crowd, session %zu: %s\n", v->who, err.message);
  return false;
}

/* One round of its role. False: something failed. */
static bool pair_once(const visit *v) {
  char path[64];
  snprintf(path, sizeof path, "/crowd/pairs/%zu", v->who);
  double start = now_us();
  mortise_lock *lock = take(v, path);
  if (!lock || !give(v, lock)) return false;
  note(v, start);
  stay_until(v, start + 1e6 * PAIR_EVERY_S * (0.5 + (double)(rand() % 1000) / 1000));
  return true;
}

static bool wait_once(const visit *v) {
  double start = now_us();
  mortise_lock *lock = take(v, "/crowd/door");
  if (!lock) return false;
  note(v, start);
  stay_until(v, now_us() + DOOR_US);
  return give(v, lock);
}

static bool list_once(const visit *v) {
  mt_store *store = v->client->store;
  mt_lock_list list = {.ns = "default", .page = 1000};
  double start = now_us();
  bool good = true;
  do {
    list.req = (mt_req){0};
    store->locks->list(store, &list);
    good = !mt_store_wait(store, &list.req, INT64_MAX);
    if (!good) fprintf(stderr, "crowd, listing: %s\n", list.req.error.message);
    mt_lock_list_deinit(&list);
  } while (good && list.listing);
  note(v, start);
  stay_until(v, start + 1e6 * LIST_EVERY_S);
  return good;
}

static bool stay(const visit *v) {
  stay_until(v, now_us() + 1e6);
  return true;
}

static void *attend(void *ctx) {
  static bool (*const rounds[ROLES])(const visit *v) = {stay, pair_once, wait_once, list_once};
  visit *v = ctx;
  char path[64];
  bool began = false;
  snprintf(path, sizeof path, "/crowd/held/%zu", v->who);
  v->client = open_client(v->all->o);
  mortise_lock *held = v->client ? take(v, path) : NULL;
  v->me->good = held != NULL;
  if (held && v->me->role != HOLDS) v->me->good = give(v, held);
  while (v->me->good && now_us() < v->all->end_us) {
    if (!began && counts(v)) {
      read_counts(v, &v->before);
      began = true;
    }
    v->me->good = rounds[v->me->role](v);
  }
  if (v->me->good) {
    guest now;
    read_counts(v, &now);
    v->me->trips = now.trips - v->before.trips;
    v->me->janitor = now.janitor - v->before.janitor;
    v->me->items = now.items - v->before.items;
  }
  if (v->me->good && v->me->role == HOLDS) v->me->good = give(v, held);
  mortise_client_free(v->client);
  return NULL;
}

static void attend_all(crowd *all, size_t first) {
  size_t n = 0;
  pthread_t *threads = calloc(all->n, sizeof *threads);
  visit *visits = calloc(all->n, sizeof *visits);
  if (!threads || !visits) abort();
  for (size_t i = first; i < all->n; i += PROCESSES, n++) {
    visits[n] = (visit){.all = all, .me = &all->guests[i], .who = i};
    if (pthread_create(&threads[n], NULL, attend, &visits[n])) abort();
    usleep(PROCESSES * 1000000 / OPEN_EACH_S);
  }
  for (size_t i = 0; i < n; i++) pthread_join(threads[i], NULL);
  free(threads);
  free(visits);
}

/* ---- What it comes to ------------------------------------------------------------------------ */

static void say_role(const crowd *all, int role, double seconds) {
  static double us[1 << 20];
  size_t sessions = 0, bad = 0, n = 0;
  uint64_t trips = 0, janitor = 0, items = 0;
  for (size_t i = 0; i < all->n; i++) {
    const guest *g = &all->guests[i];
    if (g->role != role) continue;
    sessions++;
    bad += !g->good;
    trips += g->trips;
    janitor += g->janitor;
    items += g->items;
    for (size_t k = 0; k < g->n && n < sizeof us / sizeof *us; k++) us[n++] = g->us[k];
  }
  sample s = {0};
  percentiles(us, n, &s);
  printf("{\"case\":\"crowd\",\"role\":\"%s\",\"sessions\":%zu,\"seconds\":%.0f,\"failed\":%zu,"
         "\"done\":%zu,"
         "\"trips\":%llu,\"janitor\":%llu,\"items\":%llu,\"p50_us\":%.0f,\"p99_us\":%.0f,\"most_"
         "us\":%.0f}\n",
         roles[role], sessions, seconds, bad, n, (unsigned long long)trips,
         (unsigned long long)janitor, (unsigned long long)items, s.p50, s.p99, s.most);
  double each = sessions ? 1 / ((double)sessions * seconds) : 0;
  fprintf(stderr,
          "crowd: %4zu %s, %zu failed; %8.2f done/s, p50 %9.0f us, p99 %9.0f us, most %9.0f us; "
          "each session and "
          "second %.3f requests, of them %.4f the janitor's\n",
          sessions, roles[role], bad, (double)n / seconds, s.p50, s.p99, s.most,
          (double)trips * each, (double)janitor * each);
  if (role == PAIRS) machine_say(all->o->machine, "crowd: a pair", s.p50);
}

/* What the server counted: {writes, gets, searches} of the table. */
static bool server_counts(const options *o, uint64_t out[3]) {
  static const char *const names[3][2] = {
      {"indexing", "index_total"}, {"get", "total"}, {"search", "query_total"}};
  mt_buf answer;
  mt_json root;
  mt_buf_init(&answer, 1 << 20);
  bool good = raw_get(o, "/" TABLE "/_stats/indexing,get,search", &answer) &&
              !mt_json_parse(mt_buf_slice(&answer), "the statistics", &root, NULL);
  for (int i = 0; good && i < 3; i++) {
    mt_json total = mt_json_get(mt_json_get(root, "_all"), "total");
    good = mt_json_uint(mt_json_get(mt_json_get(total, names[i][0]), names[i][1]), &out[i]);
  }
  mt_buf_deinit(&answer);
  return good;
}

static bool run_crowd(crowd *all, double seconds) {
  uint64_t before[3] = {0}, after[3] = {0};
  pid_t pids[PROCESSES];
  bool good = true;
  all->begin_us = now_us() + 1e6 * ((double)all->n / OPEN_EACH_S + SETTLE_S);
  all->end_us = all->begin_us + 1e6 * seconds;
  fflush(NULL);
  for (size_t i = 0; i < PROCESSES; i++) {
    pids[i] = fork();
    if (pids[i] < 0) abort();
    if (pids[i]) continue;
    attend_all(all, i);
    _exit(0);
  }
  while (now_us() < all->begin_us) usleep(10000);
  good = server_counts(all->o, before);
  while (now_us() < all->end_us) usleep(10000);
  good = server_counts(all->o, after) && good;
  for (size_t i = 0; i < PROCESSES; i++) {
    int status = 0;
    good &= waitpid(pids[i], &status, 0) == pids[i] && status == 0;
  }
  for (int role = 0; role < ROLES; role++) say_role(all, role, seconds);
  for (size_t i = 0; i < all->n; i++) good &= all->guests[i].good;
  static const char *const kinds[3] = {"writes", "gets", "searches"};
  for (int i = 0; i < 3; i++) {
    double rate = (double)(after[i] - before[i]) / seconds;
    printf("{\"case\":\"crowd\",\"server\":\"%s\",\"each_second\":%.2f}\n", kinds[i], rate);
    fprintf(stderr, "crowd: the server counted %.1f %s a second, of all copies\n", rate, kinds[i]);
  }
  return good;
}

bool crowd_case(const options *o) {
  size_t n = (o->sessions ? o->sessions : o->quick ? 50 : 1000) + 1;
  double seconds = o->seconds ? o->seconds : o->quick ? 20 : 600;
  size_t bytes = sizeof(crowd) + n * sizeof(guest);
  crowd *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return false;
  all->o = o;
  all->n = n;
  for (size_t i = 0; i < n; i++)
    all->guests[i].role = i == 0 ? LISTS : i % 10 < 7 ? HOLDS : i % 10 < 9 ? PAIRS : WAITS;
  machine_sample(o->machine, MACHINE_PAIRS);
  bool good = run_crowd(all, seconds);
  munmap(all, bytes);
  return good;
}
