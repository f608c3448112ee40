/* Which process this is, told without a system call: what a process has opened is of no use to the
 * child of a fork, which shares its sockets and files but has none of its threads. */
#ifndef MT_BASE_PROCESS_H
#define MT_BASE_PROCESS_H

/* Larger in a child than in the process that forked it. Any thread. */
unsigned mt_process_number(void);

extern const char mt_process_forked[]; /* for messages */

#endif
