/* How a job went, as its document tells it: how far it was at some moments, and who began each turn at it. Bounded,
 * however long the job takes. For people: nothing is decided by it. */
#ifndef MT_JOB_HISTORY_H
#define MT_JOB_HISTORY_H

#include "base/json.h"

enum { MT_JOB_POINTS_MAX = 120, MT_JOB_TURNS_MAX = 32 };

typedef struct mt_job_point {
  int64_t at_ms;          /* by the writer's clock */
  uint64_t attempt, done, aside; /* documents; of an undoing those put back and those left */
  bool undoing;
} mt_job_point;

typedef struct mt_job_history {
  mt_job_point points[MT_JOB_POINTS_MAX]; /* the oldest first; thinned when there are too many */
  size_t n;
  mt_buf turns; /* JSON objects {"at":, "attempt":, "undoing":, "by":}, with a comma between them */
  size_t n_turns;
  uint64_t last_attempt; /* of the last turn */
  bool last_undoing;
} mt_job_history;

void mt_job_history_init(mt_job_history *h);
void mt_job_history_deinit(mt_job_history *h);
/* Notes how far it is now. `by`: JSON of whose session writes, or NULL. `last`: it is over, or stands. */
void mt_job_history_note(mt_job_history *h, const mt_job_point *now, const char *by, bool last);
/* Appends `,"points":[[AT, ATTEMPT, DONE, ASIDE, UNDOING], ...],"turns":[...]`. */
void mt_job_history_encode(const mt_job_history *h, mt_buf *out);
/* From the object that has them; what is missing or wrong is left out. */
void mt_job_history_decode(mt_job_history *h, mt_json body);

#endif
