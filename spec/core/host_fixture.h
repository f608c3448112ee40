/* A host for a test, and running code in it. */
#ifndef MT_SPEC_HOST_FIXTURE_H
#define MT_SPEC_HOST_FIXTURE_H

#include <mortise/host.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static inline int set_up(void **state) {
  mortise_error err;
  *state = mortise_host_new(NULL, &err);
  if (!*state) fprintf(stderr, "%s\n", err.message);
  return *state ? 0 : -1;
}

static inline int tear_down(void **state) {
  mortise_host_free(*state);
  return 0;
}

static inline mortise_status run(mortise_host *host, const char *code, mortise_error *err) {
  return mortise_host_run_string(host, code, "=test", NULL, 0, err);
}

static inline void passes(mortise_host *host, const char *code) {
  mortise_error err;
  if (run(host, code, &err)) fail_msg("%s\n%s", err.message, mortise_host_traceback(host));
  assert_string_equal(mortise_host_traceback(host), "");
}

#endif
