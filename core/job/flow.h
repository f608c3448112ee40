/* Finds out how many write requests a change should have under way at once, and how many documents a request
 * should have. Both numbers grow step by step while the store answers as fast as before. They fall by half when
 * the store refuses a request or takes twice as long. A number that the user has set does not change. */
#ifndef MT_JOB_FLOW_H
#define MT_JOB_FLOW_H

#include "write/writer.h"

enum { MT_FLOW_CONCURRENCY = 3 /* at first */, MT_FLOW_CONCURRENCY_MAX = 8, MT_FLOW_DOCS_MIN = 16 };

typedef struct mt_flow {
  uint32_t concurrency, docs; /* out: as of now */
  uint32_t most_docs;         /* in: the scan's page */
  bool fixed_concurrency, fixed_docs;
  /* its own: the requests answered since the last step, and the time that a document took in them */
  /* `skip`: answers to ignore, because their requests were sent before the last fall */
  uint32_t answers, skip;
  double took, least_ms;
} mt_flow;

/* A number of 0 means that it adapts. */
void mt_flow_init(mt_flow *f, uint32_t page);
void mt_flow_fix_docs(mt_flow *f, uint32_t docs);
void mt_flow_fix_concurrency(mt_flow *f, uint32_t concurrency);

/* To be called when a request was answered, or failed. True if the numbers have changed. */
bool mt_flow_answered(mt_flow *f, const mt_sent *sent);

#endif
