-- mortise names KIND [BEGINNING]
local core = require "mortise.core"
local errors = require "mortise.errors"
local names = require "mortise.prompt.names"
local output = require "mortise.cli.output"

local command = {
  summary = "list names of what there is, for completion",
  usage = "index|job|path|session [BEGINNING]",
  help = [[
The names of indices and aliases, of jobs, of locked paths, or of sessions, one a line, for shells that
complete them: those that begin so, at most 1,000. Each question to the store waits for 0.2 s; a store that is
away has no names. An embedded store is not asked for indices.]],
  options = {output.json_row},
  arguments = {1, 2},
  takes = {"index job path session", ""},
}

function command.run(ctx)
  local kind = ctx.arguments[1]
  if not names.is_kind(kind) then errors.bad("names: index, job, path or session, not `%s`", kind) end
  local list = names.beginning(kind, ctx.arguments[2] or "")
  if ctx.options.json then return output.json(core.array(list)) end
  for _, name in ipairs(list) do output.line(io.stdout, name) end
end

return command
