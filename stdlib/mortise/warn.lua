-- Warnings: to standard error in the program, to `options.log` in a program that embeds us.
local core = require "mortise.core"

-- Writes one line; may be called from finalizers.
return function(format, ...)
  local text = format:format(...):gsub("[\0-\x1f]+", " ")
  if not core.warn(text) then io.stderr:write("mortise: warning: ", text, "\n") end
end
