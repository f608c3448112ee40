-- mortise help [COMMAND]
local errors = require "mortise.errors"
local parser = require "mortise.cli.parser"
local suggest = require "mortise.suggest"

local help = {
  summary = "this help, or that of a command",
  usage = "[COMMAND]",
  arguments = {0, 1},
}

local function list_commands(cli)
  local list = {}
  for i, name in ipairs(cli.commands) do
    local command = cli.command(name)
    list[i] = {name .. (command.usage and " " .. command.usage or ""), command.summary}
  end
  return parser.columns(list, "  ")
end

function help.short(cli)
  return table.concat({
    "usage: mortise COMMAND [ARGS] [OPTIONS]",
    "       mortise FILE.lua [ARGS] [OPTIONS] [-- ARGS]",
    "",
    list_commands(cli),
    "",
    "mortise --help says more.",
    "",
  }, "\n")
end

local function all(cli)
  return table.concat({
    "mortise runs Lua scripts that change large trees of documents in Elasticsearch, OpenSearch or",
    "an embedded store, under locks.",
    "",
    "usage: mortise COMMAND [ARGS] [OPTIONS]",
    "       mortise FILE.lua [ARGS] [OPTIONS] [-- ARGS]     the same as `run FILE.lua`",
    "       mortise -e CODE [ARGS] [OPTIONS] [-- ARGS]",
    "",
    "Options, those of the command and the global ones, are known wherever they stand before `--`. What",
    "follows that is no option: it is a script's, or a name that begins with a hyphen. The value of an",
    "option that looks like an option itself is attached: --field=--odd.",
    "",
    "Commands:",
    list_commands(cli),
    "",
    "Global options:",
    parser.help(cli.first_rows),
    parser.help(cli.global_rows),
    "",
    "Each can be set in the environment as well (MORTISE_STORE, MORTISE_WAIT, ...) and in a profile of",
    "the configuration file; secrets only there or in files. `mortise config` shows what is in force",
    "and where it came from. Times are like 30s, 250ms, 1m30s, or seconds.",
    "",
    "Exit status: 0 done, 1 script error, 2 usage, 3 lock not had, 4 store unavailable, 5 lock lost,",
    "6 a job needs recovery, 7 nothing to do (--dry-run), 130 interrupted, 141 nobody read the output.",
    "",
  }, "\n")
end

-- The help of one command.
function help.of(cli, name)
  local command = cli.command(name)
  local parts = {
    ("usage: mortise %s %s"):format(name, command.usage or ""):gsub(" +$", ""),
    "",
    command.help or command.summary,
  }
  if command.options and #command.options > 0 then
    parts[#parts + 1] = "\nOptions:"
    parts[#parts + 1] = parser.help(command.options)
  end
  parts[#parts + 1] = "\nGlobal options: mortise help\n"
  return table.concat(parts, "\n")
end

function help.run(ctx)
  local name = ctx.arguments[1]
  if name and not ctx.cli.command(name) then
    local near = suggest(name, ctx.cli.commands)
    errors.bad("there is no command `%s`%s", name, near and (": did you mean `%s`?"):format(near) or "")
  end
  io.stdout:write(name and help.of(ctx.cli, name) or all(ctx.cli))
end

return help
