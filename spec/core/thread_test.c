/* Threads of our own: a crash in one is reported, and no other signal is taken by one. */
#include "base/thread.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { REPORTED = 42, UNREPORTED = 1 };

static void report(int number) {
  (void)number;
  _exit(REPORTED);
}

static void *crash(void *ctx) {
  pthread_kill(pthread_self(), *(const int *)ctx);
  return NULL;
}

static void child(int number) {
  pthread_t thread;
  signal(number, report);
  if (!mt_thread_start(&thread, crash, &number)) pthread_join(thread, NULL);
  _exit(UNREPORTED);
}

static int status_of(int number) {
  int status;
  pid_t pid = fork();
  if (!pid) child(number);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void crashes_are_reported(void **state) {
  (void)state;
  static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    assert_int_equal(status_of(numbers[i]), REPORTED);
}

static void others_stay_the_programs(void **state) {
  (void)state;
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP,  SIGPIPE,
                                SIGURG, SIGCHLD, SIGALRM, SIGUSR1};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    assert_int_equal(status_of(numbers[i]), UNREPORTED);
}

static void *nothing(void *ctx) {
  return ctx;
}

static void the_mask_of_who_starts_one_stays(void **state) {
  (void)state;
  sigset_t before, after;
  pthread_t thread;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  assert_int_equal(mt_thread_start(&thread, nothing, NULL), 0);
  pthread_join(thread, NULL);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  for (int i = 1; i < NSIG; i++) assert_int_equal(sigismember(&before, i), sigismember(&after, i));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(crashes_are_reported),
      cmocka_unit_test(others_stay_the_programs),
      cmocka_unit_test(the_mask_of_who_starts_one_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
