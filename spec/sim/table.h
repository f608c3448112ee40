/* The lock table of a simulated server, and stores that reach it over a network that drops, delays
 * and repeats: a request may arrive late and twice, an answer may never come. */
#ifndef MT_SIM_TABLE_H
#define MT_SIM_TABLE_H

#include "store/store.h"
#include "world.h"

/* Chances in a thousand, for each request. */
typedef struct sim_faults {
  unsigned drop_request, drop_answer, duplicate, late, conflict, busy;
  int64_t late_ms; /* the longest a late one is held */
} sim_faults;

typedef struct sim_table sim_table;

sim_table *sim_table_new(sim_world *w, const sim_faults *faults);
void sim_table_free(sim_table *t);
/* Stops all faults: what is under way arrives, what comes later is delivered. */
void sim_table_calm(sim_table *t);
/* Lock documents that are left, for the check at rest; says which in the trace. */
size_t sim_table_locks(const sim_table *t);

/* A client's machine: while it is stopped, answers wait; when it is gone, nobody gets them. */
typedef struct sim_machine {
  int64_t skew;          /* its clock is true time + skew */
  int64_t stopped_until; /* true time */
  bool gone;
} sim_machine;

mt_store *sim_store_new(sim_table *t, sim_machine *machine);

#endif
