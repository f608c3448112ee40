/* `mortise.terminal`, for the prompt of the program. */
#ifndef MT_TERMINAL_H
#define MT_TERMINAL_H

#include <lua.h>
#include <signal.h>
#include <stdbool.h>

int mt_terminal_open(lua_State *L);

/* The terminal's settings as they were at the start; restoring is safe in a signal handler. */
void mt_terminal_save(void);
void mt_terminal_restore(void);

/* Asked to end, not only to interrupt: a prompt then sees the end of the input. */
extern volatile sig_atomic_t mt_terminal_ending;

/* How often a write found that nobody reads our output any more (main.c). */
extern volatile sig_atomic_t mt_terminal_unread;

/* Is a prompt shown, whose line is not to be written over? */
bool mt_terminal_at_prompt(void);

/* Someone is at a prompt again: what was interrupted is over (main.c). */
void mt_terminal_prompted(void);

#endif
