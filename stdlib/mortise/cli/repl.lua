-- mortise repl
local client = require "mortise.client"
local complete = require "mortise.complete"
local config = require "mortise.config"
local core = require "mortise.core"
local errors = require "mortise.errors"
local failure = require "mortise.cli.failure"
local history = require "mortise.history"
local lock = require "mortise.lock"
local repl = require "mortise.repl"
local terminal = require "mortise.terminal"

local command = {
  summary = "run statements as they are typed",
  usage = "",
  help = [[
Reads Lua statements and runs each when it is whole; what an expression gives is printed as Lua that
can be pasted back. Locals end with their statement: keep values in globals. ^C clears the line, or
interrupts what runs; ^D, `quit` or `exit` leaves and gives back every lock. Locks taken here stay
until they are released, or until then. `help` lists what there is, `help NAME` or `?NAME` says more.
Statements are kept for the next time in $XDG_STATE_HOME/mortise/history (or ~/.local/state), for you alone,
but for those that name a password, a token, a key or another secret.
Without a terminal it reads statements from standard input; the exit status is 1 when one failed.]],
  arguments = {0, 0},
}

-- The completions of `word`, for the editor.
function command.candidates(word, line, start)
  local text = line:sub(1, start - 1) .. word
  local list, at = complete(text, _G)
  local kept = text:sub(start, at - 1)
  for i, name in ipairs(list) do list[i] = kept .. name end
  return list
end

local failures_most = 5

local function itself(why) return why end

-- Reads lines: a line, or nil and what happened instead. An error raised while the user thinks (a lost lease)
-- is reported and clears the line; without a terminal it ends the input.
local function reader(interactive)
  local failures = 0
  return function(prompt)
    local ok, line = core.catch(terminal.readline, itself, prompt)
    if ok then
      failures = 0
      if line then return line end
      return nil, "eof"
    end
    failures = failures + 1
    if errors.code(line) == "interrupted" then
      core.interrupted(true)
      if interactive then return nil, "interrupt" end
    end
    if not interactive or failures > failures_most then error(line, 0) end
    io.stderr:write("\n", failure.text(line), "\n")
    collectgarbage() -- the abandoned operation restores the terminal when it is collected
    return nil, "interrupt"
  end
end

-- A lost lease or an interrupt may be raised anywhere, even between two statements.
local raised_anywhere = {lock_lost = true, interrupted = true}

-- The prompt continues after those.
local function loop(front, interactive)
  while true do
    local ok, result = core.catch(repl.loop, itself, front, _G)
    if ok then return result end
    if not interactive or not raised_anywhere[errors.code(result)] then error(result, 0) end
    core.interrupted(true)
    front.complain("\n" .. failure.text(result) .. "\n")
  end
end

local function front_end(interactive, file)
  local front = {
    read = reader(interactive),
    write = function(text) io.stdout:write(text) io.stdout:flush() end,
    complain = function(text) io.stderr:write(text) end,
    is_over = terminal.unread,
  }
  if interactive then
    front.remember = function(statement)
      terminal.add_history(statement)
      history.add(file, statement)
    end
  end
  return front
end

local function banner()
  local found = config.resolve().found
  local store = found.store and config.show_store(found.store.value) or "none is named yet"
  io.stdout:write(("mortise %s, %s, store: %s\n"):format(core.version, _VERSION, store),
    "Locals end with their statement: use globals. `help` says more; ^C interrupts; ^D leaves and gives\n",
    "back all locks.\n")
end

-- Lists the locks that are released now, since the user may believe that they were released before.
local function tell_locks()
  local list = lock.kept()
  if #list == 0 then return end
  local lines = {("%d %s given back:"):format(#list, #list == 1 and "lock is" or "locks are")}
  for i, each in ipairs(list) do lines[i + 1] = core.tostring(each) end
  io.stderr:write("mortise: ", table.concat(lines, "\n  "), "\n")
end

-- -> did everything succeed?
local function end_clients()
  tell_locks()
  local why = client.end_all()
  if why ~= nil then failure.report(why) end
  return why == nil
end

-- os.exit does not unwind, so locks are released first.
local function exit_in_order()
  local exit = os.exit
  os.exit = function(...) -- luacheck: globals os.exit
    end_clients()
    exit(...)
  end
end

function command.run()
  lock.keep()
  exit_in_order()
  local interactive = terminal.isatty(0)
  config.identity = {program = "mortise", script = "(prompt)"}
  local file = interactive and history.file()
  if interactive then
    banner()
    terminal.complete(command.candidates)
    history.trim(file)
    for _, statement in ipairs(history.load(file)) do terminal.add_history(statement) end
  end
  local good = loop(front_end(interactive, file), interactive)
  if interactive then io.stdout:write "\n" end
  good = end_clients() and good
  return (good or interactive) and 0 or 1
end

return command
