#include "lock/blocker.h"

#include "base/utf8.h"

#include <stdio.h>

/* Fills one description; reads the owner from its JSON. */
static void blocker_fill(mortise_blocker *out, mt_slice path, const mt_lock_entry *entry,
                         const char *owner_json) {
  memset(out, 0, sizeof *out);
  snprintf(out->path, sizeof out->path, "%.*s", (int)path.n, path.p);
  if (entry) {
    snprintf(out->mode, sizeof out->mode, "%s", mt_mode_name(entry->mode));
    snprintf(out->session, sizeof out->session, "%s", entry->session);
    snprintf(out->job, sizeof out->job, "%.*s", (int)sizeof out->job - 1, entry->job);
    out->since_ms = entry->since_ms;
    out->queued = entry->queued;
    out->damaged = entry->damaged;
  }
  mt_json owner;
  if (!owner_json || mt_json_parse(mt_slice_of(owner_json), "an owner", &owner, NULL)) return;
  mt_json_copy(mt_json_get(owner, "host"), out->host, sizeof out->host);
  mt_json_copy(mt_json_get(owner, "user"), out->user, sizeof out->user);
  mt_json_copy(mt_json_get(owner, "program"), out->program, sizeof out->program);
  mt_json_copy(mt_json_get(owner, "script"), out->script, sizeof out->script);
  if (!out->job[0]) mt_json_copy(mt_json_get(owner, "job"), out->job, sizeof out->job);
  mt_json_int(mt_json_get(owner, "pid"), &out->pid);
}

void mt_blocker_add(mortise_blockers *all, mt_slice path, const mt_lock_entry *entry,
                    const char *owner_json) {
  all->total++;
  if (all->shown == MORTISE_BLOCKERS_SHOWN) return;
  blocker_fill(&all->list[all->shown++], path, entry, owner_json);
}

/* ---- Cycles --------------------------------------------------------------------------------- */

static void say_who(mt_buf *b, const char *own, const mt_step *step) {
  if (strcmp(step->session, own) == 0) {
    mt_buf_adds(b, "another task of this process");
    return;
  }
  mortise_blocker who;
  blocker_fill(&who, step->path, NULL, step->owner);
  mt_buf_addf(b, "%s pid %lld%s%s", who.host, (long long)who.pid, who.script[0] ? " " : "",
              who.script);
}

static void say_step(mt_buf *b, const mt_step *step, bool first) {
  mt_buf_addf(b, first ? MT_QUOTED " wanted in %s is %s by "
                       : ", which waits for " MT_QUOTED " in %s, %s by ",
              MT_QUOTED_OF(step->path), mt_mode_name(step->mode),
              step->queued ? "queued for" : "held");
}

static void add_cycle_member(mortise_blockers *all, const mt_step *wants, const mt_step *has) {
  mt_lock_entry entry = {.mode = has->mode, .queued = wants->queued};
  memcpy(entry.session, has->session, sizeof entry.session);
  mt_blocker_add(all, wants->path, &entry, has->owner);
}

void mt_blocker_cycle(const char *own, const mt_step *steps, size_t n, mortise_blockers *all,
                      mortise_error *err) {
  mt_buf b;
  mt_buf_init(&b, 16 << 10);
  for (size_t i = 0; i < n; i++) {
    say_step(&b, &steps[i], i == 0);
    if (i + 1 < n)
      say_who(&b, own, &steps[i + 1]);
    else
      mt_buf_adds(&b, "this one");
  }
  mt_error_set(err, MORTISE_DEADLOCK, "%.*s", (int)b.n, b.p ? b.p : "");
  mt_buf_deinit(&b);
  err->retryable = true;
  *all = (mortise_blockers){0};
  for (size_t i = 0; i + 1 < n; i++) add_cycle_member(all, &steps[i], &steps[i + 1]);
}
