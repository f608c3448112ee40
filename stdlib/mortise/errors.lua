-- Raising mortise's error objects: {code, message, ...} (see bindings/lua_error.c).
local core = require "mortise.core"

local errors = {}

-- Raises an error object of this code.
function errors.raise(code, format, ...)
  error(core.error {code = code, message = format:format(...)}, 0)
end

-- Raises invalid_argument, for a caller's mistake.
function errors.bad(format, ...)
  errors.raise("invalid_argument", format, ...)
end

-- The code of any error value; one that is not our object is a script's own error.
function errors.code(value)
  return core.is_error(value) and value.code or "script_error"
end

return errors
