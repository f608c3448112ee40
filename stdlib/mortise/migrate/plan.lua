-- What a migration would do, as of now. It takes no lock, and writes nothing.
local core = require "mortise.core"
local refusals = require "mortise.migrate.refusals"
local target = require "mortise.migrate.target"

local plan = {}

-- The other aliases of the source, which stay there.
local function other_aliases(m)
  local list = core.array {}
  local found = core.json_decode(m.client:_open_core():aliases(m.spec.from))[m.spec.from]
  for name in pairs(found and found.aliases or {}) do
    if name ~= m.spec.alias then list[#list + 1] = name end
  end
  table.sort(list, core.before)
  return list
end

local DOCUMENTS_A_SECOND <const> = 20000

-- {[name] = definition} of all fields, those in objects by their full names.
local function fields_of(mappings)
  local found = {}
  local function collect(properties, above)
    for name, field in pairs(properties or {}) do
      local full = above .. name
      if field.properties then collect(field.properties, full .. ".") else found[full] = core.json(field) end
    end
  end
  collect(mappings.properties, "")
  return found
end

-- {{name=, before=, after=}, ...}, with what is new without `before`, and what is gone without `after`.
local function differences(before, after)
  local names, list = {}, core.array {}
  for name in pairs(before) do names[#names + 1] = name end
  for name in pairs(after) do
    if before[name] == nil then names[#names + 1] = name end
  end
  table.sort(names, core.before)
  for _, name in ipairs(names) do
    if before[name] ~= after[name] then
      list[#list + 1] = core.object {name = name, before = before[name], after = after[name]}
    end
  end
  return list
end

local function texts(settings)
  local found = {}
  for name, value in pairs(settings) do found[name] = type(value) == "table" and core.json(value)
    or core.tostring(value) end
  return found
end

-- {documents=, shards=, fields=, settings= (differences), aliases_left= (of the source, which are not moved),
-- refusals={{code=, message=, advice=}, ...}, disk={needed=, free=} (bytes), estimate= (seconds)}
function plan.of(m)
  local found = core.array {}
  for i, each in ipairs(refusals.findings(m)) do found[i] = core.object(each) end
  local source = target.describe(m.client, m.spec.from)
  if not source or refusals.is_blind(found) then return core.object {refusals = found} end
  local own = m.client:_open_core()
  own:refresh(m.spec.from)
  local documents = own:count(m.spec.from)
  local body, settings = target.body(m), {}
  local needed, free = refusals.disk(m)
  local before = target.body {client = m.client, spec = {from = m.spec.from}}
  for name, value in pairs(texts(body.settings)) do settings[name] = value end
  return core.object {
    documents = documents, aliases_left = other_aliases(m), shards = #own:shards(m.spec.from),
      refusals = found,
    fields = differences(fields_of(before.mappings), fields_of(body.mappings)),
    settings = differences(texts(before.settings), settings),
    disk = needed and core.object {needed = needed, free = free} or nil,
    estimate = math.ceil(documents / DOCUMENTS_A_SECOND),
  }
end

return plan
