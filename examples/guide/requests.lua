-- What the three recipes share: requests with JSON in and out, and a check that stops at surprises.
local cjson = require "cjson"

local requests = {}

local client = mortise.connect()

--- One request. `body` is a table, or a string that is sent as it is (for `_bulk`).
-- Returns the HTTP status and the decoded answer.
function requests.send(method, path, body)
  local text = type(body) == "table" and cjson.encode(body) or body
  local status, answer = client:raw(method, path, text)
  local ok, decoded = pcall(cjson.decode, answer)
  return status, ok and decoded or answer
end

--- The same, where only one of these statuses is expected.
function requests.expect(statuses, method, path, body)
  local status, answer = requests.send(method, path, body)
  for _, expected in ipairs(statuses) do
    if status == expected then return status, answer end
  end
  error(("%s %s answered %d: %s"):format(method, path, status, cjson.encode(answer)))
end

--- A fresh index with keyword fields of these names.
function requests.fresh_index(name, fields)
  requests.expect({200, 404}, "DELETE", "/" .. name)
  local properties = {}
  for _, field in ipairs(fields) do properties[field] = {type = "keyword"} end
  requests.expect({200}, "PUT", "/" .. name, {
    settings = {number_of_shards = 1, number_of_replicas = 0},
    mappings = {properties = properties},
  })
end

function requests.drop_index(name)
  requests.expect({200, 404}, "DELETE", "/" .. name)
end

--- Lines for `_bulk`: each element an action, or a source.
function requests.lines(list)
  local out = {}
  for i, line in ipairs(list) do out[i] = cjson.encode(line) end
  return table.concat(out, "\n") .. "\n"
end

--- A path as one segment of a URL.
function requests.escape(id)
  return (id:gsub("[^%w%-_%.]", function(c) return ("%%%02X"):format(c:byte()) end))
end

return requests
