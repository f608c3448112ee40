/* What must always hold. The judge sees every write that is applied.
 *
 * A document's base is what it was before the job changed it: what it was at the beginning, or what others wrote
 * last. Whatever the job writes is its base, changed; or, undoing, its base again; or what is there already. A
 * change is in the journal before it is applied. What others wrote is never lost. A function is never called for a
 * document that it has changed, whatever others have made of it since. One that gets another id is there before it is
 * gone from the former. */
#include "jobs.h"

#include "job/aside.h"
#include "job/journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct jobs_entry {
  unsigned doc;
  mt_version before;
  char after[MT_JOURNAL_DIGEST];
  uint64_t batch; /* a hash of its id */
  bool written;   /* the document was */
} jobs_entry;

/* ---- What the job makes of a document -------------------------------------------------------- */

bool jobs_lies_below(const char *source, const char *path) {
  static const char start[] = "{\"path\":\"";
  size_t n = sizeof start - 1, m = strlen(path);
  return !strncmp(source, start, n) && !strncmp(source + n, path, m) && source[n + m] == '/';
}

#define LIST                                                                                       \
  "[{\"rename_field\":{\"from\":\"v\",\"to\":\"w\"}},{\"set\":{\"field\":\"done\",\"value\":true}" \
  "}]"

void jobs_lists_make(jobs_sim *s) {
  mortise_status status = s->profile.kind >= JOBS_LIST
                              ? mt_transforms_parse(&s->list, MT_SLICE(LIST), NULL)
                              : mt_transforms_prefix(&s->list, MT_SLICE("path"), MT_SLICE("/old"),
                                                     MT_SLICE("/new"), NULL);
  if (!status && s->profile.kind < JOBS_LIST)
    status = mt_transforms_inverse(&s->list, &s->inverse, NULL);
  if (status) abort();
}

/* It is another each time. */
static mt_transformed call_function(const mt_doc *doc, int64_t v, mt_buf *out) {
  if (v % 5 == 0) return MT_DELETED;
  if (v % 5 == 1) return MT_UNCHANGED;
  mt_buf_add(out, doc->source.p, doc->source.n - 1);
  mt_buf_adds(out, ",\"n\":1}");
  return MT_CHANGED;
}

/* Every third of what has not been changed is deleted. */
mt_transformed jobs_transform(void *ctx, const mt_doc *doc, mt_buf *out, mortise_error *err) {
  jobs_sim *s = ctx;
  mt_json source;
  int64_t v = 0;
  if (s->profile.kind < JOBS_DELETE) return mt_transforms_apply(&s->list, doc->source, out, err);
  if (mt_json_parse(doc->source, "a document", &source, err)) return MT_STOP;
  if (!mt_json_int(mt_json_get(source, "v"), &v)) return MT_UNCHANGED;
  if (s->profile.kind == JOBS_FUNCTION) return call_function(doc, v, out);
  return v % 3 ? mt_transforms_apply(&s->list, doc->source, out, err) : MT_DELETED;
}

bool jobs_change(jobs_sim *s, const char *source, char **out) {
  mt_buf made;
  *out = NULL;
  if (!source || !jobs_lies_below(source, "/old")) return false;
  mt_buf_init(&made, 4096);
  mt_transformed how = jobs_transform(s, &(mt_doc){.source = mt_slice_of(source)}, &made, NULL);
  if (how == MT_CHANGED) *out = sim_must(strndup(made.p, made.n));
  mt_buf_deinit(&made);
  return how == MT_CHANGED || how == MT_DELETED;
}

static bool is(const char *a, const char *b) {
  return a && b ? !strcmp(a, b) : a == b;
}

void jobs_id(const jobs_sim *s, unsigned doc, bool moved, char out[32]) {
  bool moves = s->profile.kind == JOBS_MOVES;
  snprintf(out, 32, "%sd%u", !moves ? "" : moved ? "/new/" : "/old/", doc);
}

static bool is_moved(const char *id) {
  return !strncmp(id, "/new/", 5);
}

static unsigned doc_of(const char *id) {
  return (unsigned)strtoul(id + (*id == '/' ? 6 : 1), NULL, 10);
}

static bool poisoned(const jobs_sim *s, unsigned doc) {
  return sim_random(s->w, jobs_own(3000, doc)) % 1000 < s->profile.poisoned;
}

static bool rejects(void *ctx, const char *index, const char *id, mt_slice source) {
  jobs_sim *s = ctx;
  char *changed;
  if (strcmp(index, SHELF_DOCS) || !poisoned(s, doc_of(id))) return false;
  bool bad = jobs_change(s, s->docs[doc_of(id)].base, &changed) && changed &&
             mt_slice_eq(source, mt_slice_of(changed));
  free(changed);
  return bad;
}

/* ---- The journal and the job's document ------------------------------------------------------ */

static uint64_t batch_of(const char *id) {
  uint64_t h = UINT64_C(14695981039346656037);
  for (; *id; id++) h = (h ^ (unsigned char)*id) * UINT64_C(1099511628211);
  return h;
}

static bool lists(const mt_journal_batch *b, const jobs_entry *e) {
  for (size_t i = 0; i < b->n; i++)
    if (doc_of(b->entries[i].id.p) == e->doc && mt_version_equal(b->entries[i].before, e->before))
      return true;
  return false;
}

static const char *source_at(const jobs_sim *s, unsigned doc, bool moved) {
  char id[32];
  jobs_id(s, doc, moved, id);
  const shelf_doc *d = shelf_get(&s->shelf.docs, mt_slice_of(id));
  return d ? d->now.source : NULL;
}

/* Is the document what the batch has made of it? A function's is the job's whatever others have made of it since. One
 * that is gone does not say who deleted it: others their own, or, for a rival who has the job no longer, its owner. */
static bool is_made(const jobs_sim *s, const jobs_entry *e) {
  char digest[MT_JOURNAL_DIGEST] = "";
  const char *now = source_at(s, e->doc, false);
  bool deletes = !*e->after, function = s->profile.kind == JOBS_FUNCTION;
  if (deletes && (s->profile.rivals || !function)) return false;
  if (!e->written || function) return e->written && s->docs[e->doc].written;
  if (now && !mt_journal_digest(mt_slice_of(now), digest)) abort();
  return !strcmp(digest, e->after);
}

/* It is corrected: what was not written leaves it, and nothing is added. */
static void note_corrected(jobs_sim *s, const shelf_written *w, const mt_journal_batch *b) {
  size_t kept = 0, of_batch = 0;
  for (size_t i = 0; i < s->n_journal; i++) {
    const jobs_entry *e = &s->journal[i];
    bool stays = e->batch != batch_of(w->id) || lists(b, e);
    if (!stays && is_made(s, e))
      jobs_fail(s, "what was written has left the journal");
    of_batch += stays && e->batch == batch_of(w->id);
    if (stays) s->journal[kept++] = *e;
  }
  if (of_batch != b->n) jobs_fail(s, "a correction adds to the journal");
  s->n_journal = kept;
}

static void add_batch(jobs_sim *s, const shelf_written *w, const mt_journal_batch *b) {
  s->counts.batches++;
  if (b->n) jobs_orders_batch(&s->processes[w->who], b->n);
  if (s->n_journal + b->n > s->cap_journal)
    s->journal = sim_must(
        realloc(s->journal, (s->cap_journal = 2 * (s->n_journal + b->n)) * sizeof *s->journal));
  for (size_t i = 0; i < b->n; i++) {
    jobs_entry *e = &s->journal[s->n_journal++];
    *e = (jobs_entry){doc_of(b->entries[i].id.p), b->entries[i].before, "", batch_of(w->id), false};
    memcpy(e->after, b->entries[i].after, sizeof e->after);
    s->docs[e->doc].listed = true;
  }
}

static void note_batch(jobs_sim *s, const shelf_written *w) {
  mt_journal_batch b;
  if (w->before && is(w->before, w->after)) return; /* for its acknowledgement */
  if (mt_journal_decode(mt_slice_of(w->after), &b, NULL)) {
    jobs_fail(s, "a batch of the journal cannot be read");
    return;
  }
  if (w->before)
    note_corrected(s, w, &b);
  else
    add_batch(s, w, &b);
  mt_journal_batch_deinit(&b);
}

/* What stays as others have left it, for good. */
static void note_unsure(jobs_sim *s, const shelf_written *w) {
  mt_json root, id;
  if (!strstr(w->after, "\"state\":\"" MT_UNSURE_MARK "\"")) return;
  if (mt_json_parse(mt_slice_of(w->after), "a list", &root, NULL)) abort();
  for (mt_json_iter it = mt_json_items(mt_json_at(root, "body", "list", NULL)); mt_json_next(&it);) {
    char text[32];
    id = mt_json_get(it.value, "id");
    mt_json_copy(id, text, sizeof text);
    s->docs[doc_of(text)].unsure = true;
  }
}

static bool is_journaled(jobs_sim *s, unsigned doc, const shelf_written *w) {
  char digest[MT_JOURNAL_DIGEST] = "";
  bool created = is_moved(w->id);
  if (s->ended.inverse) return true; /* the opposite change undoes it */
  if (w->after && !mt_journal_digest(mt_slice_of(w->after), digest)) abort();
  for (size_t i = 0; i < s->n_journal; i++) {
    jobs_entry *e = &s->journal[i];
    bool same = e->doc == doc && (created || mt_version_equal(e->before, w->before_version)) &&
                !strcmp(e->after, digest);
    e->written |= same;
    if (same) return true;
  }
  return false;
}

/* It is done with more set aside than may be only where somebody takes it so. */
static void check_aside(jobs_sim *s, const shelf_written *w, mt_job_state before) {
  const mt_job_record *r = &s->ended;
  bool accepts = s->processes[w->who].job.verb == MT_JOB_ACCEPT;
  if (r->state != MT_JOB_DONE || before == MT_JOB_DONE) return;
  s->accepted = accepts;
  s->counts.accepted += accepts;
  if (accepts && !r->halted[0]) jobs_fail(s, "what was cut off is accepted");
  if (!accepts && s->profile.bounded && r->counts.rejected + r->counts.conflicts)
    jobs_fail(s, "it is done with more set aside than may be");
}

static void check_record(jobs_sim *s, const shelf_written *w) {
  mt_job_record *r = &s->ended;
  mt_job_state before = r->state;
  size_t attempts = r->attempts;
  if (mt_job_record_decode(r, mt_slice_of(w->after), w->version, NULL)) {
    jobs_fail(s, "the job's document cannot be read");
    return;
  }
  sim_trace(s->w, "the job is %s, attempt %zu", mt_job_state_name(r->state), r->attempts);
  if (w->who < s->cleared) jobs_fail(s, "who has no guard any more writes the job's document");
  if (r->state == MT_JOB_RUNNING) s->last_ms = s->processes[w->who].born_ms;
  if (r->attempts > attempts) s->processes[w->who].began_ms = sim_now(s->w);
  jobs_orders_record(&s->processes[w->who], r);
  if (before != r->state && !mt_job_state_may(before, r->state))
    jobs_fail(s, "the state was changed as it may not be");
  if (r->attempts < attempts) jobs_fail(s, "an attempt was forgotten");
  check_aside(s, w, before);
  uint64_t settled = r->counts.changed + r->counts.deleted + r->counts.unchanged;
  if (r->counts.matched != settled + r->counts.conflicts + r->counts.rejected)
    jobs_fail(s, "the counts do not balance");
}

/* Whoever has made the job his own has ended them. */
void jobs_judge_task(jobs_sim *s, uint64_t attempt) {
  const mt_job_record *r = &s->ended;
  bool over = r->state == MT_JOB_DONE || r->state == MT_JOB_UNDONE || r->state == MT_JOB_REMOVED;
  if (over) jobs_fail(s, "a task changes a document of a job that is over");
  if (r->attempts > attempt || r->undo_attempt) jobs_fail(s, "a task of a former attempt changes a document");
}

/* ---- Documents ------------------------------------------------------------------------------ */

static void note_others(jobs_sim *s, const shelf_written *w) {
  jobs_doc *d = &s->docs[doc_of(w->id)];
  d->remade |= d->listed && !w->before;
  free(d->base);
  d->base = w->after ? sim_must(strdup(w->after)) : NULL;
  d->base_ms = sim_now(s->w);
  d->others = true;
}

/* A create, or a delete while the same is at the other id. */
static void check_move(jobs_sim *s, const shelf_written *w) {
  unsigned doc = doc_of(w->id);
  bool moved = is_moved(w->id);
  const char *base = s->docs[doc].base, *there = source_at(s, doc, !moved);
  char *changed;
  s->counts.writes++;
  jobs_change(s, base, &changed);
  const char *here = moved ? changed : base;
  if (is(w->before, w->after))
    s->counts.again++;
  else if (w->before ? w->after || !is(w->before, here) : !is(w->after, here))
    jobs_fail(s, "what was written is neither the change nor its undoing");
  else if (!is(there, moved ? base : changed))
    jobs_fail(s, "a document was deleted, or made again, that is not at its other id");
  else if (moved && w->after && !is_journaled(s, doc, w))
    jobs_fail(s, "a document was moved before the journal said so");
  free(changed);
}

/* Nothing of it is under way once it has given its lock back, unless no answer came, or the job's document says that a
 * task may be. */
static void check_holder(jobs_sim *s, const shelf_written *w) {
  const jobs_process *p = &s->processes[w->who];
  if (s->ended.sweeps) return;
  if (p->ended && !p->stopped_until && !s->profile.fault_level && !s->faults.split)
    jobs_fail(s, "a process has given its lock back, and writes");
}

/* May undoing make a document again that others have deleted? Nobody can see who did while a request that was to delete
 * it had no answer; nor that others have made and deleted another since the job deleted it. */
static bool may_be_made_again(const jobs_sim *s, unsigned doc) {
  bool answered = !s->profile.misfortunes && !s->profile.fault_level && !s->faults.split;
  return s->profile.kind >= JOBS_DELETE && (!answered || s->docs[doc].written);
}

static void check_change(jobs_sim *s, const shelf_written *w) {
  unsigned doc = doc_of(w->id);
  const char *base = s->docs[doc].base;
  char *changed;
  bool changes = jobs_change(s, base, &changed);
  s->counts.writes++;
  if (is(w->before, w->after))
    s->counts.again++;
  else if (changes && is(w->before, base) && is(w->after, changed)) {
    if (!is_journaled(s, doc, w)) jobs_fail(s, "a document was changed before the journal said so");
    s->docs[doc].written = true;
  } else if (changes && is(w->before, changed) && is(w->after, base)) {
    s->docs[doc].written = false;
  } else if (!base && !w->before && may_be_made_again(s, doc)) {
    note_others(s, w);
  } else {
    jobs_fail(s, "what was written is neither the change nor its undoing");
  }
  free(changed);
}

static void on_written(void *ctx, const shelf_written *w) {
  jobs_sim *s = ctx;
  sim_trace(s->w, "%u writes %s/%s at %" PRIu64 ": %.400s", w->who, w->index, w->id,
            w->version.seq_no, w->after ? w->after : "deleted");
  if (!strcmp(w->index, SHELF_JOBS)) {
    if (!strncmp(w->after, "{\"kind\":\"batch\"", 15)) note_batch(s, w);
    if (!strncmp(w->after, "{\"kind\":\"job\"", 13)) check_record(s, w);
    if (!strncmp(w->after, "{\"kind\":\"aside\"", 15)) note_unsure(s, w);
  } else if (w->who == SHELF_OTHERS) {
    note_others(s, w);
  } else if (s->profile.kind == JOBS_MOVES) {
    check_move(s, w);
  } else {
    check_holder(s, w);
    check_change(s, w);
  }
}

void jobs_judge_call(jobs_process *p, const mt_doc *doc) {
  jobs_sim *s = p->sim;
  bool owner = !strcmp(s->ended.session, p->session.id) && s->ended.state == MT_JOB_RUNNING;
  s->counts.calls++;
  /* One that has the job no longer reads what it likes: its journal takes nothing. */
  if (owner && s->docs[doc_of(doc->id.p)].written)
    jobs_fail(s, "a function is called for what it has changed");
}

/* ---- The end -------------------------------------------------------------------------------- */

/* Of one that gets another id: where there is one of them, it is there; where there are both, it is neither. */
static const char *source_of(const jobs_sim *s, unsigned doc) {
  const char *old = source_at(s, doc, false);
  if (s->profile.kind != JOBS_MOVES) return old;
  const char *new = source_at(s, doc, true);
  return old && new ? "at both ids" : new ? new : old;
}

static bool others_wrote(const jobs_sim *s) {
  for (unsigned i = 0; i < JOBS_DOCS; i++)
    if (s->docs[i].others) return true;
  return false;
}

static bool any_poisoned(const jobs_sim *s) {
  for (unsigned i = 0; i < JOBS_DOCS; i++)
    if (poisoned(s, i)) return true;
  return false;
}

/* All that could be changed is, unless it has not looked at all; what others wrote since the last of those who did it
 * began may be. */
static void check_all_changed(jobs_sim *s) {
  bool is_short = !strcmp(s->ended.halted, "short");
  for (unsigned i = 0; i < JOBS_DOCS; i++) {
    const jobs_doc *d = &s->docs[i];
    const char *now = source_of(s, i);
    char *changed;
    bool changes = jobs_change(s, d->base, &changed), refused = changed && poisoned(s, i);
    bool late = is_short || (d->others && d->base_ms >= s->last_ms);
    bool is_left = d->written || d->unsure || (d->listed && d->remade);
    if (s->profile.kind == JOBS_FUNCTION) late |= d->others && is_left;
    bool good =
        changes && !refused ? is(now, changed) || (late && is(now, d->base)) : is(now, d->base);
    if (!good)
      jobs_fail(s, is(now, d->base) ? "it is done, and there is work left"
                                    : "a document is neither old nor new");
    free(changed);
  }
}

static void check_all_undone(jobs_sim *s) {
  for (unsigned i = 0; i < JOBS_DOCS; i++)
    if (!is(source_of(s, i), s->docs[i].base))
      jobs_fail(s, "it is undone, and a document is not what it was");
}

static uint64_t count_written(const jobs_sim *s, bool deleted) {
  uint64_t n = 0;
  for (unsigned i = 0; i < JOBS_DOCS; i++) n += s->docs[i].written && !source_of(s, i) == deleted;
  return n;
}

/* With all that was late come in, and nobody else at work. */
static void check_counts(jobs_sim *s) {
  const mt_job_record *r = &s->ended;
  uint64_t unsure = 0;
  for (unsigned i = 0; i < JOBS_DOCS; i++) unsure += s->docs[i].unsure;
  /* One that has the job no longer, and believes in its lock, lists what nobody counts. */
  bool is_same = r->counts.unsure == unsure || (s->profile.rivals && r->counts.unsure < unsure);
  if (r->state != MT_JOB_UNDONE && (!is_same || r->counts.conflicts < r->counts.unsure))
    jobs_fail(s, "what is listed for good is not what is counted");
  if (others_wrote(s) || r->state != MT_JOB_DONE || !strcmp(r->halted, "short")) return;
  uint64_t all = s->profile.docs - (s->profile.kind == JOBS_INVERSE);
  if (r->counts.matched != all) jobs_fail(s, "the counts are not of all documents");
  if (s->profile.kind != JOBS_FUNCTION) return;
  if (r->counts.changed != count_written(s, false) || r->counts.deleted != count_written(s, true))
    jobs_fail(s, "the counts are not of what was written");
}

void jobs_judge_end(jobs_sim *s) {
  s->counts.done += s->ended.state == MT_JOB_DONE;
  s->counts.undone += s->ended.state == MT_JOB_UNDONE;
  s->counts.standing += s->ended.state == MT_JOB_STOPPED;
  if (s->ended.state == MT_JOB_STOPPED && !s->profile.bounded)
    jobs_fail(s, "it stands, and there is no bound");
  if (s->ended.state == MT_JOB_UNDONE)
    check_all_undone(s);
  else if (s->ended.state == MT_JOB_DONE || s->ended.state == MT_JOB_STOPPED)
    check_all_changed(s);
  else if (s->ended.state)
    jobs_fail(s, "it has not come to an end");
  check_counts(s);
}

/* When all is calm, only what cannot be changed is an error. */
static void check_calm(jobs_process *p) {
  jobs_sim *s = p->sim;
  const mt_job *j = &p->job;
  bool rejected = j->error.code == MORTISE_REJECTED && any_poisoned(s) && j->verb != MT_JOB_UNDO;
  bool may_conflict = j->verb == MT_JOB_UNDO || s->profile.kind == JOBS_FUNCTION;
  bool conflict = j->error.code == MORTISE_CONFLICT && may_conflict && others_wrote(s);
  if (j->error.code && !rejected && !conflict) {
    sim_trace(s->w, "%s", j->error.message);
    jobs_fail(s, "all is calm, and it fails");
  }
}

/* It gives back what those before it held, of which nobody knows more than what it found. But only while it believes
 * in its lock, since a release is not sent after that: one that hears too late that the job is over, after its lease
 * has run out, gives nothing back. Another may then have taken over all that it had, and have the job stand. */
static void note_cleared(jobs_process *p) {
  jobs_sim *s = p->sim;
  bool over = s->ended.state == MT_JOB_DONE || s->ended.state == MT_JOB_UNDONE;
  if (p->job.error.code || mt_session_dead(&p->session, sim_now(s->w))) return;
  if (!over) jobs_fail(s, "the guard of a job that stands, or may be born yet, was given back");
  s->cleared = p->number;
  s->counts.cleared++;
}

void jobs_judge_process(jobs_process *p) {
  const mt_job *j = &p->job;
  if (j->verb == MT_JOB_CLEAR) note_cleared(p);
  if (strstr(j->error.message, "cancelled by") && !p->told_cancel)
    jobs_fail(p->sim, "it was cancelled, and nobody has told it to");
  if (j->verb == MT_JOB_UNDO && j->result.conflicts && !others_wrote(p->sim) &&
      p->sim->profile.kind != JOBS_INVERSE)
    jobs_fail(p->sim, "an undo sees changes of others, and there are none");
  if (p->sim->calm) check_calm(p);
}

/* ---- The beginning -------------------------------------------------------------------------- */

static void put_first(jobs_sim *s, unsigned doc) {
  char id[32], source[128];
  jobs_id(s, doc, false, id);
  bool beside = s->profile.kind == JOBS_INVERSE && doc == s->profile.docs - 1;
  snprintf(source, sizeof source, "{\"path\":\"/%s/%u\",\"v\":%u}", beside ? "new" : "old", doc,
           doc);
  mt_write w = {.kind = MT_WRITE_CREATE, .id = mt_slice_of(id), .body = mt_slice_of(source)};
  shelf_write(&s->shelf, SHELF_OTHERS, SHELF_DOCS, &w);
  s->docs[doc].base_ms = 0;
  s->docs[doc].others = false;
}

void jobs_judge_begin(jobs_sim *s) {
  s->shelf.written = on_written;
  s->shelf.rejects = rejects;
  s->shelf.ctx = s;
  mt_job_record_init(&s->ended);
  for (unsigned i = 0; i < s->profile.docs; i++) put_first(s, i);
}

void jobs_judge_clean(jobs_sim *s) {
  for (unsigned i = 0; i < JOBS_DOCS; i++) free(s->docs[i].base);
  free(s->journal);
  mt_transforms_deinit(&s->list);
  mt_transforms_deinit(&s->inverse);
  mt_job_record_deinit(&s->ended);
}
