/* A kick from another thread sends a signal to the bound one: SIGURG, which is ignored by default,
 * so that a late one, or one in a program that has replaced our handler, does nothing. During a
 * host's call the signal is unblocked in the thread, and the sender first makes sure that the
 * handler is ours. */
#include "bindings/gate.h"

#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { FORMERS = 16 }; /* handlers found in place of ours, one after another */

struct mt_gate {
  atomic_flag busy;   /* guards `bound` and `thread` */
  atomic_bool wanted; /* a kick is requested; a thread that is busy with another one does it too */
  bool bound;
  pthread_t thread;
  mt_gate *outer; /* bound earlier to the same thread */
  void (*look)(void *ctx);
  void *ctx;
};

/* Read in a signal handler in any thread, so its memory must already exist. */
#define SIGNAL_LOCAL static _Thread_local __attribute__((tls_model("initial-exec")))

SIGNAL_LOCAL mt_gate *bound_here;
SIGNAL_LOCAL volatile sig_atomic_t in_handler;

/* ---- The signal ----------------------------------------------------------------------------- */

/* Handlers that were installed before ours; an entry never changes once `former` points to it. */
static struct sigaction formers[FORMERS];
static atomic_int former;
static atomic_flag installing = ATOMIC_FLAG_INIT;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A handler that replaced ours may call ours; then it is not called again from here. */
static void on_urgent_signal(int number, siginfo_t *info, void *context) {
  if (in_handler) return;
  int saved = errno;
  in_handler = 1;
  for (const mt_gate *gate = bound_here; gate; gate = gate->outer) gate->look(gate->ctx);
  const struct sigaction *next = &formers[atomic_load(&former)];
  if (next->sa_flags & SA_SIGINFO) {
    if (next->sa_sigaction) next->sa_sigaction(number, info, context);
  } else if (next->sa_handler != SIG_DFL && next->sa_handler != SIG_IGN) {
    next->sa_handler(number);
  }
  in_handler = 0;
  errno = saved;
}

static bool is_own_handler(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_urgent_signal;
}

static bool same_handler(const struct sigaction *a, const struct sigaction *b) {
  if ((a->sa_flags ^ b->sa_flags) & SA_SIGINFO) return false;
  return a->sa_flags & SA_SIGINFO ? a->sa_sigaction == b->sa_sigaction
                                  : a->sa_handler == b->sa_handler;
}

/* May run in a signal handler. If another thread is doing it, nothing is left to do. */
static void install(void) {
  struct sigaction now;
  if (atomic_flag_test_and_set(&installing)) return;
  if (!sigaction(SIGURG, NULL, &now) && !is_own_handler(&now)) {
    struct sigaction action = {.sa_sigaction = on_urgent_signal,
                               .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    int at = atomic_load(&former);
    if (!same_handler(&now, &formers[at]) && at < FORMERS - 1) {
      formers[at + 1] = now;
      atomic_store(&former, at + 1);
    }
    sigaction(SIGURG, &action, NULL);
  }
  atomic_flag_clear(&installing);
}

bool mt_gate_unblock(void) {
  sigset_t urgent, before;
  sigemptyset(&urgent);
  sigaddset(&urgent, SIGURG);
  return !pthread_sigmask(SIG_UNBLOCK, &urgent, &before) && sigismember(&before, SIGURG) == 1;
}

void mt_gate_block(void) {
  sigset_t urgent;
  sigemptyset(&urgent);
  sigaddset(&urgent, SIGURG);
  pthread_sigmask(SIG_BLOCK, &urgent, NULL);
}

/* ---- A gate and its thread ------------------------------------------------------------------ */

mt_gate *mt_gate_new(void (*look)(void *ctx), void *ctx, mortise_error *err) {
  pthread_once(&once, install);
  mt_gate *gate = mt_calloc(1, sizeof *gate);
  if (!gate) {
    mt_error_memory(err);
    return NULL;
  }
  atomic_flag_clear(&gate->busy);
  gate->look = look;
  gate->ctx = ctx;
  return gate;
}

void mt_gate_free(mt_gate *gate) {
  mt_gate_unbind(gate);
  mt_free(gate);
}

static void set_thread(mt_gate *gate, bool bound) {
  while (atomic_flag_test_and_set(&gate->busy)) { /* held only for the length of a pthread_kill */
  }
  gate->bound = bound;
  gate->thread = pthread_self();
  atomic_flag_clear(&gate->busy);
}

/* A gate that is already in this thread's chain keeps its place; the innermost is first. */
bool mt_gate_bind(mt_gate *gate) {
  for (const mt_gate *at = bound_here; at; at = at->outer)
    if (at == gate) return false;
  gate->outer = bound_here;
  set_thread(gate, true);
  bound_here = gate;
  return true;
}

void mt_gate_unbind(mt_gate *gate) {
  set_thread(gate, false);
  mt_gate **slot = &bound_here;
  while (*slot && *slot != gate) slot = &(*slot)->outer;
  if (*slot) *slot = gate->outer;
}

static void interrupt_thread(mt_gate *gate) {
  if (!gate->bound) return;
  if (pthread_equal(gate->thread, pthread_self())) {
    gate->look(gate->ctx);
  } else {
    install();
    pthread_kill(gate->thread, SIGURG);
  }
}

void mt_gate_kick(mt_gate *gate) {
  atomic_store(&gate->wanted, true);
  /* If busy, its thread is binding or unbinding and checks the flags itself, or another thread is
   * kicking and checks `wanted` again. */
  while (atomic_load(&gate->wanted) && !atomic_flag_test_and_set(&gate->busy)) {
    atomic_store(&gate->wanted, false);
    interrupt_thread(gate);
    atomic_flag_clear(&gate->busy);
  }
}
