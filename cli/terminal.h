/* `mortise.terminal`, for the prompt of the program. */
#ifndef MT_TERMINAL_H
#define MT_TERMINAL_H

#include <lua.h>
#include <stdbool.h>

int mt_terminal_open(lua_State *L);

/* The terminal's settings as they were at the start; restoring is safe in a signal handler. */
void mt_terminal_save(void);
void mt_terminal_restore(void);

/* Is a prompt shown, whose line is not to be written over? */
bool mt_terminal_at_prompt(void);

#endif
