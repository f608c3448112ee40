-- mortise init
local mortise = require "mortise"
local output = require "mortise.cli.output"
local stripes = require "mortise.stripes"

local command = {
  summary = "create the lock tables in a store",
  usage = "[--stripes N] [--print] [--json]",
  help = [[
Creates the lock table, stores its scripts and creates the index of jobs, once for an installation; again
is fine. It needs more rights than running scripts does: --print shows the requests, and the least role for
everyone else, and sends nothing. --stripes gives a server's table another number while nobody uses it.]],
  options = {
    stripes.row,
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
      result.created and "was created" or "is there", result.epoch, stripes.text(result.stripes)))
  end
end

return command
