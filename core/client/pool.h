/* The stores of one loop. Clients whose options name the same store share it: its connections, or its thread, however
 * many clients there are. */
#ifndef MT_CLIENT_POOL_H
#define MT_CLIENT_POOL_H

#include "store/store.h"

#include <mortise/client.h>

/* Zero it, then set `loop`. Belongs to the loop's thread, as its stores do. */
typedef struct mt_pool {
  mt_loop *loop;
  bool again; /* this process has the stores open already: an embedded store's file is opened only when it is used */
  struct mt_pooled *first;
} mt_pool;

/* Opens it, or has it open: mt_pool_put for each. NULL with `err`. */
mt_store *mt_pool_get(mt_pool *pool, const mortise_options *options, mortise_error *err);
void mt_pool_put(mt_pool *pool, mt_store *store); /* NULL is fine */

#endif
