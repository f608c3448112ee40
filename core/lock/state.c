#include "lock/state.h"

int64_t mt_manager_jitter(mt_manager *m, int64_t ms) {
  if (ms < 2) return ms;
  return ms / 2 + (int64_t)(m->env->random(m->env->ctx) % (uint64_t)(ms - ms / 2 + 1));
}

void mt_manager_soon(mt_manager *m) {
  if (m->due_now) return;
  m->due_now = true;
  if (m->config.due_changed) m->config.due_changed(m->config.ctx);
}

bool mt_manager_session_alive(mt_manager *m) {
  return m->holds && !mt_session_dead(&m->holds->session, mt_manager_now(m));
}

bool mt_manager_believes(const mt_manager *m, const mt_holds *holds) {
  return m->phase == MT_OPEN && m->holds == holds;
}
