-- The text of a script's file, and the name of its chunk.
local errors = require "mortise.errors"
local printable = require "mortise.printable"

local function read_file(file)
  local handle, why = io.open(file, "rb")
  if not handle then errors.bad("cannot run %s", why) end
  local text
  text, why = handle:read "a"
  handle:close()
  return text or errors.bad("cannot run %s: %s", file, why)
end

-- `file` "-" is standard input, which input() reads.
return function(file, input)
  local text = file == "-" and input() or read_file(file)
  text = text:gsub("^\xef\xbb\xbf", ""):gsub("^#[^\n]*", "") -- like Lua
  return text, file == "-" and "=stdin" or "@" .. printable(file)
end
