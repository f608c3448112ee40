-- Renaming a tree of documents: mortise.rename{index=, from=, to=, ...}.
local check_path = require "mortise.path"
local core = require "mortise.core"
local errors = require "mortise.errors"
local job = require "mortise.job"
local json = require "mortise.json"
local options = require "mortise.options"
local watched = require "mortise.watched"

local rows = {
  {name = "index", type = "string", required = true, help = "index or alias"},
  {name = "merge", type = "boolean", help = "there may be documents below `to` already"},
  {name = "allow_empty", type = "boolean", help = "there may be none below `from`"},
  {name = "lock", type = "table", help = "a lock that covers both; else both are locked here"},
  {name = "wait", type = "duration", help = "how long to wait for the locks"},
  {name = "query", type = "query", help = "one more query that documents must match"},
  {name = "on_progress", type = "function", help = "called with the numbers done and in all"},
  {name = "page", type = "count", default_text = core.scan_page, help = "documents a page of the scan"},
  {name = "slices", type = "count", help = "of the scan"},
  {name = "in_flight", type = "count", help = "write requests at the same time"},
  {name = "passes", type = "count", help = "at most"},
  {name = "strength", type = "string", default = "cas", values = {"cas", "stamp"}, help = "as lock:bulk's"},
  {name = "stamp_field", type = "string", help = "as lock:bulk's"},
}
table.move(job.rename_rows, 1, #job.rename_rows, #rows + 1, rows)

options.register({"rename"}, rows)

local function finished(result)
  result.seconds = result.duration_ms / 1000
  result.duration_ms = nil
  core.array(result.rejects)
  return core.object(result)
end

local function move(lock, o)
  lock:check()
  local moving = lock._held:change {
    index = o.index, field = o.field, from = o.from, to = o.to, query = json.body(o.query),
    page = o.page, slices = o.slices, in_flight = o.in_flight, passes = o.passes,
    strength = o.strength, stamp_field = o.stamp_field, merge = o.merge, allow_empty = o.allow_empty,
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

-- In every document of `index` whose `field` is `from` or below it, replaces that prefix by `to`; ends when a
-- refresh and a count find none left. -> {matched, changed, unchanged, conflicts, rejected, beside (documents
-- that were below `to` before), passes, seconds, waited (for the lock), ...}; an error has the same in
-- `err.result`. Without `allow_empty` it raises not_found if nothing is below `from`; without `merge` it
-- raises conflict, with nothing changed, if documents are below `to`. Run again with `merge`, it finishes an
-- interrupted run.
return function(client, given)
  local o = options.check("rename", rows, given)
  o.from, o.to = check_path(o.from, o.lock ~= nil), check_path(o.to)
  if o.lock then
    check_lock(o.lock, o)
    return move(o.lock, o)
  end
  local asked = core.now_ms()
  return client:with_tree_lock({o.from, o.to}, {wait = o.wait and o.wait / 1000}, function(lock)
    local waited = (core.now_ms() - asked) / 1000
    local result = move(lock, o)
    result.waited = waited
    return result
  end)
end
