/* `mortise.terminal`, for the program's prompt. */
#ifndef MT_TERMINAL_H
#define MT_TERMINAL_H

#include <lua.h>
#include <stdbool.h>

int mt_terminal_open(lua_State *L);

/* Save the terminal's settings at the start, and restore them; restoring is safe in a signal
 * handler. */
void mt_terminal_save(void);
void mt_terminal_restore(void);

/* Is a prompt shown, whose line must not be overwritten? */
bool mt_terminal_at_prompt(void);

#endif
