/* Whether another process of this machine is gone, by what the system says of it. */
#include "client/identity.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A child that has said who it is, and waits until `go` is closed. */
typedef struct child {
  pid_t pid;
  char json[4096];
  int go;
} child;

static void *wait_for_end(void *ctx) {
  char c;
  ssize_t n = read(*(int *)ctx, &c, 1);
  _exit(n != 0);
}

/* `first_ends`: its first thread ends at once, and another one waits. */
static child begin(bool first_ends) {
  child c = {0};
  int said[2], go[2];
  assert_int_equal(pipe(said), 0);
  assert_int_equal(pipe(go), 0);
  c.pid = fork();
  assert_true(c.pid >= 0);
  if (!c.pid) {
    static int end;
    pthread_t other;
    close(go[1]);
    end = go[0];
    mt_identity *id = mt_identity_new("test", NULL, NULL, NULL);
    if (!id || write(said[1], id->json, strlen(id->json) + 1) < 0) _exit(2);
    close(said[1]);
    if (!first_ends) wait_for_end(&end);
    if (pthread_create(&other, NULL, wait_for_end, &end)) _exit(3);
    pthread_exit(NULL);
  }
  close(said[1]);
  close(go[0]);
  c.go = go[1];
  size_t n = 0;
  for (ssize_t got; (got = read(said[0], c.json + n, sizeof c.json - n)) > 0;) n += (size_t)got;
  close(said[0]);
  assert_true(n > 1);
  return c;
}

/* Waits until /proc says that its first thread has ended: a zombie. */
static void await_zombie(const child *c) {
  char command[128];
  snprintf(command, sizeof command, "i=0; until grep -q '^State:.Z' /proc/%d/status; do "
           "i=$((i+1)); [ $i -lt 1000 ] || exit 1; sleep 0.01; done", (int)c->pid);
  assert_int_equal(system(command), 0);
}

static mt_identity *me(void) {
  mortise_error err;
  mt_identity *id = mt_identity_new("test", NULL, NULL, &err);
  assert_non_null(id);
  return id;
}

static void test_alive_ended_and_gone(void **state) {
  (void)state;
  mt_identity *self = me();
  child c = begin(false);
  assert_false(mt_identity_gone(self, self->json));
  assert_false(mt_identity_gone(self, c.json));
  close(c.go);
  await_zombie(&c); /* nobody has asked for it yet */
  assert_true(mt_identity_gone(self, c.json));
  assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
  assert_true(mt_identity_gone(self, c.json));
  mt_identity_free(self);
}

static void test_its_first_thread_has_ended(void **state) {
  (void)state;
  mt_identity *self = me();
  child c = begin(true);
  await_zombie(&c);
  for (int i = 0; i < 100; i++) assert_false(mt_identity_gone(self, c.json)); /* another one may still write */
  close(c.go);
  assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
  assert_true(mt_identity_gone(self, c.json));
  mt_identity_free(self);
}

static void test_what_is_not_known_is_not_gone(void **state) {
  (void)state;
  mt_identity *self = me();
  child c = begin(false);
  kill(c.pid, SIGKILL);
  assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
  static const char *const names[] = {"\"host\"", "\"boot\"", "\"pidns\"", "\"pid\""};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char text[sizeof c.json];
    snprintf(text, sizeof text, "%s", c.json);
    strstr(text, names[i])[1] = 'x';
    assert_false(mt_identity_gone(self, text));
  }
  assert_false(mt_identity_gone(self, "{"));
  assert_true(mt_identity_gone(self, c.json));
  close(c.go);
  mt_identity_free(self);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_alive_ended_and_gone),
      cmocka_unit_test(test_its_first_thread_has_ended),
      cmocka_unit_test(test_what_is_not_known_is_not_gone),
  };
  return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
