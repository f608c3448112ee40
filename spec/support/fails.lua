-- fails(code, fn, ...) -> the error: the call must raise one of this code.
local assert = require "luassert"
local mortise = require "mortise"

return function(code, fn, ...)
  local ok, why = pcall(fn, ...)
  assert.is_false(ok)
  assert.equal(code, mortise.is_error(why) and why.code or why)
  return why
end
