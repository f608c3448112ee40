/* What the files of this benchmark share. */
#ifndef MT_BENCH_LOCKS_H
#define MT_BENCH_LOCKS_H

#include "base/buf.h"
#include "machine.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct options {
  const char *url;            /* of one node */
  const char *nodes;          /* of all that clients use */
  unsigned sessions, seconds; /* of `crowd`; 0: as it chooses */
  bool quick;
  const char *only; /* case names, or NULL */
  machine *machine; /* sampled before each round */
  bool no_hints;    /* of the clients that are opened, as the next */
  int64_t lease_ms; /* 0: the default */
  struct mortise_loop *loop; /* the same; NULL: of their own */
} options;

#define TABLE "mortise-bench-locks" /* removed at the end */
#define RAW_NS "raw"
#define RAW_SESSION "0123456789abcdef0123456789abcdef"

typedef struct sample {
  double wall, user, system; /* s; of all processes of this way */
  uint64_t locks, trips, conflicts, failures;
  uint64_t items;  /* lines of bulks, of mortise only */
  double p50, p99, most; /* us of one acquire + release, `contended` of one acquire; 0: not taken */
} sample;

enum { MORTISE, RAW, WAYS, MACHINE_PAIRS = 50 /* before each round */ };

/* ---- meter.c --------------------------------------------------------------------------------- */

typedef struct meter {
  double wall, user, system;
} meter;
void meter_begin(meter *m);
void meter_end(const meter *m, sample *s); /* adds to it */
double now_us(void);
/* Sorts `us` and takes the percentiles. */
void percentiles(double *us, size_t n, sample *s);
double median(double *values, size_t n); /* sorts them */

/* ---- raw.c: libcurl without anything of mortise's ------------------------------------------- */

/* Lines of a bulk, in the form that mortise sends. */
void raw_add_set(mt_buf *b, const char *session, uint64_t n, const char *path);
void raw_add_create(mt_buf *b, const char *session, uint64_t n, const char *path);
void raw_add_release(mt_buf *b, const char *session, uint64_t n, const char *path);
void raw_add_delete(mt_buf *b, const char *path);
/* The two requests of a tree lock: the ancestors, then the path; and the reverse. */
void raw_tree_take(mt_buf *b, const char *session, const char *path);
void raw_tree_give(mt_buf *b, const char *session, const char *path);

/* One connection. */
typedef struct raw_link raw_link;
raw_link *raw_open(const options *o);
void raw_close(raw_link *link);
/* Posts to the lock table; items that answer 409 to a script are sent again at once, alone. */
void raw_bulk(raw_link *link, mt_slice body, sample *s);
/* Posts `bodies` over several threads with a connection each, dealt out in turn: the first to the
 * first, and so on. */
void raw_all(const options *o, const mt_buf *bodies, size_t n, size_t connections, sample *s);
/* Posts once; are all items applied? */
bool raw_try(raw_link *link, mt_slice body, sample *s);
bool raw_drop_table(const options *o);
bool raw_get(const options *o, const char *path, mt_buf *answer);

/* ---- The cases ------------------------------------------------------------------------------- */

typedef struct mortise_client mortise_client;
mortise_client *open_client(const options *o); /* NULL: said why on stderr */
bool make_table(const options *o, uint32_t stripes); /* anew; 0: the default; false: said why */
/* Round trips and conflicts since an earlier call with the same client. */
void count_client(mortise_client *c, sample *s, bool begin);

/* ---- others.c -------------------------------------------------------------------------------- */

typedef struct others {
  size_t n;
  const char *below;         /* each holds a file there; directly below `/` */
  int64_t lease_ms, beat_ms; /* when they beat last, by the wall clock */
  uint32_t stripes;          /* of the table */
} others;
bool others_write(mortise_client *c, const others *o);

/* ---- herd.c ---------------------------------------------------------------------------------- */

enum { HERD_MAX = 16, HERD_TIMES = 20000 };

typedef struct herd_child {
  sample s;
  size_t n;
  double us[HERD_TIMES];
} herd_child;

typedef struct herd {
  _Atomic int ready;
  _Atomic bool go;
  double end_us; /* written before `go` */
  size_t n;
  sem_t turns[HERD_MAX]; /* 0 at first */
  herd_child children[HERD_MAX];
} herd;

/* What process `who` does; it waits for the start once it is ready. */
typedef void herd_body(const options *o, herd *all, size_t who);
void herd_wait(herd *all);
void herd_note(herd_child *c, double start); /* one lock more, begun then */
/* A process that has a client of mortise's and does this again and again; `turn` counts from 0, which is not
 * measured. */
typedef bool herd_turn(mortise_client *client, herd_child *me, size_t who, size_t turn);
void herd_client(const options *o, herd *all, size_t who, herd_turn *once);
bool herd_run(const options *o, size_t n, herd_body *body, sample *s);

/* Each measures one round of both ways. pair[0] is the case; some fill more. */
typedef sample pair[WAYS];
bool single_round(const options *o, pair *out);    /* single.c */
bool tasks_round(const options *o, pair *out);     /* tasks.c */
bool started_round(const options *o, pair *out);   /* started.c */
bool processes_round(const options *o, pair *out); /* processes.c */
bool contended_round(const options *o, pair *out); /* contended.c */
bool documents_round(const options *o, pair *out); /* documents.c: taken, given back */
/* Locks one by one of so many tasks of one client at once, whose loop this thread steps; `us` has room for `locks`, and
 * for `tasks` four times. */
bool tasks_measure(const options *o, size_t tasks, size_t locks, double *us, sample *s);
/* Without a raw way; they print by themselves. */
bool ghosts_case(const options *o);
bool holders_case(const options *o, int rounds);
bool crowd_case(const options *o);

#endif
