/* A schedule: clients with tasks, the faults they meet, and what must always hold.
 *
 *   simulate.c    the command line; a schedule from its beginning to its rest
 *   client.c      a client: its machine, its manager, what its tasks do
 *   misfortune.c  kills, stops, cuts, fail-overs
 *   check.c       what must always hold
 *   cycles.c      who waits for whom: deadlocks are found, and none is made up
 *   hints.c       what clients of one host tell each other, and what is forged
 *   rest.c        what must hold when all is over
 *   fairness.c    the stream of single files that a directory's waiter must get through
 *   shrink.c      makes a failing schedule small; schedules in files; command.c the command line
 *   net.c         machines and the network; table.c the store's table; world.c time and chance
 *
 * Beside them only core/lock's own files run, and what they are built on. */
#ifndef MT_SIM_SIM_H
#define MT_SIM_SIM_H

#include "lock/convert.h"
#include "net.h"

#include <stdio.h>

enum {
  CLIENTS = 4,
  JOBS = 2,
  SLOTS = 10, /* including clients that replace killed ones; the last ones come at the end */
  TASKS = 3,
  DEPTH = 2, /* locks that a task holds inside one another */
  GRIPS = SLOTS * TASKS * DEPTH,
  LEASE = 6000,
  MARGIN = 300,
  WANTS = 2,
};

extern const char *const sim_paths[];
enum {
  SIM_PATHS = 16,
  SIM_PATHS_COMMON = 10, /* the rest are single files under /a */
  SIM_PLACES = SIM_PATHS * SIM_STRIPES
};

struct sim;
struct client;
struct task;

/* A lock that a task has. */
typedef struct grip {
  struct task *task;
  mt_lock *lock; /* NULL: none */
  int number;
  uint64_t clashes; /* with grips of these numbers */
  bool lost;        /* was once not believed: must never be believed again */
  uint64_t fence;
} grip;

typedef enum task_state {
  TASK_IDLE, /* between locks; it may hold outer ones */
  TASK_TAKING,
  TASK_GIVING,
  TASK_CONVERTING,
} task_state;

typedef struct task {
  struct client *client;
  unsigned number; /* of all tasks of all clients */
  task_state state;
  grip grips[DEPTH];
  size_t depth; /* grips held */
  mt_acquire acquire;
  mt_want wants[WANTS];
  mt_release release;
  mt_convert convert;
  int64_t began, deadline, stalls; /* of what is under way; when it must have ended */
  unsigned round, step;
  uint64_t serial;  /* of what is under way */
  uint64_t cancels; /* the operation to be cancelled */
  uint64_t cycle;   /* who was in one with it when last looked at; 0: it was in none; since then */
  int64_t cycle_since, cycle_seen;
} task;

typedef struct client {
  struct sim *sim;
  unsigned number, host;
  sim_machine machine;
  mt_store *store, *beat_store;
  mt_env env;
  uint64_t randoms; /* numbers given to it */
  char owner[96];
  unsigned job; /* its session's, and of those that come after it; 0: none */
  bool failed;  /* to adopt: its session keeps what it tried to, up to its end */
  mt_manager *manager;
  mt_heartbeat heart;
  bool beating, closing, closed;
  int64_t stalled_ms; /* sum of its stops and cuts */
  task tasks[TASKS];
} client;

/* What kind of schedule it is; all of it follows from the seed. */
typedef struct profile {
  bool patient; /* no faults, no locks inside locks, long waits: everything must be granted */
  bool split;   /* only a primary that long does not know that it was replaced, and waits */
  unsigned fault_level, nested, convert, cancel; /* in a thousand */
  unsigned rounds, misfortunes;
  bool hints, flood;  /* clients of a host send them; a thousand a second are forged */
  int64_t hints_lost; /* in a thousand; as many are late */
  bool tidy;          /* clients clear away what the dead left, though nobody wants it */
  bool jobs; /* two of the clients, and those that come after them, work for one job each */
  int64_t longest_hold, horizon; /* of holds; of misfortunes */
} profile;

typedef struct sim_counts {
  uint64_t grants, timeouts, losses, deadlocks, unavailable, cancels, conversions, writes,
      late_writes, refused_writes, takeovers, misfortunes, leftovers, orphans, adoptions, cleared;
  int64_t longest_overrun, longest_cycle;
} sim_counts;

typedef struct bad_luck { /* a fault to come, determined by its number */
  struct sim *s;
  unsigned number;
  int patience;
} bad_luck;

enum { BAD_LUCK = 8 };

typedef struct guard { /* what a session has adopted, and not yet been granted a lock upon */
  char session[MT_SESSION_ID];
  bool on[SIM_PLACES];
  uint64_t settled[SIM_PLACES]; /* the session's latest number when all was granted there */
} guard;

enum { GUARDS = 64 };

typedef struct turn { /* a waiter's, as check.c saw it acknowledged */
  char session[MT_SESSION_ID];
  mt_mode mode;
  uint64_t n;
  int64_t until;
} turn;

typedef struct sim {
  sim_world *w;
  sim_table *table;
  sim_net net;
  profile profile;
  client clients[SLOTS];
  size_t n; /* clients so far */
  const char *failure;
  bool calm;          /* no more faults */
  bool giving;        /* the jobs are over: heirs only give back */
  grip *grips[GRIPS]; /* held now */
  size_t n_grips;
  uint64_t fences[SIM_PATHS][MT_MODES]; /* the largest granted so far */
  uint64_t stamps[SIM_PATHS];           /* of the documents */
  const task *stampers[SIM_PATHS];      /* and whose they are */
  turn places[SIM_PLACES][SIM_ENTRIES]; /* in order */
  size_t n_places[SIM_PLACES];
  guard guards[GUARDS];
  size_t n_guards;
  bad_luck bad_luck[BAD_LUCK];
  sim_machine admin;
  mt_store *admin_store;
  mt_session_write breaking;
  char broken[MT_SESSION_ID];
  struct stream *stream; /* fairness.c */
  struct sim_hint *hints; /* hints.c: all that were ever sent */
  uint64_t hints_sent;
  int64_t flood_until;
  sim_counts counts;
} sim;

void sim_fail(sim *s, const char *why); /* the first one counts; `why` is static */
int sim_path_number(mt_slice path);
mt_place sim_place(int path, uint32_t stripe);
int sim_place_number(mt_place place);
uint32_t sim_stripes(const sim *s, int path); /* of the path */

/* A draw for the schedule itself. */
static inline sim_key sim_own(unsigned number, unsigned detail) {
  return sim_key_of(SIM_DICE, 255, number, detail);
}

/* client.c */
client *sim_client_open(sim *s, unsigned host, unsigned job);
/* Gracefully; `leaves`: what it holds for its job stays. */
void sim_client_close(client *c, bool leaves);
void sim_client_clean(client *c);
bool sim_client_runs(const client *c);
int64_t sim_client_due(const client *c); /* true time */
void sim_client_run(client *c);
void sim_client_kill(client *c);
void sim_task_later(task *t); /* goes on after a pause */
void sim_task_after(task *t, int64_t ms);
/* Takes what its `wants` say. */
void sim_task_take(task *t, size_t n, int64_t wait_ms, bool adopts);
void sim_task_give(task *t);

/* check.c */
const sim_watch *sim_checks(sim *s, sim_watch *watch);
void sim_check_granted(grip *g);
void sim_check_changed(grip *g); /* its wants may have changed */
void sim_check_given(grip *g);
void sim_check_adopted(const grip *g); /* with all it wanted */
void sim_check_beliefs(void *sim); /* after every event */
bool sim_believes(const grip *g);
/* A write to what the lock covers, which may arrive late. */
void sim_check_write(grip *g, sim_key key);

/* cycles.c */
void sim_cycles(sim *s);
void sim_check_deadlock(task *t, const mortise_error *err);
void sim_check_timeout(task *t); /* before it has ended */

/* hints.c */
void sim_hints_begin(sim *s);
bool sim_hint_send(void *client, const mt_hint *hint);
void sim_hints_clean(sim *s);

/* misfortune.c */
void sim_misfortunes(sim *s);

/* rest.c */
void sim_check_rest(sim *s);
bool sim_task_ended(const task *t);

/* simulate.c */
/* Runs until `until`, until nothing is left to do, or, with `tasks`, until these have all ended. */
void sim_run(sim *s, int64_t until, bool tasks);
bool sim_all_ended(const sim *s);
/* One schedule; `only` as in sim_world_new. */
void sim_schedule(sim *s, uint64_t seed, const sim_key *only, size_t n_only, struct stream *stream,
                  sim_tracing tracing);
void sim_clean(sim *s);

/* fairness.c; each does nothing, and says false, where there is no stream */
int sim_fairness(uint64_t seed, uint64_t schedules, sim_tracing tracing);
void sim_stream_begin(sim *s, struct stream *stream);
void sim_stream_set(sim *s, const char *session, const mt_lock_item *item);
bool sim_stream_act(task *t);
bool sim_stream_pause(task *t);
void sim_stream_granted(const grip *g);

#endif
