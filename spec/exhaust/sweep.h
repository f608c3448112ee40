/* The sweep: one scenario, repeated for every call that may fail. */
#ifndef MT_SPEC_SWEEP_H
#define MT_SPEC_SWEEP_H

#include "fault.h"
#include "support/support.h"

#include <stdatomic.h>

enum {
  MT_POINTS_MAX = 1 << 17,
  MT_PART = 2000, /* points in one lock table: opening a session reads all sessions of a day */
  MT_WORKERS_MAX = 16,
  MT_SPARE = 64,      /* names in front of the points', for runs in which nothing fails */
  MT_LEASE_MS = 1000, /* the shortest there is */
  MT_MARGIN_MS = 100,
};

/* What a script got acknowledged (bits). */
enum { MT_TOLD_UPDATE = 1, MT_TOLD_BULK = 2, MT_TOLD_SAVE = 4, MT_TOLD_RELEASED = 8 };
enum { MT_TOLD_ALL = 15 };

typedef enum mt_point_state {
  MT_POINT_TODO = 0,
  MT_POINT_RUNNING,
  MT_POINT_DONE,   /* to be checked by the witness */
  MT_POINT_LOOKED, /* the witness is checking it */
  MT_POINT_CHECKED,
} mt_point_state;

/* One run of the scenario. Written by one process at a time. */
typedef struct mt_point {
  mt_fault_kind kind;
  uint32_t n;
  bool ever;
  _Atomic int state; /* mt_point_state */
  /* from the worker */
  bool crashed, hung;
  bool no_host; /* the host could not even be made */
  mortise_status status;
  uint32_t told, failed;
  int64_t ended_ms; /* on CLOCK_BOOTTIME */
  int32_t took_ms;
  int64_t leaked; /* blocks; -1: descriptors or threads */
  char message[160];
  char where[24];
  /* from the witness */
  bool kept, read;
  bool denied;     /* the lock was still held when the witness asked first, after the end */
  int32_t lock_ms; /* from then to the grant */
  uint32_t lost;   /* acknowledged, but lost (bits) */
  uint32_t torn;   /* neither old nor new (bits) */
} mt_point;

/* Shared by all processes of a sweep. */
typedef struct mt_sweep {
  const mt_test_place *place; /* as it was given */
  mt_test_place part;         /* where the points from `first` up to `end` are run */
  uint32_t first, end;
  uint64_t seed;
  char index[96];
  uint32_t counted[MT_FAULT_KINDS]; /* in a run where nothing fails */
  bool clean;                       /* that run succeeded */
  uint32_t step[MT_FAULT_KINDS];    /* every how many-th point is run; 0: there are none */
  bool leaks_at_end;                /* the sanitizer found leaks at a worker's end */
  int bad_ends;                     /* workers that ended wrongly, outside any point */
  _Atomic int64_t since_ms[MT_WORKERS_MAX];
  atomic_uint next;                   /* the next point to run */
  atomic_int running[MT_WORKERS_MAX]; /* point + 1 */
  atomic_bool witness_ready;
  atomic_bool witness_failed;
  char message[512]; /* of the witness, or of the run where nothing fails */
  uint32_t n;
  mt_point points[MT_POINTS_MAX];
} mt_sweep;

/* The paths and ids of a scenario: those of a point are MT_SPARE + its index. */
typedef struct mt_names {
  char folder[64], tree[80], ids[3][32];
} mt_names;
mt_names mt_names_of(uint32_t number);

/* Runs the scenario in this process: where nothing fails (`number` below MT_SPARE), to fill caches
 * or, with `count`, to count into the sweep; and with a point's fault. */
void mt_scenario_warm(mt_sweep *s, uint32_t number, bool count);
void mt_scenario_run(mt_sweep *s, uint32_t point);

/* Counts, chooses the points (of each kind about most[kind], 0: all; those that `only` names,
 * NULL: of every kind), runs them in `workers` processes, with a witness beside them. Returns when
 * every one is CHECKED; false with `message` when something besides them has failed. */
bool mt_sweep_run(mt_sweep *s, int workers, const uint32_t *most, const char *only);

/* Makes tables, index and documents. false with message. */
bool mt_witness_prepare(mt_sweep *s);
/* Checks every point once its run is over, with a client of its own that nothing fails. */
bool mt_witness_run(mt_sweep *s);

int64_t mt_now_ms(void);

#endif
