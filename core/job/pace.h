/* How fast a change may go: documents a second, documents a batch, batches at once. */
#ifndef MT_JOB_PACE_H
#define MT_JOB_PACE_H

#include <stdint.h>

/* 0: no limit. */
typedef struct mt_limits {
  uint32_t rate;      /* documents a second */
  uint32_t batch;     /* documents a batch */
  uint32_t concurrency; /* batches at once */
} mt_limits;

/* After n documents the next wait until the time of n is over, so that the rate is never exceeded by more
 * than a batch. Zeroed: no limit. */
typedef struct mt_pace {
  mt_limits limits;
  int64_t free_us; /* when more may be sent */
} mt_pace;

/* In force at once: what was sent at the old rate is forgotten. */
void mt_pace_set(mt_pace *p, mt_limits limits);
/* How many documents the next batch may have: at a low rate no more than a second's, lest it comes in
 * bursts. */
uint32_t mt_pace_batch(const mt_pace *p);
/* Milliseconds until more may be sent; 0: now. */
int64_t mt_pace_wait_ms(const mt_pace *p, int64_t now_ms);
void mt_pace_sent(mt_pace *p, uint64_t documents, int64_t now_ms);

#endif
