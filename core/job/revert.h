/* Undoes a change by the opposite change, without a journal. This is exact if every document that the opposite
 * change finds was put there by the change, as after a rename into a tree that was empty.
 *
 * A process that died at the change may have left writes that arrive late, and nobody knows for which documents.
 * But each of them is a compare-and-set against a version that was still to be changed. So first `touch` writes
 * every document that is still to be changed as it is. After that no late write succeeds, because the version that
 * it compares with is gone. Writes that arrived earlier have changed their documents, and `back` changes these back
 * until none is left. A late write of `touch` changes nothing, and a late write of `back` is one that was wanted. */
#ifndef MT_JOB_REVERT_H
#define MT_JOB_REVERT_H

#include "job/change.h"

typedef struct mt_revert {
  /* in; zero the rest */
  void (*done)(void *ctx, struct mt_revert *v); /* from the loop, or from mt_revert_start */
  void *ctx;
  mt_change *touch, *back; /* ready to be started, except for `done` and `ctx` */
  /* In: writes may come late, so `touch` is needed. Out: false once `touch` is done. */
  bool loose;
  mt_change_result *result; /* out: the sum of both changes */
  mortise_error error;      /* out: as mt_change's */
  mt_change *now;           /* its own, as all below */
  bool paused;
} mt_revert;

void mt_revert_start(mt_revert *v);
void mt_revert_pause(mt_revert *v, bool paused);
const char *mt_revert_waits(const mt_revert *v); /* as mt_change_waits */
void mt_revert_cancel(mt_revert *v);
void mt_revert_abandon(mt_revert *v); /* `done` is not called any more */

#endif
