/* Threads of our own. */
#ifndef MT_BASE_THREAD_H
#define MT_BASE_THREAD_H

#include <pthread.h>

/* Like pthread_create, and returns as it does. Signals stay the program's own threads', but for
 * those of a crash, which strike the thread that made it: what reports crashes must see them. */
int mt_thread_start(pthread_t *thread, void *(*run)(void *), void *ctx);

#endif
