/* Breaking the locks of a session by hand, without its owner's consent.
 *
 * An acknowledged write marks the session `broken`; from then on no heartbeat extends its owner's
 * deadline. We then wait for the session's lease plus our margin, counted from that
 * acknowledgement, expire it by a compare-and-set against the mark's version, and evict its
 * entries, but for what guards a job. So nobody is granted its locks before the owner has stopped relying on them
 * (docs/protocol.md). The wait is skipped when the session has already ended, when its owner ran on
 * this machine and is gone, or when its document is damaged, since no client relies on a damaged
 * session.
 *
 * If this is interrupted, the session stays marked: its owner loses its locks at its next beat,
 * others take over after a lease, and breaking it again resumes from the mark. */
#ifndef MT_LOCK_BREAKING_H
#define MT_LOCK_BREAKING_H

#include "base/env.h"
#include "store/store.h"

typedef struct mt_breaking_config {
  const char *ns, *session; /* copied */
  bool guards; /* evict what guards a job too */
  const char *path; /* borrowed; NULL: break the session; else only remove damaged entries at the
                       place with this name */
  const char *by;   /* JSON object, borrowed: who breaks it, for its owner; NULL: unknown */
  int64_t margin_ms;
  /* As in mt_manager_config; may be NULL. */
  bool (*known_dead)(void *ctx, const char *owner_json);
  /* mt_breaking_due has changed. May be NULL. */
  void (*changed)(void *ctx);
  void *ctx;
} mt_breaking_config;

typedef enum mt_breaking_phase {
  MT_BREAKING_LOOKING = 0, /* what is its state? */
  MT_BREAKING_WAITING,     /* marked; waits until `until_ms` */
  MT_BREAKING_ENDING,      /* expiring it, or proving that it has ended */
  MT_BREAKING_EVICTING,
  MT_BREAKING_DONE,
  MT_BREAKING_FAILED, /* `error` says why; breaking it again resumes */
} mt_breaking_phase;

typedef struct mt_breaking {
  mt_breaking_phase phase; /* this and all up to `error` are for the caller to read */
  bool marked;             /* somebody has marked it `broken` */
  bool gone;               /* its owner's process is known to be gone, so nothing is waited for */
  int64_t lease_ms;        /* of the session */
  int64_t until_ms;        /* WAITING: on the env's clock */
  size_t evicted;          /* documents from which its entries were removed so far */
  mortise_error error;     /* FAILED: why */
  mt_breaking_config config;
  mt_store *store;
  const mt_env *env;
  char ns[65], session[MT_SESSION_ID];
  mt_version version; /* of the document when last seen or marked */
  bool seen;
  bool busy; /* a request is in flight */
  int64_t due_ms, trouble_ms;
  unsigned rounds, refusals;
  const char *ids[1];
  mt_session_read read;
  mt_session_write write;
  mt_lock_list list;
  bool found; /* this listing has shown an entry of the session */
  mt_lock_batch batch;
  mt_lock_item *items;
  mt_buf paths;
} mt_breaking;

/* Sends nothing before the first tick. The store and the env must outlive it. */
void mt_breaking_init(mt_breaking *b, mt_store *store, const mt_env *env,
                      const mt_breaking_config *config);
/* When to tick next; INT64_MAX while a request is in flight and after the end. */
int64_t mt_breaking_due(const mt_breaking *b);
void mt_breaking_tick(mt_breaking *b);
static inline bool mt_breaking_over(const mt_breaking *b) {
  return b->phase >= MT_BREAKING_DONE;
}
void mt_breaking_deinit(mt_breaking *b); /* cancels requests in flight */

#endif
