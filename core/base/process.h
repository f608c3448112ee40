/* Tells processes apart without a system call. A forked child cannot use what its parent opened: it
 * shares the sockets and files but has none of the threads. */
#ifndef MT_BASE_PROCESS_H
#define MT_BASE_PROCESS_H

#include "base/error.h"

/* Larger in a child than in its parent. Callable from any thread. */
unsigned mt_process_number(void);

extern const char mt_process_forked[]; /* for messages */

/* INVALID_ARGUMENT unless this is the process of that number, which made `what`, as in "the client": a forked child must
 * leave alone what its parent made, even its memory. Threads that do not exist here may hold its mutexes, and an orderly
 * close would close things for the parent. */
mortise_status mt_process_check(unsigned process, const char *what, mortise_error *err);

#endif
