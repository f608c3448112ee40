/* Machines, and stores that reach the table from them over a network that drops, delays and
 * repeats: a request may arrive late and twice, an answer may never come, or be that of an earlier
 * request, and for a while after a fail-over some reach a primary that does not know that it was
 * replaced. */
#ifndef MT_SIM_NET_H
#define MT_SIM_NET_H

#include "table.h"

/* Chances in a thousand, for each request or item. */
typedef struct sim_faults {
  unsigned lose_request, lose_answer, repeat, late_request, late_answer, refuse;
  unsigned conflict, busy, unsure;
  unsigned twice, anothers;
  bool anonymous;  /* no answer says which request it belongs to */
  int64_t late_ms; /* the longest a late one is held */
} sim_faults;

typedef struct sim_net {
  sim_world *w;
  sim_table *table;
  sim_faults faults;
  uint32_t stripes;  /* of the table */
  bool lists;        /* stores that are opened now can list: no client clears away without that */
  int64_t old_until; /* till then the replaced primary answers those who reach it */
  unsigned old_number;
  struct sim_call *calls; /* all that were ever made, freed at the end */
} sim_net;

void sim_net_deinit(sim_net *net);
/* Stops all faults: what is under way arrives, what comes later is delivered. */
void sim_net_calm(sim_net *net);
/* Some clients still reach the old primary for that long. */
void sim_net_fail_over(sim_net *net, int64_t for_ms, unsigned number);

typedef enum sim_thread { SIM_MAIN, SIM_BEAT } sim_thread;

enum { SIM_CUT_REQUESTS = 1, SIM_CUT_ANSWERS = 2 };

/* One process and its machine. While a thread is stopped, answers to it wait; when it is gone,
 * nobody gets them. */
typedef struct sim_machine {
  unsigned number;
  int64_t skew; /* its clock is true time + skew, and drifts by `drift_ppm` parts per million */
  int64_t drift_ppm, since; /* since then */
  int64_t stopped_until[2]; /* by sim_thread; true time */
  int64_t cut_until;        /* no network */
  unsigned cut;             /* of which direction */
  bool gone;
} sim_machine;

int64_t sim_machine_clock(const sim_machine *m, int64_t true_ms);
/* The first true time at which its clock shows that much. */
int64_t sim_machine_true(const sim_machine *m, int64_t clock_ms);

/* `number` is of this store alone. */
mt_store *sim_store_new(sim_net *net, sim_machine *machine, sim_thread thread, unsigned number);

#endif
