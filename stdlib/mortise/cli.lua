-- The program's commands: mortise [GLOBAL OPTIONS] COMMAND [OPTIONS] [ARGS]. cli/main.c calls
-- main(words...) in a task and ends with the status that it returns.
local config = require "mortise.config"
local core = require "mortise.core"
local errors = require "mortise.errors"
local failure = require "mortise.cli.failure"
local options = require "mortise.options"
local output = require "mortise.cli.output"
local parser = require "mortise.cli.parser"
local settings = require "mortise.settings"
local suggest = require "mortise.suggest"

local cli = {}

-- In the order of the help. Each is a module mortise.cli.NAME: {summary=, usage=, help=, options=, run(ctx)
-- -> exit status or nil}, with `script` if the first argument ends our own options, `verb` if that comes
-- before them, and works_on(arguments) -> the text by which its sessions identify it, if the name alone is
-- not enough.
cli.commands = {
  "run", "repl", "rename", "job", "jobs", "init", "locks", "doctor", "config", "help", "version",
}

local own_rows = {
  {name = "profile", type = "string", flag = "--profile", value = "NAME", env = "MORTISE_PROFILE",
    help = "a profile of the configuration file"},
  {name = "config", type = "string", flag = "--config", value = "FILE", env = "MORTISE_CONFIG",
    help = "the configuration file"},
  {name = "progress", type = "string", flag = "--progress", value = "HOW", env = "MORTISE_PROGRESS",
    values = {"auto", "plain", "json", "none"}, default_text = "auto",
    help = "what goes on, on standard error: auto (a terminal's), plain, json, none"},
  {name = "verbose", type = "boolean", flag = "--verbose", short = "-v",
    help = "tracebacks and what is done"},
}

-- Allowed before and after the command's name.
cli.global_rows = options.join(settings.rows, own_rows)

-- Allowed only before the command's name, or instead of it.
cli.first_rows = {
  {name = "execute", type = "string", flag = "--execute", short = "-e", value = "CODE", last = true,
    help = "run this code; what follows are its arguments"},
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

-- The argument of a command's run.
local function context(name, found, arguments, words)
  return {
    cli = cli, name = name, options = found, arguments = arguments, words = words,
    verbose = found.verbose or false,
  }
end

local function merge(into, found)
  for name, value in pairs(found) do into[name] = value end
  return into
end

-- Hands the global options to the configuration as its command line.
local function adopt(found)
  for _, row in ipairs(cli.global_rows) do config.command_line[row.name] = found[row.name] end
  output.progress(found.progress or os.getenv "MORTISE_PROGRESS")
end

local function start(name, command, globals, words, first)
  local rows = options.join(cli.global_rows, command.options or {}, command_rows)
  local has_verb = words[first] == command.verb
  if command.verb and has_verb then first = first + 1 end
  output.expect_json(command.options, words, first)
  local found, others, at = parser.parse(words, first, rows, command.script)
  if command.script then others = table.move(words, at, #words, 1, {}) end
  merge(globals, found)
  adopt(globals)
  if found.help then
    io.stdout:write(require("mortise.cli.help").of(cli, name))
    return 0
  end
  if command.verb and not has_verb then errors.bad("usage: mortise %s %s", name, command.usage) end
  local least, most = table.unpack(command.arguments or {0, math.huge})
  if #others < least or #others > most then
    errors.bad("usage: mortise %s %s", name, command.usage or "")
  end
  -- What others see us running; a script sets its own.
  config.identity = {program = "mortise", script = command.works_on and command.works_on(others) or name}
  return command.run(context(name, globals, others, words)) or 0
end

local function dispatch(words)
  local rows = options.join(cli.global_rows, cli.first_rows)
  local globals, _, at = parser.parse(words, 1, rows, true)
  if globals.help then return start("help", cli.command "help", {}, {}, 1) end
  if globals.version then return start("version", cli.command "version", {}, {}, 1) end
  if globals.execute then
    adopt(globals)
    local rest = table.move(words, at, #words, 1, {})
    return cli.command("run").run_code(context("run", globals, rest, words))
  end
  local word = words[at]
  if not word then
    io.stderr:write(require("mortise.cli.help").short(cli))
    return 2
  end
  local command = cli.command(word)
  if command then return start(word, command, globals, words, at + 1) end
  if is_script(word) then return start("run", cli.command "run", globals, words, at) end
  refuse_command(word)
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
