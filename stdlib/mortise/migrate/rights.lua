-- What this user may not do of what a migration does, asked before it begins: by requests that are never
-- carried out, since something in them is wrong, but of which the server says first whether they are allowed.
-- (The right to block the source can't be asked for like that.)
local core = require "mortise.core"
local segment = require "mortise.segment"

local rights = {}

local unknown_setting = '{"index.mortise_probe": 1}'

-- {client, what it is for, method, path, body}
local function probes_of(m)
  local from, to = segment(m.spec.from), segment(m.spec.to)
  local list = {
    {m.client, "refresh index " .. m.spec.from, "POST", "/" .. from .. "/_refresh"},
    {m.client, "change settings of index " .. m.spec.from .. ", which lifts its block", "PUT",
      "/" .. from .. "/_settings", unknown_setting},
    {m.to_client, "write into index " .. m.spec.to, "PUT",
      "/" .. to .. "/_doc/mortise-probe?require_alias=true", "{}"},
    {m.to_client, "change settings of index " .. m.spec.to, "PUT", "/" .. to .. "/_settings",
      unknown_setting},
  }
  if not m.spec.given then
    list[#list + 1] = {m.to_client, "create index " .. m.spec.to, "PUT", "/" .. to,
      '{"settings": {"index.number_of_shards": 0}}'}
  end
  if m.spec.alias then
    local action = core.object {index = m.spec.from, alias = "mortise-probe", must_exist = true}
    list[#list + 1] = {m.client, "move aliases of index " .. m.spec.from, "POST", "/_aliases",
      core.json {actions = core.array {{remove = action}}}}
  end
  return list
end

local function is_denied(status) return status == 401 or status == 403 end

-- The server's reason; nil: it is allowed, or not known.
local function denial(client, method, path, body)
  local ok, status, text = pcall(client.raw, client, method, path, body)
  if not ok or not is_denied(status) then return nil end
  local parsed, answer = pcall(core.json_decode, text)
  return parsed and answer.error and answer.error.reason or text
end

-- Elasticsearch says of single documents only when it writes them, but tells a user's own rights.
local function may_not_write(client, index)
  local wanted = core.object {names = core.array {index}, privileges = core.array {"write"}}
  local body = core.json {index = core.array {wanted}}
  local ok, status, text = pcall(client.raw, client, "POST", "/_security/user/_has_privileges", body)
  return ok and status == 200 and core.json_decode(text).has_all_requested == false
end

-- Of servers: {{what=, reason=}, ...}
function rights.missing(m)
  local found = {}
  for _, each in ipairs(probes_of(m)) do
    local client, what = each[1], each[2]
    if not client:_is_embedded() then
      local reason = denial(client, each[3], each[4], each[5])
      if reason then found[#found + 1] = {what = what, reason = reason:sub(1, 200)} end
    end
  end
  if not m.to_client:_is_embedded() and may_not_write(m.to_client, m.spec.to) then
    found[#found + 1] = {what = "write into index " .. m.spec.to, reason = "missing privilege write"}
  end
  return found
end

return rights
