-- Programs of spec/support in the background, on the way to a server.
local process = require "spec.support.process"
local program = require "spec.support.program"

local between = {}

local Between = {}
Between.__index = Between

-- What it has printed.
function Between:said() return program.read(self.out) end

function Between:__close()
  os.execute("kill " .. self.pid)
  os.remove(self.out)
end

-- Debian's Python, which has Debian's packages. `place` is the first line: where it listens.
function between.start(file, ...)
  local words = {}
  for i, word in ipairs {...} do words[i] = program.quote(word) end
  local self = setmetatable({out = os.tmpname()}, Between)
  local pipe = io.popen(("/usr/bin/python3 -B spec/support/%s %s >%s 2>&1 & echo $!"):format(file,
    table.concat(words, " "), self.out))
  self.pid = pipe:read "n"
  pipe:close()
  self.place = process.wait_for(file, function() return self:said():match "^([^\n]+)\n" end)
  return self
end

-- How often it has said that.
function Between:count(text)
  local n, at, said = 0, 0, self:said()
  repeat
    at = said:find(text, at + 1, true)
    n = n + (at and 1 or 0)
  until not at
  return n
end

return between
