-- mortise version
local core = require "mortise.core"

return {
  summary = "print the version",
  arguments = {0, 0},
  run = function()
    io.stdout:write("mortise ", core.version, " (", _VERSION, ")\n")
  end,
}
