/* What a change has done so far, as a job's document counts it: only batches that are accounted for, so that
 * whoever takes the job over counts each document once. */
#ifndef MT_JOB_TALLY_H
#define MT_JOB_TALLY_H

#include "job/change.h"
#include "job/record.h"
#include "job/unit.h"

/* The part of the change's result that the document counts already. Zero it when the change starts. */
typedef struct mt_tally {
  uint64_t changed, deleted, unchanged;
} mt_tally;

/* Brings the record's batches and counts up to date. */
void mt_tally_note(mt_tally *noted, mt_job_record *r, const mt_change *change,
                   const mt_unit_journal *journal);

#endif
