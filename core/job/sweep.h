/* A change that the store makes by itself, by a declared list: started, followed, ended.
 *
 * On a server it is a task, which goes on without its sender, and whose request may arrive late. So it has a
 * name, by which whoever takes over finds it on any node, and a gate: a member of the job's document, which only
 * its owner writes. Who closes the gate, then finds all tasks of that name and sees each of them ended, knows
 * that nothing more comes: a task that was listed has ended, and one that was not begins after the gate was
 * closed and finds nothing. What a node does that has left the cluster cannot be seen: such a task has not ended
 * before the time, on the store's clock, from which on its script refuses to go on. */
#ifndef MT_JOB_SWEEP_H
#define MT_JOB_SWEEP_H

#include "lock/permit.h"
#include "store/store.h"
#include "transform/transform.h"

/* A task's name, for the job `ns`:`job` of the jobs' index `table`. OUT_OF_MEMORY. */
mortise_status mt_sweep_name(char out[MT_SERVER_TASK_NAME_MAX + 1], const char *table,
                             const char *ns, const char *job, mortise_error *err);

/* The store's clock when this session was last heard of, and how long it may be relied on from then: until
 * then a task may run. 0: the store knows no such session. */
typedef struct mt_store_clock {
  mt_session_read read;
  const char *id;
} mt_store_clock;

/* ---- Ending tasks ----------------------------------------------------------------------------- */

typedef struct mt_quell {
  /* in; zero the rest; borrowed */
  void (*done)(void *ctx, struct mt_quell *q); /* from the loop */
  void *ctx;
  mt_store *store;
  const mt_permit *permit;
  char name[MT_SERVER_TASK_NAME_MAX + 1];
  const char *task;         /* the last that is known, or "" */
  int64_t not_after_ms;     /* until when that one may run, on the store's clock */
  mortise_error error;      /* out: OK where none runs any more */
  mt_server_task_find find; /* its own, as all below */
  mt_server_task look;
  mt_store_clock clock;
  mt_timer timer;
  mt_req *request; /* of these, the one under way */
  size_t at;
  int64_t until_ms;
  bool reserved;
} mt_quell;

/* OUT_OF_MEMORY: nothing was started. UNAVAILABLE, in the end, where one has not ended within a minute or cannot
 * be reached. */
mortise_status mt_quell_start(mt_quell *q, mortise_error *err);
void mt_quell_deinit(mt_quell *q); /* at any time; `done` is not called any more */

/* ---- One sweep ---------------------------------------------------------------------------------- */

typedef struct mt_sweep {
  /* in; zero the rest; borrowed */
  mt_store *store;
  const mt_env *env;
  const mt_permit *permit;
  const mt_transforms *transforms;
  const char *name;
  mt_gate gate;
  /* set by whoever starts it */
  void (*done)(void *ctx, struct mt_sweep *w); /* from the loop */
  void (*progress)(void *ctx, struct mt_sweep *w);
  void *ctx;
  const char *index;
  mt_slice query;
  uint32_t slices; /* of the store's task; 0: the store decides */
  uint32_t page;   /* documents of the task's; 0: the store's default */
  /* out */
  mt_server_task_state state;
  char task[MT_SERVER_TASK_ID];
  int64_t not_after_ms;
  bool again;  /* it ended, incomplete, only since its time was over: there may be more to do */
  bool unsure; /* it is not known whether it has ended, or one will begin */
  mortise_error error;
  /* its own */
  mt_update_by_query start;
  mt_server_task look;
  mt_quell quell;
  mt_store_clock clock;
  mt_timer timer;
  mt_req *request;
  int64_t begun_ms, renew_ms;
  bool active, stopping, reserved;
} mt_sweep;

mortise_status mt_sweep_start(mt_sweep *w, mortise_error *err);
/* Asks it to end: `done` is called once that is seen. */
void mt_sweep_stop(mt_sweep *w);
void mt_sweep_deinit(mt_sweep *w); /* at any time; `done` is not called any more */

#endif
