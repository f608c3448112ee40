#include "lock/obstacle.h"

#include "base/utf8.h"
#include "lock/blocker.h"
#include "lock/lock.h"
#include "lock/takeover.h"

static const mt_part *part_of(const mt_wait *w) {
  return &w->lock->parts[w->at];
}

static void add_siblings(const mt_wait *w, mortise_blockers *all) {
  const mt_part *part = part_of(w);
  for (const mt_part *p = part->hold->in.first; p; p = p->next) {
    if (mt_mode_compatible(p->mode, part->mode)) continue;
    mt_lock_entry entry = {.mode = p->mode};
    memcpy(entry.session, w->lock->holds->session.id, sizeof entry.session);
    mt_blocker_add(all, part->place.path, &entry, w->manager->owner_json);
  }
}

void mt_obstacles(const mt_wait *w, mortise_blockers *all) {
  *all = (mortise_blockers){0};
  if (w->in_line) {
    add_siblings(w, all);
    return;
  }
  for (size_t i = 0; i < w->n_blockers; i++) {
    mt_lock_entry e = w->blockers[i];
    e.damaged |= mt_takeover_damaged(w->manager, e.session);
    mt_blocker_add(all, part_of(w)->place.path, &e, mt_takeover_owner(w->manager, e.session));
  }
}

void mt_obstacle_timeout(const mt_wait *w, mortise_blockers *all, mortise_error *err) {
  const mt_part *part = part_of(w);
  mt_obstacles(w, all);
  const mortise_blocker *b = &all->list[0];
  if (all->shown && b->damaged)
    mt_error_set(err, MORTISE_LOCK_TIMEOUT,
                 MT_QUOTED " wanted in %s is %s in %s by session %s, which is damaged in the lock table: "
                 "nobody takes it over, `mortise locks break` does%s",
                 MT_QUOTED_OF(part->place.path), mt_mode_name(part->mode),
                 b->queued ? "queued for" : "held", b->mode, *b->session ? b->session : "?",
                 all->total > 1 ? "; and others" : "");
  else if (all->shown)
    mt_error_set(err, MORTISE_LOCK_TIMEOUT, MT_QUOTED " wanted in %s is %s in %s by %s pid %lld%s%s%s",
                 MT_QUOTED_OF(part->place.path), mt_mode_name(part->mode),
                 b->queued ? "queued for" : "held", b->mode,
                 w->in_line ? "another task of this process," : b->host, (long long)b->pid,
                 b->script[0] ? " running " : "", b->script, all->total > 1 ? ", and others" : "");
  else
    mt_error_set(err, MORTISE_LOCK_TIMEOUT, MT_QUOTED " wanted in %s was not had in time",
                 MT_QUOTED_OF(part->place.path), mt_mode_name(part->mode));
  err->retryable = true;
}

const mt_lock_entry *mt_obstacle_orphan(const mt_wait *w) {
  for (size_t i = 0; i < w->n_blockers; i++)
    if (mt_lock_entry_guards(&w->blockers[i]) &&
        mt_takeover_dead(w->manager, w->blockers[i].session))
      return &w->blockers[i];
  return NULL;
}

void mt_obstacle_orphaned(const mt_wait *w, const mt_lock_entry *orphan, mortise_blockers *all,
                          mortise_error *err) {
  const mt_part *part = part_of(w);
  mortise_blockers others;
  *all = (mortise_blockers){0};
  mt_blocker_add(all, part->place.path, orphan, mt_takeover_owner(w->manager, orphan->session));
  mt_obstacles(w, &others);
  for (size_t i = 0; i < others.shown && all->shown < MORTISE_BLOCKERS_SHOWN; i++)
    if (strcmp(others.list[i].session, orphan->session) != 0)
      all->list[all->shown++] = others.list[i];
  all->total = others.total;
  mt_error_set(err, MORTISE_ORPHANED_JOB,
               MT_QUOTED " wanted in %s is held in %s for job %s, whose session %s is dead: it guards "
               "what the job has not finished until somebody resumes it or rolls it back",
               MT_QUOTED_OF(part->place.path), mt_mode_name(part->mode),
               mt_mode_name(orphan->mode), orphan->job, orphan->session);
}
