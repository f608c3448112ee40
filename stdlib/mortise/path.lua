-- Paths of locks: "/a/b", see core.path_check.
local argument = require "mortise.argument"
local core = require "mortise.core"
local errors = require "mortise.errors"

-- Returns the normalised path; an error names it. `others`: also allows paths that cannot be locked here.
return function(path, others)
  if type(path) ~= "string" then errors.bad("a path is a string, not a %s", type(path)) end
  local ok, result = pcall(core.path_check, path, others)
  if ok then return result end
  errors.bad("%s: %s", core.is_error(result) and result.message or core.tostring(result),
    argument.shown(path:sub(1, 200)))
end
