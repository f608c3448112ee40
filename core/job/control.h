/* Steering a job from anywhere: a document beside the job's own, which anyone may write and whoever has the
 * job obeys. The job's document is its owner's alone, whose next write by compare-and-set would fail after
 * anyone else's: a loss of the job. So orders have a document of their own, in the jobs' index:
 *
 *   NAMESPACE:JOB:control
 *   {"kind":"control","format":1,"ns":...,"job":...,"updated":ms,"body":{"n":3,"session":"...",
 *    "paused":true,"cancelled":false,"by":"root@host, pid 12","rate":500,"batch":200,"concurrency":1,
 *    "limited_by":"..."}}
 *
 * `n` grows with each write; the owner's document says which it obeys (record.h). `paused` and `cancelled`
 * are meant, by `by`, for the process whose session is named: whoever takes the job over goes on. The others hold
 * until they are changed; 0 or missing: no limit. */
#ifndef MT_JOB_CONTROL_H
#define MT_JOB_CONTROL_H

#include "job/pace.h"
#include "job/record.h"

enum { MT_CONTROL_BY_MAX = 160 };

typedef struct mt_control {
  uint64_t n; /* 0: there are no orders */
  bool paused, cancelled;
  mt_limits limits;
  char by[MT_CONTROL_BY_MAX];
} mt_control;

/* As it is meant for this session. CORRUPT_TABLE where `source` is no such document. */
mortise_status mt_control_decode(mt_control *out, mt_slice source, const char *session,
                                 mortise_error *err);

/* Follows the document of one job. */
typedef struct mt_steering {
  /* in; zero the rest; borrowed */
  mt_store *store;
  const char *table, *ns, *job, *session;
  void (*changed)(void *ctx, const mt_control *now); /* from the loop */
  void *ctx;
  mt_control now; /* out: the last that was read */
  mt_mget mget;   /* its own, as all below */
  mt_buf id;
  mt_slice ids[1];
  bool reading;
} mt_steering;

/* Reads it, in real time, unless that is under way. What cannot be read, or is no such document, changes
 * nothing: the next look may tell. */
void mt_steering_look(mt_steering *s);
void mt_steering_deinit(mt_steering *s); /* at any time; `changed` is not called any more */

#endif
