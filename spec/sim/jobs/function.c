/* A process's change that is a function: it is called for one document after the other, with other events in
 * between, as a script's is. */
#include "jobs.h"

#include "job/unit.h"

#include <stddef.h>

enum { D_STEP = 60001, STEP_MS = 20 };

static void make_one(jobs_process *p, const mt_doc *doc) {
  mortise_error err;
  mt_buf made;
  mt_buf_init(&made, 4096);
  jobs_judge_call(p, doc);
  mt_error_clear(&err);
  mt_transformed how = jobs_transform(p->sim, doc, &made, &err);
  mt_unit_put(p->unit, how, mt_buf_slice(&made), &err);
  mt_buf_deinit(&made);
}

static void step_later(jobs_process *p);

static void step(void *ctx) {
  jobs_process *p = ctx;
  mt_change *c = &p->rename.change;
  if (jobs_held_up(p, step, p)) return;
  if (!p->unit) p->unit = mt_change_page(c);
  p->making = p->unit != NULL;
  if (!p->making) return;
  const mt_doc *doc = mt_unit_next(p->unit);
  if (doc) {
    make_one(p, doc);
  } else {
    mt_change_page_done(c, p->unit);
    p->unit = NULL;
  }
  step_later(p);
}

static void step_later(jobs_process *p) {
  sim_key key = sim_key_of(SIM_DICE, p->number, p->steps++, D_STEP);
  sim_at(p->sim->w, sim_now(p->sim->w) + sim_between(p->sim->w, key, 0, STEP_MS), step, p);
}

void jobs_function_offered(mt_change *c) {
  jobs_process *p = (jobs_process *)((char *)c - offsetof(jobs_process, rename.change));
  if (!p->making) step_later(p);
  p->making = true;
}
