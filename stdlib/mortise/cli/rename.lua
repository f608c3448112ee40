-- mortise rename
local core = require "mortise.core"
local duration = require "mortise.duration"
local mortise = require "mortise"
local output = require "mortise.cli.output"

local command = {
  summary = "rename a tree of documents",
  usage = "INDEX FROM TO [--field NAME] [--json]",
  help = [[
Renames a directory: in every document of INDEX whose field is FROM or lies below it, that prefix
becomes TO. It locks both trees, and ends when none is left under the old path. Run again after it
was killed, it does what is left.]],
  options = {
    {name = "field", type = "string", flag = "--field", value = "NAME", default_text = "path",
      help = "the field that holds the path"},
    output.json_row,
  },
  arguments = {3, 3},
}

-- A line that is written over itself, a few times a second.
local function progress_line()
  local last = -math.huge
  return function(done, total)
    local now = core.now_ms()
    if now - last < 200 and done ~= total then return end
    last = now
    io.stderr:write(("\r\27[K%d of %d documents"):format(done, total))
  end
end

local function print_result(ctx, result)
  if ctx.options.json then
    output.json(result)
    return
  end
  local index, from, to = table.unpack(ctx.arguments)
  io.stdout:write(("%s: %s is now %s: %d documents changed in %s\n"):format(index, from, to,
    result.changed, duration.text(result.seconds * 1000)))
  if ctx.verbose then
    for _, name in ipairs {"matched", "unchanged", "redone", "passes", "round_trips", "bytes"} do
      io.stdout:write(("  %s %s\n"):format(name, tostring(result[name])))
    end
  end
end

function command.run(ctx)
  local index, from, to = table.unpack(ctx.arguments)
  local client <close> = mortise.connect {}
  local shows = not ctx.options.json and output.is_terminal(2)
  local clear <close> = setmetatable({}, {
    __close = function() if shows then io.stderr:write "\r\27[K" end end,
  })
  local result = client:rename {
    index = index, from = from, to = to, field = ctx.options.field,
    on_progress = shows and progress_line() or nil,
  }
  if shows then io.stderr:write "\r\27[K" end
  print_result(ctx, result)
  return clear and 0
end

return command
