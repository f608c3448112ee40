/* Logging: the core prints nothing but calls a callback. */
#ifndef MT_BASE_LOG_H
#define MT_BASE_LOG_H

#include <mortise/mortise.h>

typedef struct mt_log {
  mortise_log_fn *fn; /* may be NULL */
  void *ctx;
} mt_log;

void mt_log_write(const mt_log *log, mortise_log_level level, const char *fmt, ...)
    MORTISE_PRINTF(3, 4);

#endif
