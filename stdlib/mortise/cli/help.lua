-- mortise help [COMMAND or TOPIC or FUNCTION]
local errors = require "mortise.errors"
local parser = require "mortise.cli.parser"
local suggest = require "mortise.suggest"

local functions = require("mortise.later") "mortise.prompt.help"
local reference = require("mortise.later") "mortise.reference"
local topics = require("mortise.later") "mortise.cli.topics"

local help = {
  summary = "this help, or that of a command, a topic, a function",
  usage = "[COMMAND|TOPIC|FUNCTION]",
  help = [[
Of a command: how it is called, and its options. Of a topic (errors, status, store, query, time, modes): what
it is about. Of a function of scripts, as scan or lock:upgrade: how it is called, and its options.]],
  arguments = {0, 1},
  takes = {"COMMAND errors status store query time modes"},
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
    "Topics (mortise help TOPIC):",
    parser.columns(topics.list, "  "),
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

-- The help for a name; nil: there is none.
function help.about(cli, name)
  if cli.command(name) then return help.of(cli, name) end
  local text = topics.text(name)
  if text then return text end
  if #reference.find(name) > 0 or reference.group(name) then return functions.text(name) end
end

local function refuse(cli, name)
  local known = table.move(cli.commands, 1, #cli.commands, 1, {})
  for _, topic in ipairs(topics.list) do known[#known + 1] = topic[1] end
  table.move(reference.names(), 1, #reference.names(), #known + 1, known)
  local near = suggest(name, known)
  errors.bad("there is no command, topic or function `%s`%s", name,
    near and (": did you mean `%s`?"):format(near) or "; `mortise help` lists them")
end

function help.run(ctx)
  local name = ctx.arguments[1]
  io.stdout:write(name and (help.about(ctx.cli, name) or refuse(ctx.cli, name)) or all(ctx.cli))
end

return help
