/* Functions that fill a mortise_error. */
#ifndef MT_BASE_ERROR_H
#define MT_BASE_ERROR_H

#include <mortise/error.h>

/* Clears `err` to MORTISE_OK. `err` may be NULL in every function here. */
void mt_error_clear(mortise_error *err);

/* Sets code and message, clears the rest, and returns `code` so that a caller can return it.
 * UNAVAILABLE is marked retryable. */
mortise_status mt_error_set(mortise_error *err, mortise_status code, const char *fmt, ...)
    MORTISE_PRINTF(3, 4);

/* Puts "CONTEXT: " before the message. */
void mt_error_prefix(mortise_error *err, const char *fmt, ...) MORTISE_PRINTF(2, 3);

/* Sets OUT_OF_MEMORY. */
mortise_status mt_error_memory(mortise_error *err);

#endif
