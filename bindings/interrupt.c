/* Making a running script look up: for an interrupt, and for a lease that was lost.
 *
 * A hook that is always on costs half the speed, so it is armed when there is a reason, and in the
 * thread that runs Lua, where lua_sethook may be called at any moment (as in lua.c's laction). From
 * another thread that takes a signal to this thread: SIGURG, which is ignored by default, so that
 * one that comes too late, or to a program that took its handler back, does nothing. For the time
 * of a host's call it is not blocked in the thread, and who sends it sees to it first that the
 * handler is ours.
 *
 * The hook counts instructions only: at the call of a C function it could strike a lock's __close
 * before it began.
 *
 * An interrupt is an error, which a script may catch. Where it goes on for longer than the host's
 * patience, the same is raised again, and again; from the second time on pcall and its like do not
 * catch it (coroutine.c). So clean-up has the time of one patience at each of them, and a loop
 * around a pcall ends. */
#include "bindings/lua_error.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

enum {
  FORMERS = 16,      /* handlers that were found in place of ours, one after another */
  LOOK_COUNT = 1000, /* instructions between two looks at the clock, once there was an interrupt */
};

struct mt_interrupt {
  atomic_flag busy;   /* guards `bound` and `thread` */
  atomic_bool wanted; /* a kick; whoever is busy with another one does it too */
  bool bound;
  pthread_t thread;
};

/* Looked at in a handler, in whichever thread: memory for it must be there already. */
#define SIGNAL_LOCAL static _Thread_local __attribute__((tls_model("initial-exec")))

SIGNAL_LOCAL mt_driver *bound_here;
SIGNAL_LOCAL volatile sig_atomic_t in_handler;

/* ---- The hook ------------------------------------------------------------------------------- */

static void on_hook(lua_State *L, lua_Debug *ar);

static bool insists(const mt_driver *d) {
  return d->interrupted && d->again_ms != INT64_MAX;
}

void mt_interrupt_arm(mt_driver *d, lua_State *L) {
  if (insists(d)) lua_sethook(L, on_hook, LUA_MASKCOUNT, LOOK_COUNT);
}

bool mt_interrupt_due(mt_driver *d) {
  uint64_t asked = atomic_exchange(&d->asked, 0);
  if (!insists(d)) return asked && asked == atomic_load(&d->call);
  return mt_clock_boot_ms() >= d->again_ms; /* asked again meanwhile, it is as before */
}

/* A lock that is about to be given back is given back first; and what a write has come to is told
 * first: an error in its place would hide that it was applied. These files wait, or end soon. */
static bool must_end(lua_State *L, lua_Debug *ar) {
  static const char *const files[] = {"@mortise/lock.lua", "@mortise/documents.lua",
                                      "@mortise/writer.lua", "@mortise/rename.lua"};
  if (!lua_getinfo(L, "S", ar)) return false;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (!strcmp(ar->source, files[i])) return true;
  return false;
}

static void on_hook(lua_State *L, lua_Debug *ar) {
  if (must_end(L, ar)) return;
  lua_sethook(L, NULL, 0, 0);
  mt_driver *d = mt_driver_peek(L);
  if (!d || !d->loop) return;
  if (mt_interrupt_due(d)) {
    mt_interrupt_deliver(d, mt_driver_task(d));
    mt_interrupt_arm(d, L);
    mt_error_throw(L, MORTISE_INTERRUPTED, "%s", mt_interrupted_text);
  }
  mt_interrupt_arm(d, L);
  if (atomic_load(&d->lost)) d->hooks->check(L, d);
}

static void arm(mt_driver *d) {
  if (atomic_load(&d->asked) || atomic_load(&d->lost))
    lua_sethook(d->current, on_hook, LUA_MASKCOUNT, 1);
}

int64_t mt_interrupt_patience(const mt_driver *d) {
  if (!insists(d)) return -1;
  int64_t now = mt_clock_boot_ms();
  return now < d->again_ms ? d->again_ms - now : 0;
}

void mt_interrupt_forget(mt_driver *d) {
  d->interrupted = false;
  d->raised = 0;
  d->again_ms = INT64_MAX;
}

bool mt_interrupt_is(lua_State *L) {
  if (!mt_error_is(L, -1)) return false;
  lua_pushliteral(L, "code");
  lua_rawget(L, -2);
  const char *code = lua_tostring(L, -1);
  bool is = code && !strcmp(code, mortise_status_name(MORTISE_INTERRUPTED));
  lua_pop(L, 1);
  return is;
}

void mt_interrupt_pass(lua_State *L) {
  const mt_driver *d = lua_checkstack(L, 4) ? mt_driver_peek(L) : NULL;
  if (!d || !insists(d) || d->raised < 2) return;
  if (mt_interrupt_is(L)) lua_error(L);
  if (d->raised > 2) mt_error_throw(L, MORTISE_INTERRUPTED, "%s", mt_interrupted_text);
}

/* ---- The signal ----------------------------------------------------------------------------- */

/* Those that were there before ours; an entry is not changed any more once `former` names it. */
static struct sigaction formers[FORMERS];
static atomic_int former;
static atomic_flag installing = ATOMIC_FLAG_INIT;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Who has put a handler in place of ours may call ours from it: then it is called once. */
static void on_signal(int number, siginfo_t *info, void *context) {
  if (in_handler) return;
  int saved = errno;
  in_handler = 1;
  for (mt_driver *d = bound_here; d; d = d->outer) arm(d);
  const struct sigaction *next = &formers[atomic_load(&former)];
  if (next->sa_flags & SA_SIGINFO) {
    if (next->sa_sigaction) next->sa_sigaction(number, info, context);
  } else if (next->sa_handler != SIG_DFL && next->sa_handler != SIG_IGN) {
    next->sa_handler(number);
  }
  in_handler = 0;
  errno = saved;
}

static bool is_ours(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_signal;
}

static bool same_handler(const struct sigaction *a, const struct sigaction *b) {
  if ((a->sa_flags ^ b->sa_flags) & SA_SIGINFO) return false;
  return a->sa_flags & SA_SIGINFO ? a->sa_sigaction == b->sa_sigaction
                                  : a->sa_handler == b->sa_handler;
}

/* In a signal handler too. Someone else at it: then it is being done. */
static void install(void) {
  struct sigaction now;
  if (atomic_flag_test_and_set(&installing)) return;
  if (!sigaction(SIGURG, NULL, &now) && !is_ours(&now)) {
    struct sigaction action = {.sa_sigaction = on_signal,
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

/* ---- A driver and its thread ---------------------------------------------------------------- */

mortise_status mt_interrupt_init(mt_driver *d, mortise_error *err) {
  pthread_once(&once, install);
  mt_interrupt_forget(d);
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

mt_interrupt_call mt_interrupt_enter(mt_driver *d) {
  mt_interrupt_call call = {.outermost = !atomic_load(&d->call)};
  call.bound = mt_interrupt_bind(d);
  if (!call.outermost) return call;
  sigset_t urgent, before;
  sigemptyset(&urgent);
  sigaddset(&urgent, SIGURG);
  call.blocked =
      !pthread_sigmask(SIG_UNBLOCK, &urgent, &before) && sigismember(&before, SIGURG) == 1;
  mt_interrupt_forget(d); /* what an earlier call was told */
  atomic_store(&d->call, ++d->calls);
  return call;
}

void mt_interrupt_leave(mt_driver *d, mt_interrupt_call call) {
  if (call.outermost) atomic_store(&d->call, 0);
  if (call.bound) mt_interrupt_unbind(d);
  if (!call.blocked) return;
  sigset_t urgent;
  sigemptyset(&urgent);
  sigaddset(&urgent, SIGURG);
  pthread_sigmask(SIG_BLOCK, &urgent, NULL);
}

/* For the call that is under way just now. One that asks late for a call that has ended takes the
 * place of nobody: numbers of calls grow. */
void mt_interrupt_ask(mt_driver *d) {
  uint64_t call = atomic_load(&d->call), asked = atomic_load(&d->asked);
  while (asked < call && !atomic_compare_exchange_weak(&d->asked, &asked, call)) {
  }
  if (call) mt_interrupt_kick(d);
}

static void send(mt_driver *d) {
  if (!d->gate->bound) return;
  if (pthread_equal(d->gate->thread, pthread_self())) {
    arm(d);
  } else {
    install();
    pthread_kill(d->gate->thread, SIGURG);
  }
}

void mt_interrupt_kick(mt_driver *d) {
  struct mt_interrupt *gate = d->gate;
  mt_loop_wake(d->loop);
  atomic_store(&gate->wanted, true);
  /* Busy: its thread comes or goes just now, and looks at the flags itself; or someone else kicks,
   * and looks again. */
  while (atomic_load(&gate->wanted) && !atomic_flag_test_and_set(&gate->busy)) {
    atomic_store(&gate->wanted, false);
    send(d);
    atomic_flag_clear(&gate->busy);
  }
}
