#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

int mt_thread_start(pthread_t *thread, void *(*run)(void *), void *ctx) {
  static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
  sigset_t others, before;
  sigfillset(&others);
  for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) sigdelset(&others, crashes[i]);
  pthread_sigmask(SIG_BLOCK, &others, &before);
  int failed = pthread_create(thread, NULL, run, ctx);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failed;
}
