-- Renaming a tree of documents: mortise.rename{index=, from=, to=, ...}.
local check_path = require "mortise.path"
local core = require "mortise.core"
local errors = require "mortise.errors"
local guards = require "mortise.guards"
local job = require "mortise.job"
local job_spec = require "mortise.job_spec"
local json = require "mortise.json"
local options = require "mortise.options"
local orphans = require "mortise.orphans"
local preflight = require "mortise.preflight"
local watched = require "mortise.watched"

local rows = options.join({
  {name = "index", type = "string", required = true, help = "index or alias"},
}, job_spec.rename_rows, {
  {name = "merge", type = "boolean", help = "there may be documents below `to` already"},
  {name = "allow_empty", type = "boolean", help = "there may be none below `from`"},
  {name = "name", type = "string", default = "rename", help = "the beginning of its job's id"},
  {name = "lock", type = "table", help = "a lock that covers both: then it is no job"},
  {name = "wait", type = "duration", help = "how long to wait for the locks"},
  orphans.row,
  {name = "query", type = "query", help = "one more query that documents must match"},
  {name = "on_progress", type = "function", help = "called with the numbers done and in all"},
  job_spec.patience_row,
  {name = "strategy", type = "string", default = "client", values = {"client", "server", "auto"},
    help = "of its job: who makes the change"},
  {name = "max_rejected", type = "any", default_text = "0",
    help = "how many documents may be set aside, or \"1%\" of them, before its job stands"},
  {name = "journal", type = "boolean", default = true, help = "of its job; false: none, if none is needed"},
  {name = "page", type = "count", default_text = core.scan_page, help = "documents a page of the scan"},
  {name = "slices", type = "count", help = "of the scan"},
  {name = "in_flight", type = "count", help = "write requests at the same time"},
  {name = "passes", type = "count", help = "at most"},
  {name = "strength", type = "string", default = "cas", values = {"cas", "stamp"}, help = "as lock:bulk's"},
  {name = "stamp_field", type = "string", help = "as lock:bulk's"},
})

options.register({"rename"}, rows)

-- ---- Under a lock that is given --------------------------------------------------------------------

local function finished(result)
  result.seconds = result.duration_ms / 1000
  result.duration_ms = nil
  core.array(result.rejects)
  return core.object(result)
end

local function change_under(client, lock, o)
  lock:check()
  guards.tell(client, {o.from, o.to})
  local moving = lock._held:change {
    index = o.index, fields = job_spec.field_lines(o), from = o.from, to = o.to, query = json.body(o.query),
    page = o.page, slices = o.slices, in_flight = o.in_flight, passes = o.passes,
    strength = o.strength, stamp_field = o.stamp_field, merge = o.merge, allow_empty = o.allow_empty,
    ids = o.ids, max_rejected = job_spec.to_bound(o.max_rejected),
    patience_ms = o.wait_for_writes or job_spec.default_patience_ms,
  }
  local ok, result = pcall(watched, moving, o.on_progress, ("renaming %s in %s"):format(o.from, o.index))
  if ok then return finished(result) end
  pcall(moving.settle, moving) -- nothing of ours is in flight any more when the lock is released
  if core.is_error(result) then result.result = finished(moving:result()) end
  error(result, 0)
end

local function check_lock(lock, o)
  if type(lock.covers) ~= "function" then errors.bad("rename: option `lock` is a lock") end
  for _, path in ipairs {o.from, o.to} do
    if not lock:covers(path) then
      errors.bad("rename: the lock does not cover %s: take an exclusive tree lock on both paths", path)
    end
  end
end

local function bare(client, o)
  if o.lock then check_lock(o.lock, o) end
  preflight.check(client, o.index, not o.allow_empty and job_spec.field_list(o) or nil, o.ids)
  if o.lock then
    return change_under(client, o.lock, o)
  end
  local asked = core.now_ms()
  local given = {wait = o.wait and o.wait / 1000, on_orphan = o.on_orphan}
  return client:with_tree_lock({o.from, o.to}, given, function(lock)
    local waited = (core.now_ms() - asked) / 1000
    local result = change_under(client, lock, o)
    result.waited = waited
    return result
  end)
end

-- ---- As a job --------------------------------------------------------------------------------------

local function as_job(client, o)
  return job.new(client, {
    name = o.name, index = o.index, merge = o.merge,
    rename = {from = o.from, to = o.to, field = o.field, ids = o.ids},
    allow_empty = o.allow_empty, wait = o.wait and o.wait / 1000, on_orphan = o.on_orphan, query = o.query,
    on_progress = o.on_progress, batch = o.page, slices = o.slices, concurrency = o.in_flight,
    passes = o.passes, strategy = o.strategy, max_rejected = o.max_rejected, journal = o.journal,
    wait_for_writes = o.wait_for_writes and o.wait_for_writes / 1000,
  })
end

-- In every document of `index` whose `field` is `from` or below it, replaces that prefix by `to`; ends when a
-- refresh and a count find none left. -> {job, state, matched, changed, unchanged, conflicts, rejected,
-- beside (documents that were below `to` before), passes, seconds, waited (for the lock), ...}; an error has
-- the same in `err.result`, and the id in `err.job`. Without `allow_empty` it raises not_found if nothing is
-- below `from`; without `merge` it raises conflict, with nothing changed, if documents are below `to`.
--
-- It is a job, which locks both paths, and can be resumed and undone. Under a lock that is given, or where it
-- stamps, it is none: nothing but what matches still says how far it came. Run again with `merge`, it then
-- finishes what was cut off.
return function(client, given)
  local o = options.check("rename", rows, given)
  o.from, o.to = check_path(o.from, o.lock ~= nil), check_path(o.to)
  if o.lock or o.strength == "stamp" then return bare(client, o) end
  return as_job(client, o):run()
end
