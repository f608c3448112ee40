-- A namespace that nobody has used before is probably mistyped, and its locks exclude nobody. So the first
-- lock of a client writes a warning to the host's log, once for each store and namespace.
local core = require "mortise.core"
local errors = require "mortise.errors"
local settings = require "mortise.settings"

local namespaces = {}

-- Where `mortise up` has its locks: beside those of the namespaces, so that a script may lock all of its own.
namespaces.up = "mortise-up"

local shown_most = 10

-- Ended sessions stay for a while, so their namespaces are those in use. On a server this is one search for
-- their ids; if they do not all fit into the answer, a namespace that is not among them causes no warning.
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

-- The names in use, sorted; nil if they are not all known.
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

-- Warns if the store has sessions of other namespaces but none of this one. `own` is the core's client. Makes
-- at most one request and ignores its failure, since a real problem will fail elsewhere.
function namespaces.tell(own, table_name)
  local name = own:namespace()
  local place = own:url() .. " " .. table_name .. " " .. name
  local is_ours = name == settings.by_name.namespace.default_value or name == namespaces.up
  if is_ours or asked[place] then return end
  asked[place] = true
  local ok, names, seen = pcall(used, own, table_name, name)
  if not ok and errors.code(names) == "interrupted" then error(names, 0) end
  if not ok or not names or #names == 0 or seen[name] then return end
  local more = #names > shown_most and (" and %d more"):format(#names - shown_most) or ""
  core.warn(("new namespace \"%s\"; there are: %s%s"):format(name,
    table.concat(names, ", ", 1, math.min(#names, shown_most)), more))
end

return namespaces
