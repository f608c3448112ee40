/* What a lock's document says to a MT_LOCK_SET. Pure: a document and a request in, a decision out. The
 * embedded store runs this; on a server lock-set.painless says the same, and the conformance cases run
 * both over all small documents. */
#ifndef MT_STORE_GRANT_H
#define MT_STORE_GRANT_H

#include "store/store.h"

/* As it is read: each session has one hold at most, and one place in the queue, whose order is that of
 * coming. */
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
  const mt_lock_entry *hold, *place; /* the session's own before it, or NULL */
  mt_mode mode;                      /* ACKED: what it holds now */
  int64_t since_ms;                  /* ACKED: since when */
  bool again;                        /* ACKED: with this number it was applied before */
} mt_grant;

mt_grant mt_grant_decide(const mt_lock_document *doc, const mt_grant_request *r);

/* The next entry in the way after `last` (NULL: the first of them), holders before waiters; NULL: there
 * is no other. */
const mt_lock_entry *mt_grant_blocker(const mt_lock_document *doc, const mt_grant_request *r,
                                      const mt_lock_entry *last);
/* Living waiters of others in front of the session's place; without one, all of them. */
uint32_t mt_grant_ahead(const mt_lock_document *doc, const mt_grant_request *r);
/* Does another session wait for what `held` denies? */
bool mt_grant_contended(const mt_lock_document *doc, const mt_grant_request *r, mt_mode held);

/* Of a session; what is damaged belongs to nobody. NULL: none. */
const mt_lock_entry *mt_lock_entry_of(const mt_lock_entry *entries, size_t n, const char *session);
bool mt_waiter_alive(const mt_lock_entry *waiter, int64_t now_ms);

#endif
