/* Making a running script look up: for an interrupt, and for a lease that was lost.
 *
 * A hook that is always on costs half the speed, so it is armed when there is a reason, and in the
 * thread that runs Lua, where lua_sethook may be called at any moment (as in lua.c's laction). From
 * another thread that takes a signal to this thread: SIGURG, which is ignored by default, so that
 * one that comes too late, or to a program that took its handler back, does nothing.
 *
 * The hook counts instructions only: at the call of a C function it could strike a lock's __close
 * before it began. */
#include "bindings.h"

#include "base/mem.h"

#include <pthread.h>
#include <signal.h>

struct mt_interrupt {
  atomic_flag busy; /* guards `bound` and `thread` */
  bool bound;
  pthread_t thread;
};

static _Thread_local mt_driver *bound_here;
static struct sigaction former;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void on_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  mt_driver *d = mt_driver_peek(L);
  if (!d || !d->loop) return;
  if (atomic_exchange(&d->interrupt, false)) {
    mt_interrupt_deliver(d, mt_driver_task(d));
    mt_error_throw(L, MORTISE_INTERRUPTED, "%s", mt_interrupted_text);
  }
  mt_client_check_lost(L, d);
}

static void arm(mt_driver *d) {
  if (atomic_load(&d->interrupt) || atomic_load(&d->lost))
    lua_sethook(d->current, on_hook, LUA_MASKCOUNT, 1);
}

static void on_signal(int number, siginfo_t *info, void *context) {
  for (mt_driver *d = bound_here; d; d = d->outer) arm(d);
  if (former.sa_flags & SA_SIGINFO) {
    if (former.sa_sigaction) former.sa_sigaction(number, info, context);
  } else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
    former.sa_handler(number);
  }
}

static void install(void) {
  struct sigaction action = {.sa_sigaction = on_signal,
                             .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  sigaction(SIGURG, &action, &former);
}

mortise_status mt_interrupt_init(mt_driver *d, mortise_error *err) {
  pthread_once(&once, install);
  d->gate = mt_calloc(1, sizeof *d->gate);
  if (!d->gate) return mt_error_memory(err);
  atomic_flag_clear(&d->gate->busy);
  return MORTISE_OK;
}

void mt_interrupt_deinit(mt_driver *d) {
  mt_interrupt_unbind(d);
  mt_free(d->gate);
  d->gate = NULL;
}

static void set_thread(mt_driver *d, bool bound) {
  while (atomic_flag_test_and_set(&d->gate->busy)) { /* held for the length of a pthread_kill */
  }
  d->gate->bound = bound;
  d->gate->thread = pthread_self();
  atomic_flag_clear(&d->gate->busy);
}

/* Is it already in this thread's chain? Then the chain stays: the innermost is first. */
bool mt_interrupt_bind(mt_driver *d) {
  for (const mt_driver *at = bound_here; at; at = at->outer)
    if (at == d) return false;
  d->outer = bound_here;
  set_thread(d, true);
  bound_here = d;
  return true;
}

void mt_interrupt_unbind(mt_driver *d) {
  set_thread(d, false);
  mt_driver **slot = &bound_here;
  while (*slot && *slot != d) slot = &(*slot)->outer;
  if (*slot) *slot = d->outer;
}

void mt_interrupt_kick(mt_driver *d) {
  mt_loop_wake(d->loop);
  /* Busy: its thread comes or goes just now, and looks at the flags itself; or someone else is here
   * with the same errand. */
  if (atomic_flag_test_and_set(&d->gate->busy)) return;
  if (d->gate->bound && pthread_equal(d->gate->thread, pthread_self()))
    arm(d);
  else if (d->gate->bound)
    pthread_kill(d->gate->thread, SIGURG);
  atomic_flag_clear(&d->gate->busy);
}
