#include "lock/wait.h"

#include "base/mem.h"
#include "base/must.h"

void mt_wait_link(mt_wait *w) {
  mt_waits *all = w->manager->waits;
  MT_MUST(!w->prev && all->first != w);
  w->next = all->first;
  if (w->next) w->next->prev = w;
  all->first = w;
}

void mt_wait_unlink(mt_wait *w) {
  mt_waits *all = w->manager->waits;
  mt_wait_end(w);
  if (w->prev) w->prev->next = w->next;
  if (w->next) w->next->prev = w->prev;
  if (all->first == w) all->first = w->next;
  if (all->cursor == w) all->cursor = w->next;
  mt_free(w->blockers);
  w->blockers = NULL;
  w->n_blockers = 0;
}

void mt_wait_begin(mt_wait *w, size_t at, uint32_t stripe, bool in_line) {
  mt_manager *m = w->manager;
  if (w->number && w->at == at && w->stripe == stripe) return;
  mt_wait_end(w);
  w->number = ++m->waits->last_number;
  w->at = at;
  w->stripe = stripe;
  w->in_line = in_line;
  w->since_ms = mt_manager_now(m);
  w->walk_ms = w->since_ms + MT_WAIT_MS;
  w->walks = 0;
  if (!in_line) return;
  w->line_is_new = m->waits->lined_up = true;
  mt_manager_soon(m);
}

void mt_wait_end(mt_wait *w) {
  if (w->published_version) mt_waits_withdraw(w->manager);
  w->number = 0;
  w->look = MT_LOOK_NONE;
  w->in_line = w->line_is_new = w->adopts = false;
}

void mt_wait_changed(mt_wait *w) {
  if (w->published_version) w->manager->waits->publish_ms = 0;
}

mt_wait *mt_wait_find(const mt_manager *m, uint64_t number) {
  mt_wait *w = m->waits->first;
  while (w && w->number != number) w = w->next;
  return w;
}

void mt_waits_withdraw(mt_manager *m) {
  mt_waits *all = m->waits;
  if (!all->published || !m->holds) return;
  mt_board_put(&m->holds->session, NULL, 0);
  all->published = false;
  all->publication++;
  all->publish_ms = 0;
  for (mt_wait *w = all->first; w; w = w->next) w->published_version = 0;
  mt_manager_soon(m);
}
