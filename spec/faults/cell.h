/* One cell of the matrix: real clients of one namespace, one of them behind a proxy that injects a
 * fault into one of its requests. Everything but the heartbeats runs on one loop in one thread;
 * after each of its steps no two clients may believe in conflicting locks. */
#ifndef MT_SPEC_CELL_H
#define MT_SPEC_CELL_H

#include "client/client.h"
#include "proxy.h"
#include "support/support.h"

enum {
  LEASE = 1500,
  MARGIN = 150,
  WAIT = 5000,        /* patience of an acquisition */
  SLACK = 3000,       /* how much later than that it may end */
  GIVE = 4000,        /* a release has ended by then */
  CLOSE = 7000,       /* and the closing of a client */
  BREAK = 9000,       /* and the breaking of another's session */
  HOLD_BACK = 2200,   /* a request that is held back longer than a lease lasts */
  RIVAL_WAIT = 15000, /* a rival without faults gets in before */
};

#define LEAF "/p/q/leaf"
#define OTHER "/other"

struct cell;

/* A client. It holds up to two locks, as one task. */
typedef struct party {
  struct cell *cell;
  const char *name;
  mortise_client *client;
  mt_manager *manager;
  struct claim {
    mt_lock *lock; /* NULL: nothing is claimed */
    const char *path;
    bool shared;
  } claims[2];
  mt_acquire acquire;
  mt_release release;
  const char *path;
  bool shared, closed;
  bool adopts; /* its acquisitions take over a job's locks first */
} party;

enum { A, HOLDER, RIVAL, SWEEPER, PARTIES };

typedef struct cell {
  const mt_test_place *place;
  const struct row *row;
  const struct fault *fault;
  char ns[16];
  mt_loop *loop;
  fault_proxy *proxy;
  party parties[PARTIES];
  mt_loop *dead_loop; /* the holder's, where it is dead: never run again */
  struct past {
    const char *path;
    bool shared;
    uint64_t fence;
  } pasts[32]; /* all grants */
  size_t n_pasts;
  /* The rival: requests the leaf as soon as the fault has happened, or when it is told to. */
  enum { RIVAL_OUT, RIVAL_TAKING, RIVAL_HOLDING, RIVAL_GIVING, RIVAL_DONE } rival;
  bool rival_now, rival_patient; /* patient: waits to be told */
  int64_t rival_until_ms;
  bool again; /* to be run */
  fault_proxy *storm_proxies[3];
  mt_test_random random;
  unsigned storm_took, storm_failed, storm_faults;
  /* The result. */
  char failure[512];  /* "": every check passed */
  bool unsafe;        /* two believed, or a fence decreased: a slow machine is no excuse for that */
  mortise_error take; /* A's acquisition */
  mortise_status give;
  bool lost; /* A's lock, while it was held */
  int64_t take_ms, sweep_ms;
  char *log;
  size_t log_n;
  FILE *log_file;
} cell;

/* Runs the scene of the cell's row, and checks what must hold. */
void cell_run(cell *c);
void cell_deinit(cell *c);

/* The same for one without a row and a fault. */
void storm_run(cell *c);

/* For scenes: each does nothing once the cell has failed. */
void cell_fail(cell *c, const char *fmt, ...) MORTISE_PRINTF(2, 3);
bool cell_pump(cell *c, const bool *flag, int64_t ms);
void cell_wait(cell *c, int64_t ms);
bool cell_begin(cell *c);
void cell_await_proxy(cell *c, fault_proxy *proxy); /* no more faults there from now on */
void cell_sweep(cell *c); /* everything can be taken, and no lock is left */
void await_rival(cell *c, int64_t ms);              /* for the rival to have had the leaf */
void party_open(cell *c, int who, const char *url, mt_loop *loop);
void party_begin(party *p, const char *path, bool shared, int64_t wait_ms);
/* The result of the acquisition that was begun: a claim, or an error. */
bool party_took(party *p, mortise_error *err);
bool party_take(party *p, const char *path, bool shared, int64_t wait_ms, mortise_error *err);
mortise_status party_give(party *p); /* the latest claim */
void party_begin_give(party *p);
void party_close(party *p);
bool party_holds(const party *p); /* believes in all its claims */

typedef struct row {
  const char *name;
  void (*scene)(cell *c);
  const char *match; /* conditions of a rule */
  const char *item;  /* for faults of one item; NULL: the request has none */
  int64_t hold_ms;
  bool items_only;
  bool at_close; /* the request comes when A is closed */
  bool rival_shared;
  bool gives; /* gives back while A holds something else */
} row;

typedef struct fault {
  const char *name, *action;
  bool item;
  bool refused;   /* permanently: what is to be given back ends with the session */
  bool anonymous; /* no answer says which request it belongs to */
  bool ghosts;  /* may leave an entry that nobody knows of until A's session ends */
} fault;

/* Scenes: what A does so that each request is sent at least once. */
void scene_exclusive(cell *c);
void scene_shared(cell *c);
void scene_nested(cell *c);       /* S, then X inside */
void scene_again(cell *c);        /* takes it a second time at once */
void scene_again_shared(cell *c); /* shared at first */
void scene_wait(cell *c);         /* behind a holder */
void scene_time_out(cell *c);     /* behind a holder, too long */
void scene_silent_dead(cell *c);  /* the holder falls silent */
void scene_closed_dead(cell *c);  /* the holder's session is closed, its holds are still there */
void scene_adopt(cell *c);        /* the same, and its entries are taken over */
void scene_beside(cell *c);       /* while A holds another lock */
void scene_beside_shared(cell *c);
void scene_close_holding(cell *c);
void scene_break(cell *c); /* A breaks the locks of a holder that lives */

#endif
