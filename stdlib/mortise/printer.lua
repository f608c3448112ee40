-- Prints values as Lua that can be pasted back: format(value) is an expression for an equal value. What
-- cannot be written (functions, userdata, a table inside itself) becomes nil with a comment.
local core = require "mortise.core"
local printable = require "mortise.printable"

local reference = require("mortise.later") "mortise.reference"

local printer = {}

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat
  return then true until while]]):gmatch "[a-z]+" do keywords[word] = true end

local defaults = {width = 100, depth = 12, items = 1000, total = math.huge, text = math.huge}
-- How much `print` and tostring show of a document or a result.
local brief = {depth = 8, items = 50, total = 200, text = 300}

-- ---- Scalars -------------------------------------------------------------------------------------

-- UTF-8 stays readable, except characters that control a terminal; other bytes outside ASCII are escaped.
local function quote(s)
  return '"' .. printable((s:gsub('["\\]', "\\%0"))) .. '"'
end

-- The first `most` bytes, without cutting a UTF-8 character, and how many were left out.
local function string_text(s, most)
  if #s <= most then return quote(s) end
  local last = most
  while last > most - 4 and s:byte(last + 1) & 0xc0 == 0x80 do last = last - 1 end
  return ("%s--[[and %d bytes more]]"):format(quote(s:sub(1, last)), #s - last)
end

local function number(n)
  if math.type(n) == "integer" then
    return n == math.mininteger and "math.mininteger" or core.tostring(n)
  end
  if n ~= n then return "(0/0)" end
  if n == math.huge then return "math.huge" end
  if n == -math.huge then return "-math.huge" end
  return core.tostring(n)
end

local function comment(state, value)
  local known = type(value) == "function" and reference.of_function(value)
  if known and state.alone then return "function " .. known end
  local text = known and "function " .. known:match "^(.-): "
    or printable((core.tostring(value):gsub("[\0-\31\127]", " "))):gsub("%]", ")")
  if #text > 200 then text = text:sub(1, 200) .. "..." end
  return (state.alone and "--[[" or "nil --[[") .. text .. "]]"
end

-- ---- Tables --------------------------------------------------------------------------------------

local rank = {number = 1, string = 2, boolean = 3}

local function before(a, b)
  local ra, rb = rank[type(a)] or 4, rank[type(b)] or 4
  if ra ~= rb then return ra < rb end
  if ra == 1 then return a < b end
  return core.before(core.tostring(a), core.tostring(b))
end

local function other_keys(t, length)
  local keys = {}
  for key in next, t do
    if math.type(key) ~= "integer" or key < 1 or key > length then keys[#keys + 1] = key end
  end
  table.sort(keys, before)
  return keys
end

local function key_text(key)
  if type(key) == "string" and key:find "^[A-Za-z_][0-9A-Za-z_]*$" and not keywords[key] then return key end
  if type(key) == "string" then return "[" .. quote(key) .. "]" end
  if type(key) == "number" then return "[" .. number(key) .. "]" end
  if type(key) == "boolean" then return "[" .. core.tostring(key) .. "]" end
end

local render

local function entries(state, t, depth)
  local list, length = {}, rawlen(t)
  local function is_full() return #list >= state.items or state.total <= 0 end
  for i = 1, length do
    if is_full() then break end
    state.total = state.total - 1
    list[#list + 1] = render(state, rawget(t, i), depth) .. ","
  end
  local keys = other_keys(t, length)
  for _, key in ipairs(keys) do
    if is_full() then break end
    state.total = state.total - 1
    local name = key_text(key)
    if name then
      list[#list + 1] = name .. " = " .. render(state, rawget(t, key), depth) .. ","
    else
      list[#list + 1] = "--[[a " .. type(key) .. " as key]]"
    end
  end
  local hidden = length + #keys - #list
  if hidden > 0 then list[#list + 1] = ("--[[and %d more]]"):format(hidden) end
  return list
end

local function brace(state, list, depth)
  if #list == 0 then return "{}" end
  local line = "{" .. table.concat(list, " "):gsub(",$", "") .. "}"
  if #line + 2 * depth <= state.width and not line:find "\n" then return line end
  local indent = ("  "):rep(depth)
  return "{\n" .. indent .. "  " .. table.concat(list, "\n" .. indent .. "  ") .. "\n" .. indent .. "}"
end

local marks = {
  [debug.getmetatable(core.array {})] = "mortise.array ",
  [debug.getmetatable(core.object {})] = "mortise.object ",
}

-- The mark of core.array or core.object matters only for an empty table.
local function mark(t)
  return next(t) == nil and marks[debug.getmetatable(t)] or ""
end

local function has_own_text(t)
  local meta = debug.getmetatable(t)
  return meta and meta.__tostring and not marks[meta] and not core.is_error(t)
end

local function table_text(state, t, depth)
  if has_own_text(t) then return comment(state, t) end
  state.alone = false
  if state.open[t] then return "nil --[[the table itself]]" end
  if depth >= state.depth then return "nil --[[a table, too deep]]" end
  state.open[t] = true
  local text = mark(t) .. brace(state, entries(state, t, depth + 1), depth)
  state.open[t] = nil
  return text
end

local function userdata_text(state, value, depth)
  if value == core.null then return "mortise.null" end
  local kind = core.is_view(value)
  if not kind then return comment(state, value) end
  return table_text(state, core.json_decode(core.json(value)), depth)
end

function render(state, value, depth)
  local kind = type(value)
  if kind == "string" then return string_text(value, state.text) end
  if kind == "number" then return number(value) end
  if kind == "table" then return table_text(state, value, depth) end
  if kind == "userdata" then return userdata_text(state, value, depth) end
  if kind == "nil" or kind == "boolean" then return core.tostring(value) end
  return comment(state, value)
end

-- ---- The module ----------------------------------------------------------------------------------

-- `given`: width of a line, depth of tables, items of one table and in total, bytes of a string.
function printer.format(value, given)
  local state = {open = {}, alone = given and given.alone}
  for name, default in pairs(defaults) do state[name] = given and given[name] or default end
  return render(state, value, 0)
end

-- Several values, as an expression list; a single one that cannot be written is only a comment.
function printer.list(values, n)
  local list = {}
  if n == 1 then return printer.format(values[1], {alone = true}) end
  for i = 1, n do list[i] = printer.format(values[i]) end
  local line = table.concat(list, ", ")
  if #line <= defaults.width and not line:find "\n" then return line end
  return table.concat(list, ",\n")
end

-- ---- tostring --------------------------------------------------------------------------------------

-- The content of a value for `print`, shortened, with a note of what was left out.
function printer.brief(value)
  return printer.format(value, brief)
end

for meta in pairs(marks) do meta.__tostring = printer.brief end

local view_meta = debug.getmetatable(core.view "{}")
local closed_text = view_meta.__tostring

function view_meta.__tostring(view)
  local ok, text = pcall(printer.brief, view)
  if not ok then return closed_text(view) end
  if core.is_view(view) ~= "document" then return text end
  local name = view._id and (view._index and view._index .. "/" or "") .. view._id .. " " or ""
  return "document " .. printable(name) .. text
end

return printer
