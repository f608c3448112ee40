/* Jobs of a host's client, declared in JSON: changes of many documents under a lock, with a journal, so that whatever cuts
 * them off they go on or are undone (docs/jobs.md); and migrations of an index while others write (docs/migrate.md). In
 * libmortise-host, since they are carried out by the standard library. */
#ifndef MORTISE_JOB_H
#define MORTISE_JOB_H

#include <mortise/host.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mortise_job_verb {
  MORTISE_JOB_RUN = 0, /* does it, or what is left of it */
  MORTISE_JOB_RESUME,
  MORTISE_JOB_ROLLBACK,
  MORTISE_JOB_ACCEPT, /* ends as it is one that stands because of what it has set aside */
  MORTISE_JOB_PLAN,   /* what it would do: takes no lock, writes nothing */
  MORTISE_JOB_PLAN_ROLLBACK,
  MORTISE_JOB_STATUS, /* its record; null before its first run */
  /* Orders to whoever is at work on it, in this process or another, who obeys within about a second: */
  MORTISE_JOB_PAUSE,
  MORTISE_JOB_GO_ON,
  MORTISE_JOB_THROTTLE, /* `options`: {"rate": documents a second, "batch":, "concurrency":}; 0 is no limit */
  MORTISE_JOB_CANCEL,   /* it stands half-done */
  /* Of a migration: */
  MORTISE_JOB_CUTOVER,
  MORTISE_JOB_FINISH /* `options`: {"delete": true}: the old index is deleted */
} mortise_job_verb;

typedef enum mortise_job_kind { MORTISE_JOB_CHANGE = 0, MORTISE_JOB_MIGRATION } mortise_job_kind;

/* How far it is, a few times a second. Valid during the call. Later versions may make it longer. */
typedef struct mortise_job_progress {
  const char *id; /* the job's, to give orders to it */
  uint64_t done, total; /* documents */
  uint64_t conflicts, rejected;
  const char *waits; /* what it waits for, for people; NULL: for nothing */
  bool over;         /* it is the last call */
} mortise_job_progress;

/* Called inside the call that waits, or from mortise_loop_step. It may cancel the run and interrupt the host; nothing else of
 * the host's may be called. */
typedef void mortise_job_progress_fn(void *ctx, const mortise_job_progress *progress);

typedef struct mortise_job_request {
  size_t size;
  mortise_job_verb verb;
  mortise_job_kind kind; /* what `spec` declares */
  const char *spec;      /* JSON: what mortise.job or mortise.migrate takes; or NULL: a job that there is, by its */
  const char *id;
  const char *options; /* JSON, of the verb; NULL: none */
  mortise_job_progress_fn *progress; /* NULL: nobody asks */
  void *progress_ctx;
} mortise_job_request;
#define mortise_job_request_init(request) mortise_job_request_init_size(request, sizeof(mortise_job_request))
MORTISE_API void mortise_job_request_init_size(mortise_job_request *request, size_t size);

/* Waits for its end. `result`, which may be NULL, becomes JSON: what the method of that name returns ("null" for nothing), for
 * example {"job": its id, "state":, "changed":, "conflicts":, "rejected":, ...}. Owned: mortise_job_result_free; NULL after an error:
 * ORPHANED_JOB, LOCK_TIMEOUT, INTERRUPTED (it stands, and is resumed by its id), INVALID_ARGUMENT, ... mortise_host_interrupt
 * interrupts it. */
MORTISE_API mortise_status mortise_job_run(mortise_host *host, const mortise_job_request *request, char **result,
                                           mortise_error *err);
MORTISE_API void mortise_job_result_free(char *result); /* NULL is fine */

/* The same without waiting. `result` is valid during the call, and NULL after an error. mortise_run_cancel leaves it half-done.
 * NULL with `err`, and `done` is not called: INVALID_ARGUMENT, OUT_OF_MEMORY. */
typedef void mortise_job_done_fn(void *ctx, mortise_host *host, const char *result, const mortise_error *error);
MORTISE_API mortise_run *mortise_job_start(mortise_host *host, const mortise_job_request *request, mortise_job_done_fn *done,
                                           void *ctx, mortise_error *err);

#ifdef __cplusplus
}
#endif

#endif
