/* How many write requests of a change are under way at once, and how many documents each has: both grow step
 * by step while the store answers as fast as before, and fall by half where it refuses, or takes twice as
 * long. A number that someone has set stays. */
#ifndef MT_JOB_FLOW_H
#define MT_JOB_FLOW_H

#include "write/writer.h"

enum { MT_FLOW_CONCURRENCY = 3 /* at first */, MT_FLOW_CONCURRENCY_MAX = 8, MT_FLOW_DOCS_MIN = 16 };

typedef struct mt_flow {
  uint32_t concurrency, docs; /* out: as of now */
  uint32_t most_docs;         /* in: the scan's page */
  bool fixed_concurrency, fixed_docs;
  /* its own: the requests answered since the last step, and what a document took in them */
  uint32_t answers, skip; /* `skip`: still to come of those sent before the last fall */
  double took, least_ms;
} mt_flow;

/* 0: it adapts. */
void mt_flow_init(mt_flow *f, uint32_t page);
void mt_flow_fix_docs(mt_flow *f, uint32_t docs);
void mt_flow_fix_concurrency(mt_flow *f, uint32_t concurrency);

/* A request was answered, or failed. True where the numbers are others now. */
bool mt_flow_answered(mt_flow *f, const mt_sent *sent);

#endif
