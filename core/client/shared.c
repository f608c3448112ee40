#include "client/shared.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "client/client.h"

mortise_loop *mt_shared_new(mt_loop *loop, mortise_error *err) {
  mortise_loop *shared = mt_calloc(1, sizeof *shared);
  if (!shared) {
    mt_error_memory(err);
    return NULL;
  }
  if (mt_random_bytes(&shared->address, sizeof shared->address, err)) {
    mt_free(shared);
    return NULL;
  }
  shared->process = mt_process_number();
  shared->own = loop ? NULL : mt_loop_new(err);
  shared->loop = loop ? loop : shared->own;
  shared->stores.loop = shared->loop;
  if (shared->loop) return shared;
  mt_free(shared);
  return NULL;
}

static void close_unheard(mortise_loop *shared) {
  if (mt_hint_socket_is_heard(shared->hints)) return;
  mt_hint_socket_close(shared->hints);
  shared->hints = NULL;
}

void mt_shared_listen(mortise_loop *shared, mt_hearer *hearer) {
  if (!shared->hints) shared->hints = mt_hint_socket_open(shared->loop, shared->address);
  if (shared->hints) mt_hint_socket_join(shared->hints, hearer);
  close_unheard(shared);
}

void mt_shared_stop_listening(mortise_loop *shared, const mt_hearer *hearer) {
  if (shared->hints) mt_hint_socket_leave(shared->hints, hearer);
  close_unheard(shared);
}

void mt_shared_add(mortise_loop *shared, mt_guest *guest) {
  guest->next = shared->guests;
  shared->guests = guest;
}

void mt_shared_remove(mortise_loop *shared, mt_guest *guest) {
  mt_guest **link = &shared->guests;
  while (*link && *link != guest) link = &(*link)->next;
  if (*link) *link = guest->next;
}

bool mt_shared_busy(const mortise_loop *shared) {
  return shared->stepping || mt_loop_running(shared->loop);
}

mortise_status mt_shared_check_wait(const mortise_loop *shared, mortise_error *err) {
  if (!mt_shared_busy(shared)) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                      "a callback of the loop must not wait: start it, and be told when it is done");
}

void mt_shared_free(mortise_loop *shared) {
  if (!shared) return;
  mt_loop_free(shared->own);
  mt_free(shared);
}

mortise_status mt_shared_check(const mortise_loop *shared, const char *what, mortise_error *err) {
  return mt_process_check(shared->process, what, err);
}

/* ---- For the program ------------------------------------------------------------------------- */

mortise_loop *mortise_loop_new(mortise_error *err) {
  mt_error_clear(err);
  return mt_shared_new(NULL, err);
}

/* Not all at once: what they still ask of the store would wait in one queue, for longer than each is waited for. */
static void end_some(mortise_loop *loop) {
  enum { AT_ONCE = 64 };
  size_t ending = 0;
  for (const mortise_client *c = loop->clients; c; c = c->beside) ending += c->ending;
  for (mortise_client *c = loop->clients; c && ending < AT_ONCE; c = c->beside) {
    ending += !c->ending;
    mt_client_end(c);
  }
}

void mortise_loop_free(mortise_loop *loop) {
  if (!loop || mt_shared_check(loop, "the loop", NULL) || mt_shared_busy(loop)) return;
  while (loop->guests) loop->guests->end(loop->guests->ctx);
  do end_some(loop);
  while (loop->clients && !mt_loop_step(loop->loop, -1, NULL));
  while (loop->clients) mt_client_free(loop->clients); /* the loop has failed */
  mt_shared_free(loop);
}

int mortise_loop_fd(const mortise_loop *loop) {
  return loop ? mt_loop_fd(loop->loop) : -1;
}

/* Not for longer than a second, because the clock that poll waits by stops while the machine is suspended, and a lease's
 * does not. */
int mortise_loop_timeout_ms(mortise_loop *loop) {
  enum { MOST_MS = 1000 };
  if (!loop) return -1;
  int64_t ms = mt_loop_timeout(loop->loop);
  for (const mt_guest *g = loop->guests; g && ms; g = g->next) {
    int64_t its = g->wait(g->ctx);
    if (its >= 0 && (ms < 0 || its < ms)) ms = its;
  }
  return ms < 0 ? -1 : ms < MOST_MS ? (int)ms : MOST_MS;
}

mortise_status mortise_loop_step(mortise_loop *loop, mortise_error *err) {
  mt_error_clear(err);
  if (!loop) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the loop is NULL");
  mortise_status forked = mt_shared_check(loop, "the loop", err);
  if (forked) return forked;
  if (mt_shared_busy(loop))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "mortise_loop_step in one of the loop's own callbacks");
  loop->stepping = true;
  mortise_status status = mt_loop_step(loop->loop, 0, err);
  for (mt_guest *g = loop->guests, *next; g; g = next) {
    next = g->next;
    g->turn(g->ctx);
  }
  loop->stepping = false;
  return status;
}

void mortise_loop_wake(mortise_loop *loop) {
  if (loop) mt_loop_wake(loop->loop);
}
