-- Raising mortise's error objects: {code, message, ...} (see bindings/lua_error.c).
local core = require "mortise.core"

local errors = {}

-- Raises an error object of this code.
function errors.raise(code, format, ...)
  error(core.error {code = code, message = format:format(...)}, 0)
end

-- A mistake of the caller.
function errors.bad(format, ...)
  errors.raise("invalid_argument", format, ...)
end

-- The code of any error value: what is no object of ours is a script's own error.
function errors.code(value)
  return core.is_error(value) and value.code or "script_error"
end

return errors
