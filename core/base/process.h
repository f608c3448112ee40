/* Tells processes apart without a system call. A forked child cannot use what its parent opened: it
 * shares the sockets and files but has none of the threads. */
#ifndef MT_BASE_PROCESS_H
#define MT_BASE_PROCESS_H

/* Larger in a child than in its parent. Callable from any thread. */
unsigned mt_process_number(void);

extern const char mt_process_forked[]; /* for messages */

#endif
