#include "base/error.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  int exit_status;
} statuses[] = {
#define MORTISE_STATUS_ROW(name, text, exit_status) {text, exit_status},
    MORTISE_STATUS_LIST(MORTISE_STATUS_ROW)
#undef MORTISE_STATUS_ROW
};

enum { STATUSES = sizeof statuses / sizeof statuses[0] };

const char *mortise_status_name(mortise_status status) {
  return (unsigned)status < STATUSES ? statuses[status].name : "unknown";
}

int mortise_status_exit(mortise_status status) {
  return (unsigned)status < STATUSES ? statuses[status].exit_status : 1;
}

void mt_error_clear(mortise_error *err) {
  if (err) memset(err, 0, sizeof *err);
}

mortise_status mt_error_set(mortise_error *err, mortise_status code, const char *fmt, ...) {
  if (!err) return code;
  /* Formatted into a copy first, since the arguments may point into *err. */
  char message[sizeof err->message];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  mt_utf8_tame(message); /* it may contain names that others chose */
  mt_error_clear(err);
  err->code = code;
  err->retryable = code == MORTISE_UNAVAILABLE;
  memcpy(err->message, message, sizeof message);
  return code;
}

void mt_error_prefix(mortise_error *err, const char *fmt, ...) {
  if (!err) return;
  char prefix[256], whole[sizeof prefix + sizeof err->message + 2];
  va_list args;
  va_start(args, fmt);
  vsnprintf(prefix, sizeof prefix, fmt, args);
  va_end(args);
  mt_utf8_tame(prefix);
  snprintf(whole, sizeof whole, "%s: %s", prefix, err->message);
  memcpy(err->message, whole, sizeof err->message - 1);
  err->message[sizeof err->message - 1] = '\0';
}

mortise_status mt_error_memory(mortise_error *err) {
  return mt_error_set(err, MORTISE_OUT_OF_MEMORY, "out of memory");
}
