/* Threads of our own. */
#ifndef MT_BASE_THREAD_H
#define MT_BASE_THREAD_H

#include <pthread.h>

/* Like pthread_create. The thread blocks all signals except those of a crash, which go to the
 * crashing thread and which a crash reporter must see. */
int mt_thread_start(pthread_t *thread, void *(*run)(void *), void *ctx);

#endif
