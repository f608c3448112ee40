-- The program's commands: mortise COMMAND [ARGS]. Options, a command's own and the global ones, stand
-- anywhere before `--`; what follows that is a script's, or names with a hyphen in front. cli/main.c calls
-- main(words...) in a task and ends with the status that it returns.
local config = require "mortise.config"
local core = require "mortise.core"
local errors = require "mortise.errors"
local failure = require "mortise.cli.failure"
local metrics = require "mortise.metrics"
local options = require "mortise.options"
local output = require "mortise.cli.output"
local parser = require "mortise.cli.parser"
local settings = require "mortise.settings"
local suggest = require "mortise.suggest"

local cli = {}

-- In the order of the help. Each is a module mortise.cli.NAME: {summary=, usage=, help=, options=, run(ctx)
-- -> exit status or nil}, with `script` if it runs one, `verb` if that is its first argument, and
-- works_on(arguments) -> the text by which its sessions identify it, if the name alone is not enough.
-- `takes`, for completion: what each argument may be, the last one also each further one: words, and kinds of
-- names in capitals (INDEX, JOB, PATH, SESSION of cli/names.lua; FILE, FOLDER, COMMAND).
cli.commands = {
  "run", "repl", "lock", "rename", "migrate", "job", "jobs", "up", "init", "locks", "sessions", "watch",
    "board",
    "get", "search", "count", "put", "edit", "doctor", "config", "names", "help", "version",
}

local own_rows = {
  {name = "profile", type = "string", flag = "--profile", value = "NAME", env = "MORTISE_PROFILE",
    help = "a profile of the configuration file"},
  {name = "config", type = "string", flag = "--config", value = "FILE", env = "MORTISE_CONFIG",
    help = "the configuration file"},
  {name = "progress", type = "string", flag = "--progress", value = "HOW", env = "MORTISE_PROGRESS",
    values = {"auto", "plain", "json", "none"}, default_text = "auto",
    help = "what goes on, on standard error: auto (a terminal's), plain, json, none"},
  {name = "log_level", type = "string", flag = "--log-level", value = "LEVEL", env = "MORTISE_LOG_LEVEL",
    values = {"none", "warning", "info", "debug"}, default_text = "warning",
    help = "what is logged, on standard error; debug: each request, without its contents"},
  {name = "log_format", type = "string", flag = "--log-format", value = "FORMAT",
    env = "MORTISE_LOG_FORMAT", values = {"text", "json"}, default_text = "text",
    help = "of the log's lines"},
  {name = "trace_http", type = "string", flag = "--trace-http", value = "FILE", env = "MORTISE_TRACE_HTTP",
    help = "each request, without its contents, is appended there as JSON, with the rest of the log"},
  {name = "metrics_file", type = "string", flag = "--metrics-file", value = "FILE",
    env = "MORTISE_METRICS_FILE", help = "counts for Prometheus' textfile collector are kept there"},
  {name = "verbose", type = "boolean", flag = "--verbose", short = "-v",
    help = "tracebacks and what is done"},
}

-- Known to every command.
cli.global_rows = options.join(settings.rows, own_rows)

-- Known where there is no command; `instead`: what follows is no command, either.
cli.first_rows = {
  {name = "execute", type = "string", flag = "--execute", short = "-e", value = "CODE", instead = true,
    help = "run this code, with the other words as its arguments"},
  {name = "help", type = "boolean", flag = "--help", short = "-h", help = "this help"},
  {name = "version", type = "boolean", flag = "--version", help = "print the version"},
}

local command_rows = {
  {name = "help", type = "boolean", flag = "--help", short = "-h", help = "the command's help"},
}

function cli.command(name)
  for _, each in ipairs(cli.commands) do
    if each == name then return require("mortise.cli." .. name) end
  end
end

-- Is this word, in place of a command, a script? ("#!" passes a path.)
local function is_script(word)
  return word == "-" or word:find "%.lua$" or word:find "/"
end

local function refuse_command(word)
  local near = suggest(word, cli.commands)
  errors.bad("unknown command `%s`%s; a script is run by `mortise run FILE` (mortise help lists all)",
    word, near and (": did you mean `%s`?"):format(near) or "")
end

-- ---- One run -------------------------------------------------------------------------------------

-- The argument of a command's run. `behind`: so many of its arguments stand behind `--`.
local function context(name, found, arguments, words, behind)
  return {
    cli = cli, name = name, options = found, arguments = arguments, words = words, behind = behind,
    verbose = found.verbose or false,
  }
end

-- What an option of the program's own is set to, here or in the environment.
local function own_value(found, name)
  if found[name] ~= nil then return found[name] end
  for _, row in ipairs(own_rows) do
    local value = row.name == name and os.getenv(row.env)
    if value and value ~= "" then
      local read, why = options.read(row, value)
      if read == nil then errors.bad("%s is %s", row.env, why) end
      return read
    end
  end
end

-- Hands the global options to the configuration as its command line.
local function adopt(found)
  for _, row in ipairs(cli.global_rows) do config.command_line[row.name] = found[row.name] end
  output.progress(found.progress or os.getenv "MORTISE_PROGRESS")
  local file = own_value(found, "metrics_file")
  if file then metrics.to_file(file) end
  output.log_file(own_value(found, "trace_http"))
  output.log(own_value(found, "log_level"), own_value(found, "log_format"))
end

local script_hint = "what is meant for the script comes after `--`"

-- `others`: the words that are no options, behind the command's name.
local function check_arguments(name, command, others)
  local usage = ("usage: mortise %s %s"):format(name, command.usage or "")
  if command.verb and table.remove(others, 1) ~= command.verb then errors.bad("%s", usage) end
  local least, most = table.unpack(command.arguments or {0, math.huge})
  if #others < least or #others > most then errors.bad("%s", usage) end
end

-- Runs a command whose words are parsed, or prints its help. `is_ours`: others see us running it.
local function obey(name, found, others, words, behind, is_ours)
  local command = cli.command(name)
  if found.help then
    io.stdout:write(require("mortise.cli.help").of(cli, name))
    return 0
  end
  check_arguments(name, command, others)
  if is_ours then -- a script sets its own
    config.identity = {program = "mortise", script = command.works_on and command.works_on(others) or name}
  end
  return command.run(context(name, found, others, words, behind)) or 0
end

-- Runs a command; `named`: its name is the first word that is no option.
local function start(name, words, named)
  local command = cli.command(name)
  output.expect_json(command.options, words)
  local rows = options.join(cli.global_rows, command.options or {}, command_rows)
  local found, others, behind = parser.parse(words, rows, command.script and script_hint)
  if named then table.remove(others, 1) end
  adopt(found)
  return obey(name, found, others, words, behind, true)
end

-- No word stands for a command.
local function start_without(words)
  local rows = options.join(cli.global_rows, cli.first_rows)
  local found, others = parser.parse(words, rows, script_hint)
  if found.help then return start("help", {}) end
  if found.version then return start("version", {}) end
  if not found.execute and output.is_terminal(0) and output.is_terminal(1) then
    return start("repl", words)
  end
  if not found.execute then
    io.stderr:write(require("mortise.cli.help").short(cli))
    return 2
  end
  adopt(found)
  return cli.command("run").run_code(context("run", found, others, words))
end

-- The row of an option while it is not known yet which command it belongs to.
local function find_row(flag)
  local rows = options.join(cli.global_rows, cli.first_rows)
  local row = parser.find(rows, flag)
  for _, name in ipairs(row and {} or cli.commands) do
    local own = cli.command(name).options or {}
    row = row or parser.find(own, flag)
    rows = options.join(rows, own)
  end
  return row or parser.refuse(rows, flag)
end

local function dispatch(words)
  local word = parser.first(words, find_row)
  if not word then return start_without(words) end
  if cli.command(word) then return start(word, words, true) end
  if is_script(word) then return start("run", words) end
  refuse_command(word)
end

-- Runs a command within the prompt, with the prompt's settings: only its own options are known. Its errors
-- are reported. -> its exit status
function cli.within(name, words)
  local ok, result = core.catch(function()
    local rows = options.join(cli.command(name).options or {}, command_rows)
    local found, others, behind = parser.parse(words, rows, "the store and the like are those of the prompt")
    return obey(name, found, others, words, behind, false)
  end, failure.handler)
  output.clear()
  io.stdout:flush()
  return ok and result or failure.report(result, config.command_line.verbose)
end

-- Runs the program. -> its exit status.
function cli.main(...)
  local ok, result = core.catch(dispatch, failure.handler, {...})
  output.clear()
  io.stdout:flush()
  if ok then return result end
  return failure.report(result, config.command_line.verbose)
end

return cli
