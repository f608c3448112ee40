/* What a change has done so far, as a job's document counts it: only batches that are accounted for, so that
 * whoever takes the job over counts each document once. */
#ifndef MT_JOB_TALLY_H
#define MT_JOB_TALLY_H

#include "job/change.h"
#include "job/record.h"
#include "job/unit.h"

enum { MT_TALLY_SAMPLES = 10 };

/* Zero it when the change starts. */
typedef struct mt_tally {
  uint64_t changed, deleted, unchanged; /* the part of the change's result that the document counts already */
  struct {
    int64_t at_ms;
    uint64_t done;
  } samples[MT_TALLY_SAMPLES]; /* the last ones, in a ring: for its speed */
  uint64_t n;
} mt_tally;

/* Brings the record's batches, counts and speed up to date. `now_ms` is of any clock that goes on evenly. */
void mt_tally_note(mt_tally *noted, mt_job_record *r, const mt_change *change,
                   const mt_unit_journal *journal, int64_t now_ms);
/* Documents a second over the last samples, to which this one is added: so many are done by now. 0: not known. */
uint64_t mt_tally_speed(mt_tally *t, int64_t now_ms, uint64_t done);

#endif
