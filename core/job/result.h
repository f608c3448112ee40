/* The result of a change: what it has done, in numbers. */
#ifndef MT_JOB_RESULT_H
#define MT_JOB_RESULT_H

#include "base/buf.h"

#include <stdint.h>

enum { MT_REJECTS_SHOWN = 20, MT_REJECT_ID_MAX = 512 };

/* A document that was set aside. */
typedef struct mt_reject {
  char id[MT_REJECT_ID_MAX + 1]; /* cut to fit */
  char type[64];
  char reason[160];
} mt_reject;

/* If the change ended well, matched = changed + deleted + unchanged. */
typedef struct mt_change_result {
  uint64_t matched;   /* documents that matched, in any pass */
  uint64_t changed;   /* acknowledged, as is `deleted` */
  uint64_t deleted;
  uint64_t unchanged; /* needed no change, or someone else had made it, or they are gone */
  uint64_t redone;    /* changed by someone else meanwhile, so they were read and changed again */
  uint64_t conflicts; /* in the last pass: not changed, because someone else had changed them */
  uint64_t rejected;  /* in the last pass: set aside */
  uint64_t unknown;   /* may have been changed, since their request was never answered */
  uint64_t left;      /* still match at the end; 0 unless `until_none` */
  uint64_t beside;    /* matched `beside` before anything was written */
  mt_reject rejects[MT_REJECTS_SHOWN]; /* the first of `rejected` */
  uint64_t refused; /* write requests for which the store had no time, in whole or in part */
  uint32_t passes;
  uint32_t looks;       /* passes, and those that had to begin again */
  uint64_t bytes;       /* sent and received by the store meanwhile */
  uint64_t round_trips; /* requests of the store meanwhile */
  int64_t duration_ms;
} mt_change_result;

/* How many documents are finished. */
static inline uint64_t mt_result_settled(const mt_change_result *r) {
  return r->changed + r->deleted + r->unchanged;
}

/* How many documents may be set aside: at most so many, or so many in a million of those that match. Without `limits`
 * any number may. */
typedef struct mt_bound {
  bool limits;
  uint64_t documents, in_a_million;
} mt_bound;

/* Text like "10" or "0.5%"; empty: any number. */
mortise_status mt_bound_parse(mt_slice text, mt_bound *out, mortise_error *err);
bool mt_bound_exceeded(const mt_bound *b, uint64_t aside, uint64_t matched);

/* At the end: REJECTED or CONFLICT if some documents could not be changed, or still match. `curtailed`: it has not
 * looked at all; `idle`: some that match were not to be changed. */
mortise_status mt_result_check(const mt_change_result *r, bool curtailed, bool idle,
                               mortise_error *err);
/* Appends how many documents had been changed to the message of an error. */
void mt_result_say_how_far(const mt_change_result *r, mortise_error *e);

/* Counts a document that was set aside, and keeps its details if it is one of the first. */
void mt_result_reject(mt_change_result *r, mt_slice id, const char *type, const char *reason);

#endif
