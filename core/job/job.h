/* A change that survives its process: what it is, how far it is and how it is undone stand in the store
 * before anything is done.
 *
 * A job has a document (record.h), which only the process that has the job writes, by compare-and-set, and
 * a journal (journal.h). Whoever takes a job over writes its document first, which makes the former
 * owner's next write of it fail; then closes the former attempt (replay.h); then goes on as a new
 * attempt. All of it happens under a lock that the caller holds, or has adopted, for this job.
 *
 * Where the opposite change undoes the job (mt_change's `reversible`), documents that it restores to the byte are
 * not journaled; the job's document says so before the first write. What a dead process had under way is then not
 * known document by document, and need not be: each of its writes is a compare-and-set against a version that was
 * to be changed. A resumed job is done when a search after a refresh finds nothing to be changed: by then each of
 * those versions is gone, and what comes late fails. Undoing it first writes over what is still to be changed
 * (revert.h), unless the document says that all requests were answered.
 *
 * With each writing of its document it reads what anyone may have ordered meanwhile (control.h), and obeys.
 *
 * A state machine on the store's loop; time and randomness come from an mt_env. */
#ifndef MT_JOB_JOB_H
#define MT_JOB_JOB_H

#include "job/change.h"
#include "job/record.h"

typedef enum mt_job_verb {
  MT_JOB_RUN,    /* a new one; CONFLICT where there is one of that id */
  MT_JOB_RESUME, /* goes on with what another process, or this one, has left half-done; one that is
                    done is left as it is */
  MT_JOB_UNDO,   /* also of one that is done; one that is undone is left as it is */
} mt_job_verb;

typedef struct mt_job {
  /* in, as all up to `checkpoint_ms`; borrowed until the end */
  void (*done)(void *ctx,
               struct mt_job *j); /* from the loop; may free the job's memory; NULL: pumped */
  void *ctx;
  mt_job_verb verb;
  bool standing; /* RESUME, UNDO: one that is done, or undone, is left as it is */
  mt_store *store;
  const mt_env *env;
  const mt_permit *permit;
  const char *table; /* the jobs' index */
  const char *ns, *id;
  mt_slice spec; /* RUN: what it is, a JSON object that is kept as it is */
  /* RUN, RESUME: ready to be started, but for what is set here: done, ctx, progress, journal. What it changed
   * must match no longer (until_none), so that what is left to do is what still matches. */
  mt_change *change;
  /* What undoes it, document by document, and what it does, which tells what is undone already; `apply` NULL: there
   * is none. The journal keeps no source that the inverse restores to the byte, so whoever undoes the job must
   * give the same. */
  mt_transform inverse, forward;
  /* UNDO, of a job whose document says that the opposite change undoes it (revert.h): ready to be started, but
   * for done and ctx. May be NULL for others. */
  mt_change *touch, *back;
  void (*progress)(void *ctx, struct mt_job *j, uint64_t changed, uint64_t total); /* may be NULL */
  int64_t (*wall_ms)(void); /* for people, who read when it was; NULL: it is not said */
  mt_limits limits;         /* in/out: how fast it may go; orders (control.h) change it */
  int64_t checkpoint_ms;    /* how often its document is written; 0: 1,000 */
  /* out; mt_job_deinit frees what it owns */
  bool finished;
  /* Has this attempt, or one before, written to the journal, so that documents may be changed? True where that
   * is not known. */
  bool began;
  mt_job_record record;
  mt_change_result result; /* of this attempt */
  mortise_error error;
  void *op;
} mt_job;

/* INVALID_ARGUMENT, LOCK_LOST, OUT_OF_MEMORY: nothing was started, and `done` is not called. */
mortise_status mt_job_start(mt_job *j, mortise_error *err);
/* Paused, it reads no further page and sends nothing more, until it goes on. */
void mt_job_pause(mt_job *j, bool paused);
/* Asks it to end: `done` is called with INTERRUPTED, and the job's document says that it stands (or, of a
 * new one that has written nothing, that nothing of it is left). */
void mt_job_cancel(mt_job *j);
/* Ends it at once, without `done`, as if its process had died. */
void mt_job_abandon(mt_job *j);
void mt_job_deinit(mt_job *j); /* after its end */

#endif
