/* Writers who know of no lock: they change, move, delete and add documents while the job is at work. */
#include "jobs.h"

#include <stdio.h>

typedef enum deed { CHANGE, MOVE_AWAY, REMOVE, ADD, DEEDS } deed;

/* No two sources that they write are the same. */
static void write_one(jobs_sim *s, unsigned number) {
  deed what = (deed)sim_below(s->w, jobs_own(2000, 4 * number), DEEDS);
  size_t doc = sim_below(s->w, jobs_own(2000, 4 * number + 1), s->profile.docs);
  if (what == ADD) doc = s->profile.docs + number % (JOBS_DOCS - s->profile.docs);
  char id[16], source[128];
  snprintf(id, sizeof id, "d%zu", doc);
  snprintf(source, sizeof source, "{\"path\":\"%s/%zu\",\"v\":%u}",
           what == MOVE_AWAY ? "/elsewhere" : "/old", doc, 1000 + number);
  mt_write w = {.kind = what == REMOVE ? MT_WRITE_DELETE : MT_WRITE_INDEX,
                .id = mt_slice_of(id),
                .body = mt_slice_of(source)};
  shelf_write(&s->shelf, SHELF_OTHERS, SHELF_DOCS, &w);
}

static void act(void *ctx) {
  jobs_sim *s = ctx;
  if (s->calm) return;
  unsigned number = (unsigned)s->counts.others++;
  if (sim_happens(s->w, sim_key_of(SIM_OPERATION, SHELF_OTHERS, number, 0), s->profile.others))
    write_one(s, number);
  sim_at(s->w, sim_now(s->w) + sim_between(s->w, jobs_own(2000, 4 * number + 2), 1, 400), act, s);
}

void jobs_others(jobs_sim *s) {
  if (s->profile.others) act(s);
}
