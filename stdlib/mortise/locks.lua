-- Taking locks: client:acquire, try_lock and the with_* helpers.
local argument = require "mortise.argument"
local core = require "mortise.core"
local errors = require "mortise.errors"
local lock = require "mortise.lock"
local metrics = require "mortise.metrics"
local options = require "mortise.options"
local orphans = require "mortise.orphans"
local request = require "mortise.request"

local guards = require("mortise.later") "mortise.guards"

local locks = {}

-- ---- Requests ------------------------------------------------------------------------------------

local common_rows = options.join(request.common_rows, {orphans.row})
local acquire_rows = options.join(request.rows, {orphans.row})

options.register({"acquire", "try_lock"}, acquire_rows)
options.register({"with_tree_lock", "with_document_locks", "with_lock", "with_global_lock"}, common_rows)

-- Calls fn, which takes a lock of the core, past jobs that stand in the way as `o` says.
local function acquired(client, o, fn)
  return metrics.timed(function() return orphans.past(client, o, fn) end)
end

local function take(client, what, o)
  what.mode = o.mode
  local held = acquired(client, o, function()
    return client:_lock_core():acquire(what.kind, what.index, what.paths, {mode = o.mode, wait_ms = o.wait})
  end)
  local taken = lock.new(client, held, what)
  if lock.keeps() then guards.tell(client, taken.paths) end -- a person at a prompt can wait for that
  return taken
end

-- acquire{tree=, mode=, wait=} -> lock; raises lock_timeout, deadlock, ...
function locks:acquire(given)
  local o = options.check("acquire", acquire_rows, given)
  return take(self, request.of("acquire", o), o)
end

local not_had = {lock_timeout = true, deadlock = true, orphaned_job = true}

-- The same, but returns nil and the error if others hold it. Without `wait` it tries once.
function locks:try_lock(given)
  local o = options.check("try_lock", acquire_rows, given)
  o.wait = o.wait or 0
  local ok, result = pcall(take, self, request.of("try_lock", o), o)
  if ok then return result end
  if not_had[errors.code(result)] then return nil, result end
  error(result, 0)
end

-- ---- Helpers -------------------------------------------------------------------------------------

local function returned(held, ...)
  lock.leave(held)
  return ...
end

-- For a __close an error without a value looks like no error, so the lock is told whether fn has returned.
local function run(held, fn)
  local guard <close> = held
  lock.enter(guard)
  return returned(guard, fn(guard))
end

-- ([opts], fn) -> checked options, fn
local function rest(what, given, fn)
  if fn == nil and type(given) == "function" then given, fn = nil, given end
  if type(fn) ~= "function" then
    errors.bad("%s: the last argument is a function, not a %s", what, type(fn))
  end
  return options.check(what, common_rows, given), fn
end

-- with_tree_lock(path or paths, [opts], fn): calls fn(lock) while the paths and everything below them are
-- locked. Returns what fn returns; always releases the lock.
function locks:with_tree_lock(tree, given, fn)
  local o
  o, fn = rest("with_tree_lock", given, fn)
  return run(take(self, request.tree("with_tree_lock", tree), o), fn)
end

-- with_global_lock([opts], fn): calls fn(lock) while nobody else holds any lock of this namespace.
function locks:with_global_lock(given, fn)
  local o
  o, fn = rest("with_global_lock", given, fn)
  return run(take(self, {kind = "global", paths = {}}, o), fn)
end

-- with_lock(category, name, [opts], fn)
function locks:with_lock(category, name, given, fn)
  local o
  o, fn = rest("with_lock", given, fn)
  return run(take(self, request.named("with_lock", category, name), o), fn)
end

-- Of a person's single write: calls fn(lock) under an exclusive lock of the document and intentions on these
-- paths.
function locks:_with_document(index, id, paths, given, fn)
  local o = options.check("with_lock", common_rows, given)
  local name = "/_doc/" .. core.path_segment(index) .. "/" .. core.path_segment(id)
  local wants = {{name, "X"}}
  for _, path in ipairs(paths) do wants[#wants + 1] = {path, "IX"} end
  local held = acquired(self, o, function()
    return self:_lock_core():acquire_paths(wants, {wait_ms = o.wait})
  end)
  return run(lock.new(self, held, {mode = o.mode}), fn)
end

-- ---- Documents that a query finds -----------------------------------------------------------------

local rounds_max = 8

local query_rows = {{name = "query", type = "query", required = true, help = "Query DSL"}}

local function find_ids(client, index, query)
  local ids = core.array {}
  client:refresh(index)
  for doc in client:scan(index, {query = query, source = false}) do ids[#ids + 1] = doc._id end
  return ids
end

local function locked_all(locked, ids)
  local set = {}
  for _, id in ipairs(locked) do set[id] = true end
  for _, id in ipairs(ids) do
    if not set[id] then return false end
  end
  return true
end

-- If nothing matches, takes an intention lock above the index's documents, so that the lock has a fence and a
-- lease.
local function take_none(client, index, o)
  local path = "/_doc/" .. core.path_segment(index)
  local held = acquired(client, o, function()
    return client:_lock_core():acquire_paths({{path, "IX"}}, {wait_ms = o.wait})
  end)
  return lock.new(client, held, {mode = o.mode, ids = core.array {}, nothing = true})
end

-- Locks what the query finds, then runs the query again: lock.ids is a result from after the grant in which
-- everything is locked.
local function take_found(client, index, query, o)
  local ids = find_ids(client, index, query)
  for _ = 1, rounds_max do
    local held = #ids == 0 and take_none(client, index, o)
      or take(client, request.document("with_document_locks", index, ids), o)
    local ok, found = pcall(find_ids, client, index, query)
    if not ok then
      pcall(held.release, held)
      error(found, 0)
    end
    if locked_all(ids, found) then
      held.ids = found
      return held
    end
    held:release()
    ids = found
  end
  errors.raise("conflict", "what the query finds in %s changed in each of %d attempts to lock it",
    index, rounds_max)
end

-- with_document_locks(index, ids or {query=}, [opts], fn)
--
-- With a query, lock.ids are the ids found by a refresh and scan made under the lock: each of them is locked,
-- and none that matched at that moment is missing. Clients that take no locks can still create or change
-- documents so that they match afterwards.
function locks:with_document_locks(index, what, given, fn)
  local o
  o, fn = rest("with_document_locks", given, fn)
  argument.name("with_document_locks", "index", index)
  if type(what) == "string" then what = {what} end
  if type(what) == "table" and what.query ~= nil then
    local query = options.check("with_document_locks", query_rows, what).query
    return run(take_found(self, index, query, o), fn)
  end
  argument.names("with_document_locks", "ids", what, true)
  if #what == 0 then return run(take_none(self, index, o), fn) end
  return run(take(self, request.document("with_document_locks", index, what), o), fn)
end

return locks
