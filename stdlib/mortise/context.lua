-- Adds to an error where in the work a script's function failed.
local core = require "mortise.core"

local context = {}

-- Called from a __close, adds the text in parentheses to the error being raised: to the message of our error
-- object, or by raising an error string again; anything else is left as it is.
function context.add(why, text)
  if core.is_error(why) then
    why.message = ("%s (%s)"):format(why.message, text)
  elseif type(why) == "string" then
    error(("%s (%s)"):format(why, text), 0)
  end
end

local Place = {}

function Place:__close(why)
  if why ~= nil then context.add(why, self.format:format(table.unpack(self))) end
end

-- local _ <close> = context.at("map: at %s/%s", index, id)
function context.at(format, ...)
  return setmetatable({format = format, ...}, Place)
end

return context
