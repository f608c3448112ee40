#include "base/process.h"

#include <pthread.h>
#include <stdatomic.h>

const char mt_process_forked[] =
    "it belongs to the process that forked this one, which must open its own";

static atomic_uint number;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void) {
  atomic_fetch_add_explicit(&number, 1, memory_order_relaxed);
}

static void watch(void) {
  /* Fails only without memory; then a child is not recognised. */
  pthread_atfork(NULL, NULL, in_child);
}

unsigned mt_process_number(void) {
  pthread_once(&once, watch);
  return atomic_load_explicit(&number, memory_order_relaxed);
}

mortise_status mt_process_check(unsigned process, const char *what, mortise_error *err) {
  if (process == mt_process_number()) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s cannot be used: %s", what, mt_process_forked);
}
