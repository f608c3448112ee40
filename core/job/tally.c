#include "job/tally.h"

/* Every batch of the journal is accounted for, except those that the units are still working on and those with
 * writes of unknown outcome. */
static void note_batches(mt_job_record *r, const mt_change *change,
                         const mt_unit_journal *journal) {
  uint64_t open[MT_JOB_UNITS_MAX], least = journal->next;
  size_t n = mt_change_open_batches(change, open, MT_JOB_UNITS_MAX);
  for (size_t i = 0; i < journal->n_doubtful && n < MT_JOB_UNITS_MAX; i++)
    open[n++] = journal->doubtful[i];
  for (size_t i = 0; i < n; i++)
    if (open[i] < least) least = open[i];
  r->batches[r->attempts - 1] = least;
  r->n_also = 0;
  for (uint64_t k = least; k < journal->next; k++) {
    bool is_open = false;
    for (size_t i = 0; i < n; i++) is_open |= open[i] == k;
    if (!is_open && r->n_also < MT_JOB_UNITS_MAX) r->also[r->n_also++] = k;
  }
}

void mt_tally_note(mt_tally *noted, mt_job_record *r, const mt_change *change,
                   const mt_unit_journal *journal) {
  const mt_change_result *now = &change->result;
  mt_tally so_far = {now->changed - journal->doubtful_changed,
                     now->deleted - journal->doubtful_deleted,
                     now->unchanged - journal->doubtful_unchanged};
  note_batches(r, change, journal);
  r->counts.changed += so_far.changed - noted->changed;
  r->counts.deleted += so_far.deleted - noted->deleted;
  r->counts.unchanged += so_far.unchanged - noted->unchanged;
  r->counts.matched = r->counts.changed + r->counts.deleted + r->counts.unchanged;
  *noted = so_far;
}
