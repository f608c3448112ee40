#include "lock/successor.h"

#include "base/mem.h"

#include <string.h>

enum { SUCCESSORS_MAX = 8 }; /* at one place; readers may be more, and look by themselves */

struct mt_successors {
  size_t n;
  char ids[SUCCESSORS_MAX][MT_SESSION_ID];
};

static bool send_hint(mt_manager *m, mt_hint_kind kind, const char *to, uint64_t place,
                      uint64_t n) {
  if (!m->config.hint || !m->holds) return false;
  mt_hint hint = {.kind = kind, .place = place, .n = n};
  memcpy(hint.to, to, sizeof hint.to);
  memcpy(hint.from, m->holds->session.id, sizeof hint.from);
  return m->config.hint(m->config.ctx, &hint);
}

bool mt_successor_register(mt_manager *m, const mt_hold *h, const mt_lock_entry *e) {
  return !e->damaged && send_hint(m, MT_HINT_WAITS, e->session, h->hash, e->n);
}

void mt_successors_tell(mt_manager *m, mt_hold *h) {
  struct mt_successors *s = h->successors;
  h->left_n = h->released_n;
  h->successors = NULL;
  for (size_t i = 0; s && i < s->n; i++) send_hint(m, MT_HINT_GONE, s->ids[i], h->hash, 0);
  mt_free(s);
}

static void add_successor(mt_hold *h, const char *session) {
  if (!h->successors) h->successors = mt_calloc(1, sizeof *h->successors);
  struct mt_successors *s = h->successors;
  for (size_t i = 0; s && i < s->n; i++)
    if (memcmp(s->ids[i], session, MT_SESSION_ID) == 0) return;
  if (!s || s->n == SUCCESSORS_MAX) return;
  memcpy(s->ids[s->n++], session, MT_SESSION_ID);
}

/* It may come too late, when our entry is gone, and we may even wait there again. */
void mt_successor_heard(mt_manager *m, const mt_hint *hint) {
  mt_hold *h = mt_holds_find(m->holds, hint->place);
  if (h && hint->n > h->left_n)
    add_successor(h, hint->from);
  else
    send_hint(m, MT_HINT_GONE, hint->from, hint->place, 0);
}
