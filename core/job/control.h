/* Orders for a job, which may come from any process. They have a document of their own in the jobs' index, which
 * anyone may write and the job's owner obeys. The job's own document cannot hold them: its owner writes it by
 * compare-and-set, and takes a write by anyone else as the loss of the job.
 *
 *   NAMESPACE:JOB:control
 *   {"kind":"control","format":1,"ns":...,"job":...,"updated":ms,"body":{"n":3,"session":"...",
 *    "paused":true,"cancelled":false,"by":"root@host, pid 12","rate":500,"batch":200,"concurrency":1,
 *    "limited_by":"..."}}
 *
 * `n` grows with each write, and the job's document says which `n` its owner has read (record.h). `by` says who
 * gave the order. `paused` and `cancelled` are meant only for the process with the session that is named, so a
 * process that takes the job over goes on. The limits hold until they are changed; 0 or missing means no limit. */
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

/* Reads the orders as they are meant for this session. CORRUPT_TABLE if `source` is not such a document. */
mortise_status mt_control_decode(mt_control *out, mt_slice source, const char *session,
                                 mortise_error *err);

/* Follows the document of one job. */
typedef struct mt_steering {
  /* in; zero the rest; borrowed */
  mt_store *store;
  const char *table, *ns, *job, *session;
  void (*changed)(void *ctx, const mt_control *now); /* from the loop */
  void *ctx;
  mt_control now; /* out: the orders that were read last */
  mt_mget mget;   /* its own, as all below */
  mt_buf id;
  mt_slice ids[1];
  bool reading;
} mt_steering;

/* Reads the document by its id, unless a read is under way. Orders that cannot be read change nothing; the next
 * call tries again. */
void mt_steering_look(mt_steering *s);
void mt_steering_deinit(mt_steering *s); /* at any time; `changed` is not called any more */

#endif
