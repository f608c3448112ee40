-- Foreign text as the board shows it: of bounded length, and nothing in it that cannot be seen.
local output = require "mortise.cli.output"
local printable = require "mortise.printable"
local visible = require "mortise.visible"

local shown = {}

local text_most, raw_most, cut_most = 160, 1024, 4096

-- A name, an owner, a reason; nil stays nil.
function shown.text(text, most)
  if type(text) ~= "string" then return nil end
  if #text > cut_most then text = text:sub(1, cut_most) end
  return output.shortened(printable(text), most or text_most)
end

function shown.path(path, most) return shown.text(visible(path), most) end

-- The path itself, by which the page asks for more; nil where that would be too long, or is no text.
function shown.raw(path)
  return #path <= raw_most and utf8.len(path) and path or nil
end

return shown
