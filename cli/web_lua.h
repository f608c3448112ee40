/* `mortise.web`, for `mortise board`: a server of web.h.
 *   listen(host, port, options) -> web     options: {name=, token=, policy=}, of web.h; raises why it cannot
 *   random() -> string                     32 hex digits that nobody can guess
 *   page() -> {[file] = text}              what cli/board has
 *   keep_secret(file, text)                in a new file of its owner alone
 *   web:address() -> string, boolean       "127.0.0.1:8787"; is it of this machine alone?
 *   web:publish(slot, status, text)        "page", "data", "metrics" or "health"
 *   web:healthy_for(ms)
 *   web:tell(event)
 *   web:next() -> id, path, arguments, body    waits for a request, whose body is nil unless it is an order; nothing
 *                                          once it is closed, or where there is none after all
 *   web:answer(id, status, json)
 *   web:looks() -> readers, connections, ms    how many read events; how long ago anybody looked, or nil
 *   web:sweep(), web:close()               also by <close> */
#ifndef MT_WEB_LUA_H
#define MT_WEB_LUA_H

#include <lua.h>

int mt_web_open(lua_State *L);

#endif
