-- Parses the program's command line by rows {flag=, short=, value=, name=, type=, help=}, which also make the
-- help. `value` names the argument of an option that takes one.
local core = require "mortise.core"
local errors = require "mortise.errors"
local options = require "mortise.options"
local suggest = require "mortise.suggest"

local parser = {}

-- The message for secret options, which are refused on purpose.
local refused = "%s is not an option: what stands on a command line can be read by every process of "
  .. "the machine. Put it into a file and name that with %s, or set %s"

local function find(rows, flag)
  for _, row in ipairs(rows) do
    if row.flag and (row.flag == flag or row.short == flag) then return row end
  end
end

local function refuse_secret(rows, flag)
  local file = find(rows, flag .. "-file")
  for _, row in ipairs(file and rows or {}) do
    if row.secret and row.name == file.file_of then errors.bad(refused, flag, file.flag, row.env) end
  end
end

local function unknown(rows, flag)
  refuse_secret(rows, flag)
  local flags = {}
  for _, row in ipairs(rows) do flags[#flags + 1] = row.flag end
  local near = suggest(flag, flags)
  errors.bad("unknown option `%s`%s", flag, near and (": did you mean `%s`?"):format(near) or "")
end

-- Converts a text of the command line to the row's type.
local function convert(row, text)
  if row.type == "string" then return text end
  local value, why = options.read(row, core.number(text) or text)
  if value == nil then errors.bad("%s %s: %s", row.flag, text, why) end
  return value
end

local function take(state, row, attached)
  if not row.value then
    if attached then errors.bad("%s takes no value", row.flag) end
    state.found[row.name] = true
    return
  end
  local text = attached
  if not text then
    state.at = state.at + 1
    text = state.words[state.at]
    if text == nil then errors.bad("%s needs a value: %s %s", row.flag, row.flag, row.value) end
  end
  state.found[row.name] = convert(row, text)
end

-- Parses words from `first` on. -> values by name, the other words, the index of the first word not read.
-- `--` ends it, as does an option whose row has `last` and, with `stop`, the first word that is not an
-- option.
function parser.parse(words, first, rows, stop)
  local state = {words = words, at = first, found = {}}
  local others = {}
  while state.at <= #words do
    local word = words[state.at]
    if word == "--" then
      state.at = state.at + 1
      break
    elseif word == "-" or word:sub(1, 1) ~= "-" then
      if stop then break end
      others[#others + 1] = word
    else
      local flag, attached = word:match "^(%-%-[^=]+)=(.*)$"
      local row = find(rows, flag or word) or unknown(rows, flag or word)
      take(state, row, attached)
      if row.last then
        state.at = state.at + 1
        break
      end
    end
    state.at = state.at + 1
  end
  if not stop then table.move(words, state.at, #words, #others + 1, others) end
  return state.found, others, state.at
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
  return parser.columns(list, "  ")
end

return parser
