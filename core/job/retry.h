/* Waiting until a store that answers, but has no time for a request, or has lost a shard, can do it. */
#ifndef MT_JOB_RETRY_H
#define MT_JOB_RETRY_H

#include "base/env.h"
#include "base/loop.h"

typedef struct mt_retry {
  void (*again)(void *ctx); /* in, as all up to `most_ms`: called when the request is to be sent again */
  void *ctx;
  mt_loop *loop;
  const mt_env *env;
  int64_t most_ms; /* how long it may go on; 0: not at all */
  bool waits;      /* out: `again` will be called */
  int64_t since_ms; /* its own, as all below; 0: the last request was answered */
  mortise_error why;
  mt_timer timer;
  bool reserved;
} mt_retry;

mortise_status mt_retry_init(mt_retry *p, mortise_error *err);
void mt_retry_deinit(mt_retry *p);

/* To be told how each request ended. True: it failed, and is to be sent once more when `again` is called. */
bool mt_retry_after(mt_retry *p, const mortise_error *e);

/* What it has been waiting for since more than a second; NULL: nothing. Until it is told the next end. */
const char *mt_retry_why(const mt_retry *p);

#endif
