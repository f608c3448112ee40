/* Breaking the locks of a session by hand, against its owner's will.
 *
 * The session is marked `broken` by an acknowledged write: from then on no heartbeat extends its
 * owner's deadline. Then its own lease and our margin are waited for, counted from that
 * acknowledgement; then it is expired by a compare-and-set against the mark's version, and its
 * entries are evicted. So nobody gets in before the owner has ceased to believe (docs/protocol.md).
 * Shorter ways: it ended meanwhile, its owner ran on this machine and is gone, or its document is
 * damaged, so that nobody believes in it by this protocol.
 *
 * Cut off in the middle it leaves the session marked: its owner loses its locks at its next beat,
 * the others take over after a lease, and breaking again goes on from there. */
#ifndef MT_LOCK_BREAKING_H
#define MT_LOCK_BREAKING_H

#include "base/env.h"
#include "store/store.h"

typedef struct mt_breaking_config {
  const char *ns, *session; /* copied */
  const char
      *path; /* borrowed; NULL: the session. Else what is damaged at that path, and only that */
  const char *by; /* JSON object: who breaks it, for its owner to know; borrowed; NULL: not said */
  int64_t margin_ms;
  /* As in mt_manager_config; may be NULL. */
  bool (*known_dead)(void *ctx, const char *owner_json);
  /* Something happened: ask mt_breaking_due again. May be NULL. */
  void (*changed)(void *ctx);
  void *ctx;
} mt_breaking_config;

typedef enum mt_breaking_phase {
  MT_BREAKING_LOOKING = 0, /* what is its state? */
  MT_BREAKING_WAITING,     /* it is marked, until `until_ms` */
  MT_BREAKING_ENDING,      /* expiring it, or proving that it is over */
  MT_BREAKING_EVICTING,
  MT_BREAKING_DONE,
  MT_BREAKING_FAILED, /* `error` says why; the same again goes on from there */
} mt_breaking_phase;

typedef struct mt_breaking {
  mt_breaking_phase phase; /* for the caller to read, as all up to `error` */
  bool marked;             /* it stands marked, by us or by another */
  bool gone;               /* its owner was seen to be gone: no need to wait */
  int64_t lease_ms;        /* of the session */
  int64_t until_ms;        /* WAITING: on the env's clock */
  size_t evicted;          /* entries' documents so far */
  mortise_error error;     /* FAILED: why */
  mt_breaking_config config;
  mt_store *store;
  const mt_env *env;
  char ns[65], session[MT_SESSION_ID];
  mt_version version; /* of the document as it was seen or marked */
  bool seen;
  bool busy; /* a request is under way */
  int64_t due_ms, trouble_ms;
  unsigned rounds, refusals;
  const char *ids[1];
  mt_session_read read;
  mt_session_write write;
  mt_lock_list list;
  bool found; /* something of the session, in this list so far */
  mt_lock_batch batch;
  mt_lock_item *items;
  mt_buf paths;
} mt_breaking;

/* Nothing is sent before the first tick. The store and the env outlive it. */
void mt_breaking_init(mt_breaking *b, mt_store *store, const mt_env *env,
                      const mt_breaking_config *config);
/* When to tick next; INT64_MAX while a request is under way, and at the end. */
int64_t mt_breaking_due(const mt_breaking *b);
void mt_breaking_tick(mt_breaking *b);
static inline bool mt_breaking_over(const mt_breaking *b) {
  return b->phase >= MT_BREAKING_DONE;
}
void mt_breaking_deinit(mt_breaking *b); /* cancels what is under way */

#endif
