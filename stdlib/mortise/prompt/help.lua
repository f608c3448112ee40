-- Words of the prompt beside Lua: help, quit, exit and ?, and hints for shell commands typed there. Scripts
-- do not see them.
local columns = require("mortise.cli.parser").columns
local core = require "mortise.core"
local printable = require "mortise.printable"
local reference = require "mortise.reference"
local suggest = require "mortise.suggest"

local help = {}

-- ---- Help ----------------------------------------------------------------------------------------

local function wrap(words, indent)
  local lines, line = {}, ""
  for _, word in ipairs(words) do
    if #line + #word + #indent > 98 then
      lines[#lines + 1], line = line, ""
    end
    line = line .. (line == "" and "" or " ") .. word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n" .. indent)
end

local function overview()
  local list = {}
  for i, group in ipairs(reference.groups) do
    local names = {}
    for k, row in ipairs(group[3]) do names[k] = row[1] end
    list[i] = {group[1], wrap(names, (" "):rep(12))}
  end
  return table.concat({
    "The prompt runs Lua and prints what an expression gives. The functions of a client are those of the",
    "default client, too: mortise.get, mortise.with_tree_lock, ...",
    "", columns(list, "  "), "",
    "help NAME, or ?NAME, says more: help scan, help lock, help lock:upgrade. `_` is the last result. What",
    "begins with a backslash is a command of the prompt or of the program, as \\locks tree; \\help lists",
    "them. quit, exit or ^D leaves and gives back every lock.", "",
  }, "\n")
end

local function options_text(rows)
  local list = {}
  for i, row in ipairs(rows) do
    local default = row.default_text or row.default
    list[i] = {row.name, row.help .. (default ~= nil and (" (%s)"):format(core.tostring(default)) or "")}
  end
  return "options:\n" .. columns(list, "  ") .. "\n"
end

local function rows_text(rows)
  local parts = {}
  for _, row in ipairs(rows) do
    parts[#parts + 1] = reference.line(row) .. "\n"
    if row.options then parts[#parts + 1] = options_text(row.options) end
  end
  return table.concat(parts)
end

local function group_text(name)
  local rows, what = reference.group(name)
  local list = {}
  for i, row in ipairs(rows) do list[i] = {row.signature, row.does} end
  return what .. ":\n" .. columns(list, "  ") .. "\n"
end

local function named_text(name)
  if name == "mortise" then return overview() end
  local rows, is_group = reference.find(name), reference.group(name) ~= nil
  if #rows > 0 or is_group then return rows_text(rows) .. (is_group and group_text(name) or "") end
  local near = suggest(name:match "[0-9A-Za-z_]*$", reference.names())
  return ("there is no help for `%s`%s\n"):format(printable(name),
    near and (": did you mean `%s`?"):format(near) or "; `help` alone lists the names")
end

local function value_text(value)
  local line = type(value) == "function" and reference.of_function(value)
  if line then return rows_text(reference.find(line:match "^[0-9A-Za-z_.:]+")) end
  if core.is_view(value) then return group_text "document" end
  for _, holder in ipairs(reference.holders()) do
    if value == holder[2] then return overview() end
    if type(value) == "table" and debug.getmetatable(value) == holder[2] then return group_text(holder[1]) end
  end
  if core.tostring(value):find "^task" then return group_text "task" end
  return ("there is no help for a %s of yours or of Lua's\n"):format(type(value))
end

-- The overview, or the help for a name or a value.
function help.text(what)
  if what == nil then return overview() end
  return type(what) == "string" and named_text(what) or value_text(what)
end

-- ---- Words ---------------------------------------------------------------------------------------

help.words = {"help", "quit", "exit"}

local function is_ours(env, word)
  return env[word] == nil or env[word] == help[word]
end

-- Reads the prompt's own words: "quit", or nil and the name to help with ("": none). Nothing if it is Lua, as
-- when there is a variable of that name.
function help.read(text, env)
  local wanted = text:match "^[ \t]*%?[ \t]*([0-9A-Za-z_.:]*)[ \t]*$"
  if not wanted and is_ours(env, "help") then
    wanted = text:find "^[ \t]*help[ \t]*%(?[ \t]*%)?[ \t]*$" and ""
      or text:match "^[ \t]*help[ \t]+([A-Za-z_][0-9A-Za-z_.:]*)[ \t]*$"
  end
  if wanted then return nil, wanted end
  local word = text:match "^[ \t]*([A-Za-z]+)[ \t]*%(?[ \t]*%)?[ \t]*;?[ \t]*$"
  if (word == "quit" or word == "exit") and is_ours(env, word) then return "quit" end
end

-- Makes `help` a function in `env`, for help "scan" and help(mortise.scan).
function help.install(env, write)
  if env.help ~= nil then return end
  function help.help(what) write(help.text(what)) end
  env.help = help.help
end

-- ---- Hints ---------------------------------------------------------------------------------------

-- The program's commands and what to type here.
local commands = {
  rename = "mortise.rename {index = ..., from = ..., to = ...}, or \\rename",
  init = "mortise.init()", run = "\\i FILE", version = "mortise.version", repl = false, mortise = false,
}
for _, name in ipairs {"locks", "sessions", "jobs", "watch", "doctor", "config"} do
  commands[name] = "\\" .. name
end

local shell = {
  ls = true, cd = true, pwd = true, cat = true, sudo = true, man = true, less = true, grep = true,
  curl = true, sqlite3 = true, vi = true, clear = true, echo = true,
}

local function hint_for(word, rest)
  if word == "mortise" then
    if not rest:find "^[ \t]+[A-Za-z]" then return nil end
    word = rest:match "^[ \t]+([A-Za-z]+)"
  end
  if commands[word] ~= nil then
    return ("`%s` is a command of the program, for the shell: mortise %s%s"):format(word, word,
      commands[word] and "; here it is " .. commands[word] or "")
  end
  if shell[word] then
    return ("this is a prompt for Lua, not a shell: os.execute \"%s\" runs a command, and `help` lists "
      .. "what there is"):format(word)
  end
  local row = reference.find("mortise." .. word)[1]
  if row then return "there is " .. reference.line(row) end
end

-- A hint for a statement that is not Lua or begins with an unknown name; nil if there is none.
function help.hint(text, env)
  local word, rest = text:match "^[ \t]*([A-Za-z_][0-9A-Za-z_]*)(.*)$"
  if not word or (env[word] ~= nil and word ~= "mortise") then return nil end
  return hint_for(word, rest)
end

return help
