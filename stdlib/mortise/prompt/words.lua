-- Lines that begin with a backslash: commands of the prompt itself, and those of the program.
local core = require "mortise.core"
local duration = require "mortise.duration"
local editor = require "mortise.cli.editor"
local names = require "mortise.prompt.names"
local shown = require "mortise.prompt.shown"
local statement = require "mortise.prompt.statement"

local columns = require("mortise.cli.parser").columns
local holds = require("mortise.later") "mortise.cli.holds"
local program = require("mortise.later") "mortise.cli"

local words = {}

-- Each is {its arguments, what it does, a function}. The function gets what stands behind the word, and the
-- prompt:
--   front   where it reads and writes (loop.lua)      env    the globals of statements
--   state   {timing=, last= the text of the last statement, pager=}
-- and returns a function that does it and returns what is to be shown, and the text of the statement that it
-- stands for, if it does; or nil and a message.
local own = {}

-- A function that says this.
local function saying(front, text)
  return function() front.write(text .. "\n") end
end

local function switch(name)
  return function(given, prompt)
    local state = prompt.state
    if given ~= "" and given ~= "on" and given ~= "off" then return nil, ("\\%s on, or off"):format(name) end
    local on = given == "on" or given == "" and not state[name]
    if prompt.front.switch then prompt.front.switch(name, on) end
    state[name] = on
    return saying(prompt.front, ("%s is %s"):format(name, on and "on" or "off"))
  end
end

own.timing = {"[on|off]", "say how long each statement takes", switch "timing"}
own.pager = {"[on|off]", "show what is longer than the screen in $PAGER, or less", switch "pager"}
own.trace = {"[on|off]", "show each request to the store, without its contents", switch "trace"}

own.format = {"lua|table|json", "how results are shown", function(given, prompt)
  if given ~= "" and not shown.set_format(given) then
    return nil, "\\format " .. table.concat(shown.formats, ", ")
  end
  return saying(prompt.front, "format is " .. shown.format())
end}

own.i = {"FILE", "run the statements of a file", function(given, prompt)
  if given == "" then return nil, "\\i FILE" end
  local list, why = words.split(given)
  if not list then return nil, why end
  return loadfile(list[1], "t", prompt.env)
end}

own.e = {"[FILE]", "edit the last statement, or a file, in $EDITOR, and run it", function(given, prompt)
  local file = given ~= "" and given or editor.new_file((prompt.state.last or "") .. "\n", ".lua")
  local ok, text = pcall(editor.run, file)
  if given == "" then os.remove(file) end
  if not ok then return nil, core.is_error(text) and text.message or core.tostring(text) end
  text = text:gsub("[ \t\r\n]+$", "")
  if text == "" then return function() end end
  local chunk, why = statement.compile(text, prompt.env)
  return chunk, why, text
end}

local shortest_ms = 100

own.watch = {"TIME STATEMENT", "run a statement again and again, until ^C", function(given, prompt)
  local time, text = given:match "^([^ \t]+)[ \t]+(.+)$"
  local ms = time and duration.parse(core.number(time) or time)
  if not ms or ms < shortest_ms then
    return nil, "\\watch TIME STATEMENT, with a time of 100ms or more: \\watch 2s mortise.count 'fs'"
  end
  local chunk, why = statement.compile(text, prompt.env)
  if not chunk then return nil, why end
  return function()
    while true do
      prompt.front.write(("%s, each %s\n"):format(holds.iso(core.wall_ms()), duration.text(ms)))
      local result = shown.text(table.pack(chunk()))
      if result then prompt.front.write(result .. "\n") end
      core.sleep(ms)
    end
  end
end}

own.who = {"PATH", "who is in the way of a lock on PATH", function(given, prompt)
  if given == "" then return nil, "\\who PATH" end
  return words.read("\\locks --who " .. given, prompt)
end}

words.leave = "leave" -- in place of a message

own.q = {"", "leave, as ^D does", function() return nil, words.leave end}

own.help = {"[WORD]", "this list, or the help of a command", function(given, prompt)
  return saying(prompt.front, words.help(given))
end}

-- ---- Commands of the program ---------------------------------------------------------------------

-- Those that are of use here. They use the prompt's settings, and clients of their own.
local commands = {
  "locks", "sessions", "watch", "jobs", "get", "search", "count", "put", "edit", "rename", "doctor", "config",
}

local function is_command(name)
  for _, each in ipairs(commands) do
    if each == name then return true end
  end
  return false
end

-- Splits words as a shell does: by blanks, with quotes around what has some. -> a list; or nil and a message
function words.split(text)
  local list, at = {}, 1
  while true do
    at = text:find("[^ \t]", at)
    if not at then return list end
    local word = ""
    while at <= #text and not text:find("^[ \t]", at) do
      local quote = text:match("^['\"]", at)
      local last = quote and text:find(quote, at + 1, true)
      if quote and not last then return nil, "a quote is not closed" end
      word = word .. (quote and text:sub(at + 1, last - 1) or text:sub(at, at))
      at = (last or at) + 1
    end
    list[#list + 1] = word
  end
end

-- \watch is the prompt's where a statement follows it.
local function is_programs(name, rest)
  if name == "watch" then return rest == "" or rest:find "^[-/]" ~= nil end
  return is_command(name)
end

local function all_names()
  local list = {}
  for name in pairs(own) do list[#list + 1] = name end
  for _, name in ipairs(commands) do
    if not own[name] then list[#list + 1] = name end
  end
  table.sort(list, core.before)
  return list
end

-- ---- Reading and helping -------------------------------------------------------------------------

local function overview()
  local rows, listed = {}, {}
  for _, name in ipairs(all_names()) do
    if own[name] then rows[#rows + 1] = {("\\%s %s"):format(name, own[name][1]), own[name][2]} end
  end
  for i, name in ipairs(commands) do listed[i] = "\\" .. name end
  return ("%s\n\nCommands of the program, with their options:\n  %s"):format(columns(rows, "  "),
    table.concat(listed, " "))
end

function words.help(name)
  if name == "" then return overview() end
  name = name:gsub("^\\", "")
  if own[name] then return ("\\%s %s: %s"):format(name, own[name][1], own[name][2]) end
  local text = require("mortise.cli.help").about(program, name)
  if text then return (text:gsub("\n+$", "")) end
  return ("there is no \\%s: \\help lists them"):format(name)
end

-- Reads a line that begins with a backslash. -> as a word's function
function words.read(line, prompt)
  local name, rest = line:match "^[ \t]*\\([A-Za-z?]*)[ \t]*(.-)[ \t;]*$"
  if name == "?" or name == "" then name = "help" end
  if is_programs(name, rest) then
    local list, why = words.split(rest)
    if not list then return nil, why end
    return function()
      if program.within(name, list) ~= 0 then prompt.state.failed = true end
      names.forget()
    end
  end
  if not own[name] then return nil, ("there is no \\%s: \\help lists them"):format(name) end
  return own[name][3](rest, prompt)
end

-- ---- Completion ----------------------------------------------------------------------------------

local function beginning_with(word, list)
  local found = names.starting(list, word)
  table.sort(found, core.before)
  return found
end

local function flags_of(name)
  local list = {}
  for _, row in ipairs(program.command(name).options or {}) do list[#list + 1] = row.flag end
  return list
end

local kinds = {INDEX = "index", JOB = "job", PATH = "path", SESSION = "session"}

-- The candidates for an argument of a command; `before`: what stands before it.
local function for_argument(name, before, word)
  if word:find "^%-" then return beginning_with(word, flags_of(name)) end
  local takes, at = program.command(name).takes or {}, 1
  for other in before:gmatch "[^ \t]+" do
    if other:sub(1, 1) ~= "-" then at = at + 1 end
  end
  local list = {}
  for each in (takes[math.min(at, #takes)] or ""):gmatch "[^ ]+" do
    for _, found in ipairs(kinds[each] and names.beginning(kinds[each], word) or {each}) do
      list[#list + 1] = found
    end
  end
  return beginning_with(word, list)
end

-- As complete.lua, for a line that begins with a backslash.
function words.complete(text)
  local name = text:match "^[ \t]*\\([A-Za-z]*)$"
  if name then return beginning_with(name, all_names()), #text - #name + 1 end
  local before, word
  name, before, word = text:match "^[ \t]*\\([A-Za-z?]+)[ \t]+(.-)([^ \t]*)$"
  if not name then return {}, #text + 1 end
  local from = #text - #word + 1
  if name == "format" then return beginning_with(word, shown.formats), from end
  if name == "help" or name == "?" then return beginning_with(word, all_names()), from end
  if name == "who" then return names.beginning("path", word), from end
  return is_command(name) and for_argument(name, before, word) or {}, from
end

return words
