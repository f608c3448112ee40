-- Converts Lua values to request bodies. Documents that come back are views and are not decoded.
local argument = require "mortise.argument"
local core = require "mortise.core"
local errors = require "mortise.errors"

local json = {}

-- Marks empty tables as objects, as in match_all = {}; marked tables stay as they are.
local function marked(value, depth)
  if type(value) ~= "table" or getmetatable(value) then return value end
  if depth > 100 then errors.bad("a request body is nested too deeply, or contains itself") end
  if next(value) == nil then return core.object {} end
  local copy = {}
  for key, each in pairs(value) do copy[key] = marked(each, depth + 1) end
  return copy
end

-- A request body or query as JSON text: tables are encoded, text is taken as it is, nil stays nil.
function json.body(value)
  if value == nil or type(value) == "string" then return value end
  return core.json(marked(value, 0))
end

-- A document's source, for `call`: JSON text, a view, or a table. An empty table must be marked by
-- mortise.array or mortise.object, since it is ambiguous.
function json.source(value, call)
  if type(value) == "string" then return argument.name(call, "source", value) end
  if type(value) ~= "table" and not core.is_view(value) then
    errors.bad("%s: `source` is a table, JSON text or a document, not %s", call, argument.shown(value))
  end
  local ok, result = pcall(core.json, value)
  if ok then return result end
  if errors.code(result) ~= "invalid_argument" then error(result, 0) end
  errors.bad("%s: `source`: %s", call, result.message)
end

return json
