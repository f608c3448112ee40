/* A schedule: processes that are at one job, one after the other, the faults they meet, others who change the
 * same documents, and what must always hold.
 *
 *   simulate_jobs.c  the command line; a schedule from its beginning to its rest
 *   process.c        one process at the job: how it comes, what it does, how it dies
 *   function.c       its change, where that is a function
 *   orders.c         those who steer the job, from anywhere, and what must hold of that
 *   others.c         writers without a lock
 *   judge.c          what must always hold, and in the end
 *   server.c         what the server does by itself
 *   road.c           requests on their way: lost, late, repeated, carried out bit by bit
 *   shelf.c          the documents; loop.c a process's loop in virtual time
 *   ../world.c       time and chance; ../shrink.c makes a failing schedule small
 *
 * Beside them only core/job's own files run, and what they are built on. */
#ifndef MT_SIM_JOBS_H
#define MT_SIM_JOBS_H

#include "job/job.h"
#include "job/known.h"
#include "job/rename.h"
#include "shelf.h"
#include "world.h"

enum {
  JOBS_PROCESSES = 10, /* at most; the last ones come when all is calm */
  JOBS_DOCS = 24,
  JOBS_LEASE = 6000,
  JOBS_MARGIN = 300,
};

/* What the job does to each document below /old. */
typedef enum jobs_kind {
  JOBS_RENAME,  /* its path lies below /new; undone from the journal's sources */
  JOBS_INVERSE, /* the same, with ids only in the journal, since something lies below /new already */
  JOBS_EMPTY,   /* the same, with no journal, since nothing does; also by the server itself */
  JOBS_MOVES,   /* as JOBS_INVERSE, and each document gets another id, below /new */
  JOBS_LIST,    /* a list of transforms, after which it still matches */
  JOBS_DELETE,  /* the same, but that every third document is deleted */
  JOBS_FUNCTION, /* a function, which would be seen if it were called for what it has made */
  JOBS_KINDS,
} jobs_kind;

struct jobs_sim;

/* What the job's document says that a process has read of the orders, and how it has kept to them since. */
typedef struct jobs_heard {
  uint64_t n; /* the last that were given since it began */
  int64_t ms;
  uint64_t sent_under; /* the orders that stood when it began its last batch */
  int64_t sent_ms;
  size_t sent;
} jobs_heard;

typedef struct jobs_process {
  struct jobs_sim *sim;
  unsigned number;
  bool born, gone, stuck; /* stuck: stopped until `stopped_until` */
  int64_t stopped_until, born_ms;
  bool paused;
  mt_loop *loop;
  mt_store *store;
  mt_env env;
  uint64_t randoms;
  mt_session session;
  mt_permit permit;
  mt_rename rename, back; /* of a list or a function: only their changes */
  mt_known known;         /* of a function, as all up to `steps` */
  struct mt_unit *unit;   /* the page that it is making */
  bool making;
  uint64_t steps;
  mt_job job;
  uint64_t requests, dies_at; /* with this one; 0: not so */
  uint64_t events, interrupted_at; /* it is asked to end right after this event; 0: not so */
  uint64_t again;             /* documents that it wrote as they were */
  bool ended;                 /* by itself: it has given its lock back */
  bool told_pause, told_cancel; /* by an order to its session */
  int64_t began_ms;             /* its attempt; 0: it has none */
  jobs_heard heard;
} jobs_process;

/* What kind of schedule it is; all of it follows from the seed. */
typedef struct jobs_profile {
  jobs_kind kind;
  unsigned docs, fault_level, others, orders, yields, misfortunes;
  bool bounded;      /* none may be set aside */
  unsigned poisoned; /* in a thousand: documents whose change the mapping rejects */
  bool revisions;    /* the store says how often a document was written */
  mt_strategy strategy; /* of JOBS_EMPTY */
  bool rivals;       /* a process begins while the one before still believes in its lock */
  uint32_t page, in_flight;
  size_t known;    /* documents of a part of what is known */
  int64_t horizon; /* of misfortunes, in a process's life */
} jobs_profile;

/* Chances in a thousand. */
typedef struct jobs_faults {
  unsigned lose_request, lose_answer, repeat, late_request, late_answer, refuse, busy, unsure,
      split;
  int64_t late_ms;
} jobs_faults;

/* What the judge knows of a document. */
typedef struct jobs_doc {
  char *base; /* what it was before the job changed it: the last that others wrote; NULL: nothing */
  int64_t base_ms; /* when; 0: before all */
  bool others;     /* who wrote that */
  bool written;    /* the job has changed it, and has not undone that */
  bool listed;     /* its journal had it */
  bool remade;     /* then it was gone, and others have made another */
  bool unsure;     /* and its list, for good, since nobody can tell whether it was written */
} jobs_doc;

typedef struct jobs_counts {
  uint64_t processes, killed, takeovers, done, undone, standing, cleared, accepted, writes, again, late,
      batches, others, calls, orders, yields, tasks, lost, interrupted;
} jobs_counts;

/* The request for a task, as it is on its way. */
typedef struct jobs_start {
  char name[MT_SERVER_TASK_NAME_MAX + 1], gate_id[64], gate_path[64];
  const char *below;
  int64_t not_after_ms;
} jobs_start;

/* The orders as they stand, and who was given some. */
typedef struct jobs_orders {
  uint64_t n;
  int64_t ms;
  char session[MT_SESSION_ID];
  bool paused, cancelled;
  mt_limits limits;
} jobs_orders;

typedef struct jobs_sim {
  sim_world *w;
  shelf shelf;
  jobs_profile profile;
  jobs_faults faults;
  struct jobs_call *calls;
  struct jobs_task *tasks;
  mt_transforms list, inverse;
  jobs_process processes[JOBS_PROCESSES];
  size_t n;
  bool calm;
  const char *failure;
  jobs_doc docs[JOBS_DOCS];
  struct jobs_entry *journal; /* what was written to it */
  size_t n_journal, cap_journal;
  mt_job_record ended; /* as the document says */
  bool accepted;       /* it is done since somebody took it as it was */
  int64_t last_ms;     /* when the last process began that went forward */
  unsigned cleared;    /* since this process nothing stood half-done, and the guards of those before it are gone */
  jobs_orders orders;
  unsigned ordered; /* how often they could have been given */
  jobs_counts counts;
} jobs_sim;

void jobs_fail(jobs_sim *s, const char *why); /* the first one counts; `why` is static */

/* A draw for the schedule itself. */
static inline sim_key jobs_own(unsigned number, unsigned detail) {
  return sim_key_of(SIM_DICE, 255, number, detail);
}

/* loop.c */
mt_loop *jobs_loop_new(jobs_process *process);

/* The id of a document, at first or where the job has moved it. */
void jobs_id(const jobs_sim *s, unsigned doc, bool moved, char out[32]);

/* road.c */
mt_store *jobs_store_new(jobs_process *process);
void jobs_road_clear(jobs_sim *s);

/* server.c */
/* A task of the server's begins. -> its number */
uint64_t jobs_task_begin(jobs_process *p, const jobs_start *r);
mt_server_task_state jobs_task_look(jobs_sim *s, uint64_t number, bool cancel);
/* The numbers of those that run, at most `most`. -> how many */
size_t jobs_tasks_find(const jobs_sim *s, const char *name, uint64_t *numbers, size_t most);
void jobs_tasks_clear(jobs_sim *s);

/* process.c */
/* `former`: in its session, which has let others in; else NULL. */
void jobs_process_begin(jobs_sim *s, mt_job_verb verb, const jobs_process *former);
void jobs_process_kill(jobs_process *p);
void jobs_process_clean(jobs_process *p);
/* An event for a stopped process comes when it goes on; one for a dead process never. */
bool jobs_held_up(jobs_process *p, void (*fn)(void *ctx), void *ctx);

/* function.c */
void jobs_function_offered(mt_change *c);

/* orders.c */
void jobs_orders_begin(jobs_sim *s);
void jobs_orders_end(jobs_sim *s); /* all grows calm: nobody is told to wait any more */
void jobs_orders_record(jobs_process *p, const mt_job_record *r); /* it has written that */
void jobs_orders_batch(jobs_process *p, size_t documents); /* a batch of it is in the journal */

/* others.c */
void jobs_others(jobs_sim *s);

/* judge.c */
void jobs_judge_begin(jobs_sim *s);
void jobs_judge_end(jobs_sim *s); /* all is over */
void jobs_judge_clean(jobs_sim *s);
void jobs_judge_process(jobs_process *p); /* it has ended by itself */
/* A task of this attempt has changed a document. */
void jobs_judge_task(jobs_sim *s, uint64_t attempt);
/* The function is called for a document. */
void jobs_judge_call(jobs_process *p, const mt_doc *doc);
/* What the job makes of it, owned; NULL where it is deleted. False: nothing is to be changed. */
bool jobs_change(jobs_sim *s, const char *source, char **out);
/* As a transform, of `jobs_sim`. */
mt_transformed jobs_transform(void *ctx, const mt_doc *doc, mt_buf *out, mortise_error *err);
bool jobs_lies_below(const char *source, const char *path);
void jobs_lists_make(jobs_sim *s); /* what the job is to do */

/* simulate_jobs.c */
bool jobs_at_work(jobs_sim *s);
bool jobs_may_begin(const jobs_sim *s); /* are there processes left for this schedule? */
void jobs_next(void *sim); /* another process takes the job over, if it may */
void jobs_schedule(jobs_sim *s, uint64_t seed, const sim_key *only, size_t n_only,
                   sim_tracing tracing);
void jobs_clean(jobs_sim *s);

#endif
