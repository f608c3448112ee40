/* A job's document: what it is to do, how far it is, and who works on it. It is written by
 * compare-and-set, by the process that has the job; taking it over is such a write. */
#ifndef MT_JOB_RECORD_H
#define MT_JOB_RECORD_H

#include "store/store.h"

/* A job's life. What stands in no row of `moves` in record.c cannot happen. */
typedef enum mt_job_state {
  MT_JOB_NONE = 0, /* there is no document */
  MT_JOB_RUNNING,  /* someone is at it, or died at it */
  MT_JOB_STOPPED,  /* left half-done on purpose or by an error: to be resumed or undone */
  MT_JOB_DONE,     /* all that could be changed has been */
  MT_JOB_UNDOING,
  MT_JOB_UNDONE,  /* all that it had changed is as it was, but for what others changed since */
  MT_JOB_REMOVED, /* over, and its journal is being removed: nothing can be done with it any more */
} mt_job_state;

const char *mt_job_state_name(mt_job_state state);
bool mt_job_state_may(mt_job_state from, mt_job_state to);

enum {
  MT_JOB_NAME_MAX = 128, /* of an id: [A-Za-z0-9._-] */
  MT_JOB_REASON_MAX = 512,
  MT_JOB_WAITS_MAX = 256,
  MT_JOB_UNITS_MAX = 32, /* batches at once */
  MT_JOB_ATTEMPTS_MAX = 10000,
};

typedef struct mt_job_record {
  char ns[65], id[MT_JOB_NAME_MAX + 1];
  mt_job_state state;
  mt_slice spec; /* what it is, for those who start it: a JSON object, kept as it is; into `text` */
  /* How many batches each attempt has in the journal. Of the last one, whose end only the journal
   * knows, these are accounted for: all below this number, and those in `also`. */
  uint64_t *batches;
  size_t attempts;
  uint64_t also[MT_JOB_UNITS_MAX];
  size_t n_also;
  /* While it is undone: what later attempts wrote, and the batches of this one from this number on, are
   * as they were. An attempt counts from 1. */
  uint64_t undo_attempt, undo_number;
  bool
      inverse; /* the opposite change undoes it: the journal lists only what that does not restore */
  bool loose;  /* `inverse`: writes that the journal does not list may come late */
  uint64_t total; /* `inverse`: documents that matched before anything was written */
  struct {
    uint64_t matched, changed, deleted, unchanged, conflicts, rejected, restored;
  } counts;                       /* of the batches that are accounted for */
  char session[MT_SESSION_ID];    /* of the one who wrote it last */
  char reason[MT_JOB_REASON_MAX]; /* why it stopped; "" */
  uint64_t orders;                /* the last that its owner has read (control.h), by number */
  char waits[MT_JOB_WAITS_MAX]; /* what it waits for, where someone or something holds it up; "" */
  int64_t created_ms, updated_ms; /* its writer's clock, for people */
  mt_version version;
  mt_buf text;
} mt_job_record;

void mt_job_record_init(mt_job_record *r);
void mt_job_record_deinit(mt_job_record *r);

/* INVALID_ARGUMENT where it can be no job's id. */
mortise_status mt_job_check_id(mt_slice id, mortise_error *err);

/* "NAMESPACE:ID", appended. */
void mt_job_record_id(mt_buf *out, const char *ns, const char *id);
/* Appends the document. */
void mt_job_record_encode(const mt_job_record *r, mt_buf *out);
/* Fills an initialised one. CORRUPT_TABLE where `source` is no job's document. */
mortise_status mt_job_record_decode(mt_job_record *r, mt_slice source, mt_version version,
                                    mortise_error *err);

/* May any attempt have changed a document? (Of the last one, where it is journaled, only the journal knows for
 * certain.) */
bool mt_job_record_began(const mt_job_record *r);
/* mt_job_state_may, and of one that was undone only where nothing of it was ever begun: an undoing of what it
 * would do now would come upon what was undone already. */
bool mt_job_record_may(const mt_job_record *r, mt_job_state to);

/* A new attempt, which has written nothing yet. OUT_OF_MEMORY, or REJECTED after too many. */
mortise_status mt_job_record_attempt(mt_job_record *r, mortise_error *err);

/* What index_create needs to make the index of jobs and their journals. */
mt_slice mt_job_table(void);

#endif
