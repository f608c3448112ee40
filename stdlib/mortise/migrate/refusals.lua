-- What a migration cannot do, found before anything is written: a list of {code=, message=, advice=}.
local core = require "mortise.core"
local errors = require "mortise.errors"
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

local function add_rights(found, m, own)
  for k, shard in ipairs(own:shards(m.spec.from)) do
    if not shard.term then
      add(found, "auth", "give the user the cluster privilege `monitor`, and cluster:monitor/state",
        "the primary term of shard %d of %s cannot be read", k - 1, m.spec.from)
      return
    end
  end
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
  add_blocks(found, m.spec.from, core.json_decode(described.json)[m.spec.from].settings or {})
  add_alias(found, m, own)
  add_target(found, m)
  add_rights(found, m, own)
  return found
end

-- Raises the first.
function refusals.check(m)
  local first = refusals.findings(m)[1]
  if first then errors.raise(first.code, "%s: %s", first.message, first.advice) end
end

return refusals
