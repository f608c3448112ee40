-- Paths as they are locked: "/a/b", see core.path_check.
local core = require "mortise.core"
local errors = require "mortise.errors"

-- The path normalised; an error names it.
return function(path)
  if type(path) ~= "string" then errors.bad("a path is a string, not a %s", type(path)) end
  local ok, result = pcall(core.path_check, path)
  if ok then return result end
  errors.bad("%s: %q", core.is_error(result) and result.message or core.tostring(result), path:sub(1, 200))
end
