-- How the prompt shows what a statement gives: as Lua that can be pasted back, as a table, or as JSON.
local core = require "mortise.core"
local json_text = require "mortise.cli.json_text"
local output = require "mortise.cli.output"
local printable = require "mortise.printable"
local printer = require "mortise.printer"

local shown = {}

-- table: lists of documents, locks, jobs and other objects as a table, and all else as Lua.
shown.formats = {"lua", "table", "json"}

local format = "lua"

function shown.format() return format end

-- -> is there such a format?
function shown.set_format(name)
  for _, each in ipairs(shown.formats) do
    if each == name then
      format = name
      return true
    end
  end
  return false
end

-- ---- Tables --------------------------------------------------------------------------------------

local rows_most, columns_most, cell_most, looked_at_most = 1000, 7, 60, 100

local function is_object(value)
  local kind = core.is_view(value)
  if kind then return kind == "document" or kind == "object" end
  return type(value) == "table" and rawlen(value) == 0 and type(next(value)) == "string"
    and not core.is_error(value)
end

-- A list of nothing but objects, at least one.
local function is_list(value)
  if type(value) ~= "table" or rawlen(value) == 0 then return false end
  for key, each in next, value do
    if math.type(key) ~= "integer" or not is_object(each) then return false end
  end
  return true
end

local function get(object, name)
  local ok, value = pcall(function() return object[name] end)
  if ok then return value end
end

-- Those by which people know a thing stand first.
local first = {
  id = 1, _id = 1, job = 1, session = 1, name = 2, path = 3, state = 4, mode = 5, index = 6, kind = 6,
}

local function each_name(object, see)
  if core.is_view(object) == "document" and object._id then see "_id" end
  for name in pairs(object) do
    if type(name) == "string" then see(name) end
  end
end

-- The names of the fields of the first objects: known ones, then the most frequent, as many as fit a table.
local function columns_of(list)
  local counts, names = {}, {}
  for i = 1, math.min(#list, looked_at_most) do
    each_name(list[i], function(name)
      if not counts[name] then names[#names + 1] = name end
      counts[name] = (counts[name] or 0) + 1
    end)
  end
  table.sort(names, function(a, b)
    local rank_a, rank_b = first[a] or 9, first[b] or 9
    if rank_a ~= rank_b then return rank_a < rank_b end
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return core.before(a, b)
  end)
  local left = #names - columns_most
  for i = #names, columns_most + 1, -1 do names[i] = nil end
  return names, math.max(0, left)
end

local function cell(value)
  if value == nil or value == core.null then return "" end
  if type(value) == "string" then return output.shortened(value, cell_most) end
  local ok, text = pcall(core.json, value)
  return output.shortened(ok and text or core.tostring(value), cell_most)
end

local function upper(name) return (name:gsub("[a-z]", function(c) return string.char(c:byte() - 32) end)) end

-- `more`: of how many they are the first, as text.
local function table_text(list, more)
  local names, hidden = columns_of(list)
  local rows = {{}}
  for k, name in ipairs(names) do rows[1][k] = upper(name) end
  for i = 1, math.min(#list, rows_most) do
    local row = {}
    for k, name in ipairs(names) do row[k] = cell(get(list[i], name)) end
    rows[i + 1] = row
  end
  local lines = output.lines(rows, nil)
  local last = ("(%s%s"):format(output.counted(#list, "row", "rows"), more or "")
  if #list > rows_most then last = last .. (", %d shown"):format(rows_most) end
  if hidden > 0 then last = ("%s; %s not shown"):format(last, output.counted(hidden, "field", "fields")) end
  lines[#lines + 1] = last .. ")"
  return table.concat(lines, "\n")
end

-- {locks = a list, sessions = a list}: one table below the other.
local function of_lists(value)
  if not is_object(value) or core.is_view(value) then return nil end
  local names = {}
  for name, each in next, value do
    if type(each) ~= "table" or next(each) ~= nil and not is_list(each) then return nil end
    names[#names + 1] = name
  end
  table.sort(names, core.before)
  local parts = {}
  for i, name in ipairs(names) do
    parts[i] = name .. ":\n" .. (next(value[name]) == nil and "(none)" or table_text(value[name]))
  end
  return table.concat(parts, "\n\n")
end

-- The answer of a search is its documents, unless it has more than these.
local function of_search(value)
  local hits = is_object(value) and get(value, "hits")
  local list = hits and get(hits, "hits")
  if not list or get(value, "aggregations") or get(value, "suggest") then return nil end
  local total, rows = get(hits, "total"), {}
  for i = 1, #list do
    local source = get(list[i], "_source")
    if source == nil then return nil end
    rows[i] = {_id = list[i]._id}
    for name, field in pairs(source) do rows[i][name] = field end
  end
  if #rows == 0 then return "(none)" end
  local least = total and total.relation == "gte" and "at least " or ""
  return table_text(rows, total and (" of %s%d"):format(least, total.value))
end

-- ---- One of them ---------------------------------------------------------------------------------

local function as_json(results)
  local parts = {}
  for i = 1, results.n do
    local ok, text = pcall(core.json, results[i])
    if not ok then return nil end
    parts[i] = printable(json_text.pretty(text), true)
  end
  return table.concat(parts, "\n")
end

local function as_table(results)
  if results.n ~= 1 then return nil end
  if is_list(results[1]) then return table_text(results[1]) end
  return of_search(results[1]) or of_lists(results[1])
end

-- The text of what a statement gave (table.pack's); nil: nothing. What a format cannot show is Lua.
function shown.text(results)
  if results.n == 0 then return nil end
  local text
  if format == "json" then text = as_json(results) elseif format == "table" then text = as_table(results) end
  return text or printer.list(results, results.n)
end

return shown
