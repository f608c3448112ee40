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

/* Over the samples at hand: the last ten seconds or so, as checkpoints are a second apart. */
uint64_t mt_tally_speed(mt_tally *t, int64_t now_ms, uint64_t done) {
  size_t at = t->n % MT_TALLY_SAMPLES, oldest = t->n < MT_TALLY_SAMPLES ? 0 : at;
  int64_t took_ms = t->n ? now_ms - t->samples[oldest].at_ms : 0;
  uint64_t before = t->n ? t->samples[oldest].done : 0;
  t->samples[at].at_ms = now_ms;
  t->samples[at].done = done;
  t->n++;
  return took_ms > 0 && done > before ? (done - before) * 1000 / (uint64_t)took_ms : 0;
}

void mt_tally_note(mt_tally *noted, mt_job_record *r, const mt_change *change,
                   const mt_unit_journal *journal, int64_t now_ms) {
  const mt_change_result *now = &change->result;
  uint64_t changed = now->changed - journal->doubtful_changed;
  uint64_t deleted = now->deleted - journal->doubtful_deleted;
  uint64_t unchanged = now->unchanged - journal->doubtful_unchanged;
  note_batches(r, change, journal);
  r->counts.changed += changed - noted->changed;
  r->counts.deleted += deleted - noted->deleted;
  r->counts.unchanged += unchanged - noted->unchanged;
  r->counts.matched =
      r->counts.changed + r->counts.deleted + r->counts.unchanged + r->counts.conflicts;
  noted->changed = changed;
  noted->deleted = deleted;
  noted->unchanged = unchanged;
  r->speed = mt_tally_speed(noted, now_ms, changed + deleted + unchanged + r->swept);
}
