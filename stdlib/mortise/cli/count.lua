-- mortise count INDEX [QUERY...]
local mortise = require "mortise"
local output = require "mortise.cli.output"
local query_words = require "mortise.cli.query_words"

local command = {
  summary = "count documents that match",
  usage = "INDEX [QUERY...] [--json]",
  help = "Prints how many documents of an index match, as searches see it.\n\n" .. query_words.help,
  options = {output.json_row},
  arguments = {1, math.huge},
  takes = {"INDEX", ""},
}

function command.run(ctx)
  local index = ctx.arguments[1]
  local client <close> = mortise.connect {}
  local query = query_words.parse(client, table.move(ctx.arguments, 2, #ctx.arguments, 1, {}))
  local n = client:count(index, query)
  if ctx.options.json then return output.json {index = index, count = n} end
  io.stdout:write(("%d\n"):format(n))
end

return command
