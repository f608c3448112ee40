#include "signals.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

enum { INTERRUPTED = 130, UNREAD = 128 + SIGPIPE };

static void (*to_interrupt)(void);
static void (*to_end)(void);
static volatile sig_atomic_t signals;
volatile sig_atomic_t mt_signals_ending, mt_signals_unread;

/* The first signal lets the script release its locks; the second one ends the program at once. */
static void on_end_signal(int number) {
  if (number == SIGTERM) mt_signals_ending = 1;
  if (signals++ > 0) {
    to_end();
    _exit(INTERRUPTED);
  }
  to_interrupt();
}

void mt_signals_forget(void) {
  signals = 0;
}

enum { PIPES_MAX = 100 }; /* writes of a script that catches the interrupt and goes on */

/* If nobody reads our output any more, interrupts as the first ^C does, so that locks are released.
 * Otherwise it was a connection, whose write reports the error itself. */
static void on_pipe(int number) {
  (void)number;
  int before = errno;
  struct pollfd output = {.fd = STDOUT_FILENO};
  if (poll(&output, 1, 0) > 0 && (output.revents & POLLERR)) {
    if (mt_signals_unread++ > PIPES_MAX) _exit(UNREAD);
    to_interrupt();
  }
  errno = before;
}

int mt_signals_end_unread(void) {
  signal(SIGPIPE, SIG_DFL);
  raise(SIGPIPE);
  return UNREAD;
}

void mt_signals_catch(void (*interrupt)(void), void (*end)(void)) {
  to_interrupt = interrupt;
  to_end = end;
  struct sigaction action = {.sa_handler = on_end_signal};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  struct sigaction before;
  sigaction(SIGHUP, NULL, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL); /* keeps nohup's setting */
  /* A handler, unlike SIG_IGN, is not inherited by the programs that a script starts. */
  action.sa_handler = on_pipe;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, NULL);
  sigset_t ours; /* our parent may have blocked them */
  sigemptyset(&ours);
  sigaddset(&ours, SIGINT);
  sigaddset(&ours, SIGTERM);
  sigaddset(&ours, SIGHUP);
  sigprocmask(SIG_UNBLOCK, &ours, NULL);
}
