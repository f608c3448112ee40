/* Decides a MT_LOCK_SET: a pure function from a lock document and a request to a decision. The
 * embedded store runs this; on a server lock-set.painless must decide the same, and the conformance
 * tests run both over all small documents. */
#ifndef MT_STORE_GRANT_H
#define MT_STORE_GRANT_H

#include "store/store.h"

/* Each session has at most one hold and one place in the queue; the queue is in order of
 * arrival. */
typedef struct mt_lock_document {
  const mt_lock_entry *holders, *queue;
  size_t n_holders, n_queue;
} mt_lock_document;

typedef struct mt_grant_request {
  const char *session;
  uint64_t n;
  mt_mode mode;
  bool fresh, enqueue; /* as in mt_lock_item */
  int64_t now_ms;      /* the store's clock */
} mt_grant_request;

typedef struct mt_grant {
  mt_lock_result result;             /* ACKED, QUEUED, DENIED or STALE */
  const mt_lock_entry *hold, *place; /* the session's own before this request, or NULL */
  mt_mode mode;                      /* ACKED: what it holds now */
  int64_t since_ms;                  /* ACKED: since when */
  bool again;                        /* ACKED: the same number was applied before */
} mt_grant;

mt_grant mt_grant_decide(const mt_lock_document *doc, const mt_grant_request *r);

/* The next blocking entry after `last` (NULL: the first), holders before waiters; NULL: no more. */
const mt_lock_entry *mt_grant_blocker(const mt_lock_document *doc, const mt_grant_request *r,
                                      const mt_lock_entry *last);
/* The number of live waiters ahead of the session's place, or of all live waiters if it has
 * none. */
uint32_t mt_grant_ahead(const mt_lock_document *doc, const mt_grant_request *r);
/* Does another session wait for a mode that conflicts with `held`? */
bool mt_grant_contended(const mt_lock_document *doc, const mt_grant_request *r, mt_mode held);

/* The session's entry, or NULL; a damaged entry belongs to nobody. */
const mt_lock_entry *mt_lock_entry_of(const mt_lock_entry *entries, size_t n, const char *session);
bool mt_waiter_alive(const mt_lock_entry *waiter, int64_t now_ms);

#endif
