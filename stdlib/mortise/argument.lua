-- Checks arguments that must be an id, an index, a path or another name, so that nil, an empty string, a
-- number or a table is reported before anything is sent.
local core = require "mortise.core"
local errors = require "mortise.errors"
local printable = require "mortise.printable"

local argument = {}

-- What is expected instead of this value; nil if it is valid.
function argument.wanted(value)
  if type(value) ~= "string" then return "a string" end
  if value == "" then return "a string that is not empty" end
  if value:find("\0", 1, true) then return "a string without zero bytes" end
end

function argument.shown(value)
  if type(value) == "string" then
    return printable((("%q"):format(value):gsub("\\\n", "\\n"))) -- %q keeps line breaks
  end
  if type(value) == "table" or type(value) == "function" then return "a " .. type(value) end
  return core.tostring(value)
end

-- argument.name("get", "id", id) -> id, or raises: get: `id` is a string, not nil.
function argument.name(call, name, value)
  local wanted = argument.wanted(value)
  if wanted then errors.bad("%s: `%s` is %s, not %s", call, name, wanted, argument.shown(value)) end
  return value
end

-- Checks a list without holes and other keys. -> its length
function argument.list(call, name, list)
  if type(list) ~= "table" then
    errors.bad("%s: `%s` is a list, not %s", call, name, argument.shown(list))
  end
  local n, last = 0, 0
  for key in pairs(list) do
    if math.type(key) ~= "integer" or key < 1 then
      errors.bad("%s: `%s` is a list, without the key %s", call, name, argument.shown(key))
    end
    n, last = n + 1, math.max(last, key)
  end
  if n ~= last then
    local hole = 1
    while list[hole] ~= nil do hole = hole + 1 end
    errors.bad("%s: number %d of `%s` is missing", call, hole, name)
  end
  return n
end

-- Checks a list of names; `empty`: it may be empty. -> the list
function argument.names(call, name, list, empty)
  local n = argument.list(call, name, list)
  if n == 0 and not empty then errors.bad("%s: `%s` is an empty list", call, name) end
  for i = 1, n do
    local wanted = argument.wanted(list[i])
    if wanted then
      errors.bad("%s: number %d of `%s` is %s, not %s", call, i, name, wanted, argument.shown(list[i]))
    end
  end
  return list
end

-- Checks a request's body or a query: a table, JSON text, or nil.
function argument.body(call, name, value)
  if value == nil or type(value) == "table" or core.is_view(value) then return value end
  if type(value) == "string" then return argument.name(call, name, value) end
  errors.bad("%s: `%s` is a table or JSON text, not %s", call, name, argument.shown(value))
end

return argument
