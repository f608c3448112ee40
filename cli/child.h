/* `mortise.child`, for `mortise lock -- COMMAND`: one program that runs under a lock.
 *   start(words, environment, fence_file or nil, grace_ms) -> pid; or nil, 126 or 127, why it cannot be started
 *   poll() -> nil: it runs; "exited", status; "killed", signal; "stopped", signal
 *   signal(name)      to all of its process group: "TERM", "KILL" or "CONT"
 *   is_gone() -> has its process group no member any more?
 *   suspend()         stops this process, too, as a shell's job, and goes on with the program afterwards
 *   finish()          signals are ours again, and so is the terminal */
#ifndef MT_CHILD_H
#define MT_CHILD_H

#include <lua.h>

int mt_child_open(lua_State *L);

#endif
