/* Which answers prove a write (docs/protocol.md). Tracks the order of the lock table's writes as
 * one store's answers have shown it. It is for stores behind a network, which may give a request
 * the answer to another one. */
#ifndef MT_STORE_ORDER_H
#define MT_STORE_ORDER_H

#include "store/store.h"

/* Zero it. */
typedef struct mt_order {
  uint64_t acked;  /* the largest fence of the writes that were acknowledged */
  uint64_t lately; /* the largest since the last opening of a session was sent */
} mt_order;

/* Call before sending a request; pass the result to the judging of its answer. */
uint64_t mt_order_ask(const mt_order *o);
uint64_t mt_order_ask_session(mt_order *o, const mt_session_write *r);

/* Judges an answer: false if it belongs to another request. `identified`: it carries this request's
 * id. Sets a batch's `proven`. */
bool mt_order_judge(mt_order *o, uint64_t after, mt_lock_batch *r, bool identified);
bool mt_order_judge_session(mt_order *o, uint64_t after, mt_session_verb verb, mt_version version);

#endif
