/* Reads a bulk's answer in one pass over unvalidated bytes. */
#ifndef MT_ELASTIC_ANSWER_H
#define MT_ELASTIC_ANSWER_H

#include "base/json.h"
#include "store/store.h"

typedef enum mt_applied {
  MT_APPLIED_NONE = 0, /* no `result` member: an error */
  MT_APPLIED_CREATED,
  MT_APPLIED_UPDATED,
  MT_APPLIED_DELETED,
  MT_APPLIED_NOOP,
  MT_APPLIED_NOT_FOUND,
} mt_applied;

/* Slices are raw values in the answer, {NULL, 0} where absent. */
typedef struct mt_answer {
  int status;
  mt_applied applied;
  mt_version version;                /* {0,0}: none */
  bool placed;                       /* it had a _seq_no that was not negative */
  mt_slice id;
  mt_slice type, reason;             /* of the error */
  mt_slice cause_type, cause_reason; /* of its innermost cause */
  mt_slice source;                   /* get._source */
} mt_answer;

typedef struct mt_answers {
  const char *p, *end;
  bool ended;
  bool failed; /* not understood */
} mt_answers;

/* Moves to the first item of {"items":[...]}. */
void mt_answers_init(mt_answers *a, mt_slice text);
/* false after the last item, or with `failed` set. */
bool mt_answers_next(mt_answers *a, mt_answer *out);

/* Does the item answer the write of this document? Items come in the order in which they were sent,
 * but each is checked nevertheless. */
bool mt_answer_is_of(const mt_answer *a, mt_slice id);

/* Copies a raw string, decoded and cut to fit. */
char *mt_answer_text(mt_slice raw, char *out, size_t size);
bool mt_answer_is(mt_slice raw, const char *text);
/* Does it say that the document was written, with the version? */
bool mt_answer_written(const mt_answer *a);
/* Does the index, or the cluster, take no writes now, since its disk is too full, someone set it so, or it has no manager?
 * That ends, and it is not the item's fault. */
bool mt_answer_blocked(const mt_answer *a);
/* Did the server certainly not do it because it is busy? Then it may be sent again. */
bool mt_answer_busy(const mt_answer *a);
/* May the write have been applied although the item reports a failure? */
bool mt_answer_unsure(const mt_answer *a);

#endif
