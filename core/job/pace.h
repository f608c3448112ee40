/* Limits of how fast a change may go. */
#ifndef MT_JOB_PACE_H
#define MT_JOB_PACE_H

#include <stdint.h>

/* 0 means that there is no limit. */
typedef struct mt_limits {
  uint32_t rate;      /* documents a second */
  uint32_t batch;     /* documents a batch */
  uint32_t concurrency; /* batches at once */
} mt_limits;

/* After a batch of n documents, nothing is sent for as long as n documents take at this rate. So the rate is never
 * exceeded by more than a batch. A pace that is all zeros has no limits. */
typedef struct mt_pace {
  mt_limits limits;
  int64_t free_us; /* when more may be sent */
} mt_pace;

/* Sets new limits, which hold at once; what was sent before does not delay the next batch. */
void mt_pace_set(mt_pace *p, mt_limits limits);
/* How many documents the next batch may have. With a rate it is at most what one second allows, so that a low rate
 * does not come in bursts. */
uint32_t mt_pace_batch(const mt_pace *p);
/* Milliseconds until more may be sent; 0 means now. */
int64_t mt_pace_wait_ms(const mt_pace *p, int64_t now_ms);
void mt_pace_sent(mt_pace *p, uint64_t documents, int64_t now_ms);

#endif
