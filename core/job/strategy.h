/* Who makes a change: this process, page by page, or the store by itself. */
#ifndef MT_JOB_STRATEGY_H
#define MT_JOB_STRATEGY_H

#include "job/change.h"
#include "job/record.h"

typedef enum mt_strategy {
  MT_STRATEGY_CLIENT = 0,
  MT_STRATEGY_SERVER,
  MT_STRATEGY_AUTO, /* whichever is likely to be faster, of those that can be undone */
} mt_strategy;

const char *mt_strategy_name(mt_strategy strategy);

typedef struct mt_choice {
  mt_strategy strategy; /* CLIENT or SERVER */
  bool refused; /* the store was asked for and may not: it would not be run */
  char why[MT_JOB_WHY_MAX];
} mt_choice;

/* Who would make a change that was planned, were it run now as a new job. `listed`: it is declared, and has an exact
 * inverse. `bytes`: of all documents that would be changed. */
mt_choice mt_strategy_foresee(mt_strategy asked, bool listed, const mt_change *planned,
                              uint64_t bytes);

/* One attempt's: deciding, and what the store needs to make the change by itself. The store may only where the
 * opposite change undoes the job, since it keeps no journal. */
typedef struct mt_launch {
  /* in; zero the rest; borrowed */
  void (*decided)(void *ctx); /* also from mt_launch_decide */
  void *ctx;
  mt_strategy asked;
  const mt_transforms *list; /* the change; NULL: the store cannot make it */
  const char *table;
  bool invertible; /* when it is decided: the opposite change may undo the job */
  mt_change *change;
  mt_job_record *record; /* gets what was decided, and why */
  /* its own */
  mt_sweep sweep;
  mt_search search;
  mt_buf id, sample;
  char name[MT_SERVER_TASK_NAME_MAX + 1], path[64];
  bool ready, busy;
} mt_launch;

/* Before the change is started. */
mortise_status mt_launch_ready(mt_launch *l, mortise_error *err);
/* From the change's `counted`: UNSUPPORTED, saying why, where the store was asked for and may not. Else `decided`
 * is called where documents match and it is `invertible`; until then the change must be paused. Unless
 * the client was asked for, it looks at some documents first. With AUTO, since they travel to this process and back, so
 * that the store is likely to be faster where they are large; and a page of the store's own is as large as they allow. */
mortise_status mt_launch_decide(mt_launch *l, mortise_error *err);
/* Before the job's document is written: which task there is. */
void mt_launch_note(mt_launch *l);
/* The change has ended, and `decided` is not called any more. True: whether a task still runs, or will, is not known. */
bool mt_launch_end(mt_launch *l);
/* Whoever takes a job over ends what tasks of it there are, once its document has no gate: as mt_quell_start, with
 * `done`, `ctx`, `store` and `permit` set. */
mortise_status mt_launch_quell(mt_quell *q, const char *table, const mt_job_record *r,
                               mortise_error *err);
void mt_launch_deinit(mt_launch *l);

#endif
