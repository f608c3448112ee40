-- Writes all that is made of the descriptions into the folder that is named.
local folder = ...

local annotations = require "annotations"
local manual = require "manual"
local pages = require "pages"
local shells = require "shells"

local function write(name, text)
  local handle = assert(io.open(folder .. "/" .. name, "wb"))
  assert(handle:write(text))
  assert(handle:close())
end

write("share/mortise.bash", shells.bash())
write("share/_mortise", shells.zsh())
write("share/mortise.fish", shells.fish())
write("share/mortise.1.scd", manual.program())
write("share/mortise-lua.3.scd", manual.library())
write("share/mortise.lua", annotations.text())
write("share/mortise.luacheckrc", annotations.luacheck())
write("docs/reference.md", pages.reference())
