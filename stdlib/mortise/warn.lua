-- What a script should hear of that is no error: standard error of the program, `options.log` of a
-- program that embeds us.
local core = require "mortise.core"

-- One line; also from finalizers.
return function(format, ...)
  local text = format:format(...):gsub("[\0-\x1f]+", " ")
  if not core.warn(text) then io.stderr:write("mortise: warning: ", text, "\n") end
end
