#include "job/flow.h"

enum {
  /* added to each time, so that small differences between short times do not count */
  SHORT_MS = 10,
  STEPS = 8,     /* how many steps lead from half a page to a whole page */
  SLOWER = 200,  /* per cent of the least time from which both numbers fall by half */
  AS_FAST = 125, /* per cent of the least time up to which they may grow */
  /* per cent to which the least time grows with each fall, since the store may stay slow */
  AGING = 125,
  PART_OF_FULL = 2 /* requests smaller than this part of a full one are not measured */
};

void mt_flow_init(mt_flow *f, uint32_t page) {
  *f = (mt_flow){.concurrency = MT_FLOW_CONCURRENCY, .docs = page, .most_docs = page};
}

static uint32_t within(uint32_t n, uint32_t least, uint32_t most) {
  if (n > most) n = most;
  return n < least ? least : n;
}

void mt_flow_fix_docs(mt_flow *f, uint32_t docs) {
  f->fixed_docs = docs > 0;
  f->docs = docs ? within(docs, 1, f->most_docs) : f->most_docs;
}

void mt_flow_fix_concurrency(mt_flow *f, uint32_t concurrency) {
  f->fixed_concurrency = concurrency > 0;
  f->concurrency = concurrency ? within(concurrency, 1, MT_WRITER_LANES) : MT_FLOW_CONCURRENCY;
}

static void start_window(mt_flow *f) {
  f->answers = 0;
  f->took = 0;
}

/* The time of a document is comparable only among requests of similar size. */
static void set_docs(mt_flow *f, uint32_t docs) {
  if (docs != f->docs) f->least_ms = 0;
  f->docs = docs;
}

/* Requests that are under way were sent before the fall, so their answers must not cause another one. */
static bool fall(mt_flow *f) {
  uint32_t docs = f->docs, concurrency = f->concurrency;
  f->skip = f->concurrency;
  start_window(f);
  if (!f->fixed_concurrency) f->concurrency = within(concurrency / 2, 1, concurrency);
  if (!f->fixed_docs && (concurrency == 1 || f->fixed_concurrency))
    set_docs(f, within(docs / 2, MT_FLOW_DOCS_MIN < docs ? MT_FLOW_DOCS_MIN : docs, docs));
  return docs != f->docs || concurrency != f->concurrency;
}

static bool grow(mt_flow *f) {
  uint32_t docs = f->docs, concurrency = f->concurrency;
  if (!f->fixed_docs && docs < f->most_docs)
    set_docs(f, within(docs + 1 + f->most_docs / STEPS / 2, docs, f->most_docs));
  else if (!f->fixed_concurrency)
    f->concurrency = within(concurrency + 1, concurrency, MT_FLOW_CONCURRENCY_MAX);
  return docs != f->docs || concurrency != f->concurrency;
}

/* Called when as many requests were answered as are sent at once: compares the time per document. */
static bool take_step(mt_flow *f) {
  double took = f->took / f->answers;
  start_window(f);
  if (f->least_ms <= 0 || took < f->least_ms) f->least_ms = took;
  if (took <= f->least_ms * AS_FAST / 100) return grow(f);
  if (took <= f->least_ms * SLOWER / 100) return false;
  f->least_ms *= AGING / 100.0;
  return fall(f);
}

bool mt_flow_answered(mt_flow *f, const mt_sent *sent) {
  if (f->skip) {
    f->skip--;
    return false;
  }
  if (sent->refused) return fall(f);
  if (!sent->docs || sent->docs < f->docs / PART_OF_FULL) return false;
  f->took += (double)(sent->ms + SHORT_MS) / (double)sent->docs;
  return ++f->answers >= f->concurrency && take_step(f);
}
