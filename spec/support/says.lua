-- says(text, part, ...): each part stands in the text as it is. Commands in it are compared without their
-- namespace, which is one of the tests' own.
local assert = require "luassert"

return function(text, ...)
  text = text:gsub("mortise %-%-namespace luaspec[%w-]+ ", "mortise ")
  for _, part in ipairs {...} do
    assert.is_truthy(text:find(part, 1, true), text .. " does not say: " .. part)
  end
end
