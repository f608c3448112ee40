-- says(text, part, ...): each part stands in the text as it is.
local assert = require "luassert"

return function(text, ...)
  for _, part in ipairs {...} do
    assert.is_truthy(text:find(part, 1, true), text .. " does not say: " .. part)
  end
end
