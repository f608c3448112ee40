/* What the server does by itself: tasks that change what they found when they began, while their sender may be gone;
 * and its clock. A task finds nothing where its gate is closed. */
#include "jobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { D_TASK = 62000, STEP_MS = 12, SLOW_STEP_MS = 800 };

typedef struct jobs_task {
  jobs_sim *sim;
  unsigned who;
  uint64_t number, steps, attempt; /* the one that it belongs to */
  char name[MT_SERVER_TASK_NAME_MAX + 1];
  int64_t not_after_ms;
  bool cancelled, slow;
  int64_t lost_ms; /* from then on its node is out of sight, and works on; 0: it never is */
  char **ids; /* what it found, with `versions` */
  mt_version *versions;
  size_t n, at;
  mt_server_task_state state;
  struct jobs_task *next;
} jobs_task;

/* ---- Its documents -------------------------------------------------------------------------- */

/* Looks for a member ["*"] of that name in the job's document: all that a gate is here. */
static bool is_gate_open(jobs_sim *s, const mt_gate *gate) {
  const shelf_doc *d = shelf_get(shelf_find(&s->shelf, SHELF_JOBS), mt_slice_of(gate->id));
  char member[80];
  snprintf(member, sizeof member, "\"gate\":{\"%s\":[\"*\"]}", strrchr(gate->path, '.') + 1);
  return d && d->now.source && strstr(d->now.source, member);
}

static void find_documents(jobs_task *t, const char *below) {
  const shelf_index *x = shelf_find(&t->sim->shelf, SHELF_DOCS);
  t->ids = sim_must(calloc(x->n + 1, sizeof *t->ids));
  t->versions = sim_must(calloc(x->n + 1, sizeof *t->versions));
  for (size_t i = 0; i < x->n; i++) {
    if (!x->docs[i].seen.source || !jobs_lies_below(x->docs[i].seen.source, below)) continue;
    t->versions[t->n] = x->docs[i].seen.version;
    t->ids[t->n++] = sim_must(strdup(x->docs[i].id));
  }
  t->state.total = t->n;
}

/* As it was found: what was written since is a conflict. */
static void change_one(jobs_task *t) {
  jobs_sim *s = t->sim;
  const shelf_doc *d = shelf_get(shelf_find(&s->shelf, SHELF_DOCS), mt_slice_of(t->ids[t->at]));
  char *made = NULL;
  bool changes = d->now.source && jobs_change(s, d->now.source, &made) && made;
  mt_write w = {.kind = MT_WRITE_INDEX,
                .id = mt_slice_of(t->ids[t->at]),
                .body = mt_slice_of(made ? made : ""),
                .if_version = t->versions[t->at]};
  t->at++;
  if (changes) shelf_write(&s->shelf, t->who, SHELF_DOCS, &w);
  if (changes && w.result == MT_WRITE_APPLIED) jobs_judge_task(s, t->attempt);
  t->state.updated += changes && w.result == MT_WRITE_APPLIED;
  t->state.conflicts += !changes || w.result == MT_WRITE_CONFLICT;
  t->state.noops += changes && w.result == MT_WRITE_REJECTED;
  free(made);
}

/* ---- Its life ------------------------------------------------------------------------------- */

static void end_task(jobs_task *t, const char *why) {
  t->state.phase = MT_SERVER_TASK_ENDED;
  t->state.complete = !why;
  snprintf(t->state.type, sizeof t->state.type, "%s", why ? why : "");
  sim_trace(t->sim->w, "task %" PRIu64 " ends: %s", t->number, why ? why : "complete");
}

static void step_task(void *ctx);

static void step_later(jobs_task *t) {
  sim_world *w = t->sim->w;
  sim_key key = sim_key_of(SIM_DICE, t->who, t->number << 12 | t->steps++, D_TASK);
  sim_at(w, sim_now(w) + sim_between(w, key, 1, t->slow ? SLOW_STEP_MS : STEP_MS), step_task, t);
}

static void step_task(void *ctx) {
  jobs_task *t = ctx;
  bool over = t->not_after_ms && sim_now(t->sim->w) >= t->not_after_ms;
  if (t->cancelled || over) {
    end_task(t, t->cancelled ? "canceled" : "time");
  } else if (t->at == t->n) {
    end_task(t, NULL);
  } else {
    change_one(t);
    step_later(t);
  }
}

uint64_t jobs_task_begin(jobs_process *p, const jobs_start *r) {
  jobs_sim *s = p->sim;
  jobs_task *t = sim_must(calloc(1, sizeof *t));
  *t = (jobs_task){.sim = s,
                   .who = p->number,
                   .number = ++s->counts.tasks,
                   .not_after_ms = r->not_after_ms,
                   .next = s->tasks,
                   .state = {.phase = MT_SERVER_TASK_RUNNING}};
  snprintf(t->name, sizeof t->name, "%s", r->name);
  s->tasks = t;
  t->attempt = strtoull(strrchr(r->gate_path, '.') + 2, NULL, 10);
  if (!s->calm && sim_below(s->w, sim_key_of(SIM_DICE, p->number, t->number << 12 | 4094, D_TASK), 6) == 0)
    t->lost_ms = sim_now(s->w) + sim_between(s->w, sim_key_of(SIM_DICE, p->number, t->number << 12 | 4093, D_TASK), 1, 2000);
  t->slow = sim_below(s->w, sim_key_of(SIM_DICE, p->number, t->number << 12 | 4095, D_TASK), 2);
  if (is_gate_open(s, &(mt_gate){SHELF_JOBS, r->gate_id, r->gate_path}))
    find_documents(t, r->below);
  sim_trace(s->w, "task %" PRIu64 " of process %u begins with %zu documents", t->number, p->number,
            t->n);
  step_later(t);
  return t->number;
}

/* In the end all nodes are seen again. One that the job's document does not name is never lost: whoever takes the job
 * over then could not know of it. */
static bool is_lost(const jobs_task *t) {
  char name[MT_SERVER_TASK_ID];
  snprintf(name, sizeof name, "node:%" PRIu64, t->number);
  bool known = !strcmp(t->sim->ended.task, name);
  return known && t->lost_ms && sim_now(t->sim->w) >= t->lost_ms && !t->sim->calm;
}

mt_server_task_state jobs_task_look(jobs_sim *s, uint64_t number, bool cancel) {
  for (jobs_task *t = s->tasks; t; t = t->next) {
    if (t->number != number) continue;
    if (is_lost(t)) {
      s->counts.lost++;
      return (mt_server_task_state){.phase = MT_SERVER_TASK_LOST};
    }
    t->cancelled |= cancel;
    return t->state;
  }
  return (mt_server_task_state){0};
}

size_t jobs_tasks_find(const jobs_sim *s, const char *name, uint64_t *numbers, size_t most) {
  size_t n = 0;
  for (const jobs_task *t = s->tasks; t && n < most; t = t->next)
    if (t->state.phase == MT_SERVER_TASK_RUNNING && !is_lost(t) && !strcmp(t->name, name)) numbers[n++] = t->number;
  return n;
}

void jobs_tasks_clear(jobs_sim *s) {
  while (s->tasks) {
    jobs_task *t = s->tasks;
    s->tasks = t->next;
    for (size_t i = 0; i < t->n; i++) free(t->ids[i]);
    free(t->ids);
    free(t->versions);
    free(t);
  }
}
