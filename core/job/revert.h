/* Undoing a change that no journal lists, by the opposite change. It is exact for documents that the change alone
 * has put where they are, as a rename has into a tree that held none.
 *
 * Whoever died at the change may have left writes that come late, and without a journal nobody knows of which
 * documents. Each of them is a compare-and-set against a version that was still to be changed. So first every
 * document that is still to be changed is written as it is (`touch`): from then on nothing that comes late
 * succeeds, since each version that it could be compared with is gone. What has come before that is among the
 * changed, which `back` then changes back until none is left. A late write of `touch` itself changes nothing, and
 * one of `back` leads where all are going. */
#ifndef MT_JOB_REVERT_H
#define MT_JOB_REVERT_H

#include "job/change.h"

typedef struct mt_revert {
  /* in; zero the rest */
  void (*done)(void *ctx, struct mt_revert *v); /* from the loop, or from mt_revert_start */
  void *ctx;
  mt_change *touch, *back; /* ready to be started, but for done and ctx */
  /* In/out: writes may come late, so `touch` is needed. False once it is done. */
  bool loose;
  mt_change_result *result; /* out: of both, added */
  mortise_error error;      /* out: as mt_change's */
  mt_change *now;           /* its own, as all below */
  bool paused;
} mt_revert;

void mt_revert_start(mt_revert *v);
void mt_revert_pause(mt_revert *v, bool paused);
void mt_revert_cancel(mt_revert *v);
void mt_revert_abandon(mt_revert *v); /* `done` is not called any more */

#endif
