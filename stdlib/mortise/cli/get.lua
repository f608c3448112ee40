-- mortise get INDEX ID...
local core = require "mortise.core"
local json_text = require "mortise.cli.json_text"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local shown_documents = require "mortise.cli.shown_documents"

local command = {
  summary = "print documents by their ids",
  usage = "INDEX ID... [--fields A,B] [--json]",
  help = [[
Prints documents as they are now, whether or not searches see them yet: their JSON, a member a line, as
`mortise put` takes it. With --json each is one line with its _id, version (seq_no, term) and _source. The
exit status is 1 if one is not there.]],
  options = {shown_documents.fields_row, shown_documents.routing_row, output.json_row},
  arguments = {2, math.huge},
  takes = {"INDEX", ""},
}

function command.run(ctx)
  local index, o = ctx.arguments[1], ctx.options
  local ids = table.move(ctx.arguments, 2, #ctx.arguments, 1, {})
  local fields = shown_documents.fields(o.fields)
  local client <close> = mortise.connect {}
  local status = 0
  for i, view in ipairs(client:mget(index, ids, {routing = o.routing})) do
    if not view then
      status = 1
      output.line(io.stderr, "mortise: there is no document ", ids[i], " in ", index)
    elseif o.json then
      output.begin_json()
      io.stdout:write(core.json(shown_documents.object(view, fields)), "\n")
    else
      local text = fields and core.json(shown_documents.picked(view, fields)) or view:_source()
      shown_documents.write(json_text.pretty(text))
    end
  end
  return status
end

return command
