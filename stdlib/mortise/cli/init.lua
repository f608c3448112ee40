-- mortise init
local mortise = require "mortise"
local output = require "mortise.cli.output"

local command = {
  summary = "create the lock tables in a store",
  usage = "[--stripes N] [--print] [--json]",
  help = [[
Creates the lock table, stores its scripts and creates the index of jobs, once for an installation; again
is fine. It needs more rights than running scripts does: --print shows the requests, and the least role for
everyone else, and sends nothing.]],
  options = {
    {name = "stripes", type = "integer", least = 1, most = 64, range = "1 to 64", flag = "--stripes", value = "N",
      help = "keep the locks of / and of each path directly below it in so many documents"},
    {name = "print", type = "boolean", flag = "--print",
      help = "only show what would be sent, and the least role"},
    output.json_row,
  },
  arguments = {0, 0},
}

local function print_text(text)
  io.stdout:write(text, text:sub(-1) == "\n" and "" or "\n")
end

function command.run(ctx)
  local client <close> = mortise.connect {}
  local result = client:init {print = ctx.options.print, stripes = ctx.options.stripes}
  if ctx.options.json then
    output.json(result)
  elseif ctx.options.print then
    print_text(result.text or "")
  else
    print_text(("%s: the lock table %s (epoch %s, %s)"):format(client:url(),
      result.created and "was created" or "is there", result.epoch, output.stripes(result.stripes)))
  end
end

return command
