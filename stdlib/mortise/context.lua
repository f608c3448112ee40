-- Where in a piece of work a script's own function failed.
local core = require "mortise.core"

local context = {}

-- Adds the text, in parentheses, to an error on its way, from a __close: an object of ours has it in its
-- message, text is raised anew with it, anything else stays as it is.
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
