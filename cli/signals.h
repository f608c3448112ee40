/* Signals: what happens when somebody asks the program to end, or stops reading its output. */
#ifndef MT_SIGNALS_H
#define MT_SIGNALS_H

#include <signal.h>

/* The first signal calls `interrupt`, so that the script releases its locks; the second one calls
 * `end` and ends the program at once. Both run in a signal handler. */
void mt_signals_catch(void (*interrupt)(void), void (*end)(void));

/* Call when a prompt is shown again: the interrupted work is over. */
void mt_signals_forget(void);

/* The program was asked to end, not only to interrupt: a prompt then sees the end of input. */
extern volatile sig_atomic_t mt_signals_ending;

/* How many writes found that nobody reads our output any more. */
extern volatile sig_atomic_t mt_signals_unread;

/* Ends the program by the default SIGPIPE; returns an exit status if that fails. */
int mt_signals_end_unread(void);

#endif
