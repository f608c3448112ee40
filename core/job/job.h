/* A job: a change that another process can finish or undo when its own process dies. What it does, how far
 * it is and how it is undone are written to the store before any document is changed.
 *
 * A job has a document (record.h) and a journal (journal.h). Only the process that owns the job writes its
 * document, by compare-and-set. A process that takes the job over first writes the document, which makes
 * the former owner's next write of it fail. Then it closes the former attempt (replay.h) and goes on with
 * a new attempt. All of this happens under a lock that the caller holds, or has adopted, for this job.
 *
 * Some jobs are undone by the opposite change (mt_change's `reversible`): those that a store makes by itself, and those
 * that are asked to be `unlisted`. Documents that it restores to the byte
 * are not journaled, and the job's document says so before the first write. If the process dies, nobody knows which
 * documents it was writing. Nobody has to know, because each of its writes is a compare-and-set against a version
 * that was still to be changed. A resumed job is done when a search after a refresh finds nothing to be changed.
 * All those versions are gone by then, so a late write fails. Undoing first writes over every document that is
 * still to be changed (revert.h), unless the job's document says that all requests were answered.
 *
 * Whenever the job writes its document it also reads and obeys the orders that others have left for it (control.h).
 *
 * A state machine on the store's loop; time and randomness come from an mt_env. */
#ifndef MT_JOB_JOB_H
#define MT_JOB_JOB_H

#include "job/change.h"
#include "job/claim.h"
#include "job/record.h"
#include "job/strategy.h"

typedef struct mt_job {
  /* in, as all up to `patience_ms`; borrowed until the end */
  /* from the loop; may free the job's memory; NULL: pumped */
  void (*done)(void *ctx, struct mt_job *j);
  void *ctx;
  mt_job_verb verb;
  bool standing; /* RESUME, UNDO: a job that is done, or undone, stays as it is */
  mt_store *store;
  const mt_env *env;
  const mt_permit *permit;
  const char *table; /* the jobs' index */
  const char *ns, *id;
  mt_slice spec; /* RUN, CLEAR of one without a document: a JSON object that describes it and is stored unchanged */
  /* RUN, RESUME: ready to be started, except for `done`, `ctx`, `progress` and `journal`, which the job sets. A
   * document that was changed must no longer match (until_none), so that whatever matches is left to do. */
  mt_change *change;
  /* Undoes the change of one document; its `apply` is NULL if there is no inverse. The journal does not keep a source
   * that the inverse restores to the byte, so whoever undoes the job must give the same inverse. */
  mt_transform inverse;
  mt_strategy strategy; /* RUN, RESUME: who makes the change */
  /* RUN, RESUME: nothing is journaled that the opposite change restores, where that can undo the job. Such an undo takes
   * along what others have put there since. */
  bool unlisted;
  /* The change, if it is declared; needed beside `inverse`. A store can make it by itself, and it shows whether a
   * document has been restored before. */
  const mt_transforms *list;
  /* UNDO of a job whose document says that the opposite change undoes it (revert.h): ready to be started, except for
   * `done` and `ctx`. May be NULL for other jobs. */
  mt_change *touch, *back;
  void (*progress)(void *ctx, struct mt_job *j, uint64_t changed, uint64_t total); /* may be NULL */
  /* RUN, RESUME: a job that has set more aside stands; else it is done once all that could be changed is */
  mt_bound bound;
  const char *accepted;     /* ACCEPT: what its document says then: who it was */
  int64_t (*wall_ms)(void); /* the time shown to people; NULL: no time is stored */
  mt_limits limits;         /* in/out: how fast it may go; orders (control.h) change it */
  bool waits_at_start;      /* it is paused (mt_job_pause) from the start */
  int64_t checkpoint_ms;    /* how often its document is written; 0: 1,000 */
  int64_t patience_ms;      /* as mt_change's, for its own documents and for undoing */
  /* out; mt_job_deinit frees what it owns */
  bool finished;
  bool yielded; /* it was stopped by mt_job_yield */
  bool counted; /* how many documents match is known: change->result.matched and .beside */
  /* False if it is certain that neither this attempt nor an earlier one has changed a document. */
  bool began;
  mt_job_record record;
  mt_change_result result; /* of this attempt */
  mortise_error error;
  void *op;
} mt_job;

/* INVALID_ARGUMENT, LOCK_LOST, OUT_OF_MEMORY: nothing was started, and `done` is not called. */
mortise_status mt_job_start(mt_job *j, mortise_error *err);
/* A paused job reads no further page and sends nothing more until it is resumed. */
void mt_job_pause(mt_job *j,
                  const char *why); /* NULL: it goes on; `why` is shown where it is not "" */
/* What it waits for, as its document says it; "": nothing. */
const char *mt_job_waits(mt_job *j);
/* Asks the job to end. `done` is called with INTERRUPTED, and the job's document then says that the job is stopped,
 * or undone if a new job has not written anything yet. */
void mt_job_cancel(mt_job *j);
/* The same with another error. */
void mt_job_stop(mt_job *j, const mortise_error *why);
/* The same, and the job's document says that others are let in meanwhile; its process goes on with it. */
void mt_job_yield(mt_job *j);
/* Ends the job at once, without calling `done`, as if its process had died. */
void mt_job_abandon(mt_job *j);
void mt_job_deinit(mt_job *j); /* after its end */

#endif
