-- Which documents a job's change concerns: those that its lock names. The option `field` says where their
-- paths are; `field = false` with a `query` means others, too.
local argument = require "mortise.argument"
local core = require "mortise.core"
local errors = require "mortise.errors"

local within = {}

within.row = {
  name = "field", type = "any", default_text = "path",
  help = "of a lock on paths: the field with the documents' paths; false: those anywhere, as `query` says",
}

local default_field = "path"

-- What the job's document says: a field's name, or "_id" under a lock on documents, or false: all that
-- `query` finds; nil where the lock names no documents.
function within.of(o, lock)
  local field = o.field
  local limits = lock.kind == "tree" or lock.kind == "document"
  if field == false then
    if not o.query then
      errors.bad "job: `field = false` needs a `query`: which documents, or {match_all = {}}"
    end
    if limits then return false end
    return nil
  end
  if field ~= nil and lock.kind ~= "tree" then errors.bad "job: `field` belongs to a lock on paths" end
  if field ~= nil and argument.wanted(field) then errors.bad "job: option `field` is a name, or false" end
  if lock.kind == "tree" then return field or default_field end
  if lock.kind == "document" and lock.index ~= o.index then
    errors.bad("job: its lock is on documents of %s, and it changes those of %s: `field = false` with a "
      .. "`query` means that", lock.index, o.index)
  end
  return lock.kind == "document" and "_id" or nil
end

-- The field whose mapping is needed; nil: none is.
function within.field(spec)
  return spec.field and spec.lock.kind == "tree" and spec.field or nil
end

local function both(query, also)
  if not also then return query end
  return '{"bool":{"filter":[' .. query .. "," .. also .. "]}}"
end

local function paths_query(client, spec, field)
  local description = client:describe(spec.index)
  if not description.exists then return nil end
  return core.within_query(description.json, field, spec.lock.paths)
end

-- Of a spec: the query that finds what it concerns, as JSON text, and what the core is told of it. A spec of
-- a version that did not limit it has no `field`, and is not limited.
function within.narrow(client, spec)
  if spec.field == "_id" and spec.lock.kind == "document" then
    return both(core.json {ids = {values = spec.lock.paths}}, spec.query)
  end
  local field = within.field(spec)
  local query = field and paths_query(client, spec, field)
  if not query then return spec.query end
  return both(query, spec.query), core.json {field = field, paths = spec.lock.paths}
end

-- How many of the documents that it concerns lie outside of the locked paths; nil: none can, or it is not
-- known.
function within.outside(client, spec)
  if spec.field ~= false or spec.lock.kind ~= "tree" then return nil end
  local ok, query = pcall(paths_query, client, spec, default_field)
  if not ok or not query then return nil end
  return client:count(spec.index, '{"bool":{"filter":[' .. spec.query .. '],"must_not":[' .. query .. "]}}")
end

return within
