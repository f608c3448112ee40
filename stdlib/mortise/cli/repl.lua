-- mortise repl
local client = require "mortise.client"
local complete = require "mortise.prompt.complete"
local config = require "mortise.config"
local core = require "mortise.core"
local editor = require "mortise.cli.editor"
local errors = require "mortise.errors"
local failure = require "mortise.cli.failure"
local history = require "mortise.prompt.history"
local lock = require "mortise.lock"
local loop = require "mortise.prompt.loop"
local output = require "mortise.cli.output"
local settings = require "mortise.settings"
local shown = require "mortise.prompt.shown"
local terminal = require "mortise.terminal"
local visible = require "mortise.visible"

local command = {
  summary = "run statements as they are typed",
  usage = "",
  help = [[
Reads Lua statements and runs each when it is whole. What an expression gives is shown: on a terminal
lists of documents, locks and jobs as a table, and all else as Lua that can be pasted back; `\format lua`,
`table` or `json` says otherwise. `_` is the last result. Locals end with their statement: keep values in
globals. ^C clears the line, or interrupts what runs; ^D, `quit` or `exit` leaves and gives back every lock.
Locks taken here stay until they are released, or until then; the prompt says how many there are. The
tabulator completes names, the options of a call, and names of indices, jobs and locked paths. `help` lists
what there is, `help NAME` or `?NAME` says more, `\help` lists the commands that begin with a backslash.
Statements are kept for the next time in $XDG_STATE_HOME/mortise/history (or ~/.local/state), for you alone,
but for those that name a password, a token, a key or another secret.
Without a terminal it reads statements from standard input; the exit status is 1 when one failed.]],
  arguments = {0, 0},
}

-- The completions of `word`, for the editor, which begins a word where ours may not; and a line to show.
function command.candidates(word, line, start)
  local text = line:sub(1, start - 1) .. word
  local list, at, note = complete(text, _G)
  local kept = text:sub(start, at - 1)
  for i, name in ipairs(list) do list[i] = at < start and name:sub(start - at + 1) or kept .. name end
  return list, note
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
local function run(front, interactive)
  while true do
    local ok, result = core.catch(loop.run, itself, front, _G)
    if ok then return result end
    if not interactive or not raised_anywhere[errors.code(result)] then error(result, 0) end
    core.interrupted(true)
    front.complain("\n" .. failure.text(result) .. "\n")
  end
end

-- ---- What stands before "> " ---------------------------------------------------------------------

-- "fs.db", "127.0.0.1:9200", and the namespace if it has a name. `found`: the settings.
local function place_text(found)
  local store = found.store and found.store.value
  if not store then return "" end
  local name = store:match "^sqlite:.-([^/]*)$" or store:match "^https?://([^/,]*)" or store
  local namespace = found.namespace and found.namespace.value
  local is_usual = namespace == nil or namespace == settings.by_name.namespace.default_value
  return visible(name) .. (is_usual and "" or "/" .. namespace)
end

local red, plain = "\1\27[31m\2", "\1\27[0m\2" -- between 1 and 2: the editor does not count it

local function has_colour() return os.getenv "TERM" ~= nil and output.is_coloured(1) end

local function locks_text()
  local list, lost = lock.kept(), 0
  if #list == 0 then return "" end
  for _, each in ipairs(list) do
    if each:remaining() <= 0 then lost = lost + 1 end
  end
  local text = output.counted(#list, "lock", "locks") .. (lost > 0 and (", %d lost"):format(lost) or "")
  text = "[" .. text .. "]"
  return " " .. (lost > 0 and has_colour() and red .. text .. plain or text)
end

-- ---- Results that are longer than the screen -----------------------------------------------------

local function is_there(program)
  return os.execute("command -v " .. program .. " >/dev/null 2>&1") == true
end

-- Words of the shell; nil: there is none, or the terminal cannot.
local function pager()
  local named = os.getenv "PAGER"
  if (os.getenv "TERM" or "dumb") == "dumb" or not terminal.isatty(1) then return nil end
  if named then return named:find "[^ \t]" and named or nil end
  return is_there "less" and "less" or nil
end

local function write(text)
  io.stdout:write(text)
  io.stdout:flush()
end

-- Through a file, so that a pager that is left early is no end of our output.
local function write_paged(text, command_line)
  local file = editor.new_file(text, ".txt")
  local ok, why = pcall(os.execute, ("LESS=${LESS-FRX} %s <'%s'"):format(command_line, file))
  os.remove(file)
  if not ok then error(why, 0) end
end

local function is_long(text)
  local _, lines = text:gsub("\n", "")
  return lines >= terminal.height()
end

local function pages(state)
  return function(text)
    local command_line = state.pager and is_long(text) and pager()
    if command_line then write_paged(text, command_line) else write(text) end
  end
end

-- ---- The prompt ----------------------------------------------------------------------------------

local level_before

-- Of what \NAME on or off says, this is the terminal's part.
local function switch(name, on)
  if name ~= "trace" or on == (level_before ~= nil) then return end
  local before = terminal.log(on and "debug" or level_before)
  level_before = on and before or nil
end

-- `found`: the settings, at a terminal.
local function front_end(interactive, file, found)
  local state = {pager = interactive}
  local front = {
    read = reader(interactive),
    write = write,
    complain = function(text) io.stderr:write(text) end,
    page = pages(state),
    is_over = terminal.unread,
    state = state,
    switch = switch,
  }
  if interactive then
    local place = place_text(found)
    function front.prompt() return place .. locks_text() end
    front.remember = function(statement)
      terminal.add_history(statement)
      history.add(file, statement)
    end
    if terminal.isatty(1) then shown.set_format "table" end
  end
  return front
end

local function banner(found)
  local store = found.store and config.show_store(found.store.value) or "none is named yet"
  io.stdout:write(("mortise %s, %s, store: %s\n"):format(core.version, _VERSION, store),
    "Locals end with their statement: use globals. `help` and `\\help` say more; ^C interrupts; ^D leaves\n",
    "and gives back all locks.\n")
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
  local found = interactive and config.resolve().found
  if interactive then
    banner(found)
    terminal.complete(command.candidates)
    history.trim(file)
    for _, statement in ipairs(history.load(file)) do terminal.add_history(statement) end
  end
  local good = run(front_end(interactive, file, found), interactive)
  if interactive then io.stdout:write "\n" end
  good = end_clients() and good
  return (good or interactive) and 0 or 1
end

return command
