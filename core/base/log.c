#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void mt_log_write(const mt_log *log, mortise_log_level level, const char *fmt, ...) {
  if (!log || !log->fn) return;
  char line[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  log->fn(log->ctx, level, line);
}
