/* The janitor: clears away what dead sessions left and nobody wants, a little at a time.
 *
 * An open session looks at the entries of `/` now and then, where every session that holds something
 * has one, and of some ancestors on which it has an intention itself, and watches the documents of some
 * of the sessions there. It expires those that are dead by the rules of takeover.h, lists what they may
 * have left, and evicts the entries of the sessions that it proved dead: one write for each document.
 * What guards a job stays. Now and then one of the living has the store purge documents of sessions that
 * ended long ago. One request at a time, with pauses; the manager's own never wait for it. */
#ifndef MT_LOCK_JANITOR_H
#define MT_LOCK_JANITOR_H

#include "lock/state.h"
#include "lock/takeover.h"

enum {
  MT_JANITOR_LOOK_AT = 8,  /* places of one look */
  MT_JANITOR_READ = 256,   /* sessions of one request */
  MT_JANITOR_ITEMS = 256,  /* documents of one request */
  MT_JANITOR_EVICT = 1024, /* sessions that one write of a document evicts */
};

/* A document from which sessions are to be evicted: its path is in `paths`, they are in `left`. */
typedef struct mt_litter {
  uint32_t stripe;
  size_t path_at, path_n, first, n;
} mt_litter;

typedef enum mt_janitor_step {
  MT_JANITOR_LOOK = 0,
  MT_JANITOR_WATCH,
  MT_JANITOR_EXPIRE,
  MT_JANITOR_LIST,
  MT_JANITOR_CLEAR,
  MT_JANITOR_PURGE,
} mt_janitor_step;

/* Zero it. */
struct mt_janitor {
  mt_janitor_step step;
  bool busy;           /* a request is under way */
  bool hurried;        /* no pauses, no sharing: a person waits for it */
  int64_t due_ms;      /* of the next step; 0: none yet */
  int64_t sent_ms;     /* when the last request was sent */
  mt_place places[MT_STRIPES_MAX + MT_JANITOR_LOOK_AT];
  mt_buf place_text;   /* of all but `/` */
  mt_ids others;       /* who stands there, sorted */
  mt_ids strays;       /* found in the last listing, and not there */
  mt_ids watch;        /* to be read in this round */
  size_t must;         /* the first of them, which may be judged then */
  size_t at;           /* those before it were read */
  bool left_out;       /* there were more to be read */
  size_t moved, still; /* sessions that were read again in this round, and had beaten or not */
  size_t alive;        /* how many live, by the last rounds; 0: not known */
  size_t looks;        /* until the next listing without a cause */
  size_t pages;        /* listed since the last one began */
  const char *ids[MT_JANITOR_READ + 1];
  size_t n_ids, expiring;
  mt_ids dead; /* whose entries this listing is for */
  mt_ids left; /* who is to be evicted, document by document */
  mt_litter *litter;
  size_t n_litter, cap_litter, cleared, tries;
  bool failed; /* some of it could not be cleared in this listing */
  mt_buf paths;
  char self[MT_SESSION_ID];
  mt_lock_item items[MT_JANITOR_ITEMS];
  mt_lock_read look;
  mt_session_read read;
  mt_session_write *writes; /* large, so there are none before somebody is to be ended */
  mt_session_batch ending;
  mt_lock_list list;
  mt_lock_batch batch;
  mt_session_purge purge;
  bool purge_more; /* there may be more of them */
  bool no_purge;   /* the right to do so is missing */
};

typedef struct mt_janitor mt_janitor;

int64_t mt_janitor_due(const mt_manager *m); /* INT64_MAX: nothing to do before an answer */
void mt_janitor_tick(mt_manager *m);
/* From now on it works without pauses, and leaves nothing to others. */
void mt_janitor_hurry(mt_manager *m);
void mt_janitor_deinit(mt_manager *m);

#endif
