/* Is a directory's waiter starved by a stream of single files? Tasks of four clients take files of
 * one directory all the time; one task wants the directory itself now and then.
 *
 * Once its place in the queue is acknowledged:
 * - no session that holds nothing there gets in before it (check.c, as in every schedule);
 * - a session that has tasks inside keeps its intention lock while tasks follow one another, but
 *   writes it again when its last write is REWRITE_MS old. From the answer it learns of the queue,
 *   and lets nobody else in. So it writes there at most once for each task inside, and one write
 *   may be under way;
 * - each of its tasks gets files only until then: at most one for each CYCLE_MS, and one.
 * So the directory is granted after a bounded number of hand-offs, and in a bounded time. */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
  DIRECTORY = 1, /* "/a" */
  FIRST_FILE = SIM_PATHS_COMMON,
  FILES = 6,
  WAITS = 3,          /* of the directory's task */
  REWRITE_MS = 250,   /* attempt.c */
  HOLD_LEAST_MS = 20, /* a file */
  HOLD_MOST_MS = 60,
  TRIP_MS = 16,  /* there and back, at most */
  POLL_MS = 400, /* at most */
  CYCLE_MS = HOLD_LEAST_MS + 2,
  FILES_MOST = 1 + (REWRITE_MS + 3 * TRIP_MS) / CYCLE_MS, /* of one task */
  WRITES_MOST = TASKS + 1,                                /* of one session */
  /* Those inside may all wait for one file, and for one another. */
  WAIT_MOST_MS = REWRITE_MS + CLIENTS * TASKS * (HOLD_MOST_MS + POLL_MS + 2 * TRIP_MS),
  BUCKETS = 12,
  D_FILE = 1,
  D_REST,
};

typedef struct stream {
  task *directory;
  bool done;
  bool waiting; /* its place was acknowledged */
  int64_t since;
  uint64_t files, handoffs;
  uint64_t of_task[SLOTS * TASKS];
  uint64_t of_session[SLOTS];
  uint64_t waits, files_most, handoffs_most, of_task_most, of_session_most, bucket[BUCKETS];
  int64_t longest_ms;
} stream;

/* ---- What its tasks do ---------------------------------------------------------------------- */

static int64_t dice(const task *t, unsigned detail, int64_t least, int64_t most) {
  return sim_between(t->client->sim->w, sim_key_of(SIM_DICE, t->number, t->step, 256 + detail),
                     least, most);
}

static void again(task *t, int64_t least, int64_t most) {
  sim_task_after(t, dice(t, D_REST, least, most));
}

static void take(task *t, int path) {
  t->wants[0] = (mt_want){mt_slice_of(sim_paths[path]), MT_X};
  sim_task_take(t, 1, 30000, false);
}

bool sim_stream_act(task *t) {
  stream *f = t->client->sim->stream;
  if (!f) return false;
  t->step++;
  if (t->depth) {
    sim_task_give(t);
  } else if (t == f->directory) {
    f->done = t->round == WAITS;
    if (!f->done) {
      t->round++;
      take(t, DIRECTORY);
    }
  } else if (f->done) {
    t->round = t->client->sim->profile.rounds;
  } else {
    take(t, FIRST_FILE + (int)dice(t, D_FILE, 0, FILES - 1));
  }
  return true;
}

bool sim_stream_pause(task *t) {
  stream *f = t->client->sim->stream;
  if (!f) return false;
  if (t->depth)
    again(t, HOLD_LEAST_MS, HOLD_MOST_MS);
  else if (t == f->directory)
    again(t, 100, 900);
  else
    again(t, 0, 0);
  return true;
}

/* ---- What is counted ------------------------------------------------------------------------ */

static client *client_of(sim *s, const char *session) {
  for (size_t i = 0; i < s->n; i++) {
    const mt_session *mine = mt_manager_session(s->clients[i].manager);
    if (mine && strcmp(mine->id, session) == 0) return &s->clients[i];
  }
  return NULL;
}

void sim_stream_set(sim *s, const char *session, const mt_lock_item *item) {
  stream *f = s->stream;
  if (!f || !mt_slice_eq(item->place.path, mt_slice_of(sim_paths[DIRECTORY]))) return;
  client *c = client_of(s, session);
  if (!c) return;
  if (item->result == MT_LOCK_QUEUED && c == f->directory->client && item->mode == MT_X) {
    if (f->waiting) return;
    f->waiting = true;
    f->since = sim_now(s->w);
    f->files = f->handoffs = 0;
    memset(f->of_task, 0, sizeof f->of_task);
    memset(f->of_session, 0, sizeof f->of_session);
  } else if (item->result == MT_LOCK_ACKED && f->waiting && c != f->directory->client) {
    f->handoffs++;
    if (++f->of_session[c->number] > f->of_session_most)
      f->of_session_most = f->of_session[c->number];
    if (f->of_session[c->number] > WRITES_MOST) sim_fail(s, "a session does not see the queue");
  }
}

static void had(sim *s, stream *f) {
  int64_t took = sim_now(s->w) - f->since;
  f->waiting = false;
  f->waits++;
  if (took > f->longest_ms) f->longest_ms = took;
  if (f->files > f->files_most) f->files_most = f->files;
  if (f->handoffs > f->handoffs_most) f->handoffs_most = f->handoffs;
  f->bucket[f->files / 4 < BUCKETS ? f->files / 4 : BUCKETS - 1]++;
  if (took > WAIT_MOST_MS) sim_fail(s, "the directory's waiter takes too long");
}

void sim_stream_granted(const grip *g) {
  sim *s = g->task->client->sim;
  stream *f = s->stream;
  if (!f || !f->waiting) return;
  if (g->task == f->directory) {
    had(s, f);
    return;
  }
  f->files++;
  uint64_t n = ++f->of_task[g->task->number];
  if (n > f->of_task_most) f->of_task_most = n;
  if (n > FILES_MOST) sim_fail(s, "the stream of single files goes on before a waiter");
}

/* ---- Many ----------------------------------------------------------------------------------- */

static void add(stream *sum, const stream *f) {
  sum->waits += f->waits;
  if (f->files_most > sum->files_most) sum->files_most = f->files_most;
  if (f->handoffs_most > sum->handoffs_most) sum->handoffs_most = f->handoffs_most;
  if (f->of_task_most > sum->of_task_most) sum->of_task_most = f->of_task_most;
  if (f->of_session_most > sum->of_session_most) sum->of_session_most = f->of_session_most;
  if (f->longest_ms > sum->longest_ms) sum->longest_ms = f->longest_ms;
  for (int i = 0; i < BUCKETS; i++) sum->bucket[i] += f->bucket[i];
}

static void print(const stream *f, uint64_t schedules, uint64_t failures) {
  printf("%" PRIu64 " schedules, %" PRIu64 " waits for the directory, at most %" PRIu64
         " files taken meanwhile (%" PRIu64 " by one task, bound %d), %" PRIu64
         " writes there (%" PRIu64 " by one session, bound %d), %" PRId64 " ms (bound %d); %" PRIu64
         " failures\n",
         schedules, f->waits, f->files_most, f->of_task_most, FILES_MOST, f->handoffs_most,
         f->of_session_most, WRITES_MOST, f->longest_ms, WAIT_MOST_MS, failures);
  printf("files taken meanwhile:");
  for (int i = 0; i < BUCKETS; i++)
    printf(" %d%s %" PRIu64, 4 * i, i == BUCKETS - 1 ? "+:" : ":", f->bucket[i]);
  putchar('\n');
}

int sim_fairness(uint64_t seed, uint64_t schedules, sim_tracing tracing) {
  stream sum = {0};
  uint64_t failures = 0, done = 0;
  for (; done < schedules && failures < 5; done++) {
    static sim s;
    stream f = {0};
    sim_schedule(&s, seed + done, NULL, 0, &f, tracing);
    if (s.failure) {
      printf("seed %" PRIu64 ": %s\n", seed + done, s.failure);
      failures++;
    }
    sim_clean(&s);
    add(&sum, &f);
  }
  print(&sum, done, failures);
  return failures ? 1 : 0;
}

void sim_stream_begin(sim *s, stream *f) {
  s->stream = f;
  if (f) f->directory = &s->clients[CLIENTS - 1].tasks[0];
}
