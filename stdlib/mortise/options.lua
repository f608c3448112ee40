-- Checks tables of options against rows of {name=, type=, default=, required=, help=}, for numbers also
-- least=, most= and range=, their text. The same rows print the help.
local core = require "mortise.core"
local argument = require "mortise.argument"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local suggest = require "mortise.suggest"

local options = {}

local size_units = {[""] = 1, k = 2^10, m = 2^20, g = 2^30}

-- Bytes, from a whole number or text like "64MB"; nil if it is neither.
function options.parse_size(value)
  if type(value) == "string" then
    local number, unit = core.lower(value):match "^(%d+)[ \t]*([kmg]?)i?b?$"
    value = number and (core.number(number) or math.huge) * size_units[unit]
  end
  local whole = type(value) == "number" and math.tointeger(value)
  return whole and whole > 0 and whole or nil
end

local function plain(name)
  return function(value) return type(value) == name and value or nil, "a " .. name end
end

-- Each returns the value to use, or nil and what is expected. `false` is a value.
local readers = {
  string = function(value) -- a name, an index, a file: never empty
    local wanted = argument.wanted(value)
    return not wanted and value or nil, wanted
  end,
  table = plain "table",
  ["function"] = plain "function",
  boolean = function(value)
    if type(value) == "boolean" then return value end
    return nil, "true or false"
  end,
  integer = function(value)
    return type(value) == "number" and math.tointeger(value) or nil, "a whole number"
  end,
  count = function(value)
    local whole = type(value) == "number" and math.tointeger(value)
    return whole and whole > 0 and whole or nil, "a whole number above 0"
  end,
  duration = duration.parse,
  size = function(value) return options.parse_size(value), 'a number of bytes or text like "64MB"' end,
  -- Query DSL: a table, or JSON text.
  query = function(value)
    local good = type(value) == "table" or argument.wanted(value) == nil
    return good and value or nil, "a table or JSON text"
  end,
  any = function(value) return value end,
  -- One name or a list of them.
  names = function(value)
    local list = type(value) == "table" and value or {value}
    local good = #list > 0
    for _, each in ipairs(list) do good = good and not argument.wanted(each) and not each:find "\n" end
    return good and value or nil, "a name or a list of names"
  end,
}

local function show(value)
  return type(value) == "string" and ("%q"):format(value) or core.tostring(value)
end

local function is_outside(row, number)
  return row.least and number < row.least or row.most and number > row.most
end

-- Reads one value by its row: the value to use, or nil and what is wrong.
function options.read(row, value)
  local result, wanted = readers[row.type](value)
  if result == nil then return nil, ("%s, not %s"):format(wanted, show(value)) end
  if is_outside(row, result) then return nil, ("%s, not %s"):format(row.range, show(value)) end
  if row.values then
    for _, each in ipairs(row.values) do
      if each == result then return result end
    end
    return nil, ("one of %s, not %s"):format(table.concat(row.values, ", "), show(value))
  end
  return result
end

local function find(rows, name)
  for _, row in ipairs(rows) do
    if row.name == name then return row end
  end
end

local function unknown(what, rows, name)
  if type(name) ~= "string" then
    errors.bad("%s: the name of an option is a string, not %s", what, show(name))
  end
  local names = {}
  for i, row in ipairs(rows) do names[i] = row.name end
  local near = suggest(name, names)
  if near then errors.bad("%s: unknown option `%s`: did you mean `%s`?", what, name, near) end
  errors.bad("%s: unknown option `%s`; there are: %s", what, name, table.concat(names, ", "))
end

-- Returns a new table of checked values with defaults; `what` names the call in messages. `given` may be nil.
-- Raises invalid_argument.
function options.check(what, rows, given)
  if given ~= nil and type(given) ~= "table" then
    errors.bad("%s: options are a table, not a %s", what, type(given))
  end
  local out = {}
  for name, value in pairs(given or {}) do
    local row = find(rows, name) or unknown(what, rows, name)
    local result, why = options.read(row, value)
    if result == nil then errors.bad("%s: option `%s` is %s", what, name, why) end
    out[name] = result
  end
  for _, row in ipairs(rows) do
    if out[row.name] == nil then out[row.name] = row.default end
    if row.required and out[row.name] == nil then
      errors.bad("%s: option `%s` is missing (%s)", what, row.name, row.help)
    end
  end
  return out
end

-- The rows of each call, for its help, by the name of the client's function or as "lock:upgrade".
options.known = {}

function options.register(names, rows)
  for _, name in ipairs(names) do options.known[name] = rows end
end

-- Joins several lists of rows.
function options.join(...)
  local all = {}
  for _, rows in ipairs {...} do table.move(rows, 1, #rows, #all + 1, all) end
  return all
end

return options
