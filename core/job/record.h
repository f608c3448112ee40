/* The document of a job says what the job is to do, how far it is, and who works on it. Only the process that
 * owns the job writes it, by compare-and-set. A process takes the job over by writing it. */
#ifndef MT_JOB_RECORD_H
#define MT_JOB_RECORD_H

#include "job/history.h"

#include "store/store.h"

/* The states of a job. The table `moves` in record.c lists every possible transition. */
typedef enum mt_job_state {
  MT_JOB_NONE = 0, /* there is no document */
  MT_JOB_RUNNING,  /* a process works on it, or died at that */
  MT_JOB_STOPPED,  /* left half-done, on purpose or by an error; it can be resumed or undone */
  MT_JOB_DONE,     /* all that could be changed has been */
  MT_JOB_UNDOING,
  MT_JOB_UNDONE, /* its changes are taken back, except where others have changed a document since */
  MT_JOB_REMOVED, /* it is over and its journal is being removed, so it can no longer be undone */
} mt_job_state;

const char *mt_job_state_name(mt_job_state state);
bool mt_job_state_may(mt_job_state from, mt_job_state to);

enum {
  MT_JOB_MARK_MAX = 64,
  MT_JOB_NAME_MAX = 128, /* characters of an id, each of [A-Za-z0-9._-] */
  MT_JOB_REASON_MAX = 512,
  MT_JOB_WHY_MAX = 200,
  MT_JOB_WAITS_MAX = 256,
  MT_JOB_UNITS_MAX = 32, /* batches under way at once */
  MT_JOB_ATTEMPTS_MAX = 10000,
};

typedef struct mt_job_record {
  char ns[65], id[MT_JOB_NAME_MAX + 1];
  mt_job_state state;
  mt_slice spec; /* the caller's description of the job, a JSON object; borrowed from `text` */
  mt_buf work;   /* of a job whose caller does its work (outside.h): a JSON object that says how far it is; or empty */
  /* How many batches each attempt has in the journal. For the last attempt, this says which batches are
   * accounted for: all with a smaller number, and those in `also`. Where it ends, only the journal knows. */
  uint64_t *batches;
  size_t attempts;
  uint64_t also[MT_JOB_UNITS_MAX];
  size_t n_also;
  /* While the job is undone: the batches of all attempts after `undo_attempt` are taken back, and so are its
   * own batches from `undo_number` on. The first attempt is 1. */
  uint64_t undo_attempt, undo_number;
  /* the opposite change undoes the job, and the journal lists only what that does not restore */
  bool inverse;
  /* "whole" or "short": it stands, or stood until it was accepted, since it has set aside more than it may
   * (mt_change_end); else "" */
  char halted[8];
  bool loose;     /* with `inverse`: writes that the journal does not list may come late */
  /* How many documents matched before anything was written; 0: not known yet. With `inverse` or a list it is written
   * down before the first write. */
  uint64_t total;
  char strategy[8], strategy_why[MT_JOB_WHY_MAX]; /* who makes the change, and why (strategy.h) */
  /* For a store that makes the change by itself (sweep.h): the attempt whose tasks may begin (0: none may); whether
   * tasks may be running; the last known task, until when it may run by the store's clock, and how many documents it
   * has changed so far, which `counts` has when it has ended. */
  uint64_t gate;
  bool sweeps;
  char task[MT_SERVER_TASK_ID];
  int64_t not_after_ms;
  uint64_t swept;
  struct {
    uint64_t matched, changed, deleted, unchanged, conflicts, rejected;
    uint64_t restored, left;      /* of an undoing: put back, and left as others have made them */
    /* of `conflicts`: documents that stay so, whoever goes on, as nobody can tell whether a dead attempt had changed
     * them (fence.h) */
    uint64_t unsure;
  } counts;                       /* counted over the batches that are accounted for */
  /* The mark of the lists that count, of what was set aside (aside.h), or "". */
  char aside[MT_JOB_MARK_MAX];
  char session[MT_SESSION_ID];    /* the session that wrote the document last */
  const char *by; /* in: JSON object of whose session that is, borrowed until the next write; NULL: it is not said */
  uint64_t speed; /* documents a second at the last checkpoint, 0: not known */
  char reason[MT_JOB_REASON_MAX]; /* why the job stopped, or "" */
  uint64_t orders; /* the number of the last orders that its owner has read (control.h) */
  char waits[MT_JOB_WAITS_MAX];   /* what the job waits for if something holds it up, or "" */
  int64_t created_ms, updated_ms; /* by the writer's clock, to be shown to people */
  mt_job_history history;
  mt_version version;
  mt_buf text;
} mt_job_record;

void mt_job_record_init(mt_job_record *r);
void mt_job_record_deinit(mt_job_record *r);

/* INVALID_ARGUMENT if no job can have such an id. */
mortise_status mt_job_check_id(mt_slice id, mortise_error *err);

/* Appends "NAMESPACE:ID". */
void mt_job_record_id(mt_buf *out, const char *ns, const char *id);
/* "run:ATTEMPT:LOOK": each look at all documents lists anew what it sets aside (mt_change_result). */
void mt_job_mark(char out[MT_JOB_MARK_MAX], uint64_t attempt, uint32_t look);
/* Notes in its history how far it is; `updated_ms` says when: 0: not. */
void mt_job_record_note(mt_job_record *r);
/* Appends the document. */
void mt_job_record_encode(const mt_job_record *r, mt_buf *out);
/* Fills a record that is initialised. CORRUPT_TABLE if `source` is not the document of a job. */
mortise_status mt_job_record_decode(mt_job_record *r, mt_slice source, mt_version version,
                                    mortise_error *err);

/* May any attempt have changed a document? If the last attempt is journaled, only its journal knows for certain. */
bool mt_job_record_began(const mt_job_record *r);
/* As mt_job_state_may. In addition, a job that was undone may run again only if no attempt has changed anything,
 * because undoing it a second time would read the journal of what is undone already. */
bool mt_job_record_may(const mt_job_record *r, mt_job_state to);

/* Begins a new attempt, which has no batches yet. OUT_OF_MEMORY, or REJECTED if there were too many. */
mortise_status mt_job_record_attempt(mt_job_record *r, mortise_error *err);

/* What the last attempt could not do is tried again, and counted anew, but for `unsure`. */
void mt_job_count_anew(mt_job_record *r);
/* With `inverse`: so many match now. What matched at first and matches no longer, earlier attempts have changed. */
void mt_job_count_earlier(mt_job_record *r, uint64_t matched);
/* Makes `matched` the sum. `is_list`: what has been changed may still match, so that a later attempt finds it again,
 * unchanged; what never had to be changed is the rest of `total`. */
void mt_job_balance(mt_job_record *r, bool is_list);

/* What index_create needs to make the index of jobs and their journals. */
mt_slice mt_job_table(void);

#endif
