/* Processes that are at one job, on every store there is, and how they die: for tests of jobs. */
#ifndef MT_JOB_LIFE_H
#define MT_JOB_LIFE_H

#include "job/job.h"
#include "job/known.h"
#include "job/rename.h"

#include "fake_docs.h"
#include "late_requests.h"
#include "support/support.h"

enum { LEASE_MS = 60000, DOCS = 60, ID_MAX = 64, SOURCE_MAX = 256, PAGE = 7, NEVER = 1 << 30 };

typedef enum death {
  LOST,    /* the request in which it died was never sent */
  APPLIED, /* it was carried out, unanswered */
  LATE,    /* it will be, while others are at work already, or after */
  FATES,
} death;

/* How a job knows what to undo. */
typedef enum undo_by {
  BY_SOURCES, /* the journal has them */
  BY_IDS,     /* it has ids, and sources only of what the inverse does not restore to the byte */
  BY_MOVES,   /* the same, and most documents get another id */
  BY_INVERSE, /* it has only the latter */
  BY_SERVER,  /* the same, where the store makes the change by itself */
  UNDOS,
} undo_by;

typedef struct job_fixture {
  const mt_test_place *place;
  mt_test_store theirs; /* whoever looks at what became of it, and brings late requests */
  char index[96], table[96];
  undo_by by;
  mt_test_random *random;
  bool deletes;     /* the change does, some of them */
  bool by_function; /* the change is a function (below), not a rename */
  bool slow;        /* the server is, at what it does by itself */
  late_bulk late;
  late_sweep sweep;
  int late_at; /* event of the life under way at which it comes */
} job_fixture;

/* One process that is at the job. */
typedef struct life {
  job_fixture *f;
  mt_test_store mine;
  mt_docs_ops ops;
  const mt_docs_ops *real;
  fake_lock lock;
  mt_rename rename, back;
  mt_transforms inverse;
  mt_transform renames; /* what the change does with documents that it does not delete */
  mt_known known;
  mt_job job;
  int events, bulks, die_at;
  death fate;
  bool dead, holds;  /* `holds`: what it writes into the index waits in `held` */
  bool dies_writing; /* it dies with the first documents that it writes, which come when the test brings them, */
  bool dies_listing; /* or when it has listed what it leaves as it is */
  mt_bulk *held[MT_WRITER_LANES];
  size_t n_held;
} life;

#define OK(f, r)                                                                                   \
  MT_CHECK(mt_test_pump((f)->theirs.store, &(r).req) == MORTISE_OK, "%s: %s", (f)->place->name,    \
           (r).req.error.message)

extern life *life_current;

void job_bring_all(job_fixture *f);
void life_let_go(life *l);
void life_begin(life *l, job_fixture *f, mt_job_verb verb, int die_at, death fate);
void life_go_on(life *l);
void life_whole(life *l, job_fixture *f, mt_job_verb verb);
void life_end(life *l);
/* The id of document `i` where it lies below this path. */
void job_id(const job_fixture *f, size_t i, const char *below, char *out, size_t size);
void job_source(const job_fixture *f, size_t i, const char *below, char *out, size_t size);
void job_write_beside(job_fixture *f);
void job_fixture_open(job_fixture *f, const mt_test_place *place, undo_by by,
                      mt_test_random *random);
void job_fixture_close(job_fixture *f);
void job_expect_done(job_fixture *f, bool done);
void job_write_theirs(job_fixture *f, const char *id, const char *source);
void job_expect_source(job_fixture *f, const char *id, const char *begins);

#endif
