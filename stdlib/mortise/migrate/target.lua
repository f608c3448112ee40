-- The target of a migration: what it is to be, and what it is while it is filled.
--
-- It is made with the settings and mappings of the source, over which the given ones are laid. While it is
-- filled it has no replicas, is not refreshed, and does not forget what was deleted: late copies of that must
-- be refused. That it is ours is noted in its mappings, as `_meta.mortise_migration`.
local core = require "mortise.core"
local errors = require "mortise.errors"
local segment = require "mortise.segment"

local target = {}

local MARK <const> = "mortise_migration"
local NEVER <const> = "30d" -- longer than any copy is under way

local function own_name(m) return m.client:namespace() .. ":" .. m.id end

-- ---- What it is to be ----------------------------------------------------------------------------

-- {["index.analysis.analyzer.x.type"] = "standard", ...}: nested settings and dotted ones, by their full
-- names.
local function flatten(settings, above, into)
  for name, value in pairs(settings) do
    local full = above .. name
    if type(value) == "table" and #value == 0 and next(value) ~= nil then
      flatten(value, full .. ".", into)
    else
      into[full] = value
    end
  end
  return into
end

local function full_names(settings)
  local found = {}
  for name, value in pairs(flatten(settings or {}, "", {})) do
    found[name:sub(1, 6) == "index." and name or "index." .. name] = value
  end
  return found
end

-- Of the source's settings: what the server itself has put there, or is of that index alone. Each with all
-- below it.
local own_settings = {}
for _, name in ipairs {
  "uuid", "creation_date", "creation_date_string", "provided_name", "version", "resize", "blocks", "history",
  "lifecycle", "plugins", "opendistro", "verified_before_close", "routing.allocation.initial_recovery",
} do own_settings["index." .. name] = true end

local function is_own(name)
  while name do
    if own_settings[name] then return true end
    name = name:match "^(.*)%."
  end
  return false
end

-- A number of shards does not fit another one's routing.
local function drop_dependent(settings, given)
  if given["index.number_of_shards"] ~= nil and given["index.number_of_routing_shards"] == nil then
    settings["index.number_of_routing_shards"] = nil
  end
end

-- "opensearch", "elasticsearch" or "embedded"; nil: it cannot be seen.
local function kind_of(client)
  if client:_is_embedded() then return "embedded" end
  local status, text = client:raw("GET", "/")
  local version = status == 200 and core.json_decode(text).version
  return version and (version.distribution or "elasticsearch") or nil
end

-- What servers of one kind put into each index, and those of another refuse, or cannot fulfil.
local of_one_kind = {"index.replication.type", "index.routing.allocation.include._tier_preference"}

local function drop_foreign(m, settings)
  local other = m.to_client
  if not other or other == m.client or kind_of(m.client) == kind_of(other) then return end
  for _, name in ipairs(of_one_kind) do settings[name] = nil end
end

local function settings_of(m, source)
  local settings, given = {}, full_names(m.spec.settings)
  for name, value in pairs(full_names(source.settings)) do
    if not is_own(name) then settings[name] = value end
  end
  drop_dependent(settings, given)
  drop_foreign(m, settings)
  for name, value in pairs(given) do settings[name] = value ~= core.null and value or nil end
  return settings
end

-- The properties of `given` replace those of the same name, but for objects in which only some are named;
-- null removes one.
local function lay_over(properties, given)
  for name, field in pairs(given) do
    local before = properties[name]
    local deeper = before and before.properties and type(field) == "table" and field.properties
    if field == core.null then
      properties[name] = nil
    elseif deeper then
      for key, value in pairs(field) do
        if key ~= "properties" then before[key] = value end
      end
      lay_over(before.properties, field.properties)
    else
      properties[name] = field
    end
  end
end

local function mappings_of(m, source)
  local mappings = core.json_decode(core.json(source.mappings or core.object {}))
  for name, value in pairs(m.spec.mappings or {}) do
    if name == "properties" then
      mappings.properties = mappings.properties or core.object {}
      lay_over(mappings.properties, value)
    else
      mappings[name] = value ~= core.null and value or nil
    end
  end
  return mappings
end

-- The source as the store describes it.
local function describe(client, index)
  local described = client:describe(index)
  return described.exists and core.json_decode(described.json)[index] or nil
end

target.describe = describe

-- {settings= (by their full names), mappings=}: what it is to be at the end.
function target.body(m)
  local source = describe(m.client, m.spec.from)
  return core.object {
    settings = core.object(settings_of(m, source)), mappings = core.object(mappings_of(m, source)),
  }
end

-- ---- Making it -----------------------------------------------------------------------------------

local while_filled = {"index.number_of_replicas", "index.auto_expand_replicas", "index.refresh_interval",
  "index.gc_deletes"}

local filling = {
  ["index.number_of_replicas"] = "0", ["index.auto_expand_replicas"] = "false",
    ["index.refresh_interval"] = "-1",
  ["index.gc_deletes"] = NEVER,
}

local function mark_of(described)
  local meta = described.mappings and described.mappings._meta
  return meta and meta[MARK]
end

local function refuse_existing(m, why)
  errors.raise("conflict", "there is an index %s already, %s: nothing was written", m.spec.to, why)
end

-- Of one that was made by hand: its settings while it is filled.
local function take_given(m, described)
  local settings = full_names(described.settings)
  local wanted = core.object {}
  for _, name in ipairs(while_filled) do wanted[name] = settings[name] or core.null end
  m.state.target = wanted
  m:keep()
  m.to:settings(m.spec.to, core.json(core.object(filling)))
end

local function create(m)
  local body = target.body(m)
  local wanted = core.object {}
  for _, name in ipairs(while_filled) do
    wanted[name] = body.settings[name] or core.null
    body.settings[name] = filling[name]
  end
  m.state.target = wanted
  m:keep()
  local meta = core.object(body.mappings._meta or {})
  meta[MARK] = own_name(m)
  body.mappings._meta = meta
  local ok, why = pcall(m.to.index_create, m.to, m.spec.to, core.json(body))
  if ok then return end
  local now = describe(m.to_client, m.spec.to)
  if not (now and mark_of(now) == own_name(m)) then error(why, 0) end
end

-- Makes it, or makes one that was given ready. It may have been made already.
function target.prepare(m)
  local described = describe(m.to_client, m.spec.to)
  if not described then
    if m.spec.given then
      errors.raise("not_found", "there is no index %s in %s", m.spec.to, m.to_client:url())
    end
    return create(m)
  end
  if mark_of(described) == own_name(m) then return end
  if not m.spec.given then refuse_existing(m, "which is not of this migration") end
  m.to:refresh(m.spec.to)
  if m.to:count(m.spec.to) > 0 and not m.state.target then refuse_existing(m, "which has documents") end
  take_given(m, described)
end

-- ---- Once it is filled ---------------------------------------------------------------------------

local function put_back(m, names)
  local settings = core.object {}
  for _, name in ipairs(names) do settings[name] = m.state.target[name] end
  m.to:settings(m.spec.to, core.json(settings))
end

-- Its replicas and its refreshes are as they are to be.
function target.settle(m)
  put_back(m, {"index.number_of_replicas", "index.auto_expand_replicas", "index.refresh_interval"})
end

local ranks = {green = 0, yellow = 1, red = 2}

local function health(client, index)
  local status, text = client:raw("GET", "/_cluster/health/" .. segment(index))
  if status ~= 200 then
    errors.raise("unavailable", "GET /_cluster/health/%s: %d: %s", index, status, text:sub(1, 200))
  end
  return core.json_decode(text)
end

-- Are its copies as good as those of the source? -> or why not
function target.is_settled(m)
  if m.to_client:_is_embedded() then return true end
  local now = health(m.to_client, m.spec.to)
  local wanted = m.client:_is_embedded() and "yellow" or health(m.client, m.spec.from).status
  if ranks[now.status] > ranks[wanted] or now.initializing_shards + now.relocating_shards > 0 then
    return false, ("index %s is %s: its replicas are waited for"):format(m.spec.to, now.status)
  end
  return true
end

-- One that had documents before it was copied to remembers what is deleted from now on.
function target.keep_deletions(m)
  local described = describe(m.to_client, m.spec.to)
  local before = full_names(described.settings)["index.gc_deletes"]
  m.state.target = m.state.target or core.object {["index.gc_deletes"] = before or core.null}
  m.to:settings(m.spec.to, core.json(core.object {["index.gc_deletes"] = NEVER}))
end

-- It forgets deletions as it is to, and is no longer noted as ours.
function target.finish(m)
  put_back(m, {"index.gc_deletes"})
end

-- Deletes it, if it is ours; one that was given is emptied of nothing and gets its settings back.
function target.drop(m)
  local described = describe(m.to_client, m.spec.to)
  if not described then return end
  if mark_of(described) == own_name(m) then
    local ok, why = pcall(m.to_client.drop_index, m.to_client, m.spec.to)
    if not ok and errors.code(why) ~= "not_found" then error(why, 0) end
  elseif m.spec.given and m.state.target then
    put_back(m, while_filled)
  end
end

return target
