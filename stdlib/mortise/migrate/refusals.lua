-- What a migration cannot do, found before anything is written: a list of {code=, message=, advice=}.
local core = require "mortise.core"
local errors = require "mortise.errors"
local rights = require "mortise.migrate.rights"
local segment = require "mortise.segment"
local target = require "mortise.migrate.target"

local refusals = {}

local function add(found, code, advice, format, ...)
  found[#found + 1] = {code = code, message = format:format(...), advice = advice}
end

local function is_set(value) return value == true or value == "true" end

-- Is `_source` what was written? Else a copy is another document.
local function add_source(found, m, described)
  if described.data_stream then
    add(found, "unsupported", "roll it over with a new template, and let the old indices age",
      "%s is a data stream", m.spec.from)
  elseif described.source_disabled then
    add(found, "unsupported", "write the documents anew from where they came", "%s keeps no _source",
      m.spec.from)
  elseif described.source_filtered then
    add(found, "unsupported", "write the documents anew from where they came",
      "%s keeps a part of the _source alone (includes, excludes)", m.spec.from)
  elseif described.source_synthetic then
    add(found, "unsupported", "write the documents anew from where they came",
      "%s has a synthetic _source, which is not what was written", m.spec.from)
  end
end

local function add_blocks(found, name, settings)
  local blocks = (settings.index or settings).blocks or {}
  for _, each in ipairs {"write", "read_only", "read_only_allow_delete", "read", "metadata"} do
    if is_set(blocks[each]) then
      add(found, "unavailable", "lift it, then try again", "index %s is blocked: index.blocks.%s is set",
        name, each)
    end
  end
end

-- {[index] = {[alias] = definition}}
local function read_aliases(own, name)
  local found = {}
  for index, each in pairs(core.json_decode(own:aliases(name))) do found[index] = each.aliases end
  return found
end

local function add_alias(found, m, own)
  local alias, names = m.spec.alias, {}
  if not alias then return end
  for index in pairs(read_aliases(own, alias)) do names[#names + 1] = index end
  table.sort(names, core.before)
  if #names == 1 and names[1] == m.spec.from then return end
  if #names == 0 then
    add(found, "not_found", ("add it first: the clients are to use %s"):format(alias),
      "index %s has no alias %s",
      m.spec.from, alias)
  else
    add(found, "unsupported", "an alias is moved that names the old index alone", "alias %s names %s", alias,
      table.concat(names, ", "))
  end
end

-- ---- What others would do to it ------------------------------------------------------------------

local function add_settings(found, m, settings)
  local index = settings.index or {}
  local plugins = index.plugins or {}
  local policy = index.lifecycle and index.lifecycle.name
    or plugins.index_state_management and plugins.index_state_management.policy_id
  if policy then
    add(found, "unsupported", "take it off first, and put it on the new index afterwards",
      "index %s is under the lifecycle policy %s, which may close, move or delete it meanwhile", m.spec.from,
      core.tostring(policy))
  end
  if is_set(index.disable_sequence_numbers) then
    add(found, "unsupported", "write the documents anew from where they came",
      "index %s has no sequence numbers",
      m.spec.from)
  end
end

-- The decoded answer; nil where the server has none, or does not let this user see it.
local function ask(client, method, path)
  local status, text = client:raw(method, path)
  return status == 200 and core.json_decode(text) or nil
end

local function is_empty(value) return value == nil or next(value) == nil end

-- What a template gives an index of the target's name beside what the source has.
local function add_template(found, m, name, template)
  local what = {}
  if not is_empty(template.mappings) then what[#what + 1] = "mappings" end
  if not is_empty(template.aliases) then what[#what + 1] = "aliases" end
  if #what == 0 then return end
  add(found, "unsupported", "choose another name, or make the new index by hand and say `given`",
    "index template %s would add %s to %s", name, table.concat(what, " and "), m.spec.to)
end

local function matches(pattern, name)
  return name:find("^" .. pattern:gsub("[^0-9A-Za-z*]", "%%%0"):gsub("%*", ".*") .. "$") ~= nil
end

local function add_templates(found, m)
  if m.to_client:_is_embedded() or m.spec.given then return end
  local simulated = ask(m.to_client, "POST", "/_index_template/_simulate_index/" .. segment(m.spec.to))
  if simulated and simulated.template then add_template(found, m, "(composable)", simulated.template) end
  for name, each in pairs(ask(m.to_client, "GET", "/_template") or {}) do
    for _, pattern in ipairs(each.index_patterns or {}) do
      if matches(pattern, m.spec.to) then
        add_template(found, m, name, each)
        break
      end
    end
  end
end

-- ---- The target ----------------------------------------------------------------------------------

local HEADROOM <const> = 15 -- percent of a disk, above which servers take no shard

-- Bytes that the copies of the new index will need, and bytes free on the data nodes; nil: not known.
function refusals.disk(m)
  if m.client:_is_embedded() or m.to_client:_is_embedded() then return nil end
  local stats = ask(m.client, "GET", "/" .. segment(m.spec.from)
    .. "/_stats/store?filter_path=_all.primaries.store.size_in_bytes")
  local nodes = ask(m.to_client, "GET", "/_nodes/data:true/stats/fs?filter_path=nodes.*.fs.total")
  if not stats or not nodes then return nil end
  local free = 0
  for _, node in pairs(nodes.nodes or {}) do
    local total = node.fs.total
    free = free + math.max(0, total.available_in_bytes - total.total_in_bytes * HEADROOM // 100)
  end
  local replicas = core.number(core.tostring(target.body(m).settings["index.number_of_replicas"] or 1)) or 1
  return stats._all.primaries.store.size_in_bytes * (1 + math.tointeger(replicas)), free
end

local function add_disk(found, m)
  local needed, free = refusals.disk(m)
  if needed and needed > free then
    add(found, "rejected", "make room, or give the new index fewer replicas",
      "the new index needs about %d MB, and the data nodes have %d MB to spare", needed >> 20, free >> 20)
  end
end

local function add_target(found, m)
  local described = target.describe(m.to_client, m.spec.to)
  if described and not m.spec.given then
    local meta = described.mappings and described.mappings._meta
    if not (meta and meta.mortise_migration == m.client:namespace() .. ":" .. m.id) then
      add(found, "conflict", "choose another name, or delete it; `given` takes one that was made by hand",
        "there is an index %s already", m.spec.to)
    end
  elseif not described and m.spec.given then
    add(found, "not_found", "make it, or leave out `given`", "there is no index %s", m.spec.to)
  end
end

local function add_terms(found, m, own)
  for k, shard in ipairs(own:shards(m.spec.from)) do
    if not shard.term then
      add(found, "auth", "give the user the cluster privilege `monitor`, and cluster:monitor/state",
        "the primary term of shard %d of %s cannot be read", k - 1, m.spec.from)
      return
    end
  end
end

local give_rights = "give the user the rights that docs/migrate.md names"

local function add_rights(found, m)
  for _, each in ipairs(rights.missing(m)) do
    add(found, "auth", give_rights, "this user may not %s: %s", each.what, each.reason)
  end
end

-- Calls fn(found, ...): a right that it lacks is a finding.
local function try(found, fn, ...)
  local ok, why = pcall(fn, found, ...)
  if ok then return end
  if errors.code(why) ~= "auth" then error(why, 0) end
  add(found, "auth", give_rights, "%s", why.message)
end

function refusals.findings(m)
  local found, own = {}, m.client:_open_core()
  local described = m.client:describe(m.spec.from)
  if not described.exists then
    add(found, "not_found", "is this its name?", "there is no index %s", m.spec.from)
    return found
  end
  add_source(found, m, described)
  if #found > 0 then return found end
  local settings = core.json_decode(described.json)[m.spec.from].settings or {}
  add_blocks(found, m.spec.from, settings)
  add_settings(found, m, settings)
  try(found, add_alias, m, own)
  try(found, add_target, m)
  try(found, add_terms, m, own)
  add_rights(found, m)
  try(found, add_templates, m)
  try(found, add_disk, m)
  return found
end

-- May the user not even look?
function refusals.is_blind(found)
  for _, each in ipairs(found) do
    if each.code == "auth" then return true end
  end
  return false
end

-- Raises the first.
function refusals.check(m)
  local first = refusals.findings(m)[1]
  if first then errors.raise(first.code, "%s: %s", first.message, first.advice) end
end

return refusals
