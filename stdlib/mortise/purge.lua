-- Removing jobs that are over, with their journals. One that stands is never removed.
--
-- First its state becomes `removed`, by compare-and-set: from then on nobody begins to undo it. Then its
-- journal goes, and its document last; so whatever is cut off is found again and finished. Several may do so
-- at the same time: each step may be done twice, and the job is gone for all of them.
local audit = require "mortise.audit"
local core = require "mortise.core"
local errors = require "mortise.errors"
local hint = require "mortise.hint"
local records = require "mortise.records"
local tune = require "mortise.tune"
local warn = require "mortise.warn"

local purge = {}

purge.keep_ms = 7 * 24 * 3600 * 1000

-- The fields of one job's journal and orders: all that it has but its document.
local function belongings(client, id)
  return {bool = {
    filter = {{term = {ns = client:namespace()}}, {term = {job = id}}}, must_not = {{term = {kind = "job"}}},
  }}
end

local function check_result(index, result)
  if result.result == "applied" or result.result == "missing" then return end
  errors.raise("rejected", "%s: a batch of a journal cannot be removed: %s", index,
    result.reason or result.result)
end

local function remove_belongings(client, index, id)
  local n, items = 0, {}
  local function send()
    for _, result in ipairs(client:bulk(index, items, {unguarded = true})) do check_result(index, result) end
    n, items = n + #items, {}
  end
  client:refresh(index)
  for view in client:scan(index, {query = belongings(client, id), source = false}) do
    items[#items + 1] = {op = "delete", id = view._id}
    if #items == core.scan_page then send() end
  end
  send()
  return n
end

-- Makes the document of a job that is over say that it is being removed. False: somebody changed it
-- meanwhile.
local function mark(client, index, record, view)
  if record.state == "removed" then return true end
  view.state = "removed"
  local ok, why = pcall(client.index, client, index, view._id, view,
    {if_seq_no = view._seq_no, if_term = view._term, pipeline = false, unguarded = true})
  if not ok and errors.code(why) ~= "conflict" then error(why, 0) end
  return ok
end

-- Raises conflict where a job is not over.
function purge.check(client, record)
  if records.is_open(record) then
    errors.raise("conflict",
      "migration %s is not finished: `%s jobs finish %s`, or rollback, comes first",
      record.job, hint.mortise(client), record.job)
  end
  if records.over[record.state] then return end
  if record.stands then
    errors.raise("conflict", "job %s stands half-done: it is resumed or rolled back first", record.job)
  end
  errors.raise("conflict", "job %s is %s: only what is over is removed", record.job, record.state)
end

-- Removes the job's document, last. -> was it still there?
local function remove_document(client, index, view)
  local ok, why = pcall(client.delete, client, index, view._id, {unguarded = true})
  if not ok and errors.code(why) ~= "not_found" then error(why, 0) end
  return ok
end

local tries = 8

-- Removes a job that is over. -> how many documents of its journal; nil: another has removed it meanwhile.
-- Raises conflict if it is not over, or has changed since the record `seen` (may be nil) was read.
local function remove(client, id, seen)
  local index = records.index(client)
  for _ = 1, tries do
    local record, view = records.get(client, id)
    if not record then return nil end
    purge.check(client, record)
    if seen and (record.created ~= seen.created or record.updated ~= seen.updated) then
      errors.raise("conflict", "job %s has changed since it was listed", id)
    end
    tune.finish(client, id, record.spec, "purge")
    if record.spec.tuned then errors.raise("rejected", "job %s stays until that is put back", id) end
    if mark(client, index, record, view) then
      audit(client, "removes job %s, and with it the way back", id)
      local n = remove_belongings(client, index, id)
      return remove_document(client, index, view) and n or nil
    end
  end
  errors.raise("conflict", "the document of job %s is changed again and again", id)
end

local of_the_job = {conflict = true, rejected = true, not_found = true}

-- The same, whatever another's removing it meanwhile has made to fail.
function purge.one(client, id, seen)
  local ok, result = pcall(remove, client, id, seen)
  if ok then return result end
  if of_the_job[errors.code(result)] and not records.get(client, id) then return nil end
  error(result, 0)
end

local function candidates(client, before_ms)
  return {bool = {filter = {
    {term = {kind = "job"}}, {term = {ns = client:namespace()}},
    {terms = {state = {"done", "undone", "removed"}}}, {range = {updated = {lt = math.floor(before_ms)}}},
  }}}
end

-- Those that ended so long ago, or, without a time, that nobody is to be able to undo any more, as each one's
-- `keep` says: at most `most` records.
function purge.list(client, older_ms, most)
  local index, now, list = records.index(client), core.wall_ms(), core.array {}
  for view in client:scan(index, {query = candidates(client, now - (older_ms or 0))}) do
    local record = records.read(view)
    local own = record and math.type(record.spec.keep) == "integer" and record.spec.keep
    local keep = older_ms or own or purge.keep_ms
    local old = record and now - view.updated >= keep and not records.is_open(record)
    if old or record and record.state == "removed" then
      list[#list + 1] = record
    end
    if #list == most then break end
  end
  return list
end

local most_at_once = 10

-- Before a job begins: removes some that are long over. That this fails is told, and no more.
function purge.some(client)
  local ok, why = pcall(function()
    for _, record in ipairs(purge.list(client, nil, most_at_once)) do
      purge.one(client, record.job, record)
    end
  end)
  if not ok and errors.code(why) == "interrupted" then error(why, 0) end
  if not ok and errors.code(why) ~= "conflict" then
    warn("jobs that are long over could not be removed: %s", core.tostring(why))
  end
end

return purge
