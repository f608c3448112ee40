-- A namespace that nobody used before is probably one that is mistyped: its locks exclude nobody. So
-- the first lock of a client says so, once for a store and namespace, by the host's log.
local core = require "mortise.core"
local errors = require "mortise.errors"
local settings = require "mortise.settings"

local namespaces = {}

local shown_most = 10

-- Sessions stay when they have ended, so theirs are the namespaces in use. On a server, one search for
-- their ids; where they do not fit into it, nothing is said of those that were not seen.
local everyone = core.json {
  size = 10000, _source = false, track_total_hits = true,
  query = {term = {kind = "session"}}, sort = {{beat_at = "desc"}},
}

local function search_ids(own, table_name)
  local status, answer = own:raw("POST",
    ("/%s/_search?filter_path=hits.total.value,hits.hits._id"):format(table_name), everyone)
  local hits = status == 200 and core.json_decode(answer).hits
  if not hits then return nil end
  local list = hits.hits or {}
  for i, hit in ipairs(list) do list[i] = hit._id:match "^([^:]*):@" end
  return list, hits.total.value > #list
end

local function list_sessions(own)
  local names = {}
  local list <close> = own:list {kind = "sessions", over = true}
  for page in function() return list:next() end do
    for _, session in ipairs(core.json_decode(page)) do names[#names + 1] = session.ns end
  end
  return names, false
end

-- The names in use, sorted; nil where they cannot be told, or not all.
local function used(own, table_name, mine)
  local find = own:url():find "^sqlite:" and list_sessions or search_ids
  local list, more = find(own, table_name)
  local names, seen = {}, {}
  for _, name in ipairs(list or {}) do
    if not seen[name] then names[#names + 1] = name end
    seen[name] = true
  end
  if not list or (more and not seen[mine]) then return nil end
  table.sort(names, core.before)
  return names, seen
end

local asked = {}

-- Warns where no session of the store was ever of this namespace, but some of others. `own` is the
-- core's client. At most one request; one that fails says nothing: what matters fails by itself.
function namespaces.tell(own, table_name)
  local name = own:namespace()
  local place = own:url() .. " " .. table_name .. " " .. name
  if name == settings.by_name.namespace.default_value or asked[place] then return end
  asked[place] = true
  local ok, names, seen = pcall(used, own, table_name, name)
  if not ok and errors.code(names) == "interrupted" then error(names, 0) end
  if not ok or not names or #names == 0 or seen[name] then return end
  local more = #names > shown_most and (" and %d more"):format(#names - shown_most) or ""
  core.warn(("new namespace \"%s\"; there are: %s%s"):format(name,
    table.concat(names, ", ", 1, math.min(#names, shown_most)), more))
end

return namespaces
