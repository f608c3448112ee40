/* Which answers prove a write (docs/protocol.md): the order of the lock table's writes, as the answers to
 * one store's requests have shown it. For stores behind a network, which may give a request the answer to
 * another one. */
#ifndef MT_STORE_ORDER_H
#define MT_STORE_ORDER_H

#include "store/store.h"

/* Zero it. */
typedef struct mt_order {
  uint64_t acked;  /* the largest fence of the writes that were acknowledged */
  uint64_t lately; /* of those since the last opening of a session was sent */
} mt_order;

/* A request is sent. What is returned goes with it, to the judging of its answer. */
uint64_t mt_order_ask(const mt_order *o);
uint64_t mt_order_ask_session(mt_order *o, const mt_session_write *r);

/* Of an answer that was read: false when it is another request's. `identified`: it says that it is
 * this one's. A batch's `proven` is set. */
bool mt_order_judge(mt_order *o, uint64_t after, mt_lock_batch *r, bool identified);
bool mt_order_judge_session(mt_order *o, uint64_t after, mt_session_verb verb, mt_version version);

#endif
