-- What a plan of a job says: what it would lock, what it would make of some documents, how long it takes.
local core = require "mortise.core"

local plan = {}

-- ---- Differences ---------------------------------------------------------------------------------

-- Adds {field=, text=} for each value of an object that is no object itself, with dotted names, in its order.
local function flatten(object, above, into)
  for name, value in pairs(object) do
    name = above .. name
    if core.is_view(value) == "object" and next(value:_table()) ~= nil then
      flatten(value, name .. ".", into)
    else
      local text = core.json(value)
      into[#into + 1] = {field = name, text = text}
      into[name] = text
    end
  end
  return into
end

-- {{field=, before=, after=}, ...}: JSON texts, nil where it is missing.
local function differences(before, after)
  local old, new = flatten(core.view(before), "", {}), flatten(core.view(after), "", {})
  local list = core.array {}
  for _, each in ipairs(old) do
    local now = new[each.field]
    if now ~= each.text then
      list[#list + 1] = core.object {field = each.field, before = each.text, after = now}
    end
  end
  for _, each in ipairs(new) do
    if old[each.field] == nil then list[#list + 1] = core.object {field = each.field, after = each.text} end
  end
  return list
end

-- From the core's JSON text. `large`: it is too large to be shown.
local function samples_of(text)
  local list = core.array {}
  local view = core.view('{"list":' .. text .. "}")
  for i, each in ipairs(view.list) do
    local before = each.before and core.json(each.before)
    local after = each.after and core.json(each.after)
    list[i] = core.object {
      index = each.index, id = each.id, new_id = each.new_id,
      before = before, after = after, deleted = before and not after or nil,
      large = not before or nil, fields = before and after and differences(before, after) or nil,
    }
  end
  return list
end

-- ---- Time ----------------------------------------------------------------------------------------

-- What a store of common hardware takes of one client, with a journal: documents, and bytes, a second.
plan.write_rates = {
  server = {documents = 20000, bytes = 20e6},
  embedded = {documents = 40000, bytes = 40e6},
}

-- Reading and changing go on while documents are written, so it takes as long as the slower of the two. How
-- long they take is known from this plan; writing is assumed.
local function seconds_of(result, url, rate)
  local store = plan.write_rates[url:find "^sqlite:" and "embedded" or "server"]
  local documents = rate and rate > 0 and math.min(rate, store.documents) or store.documents
  return math.max(result.seconds, result.changed / documents, result.bytes / store.bytes)
end

-- Adds to the core's result of a plan, in place: `locks`, what it would take, as {{path=, mode=}, ...};
-- `samples`, at most ten documents; and `estimate`, in seconds.
function plan.complete(result, spec, url)
  local lock = spec.lock
  result.locks = core.array(core.lock_set(lock.kind, lock.index, lock.paths))
  result.samples = samples_of(result.samples)
  result.estimate = seconds_of(result, url, spec.rate)
  return result
end

return plan
