/* What is done when someone asks the program to end, or reads its output no more. */
#ifndef MT_SIGNALS_H
#define MT_SIGNALS_H

#include <signal.h>

/* The first signal interrupts, so that the script gives back its locks; a second one calls `end` and
 * ends the program at once. Both are called in a signal handler. */
void mt_signals_catch(void (*interrupt)(void), void (*end)(void));

/* Someone is at a prompt again: what was interrupted is over. */
void mt_signals_forget(void);

/* Asked to end, not only to interrupt: a prompt then sees the end of the input. */
extern volatile sig_atomic_t mt_signals_ending;

/* How often a write found that nobody reads our output any more. */
extern volatile sig_atomic_t mt_signals_unread;

/* Ends as a program does that knows nothing of closed pipes; the exit status where that fails. */
int mt_signals_end_unread(void);

#endif
