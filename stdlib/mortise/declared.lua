-- What mortise/job.h asks for: a verb of a job or a migration, declared in JSON or found by its id.
--   declared(verb, kind, spec, id, options, on_progress) -> its result as JSON
-- `kind` is "job" or "migrate"; `spec` and `options` are JSON text, or nil.
-- `on_progress(id, done, all, conflicts, rejected, waits, over)` may be nil.
local core = require "mortise.core"
local errors = require "mortise.errors"
local mortise = require "mortise"

local function decoded(text, what)
  local ok, value = pcall(core.json_decode, text)
  if not ok then errors.bad("the %s of a job request: %s", what, value.message) end
  if type(value) ~= "table" then errors.bad("the %s of a job request is a JSON object", what) end
  return value
end

-- What JSON can tell: neither functions nor metatables. What is empty in results are lists.
local function plain(value)
  if type(value) ~= "table" then return type(value) ~= "function" and value or nil end
  local copy = {}
  for key, each in next, value do copy[key] = plain(each) end
  return (#copy > 0 or not next(copy)) and core.array(copy) or core.object(copy)
end

local function declare(kind, spec, id, on_progress)
  if id then return mortise.get_job(id, {on_progress = on_progress}) end
  local given = decoded(spec, "spec")
  given.on_progress = on_progress
  return mortise[kind](given)
end

return function(verb, kind, spec, id, options, on_progress)
  local found
  local function tell(done, all, more)
    on_progress(found.id, done, all, more.conflicts, more.rejected, more.waits, more.over)
  end
  found = declare(kind, spec, id, on_progress and tell)
  local method = found[verb]
  if not method then errors.bad("a %s has no %s", kind == "job" and "job" or "migration", verb) end
  local result = method(found, options and decoded(options, "options"))
  if result == nil or result == found then return "null" end -- orders return the job
  return core.json(plain(result))
end
