/* The lock table as docs/protocol.md defines it, in the most obvious way: with arrays and loops.
 * The stores are compared with it. Sessions and paths are small numbers; time is the caller's. */
#ifndef MT_SPEC_MODEL_H
#define MT_SPEC_MODEL_H

#include "store/store.h"

enum { MT_MODEL_SESSIONS = 5, MT_MODEL_PATHS = 4 };

typedef struct mt_model_entry {
  unsigned session;
  uint64_t n;
  mt_mode mode;
  int64_t until; /* queue only */
} mt_model_entry;

typedef struct mt_model_lock {
  mt_model_entry holders[MT_MODEL_SESSIONS], queue[MT_MODEL_SESSIONS];
  size_t n_holders, n_queue;
  uint64_t writes; /* of this document, deletes included: stands for its version */
  unsigned dead;   /* bits: sessions whose place expired; a store may have dropped it or not */
} mt_model_lock;

typedef struct mt_model {
  mt_model_lock locks[MT_MODEL_PATHS];
  int64_t now;
} mt_model;

typedef struct mt_model_item {
  mt_lock_verb verb;
  unsigned session, path, other; /* other: EVICT, ADOPT */
  uint64_t n, if_writes;         /* DELETE */
  mt_mode mode;
  bool fresh, enqueue;
} mt_model_item;

typedef struct mt_model_answer {
  mt_lock_result result;
  mt_lock_result instead; /* as good, where an expired place decides; NO_ANSWER: nothing is */
  uint32_t ahead;
  bool contended;
  struct {
    unsigned session;
    mt_mode mode;
    bool queued;
  } blockers[2 * MT_MODEL_SESSIONS];
  size_t n_blockers;
} mt_model_answer;

mt_model_answer mt_model_apply(mt_model *m, const mt_model_item *item);
/* The store answered `instead`. */
void mt_model_apply_instead(mt_model *m, const mt_model_item *item);
void mt_model_sleep(mt_model *m, int64_t ms);

mt_model_entry *mt_model_holder(mt_model_lock *lock, unsigned session); /* NULL: none */
mt_model_entry *mt_model_waiter(mt_model_lock *lock, unsigned session);

#endif
