-- Parses the program's command line by rows {flag=, short=, value=, name=, type=, help=}, which also make the
-- help. `value` names the argument of an option that takes one; one with `list` may be given several times.
--
-- Options are known wherever they stand before `--`, which ends them: what follows it is never an option.
local core = require "mortise.core"
local errors = require "mortise.errors"
local options = require "mortise.options"
local suggest = require "mortise.suggest"

local parser = {}

-- The message for secret options, which are refused on purpose.
local refused = "%s is not an option: what stands on a command line can be read by every process of "
  .. "the machine. Put it into a file and name that with %s, or set %s"

-- The row of this flag, or nil.
function parser.find(rows, flag)
  for _, row in ipairs(rows) do
    if row.flag and (row.flag == flag or row.short == flag) then return row end
  end
end

-- An option's flag and the value attached to it, if there is one; nil: the word is no option.
local function split(word)
  if word == "-" or word == "--" or word:sub(1, 1) ~= "-" then return nil end
  local flag, attached = word:match "^(%-%-[^=]+)=(.*)$"
  return flag or word, attached
end

local function refuse_secret(rows, flag)
  local file = parser.find(rows, flag .. "-file")
  for _, row in ipairs(file and rows or {}) do
    if row.secret and row.name == file.file_of then errors.bad(refused, flag, file.flag, row.env) end
  end
end

-- The commands that have this option: {"`mortise jobs`", ...}
local function commands_with(flag)
  local cli, found = require "mortise.cli", {}
  for _, name in ipairs(cli.commands) do
    local ok, command = pcall(cli.command, name)
    if ok and parser.find(command.options or {}, flag) then
      found[#found + 1] = ("`mortise %s`"):format(name)
    end
  end
  return found
end

-- Raises the error for an option that is not among the rows; `hint` (may be nil) ends its text.
function parser.refuse(rows, flag, hint)
  refuse_secret(rows, flag)
  local flags = {}
  for _, row in ipairs(rows) do flags[#flags + 1] = row.flag end
  local others = commands_with(flag)
  local near = #others == 0 and suggest(flag, flags)
  local said = near and (": did you mean `%s`?"):format(near) or ""
  if #others > 0 then said = (": it belongs to %s"):format(table.concat(others, ", ")) end
  errors.bad("unknown option `%s`%s%s", flag, said, hint and (" (%s)"):format(hint) or "")
end

-- Converts a text of the command line to the row's type.
local function convert(row, text)
  if row.type == "string" and not row.values then return text end
  local value, why = options.read(row, row.type ~= "string" and core.number(text) or text)
  if value == nil then errors.bad("%s %s: %s", row.flag, text, why) end
  return value
end

-- The word behind an option as its value. One that looks like an option (not a number, as -1) is most likely
-- one, so that the value is missing.
local function next_value(row, word)
  if word == nil then errors.bad("%s needs a value: %s %s", row.flag, row.flag, row.value) end
  local looks = word == "--" and word or word:match "^%-%-?[A-Za-z][0-9A-Za-z-]*$"
    or word:match "^(%-%-?[A-Za-z][0-9A-Za-z-]*)="
  if not looks then return word end
  errors.bad("%s needs a value: %s %s (one that looks like an option, as `%s`, is given as %s=%s)", row.flag,
    row.flag, row.value, looks, row.flag, row.value)
end

-- The first word that is no option, nor an option's value; nil: there is none, or an option whose row says
-- `instead` stands before it. `find_row(flag)` -> the option's row
function parser.first(words, find_row)
  local at = 1
  while words[at] and words[at] ~= "--" do
    local flag, attached = split(words[at])
    if not flag then return words[at] end
    local row = find_row(flag)
    if row.instead then return nil end
    at = at + (row.value and not attached and 2 or 1)
  end
  return words[at + 1]
end

-- Parses all words; `hint` as in parser.refuse. -> values by name, the words that are no options, and
-- how many of these stand behind `--`
function parser.parse(words, rows, hint)
  local found, others, at = {}, {}, 1
  while words[at] and words[at] ~= "--" do
    local flag, attached = split(words[at])
    local row = flag and (parser.find(rows, flag) or parser.refuse(rows, flag, hint))
    if not row then
      others[#others + 1] = words[at]
    elseif row.value then
      if not attached then at = at + 1 end
      local value = convert(row, attached or next_value(row, words[at]))
      if row.list then
        found[row.name] = found[row.name] or {}
        table.insert(found[row.name], value)
      else
        found[row.name] = value
      end
    else
      if attached then errors.bad("%s takes no value", row.flag) end
      found[row.name] = true
    end
    at = at + 1
  end
  table.move(words, at + 1, #words, #others + 1, others)
  return found, others, math.max(0, #words - at)
end

-- ---- Help ----------------------------------------------------------------------------------------

-- Formats pairs as two columns.
function parser.columns(pairs_list, indent)
  local width = 0
  for _, each in ipairs(pairs_list) do width = math.max(width, utf8.len(each[1]) or #each[1]) end
  local lines = {}
  for i, each in ipairs(pairs_list) do
    local pad = (" "):rep(width - (utf8.len(each[1]) or #each[1]) + 2)
    lines[i] = ((indent or "") .. each[1] .. pad .. each[2]):gsub("[ \n]+$", "")
  end
  return table.concat(lines, "\n")
end

local columns_most, indent = 110, "  "

-- Breaks the right sides, so that no line is too long.
local function wrap(list)
  local width = 0
  for _, each in ipairs(list) do width = math.max(width, utf8.len(each[1]) or #each[1]) end
  local room, pad = columns_most - #indent - width - 2, "\n" .. (" "):rep(#indent + width + 2)
  for _, each in ipairs(list) do
    local lines, line = {}, nil
    for word in each[2]:gmatch "[^ ]+" do
      local length = utf8.len(word) or #word
      if line and (utf8.len(line) or #line) + 1 + length > room then
        lines[#lines + 1], line = line, nil
      end
      line = line and line .. " " .. word or word
    end
    lines[#lines + 1] = line
    each[2] = table.concat(lines, pad)
  end
end

function parser.help(rows)
  local list = {}
  for _, row in ipairs(rows) do
    if row.flag then
      local short, value = row.short and row.short .. ", " or "", row.value and " " .. row.value or ""
      local left = short .. row.flag .. value
      local default = row.default_text and (" (%s)"):format(row.default_text) or ""
      list[#list + 1] = {left, row.help .. default}
    end
  end
  wrap(list)
  return parser.columns(list, indent)
end

return parser
