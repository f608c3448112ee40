-- Removing jobs that are over, with their journals. One that stands is never removed.
--
-- First its state becomes `removed`, by compare-and-set: from then on nobody begins to undo it. Then its
-- journal goes, and its document last; so whatever is cut off is found again and finished.
local core = require "mortise.core"
local errors = require "mortise.errors"
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
    for _, result in ipairs(client:bulk(index, items)) do check_result(index, result) end
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
    {if_seq_no = view._seq_no, if_term = view._term, pipeline = false})
  if not ok and errors.code(why) ~= "conflict" then error(why, 0) end
  return ok
end

local function refuse(record)
  if record.stands then
    errors.raise("conflict", "job %s stands half-done: it is resumed or rolled back first", record.job)
  end
  errors.raise("conflict", "job %s is %s: only what is over is removed", record.job, record.state)
end

local tries = 8

-- Removes a job that is over. -> how many documents of its journal; raises conflict if it is not.
function purge.one(client, id)
  local index = records.index(client)
  for _ = 1, tries do
    local record, view = records.need(client, id)
    if not records.over[record.state] then refuse(record) end
    tune.finish(client, id, record.spec, "purge")
    if record.spec.tuned then errors.raise("rejected", "job %s stays until that is put back", id) end
    if mark(client, index, record, view) then
      local n = remove_belongings(client, index, id)
      client:delete(index, view._id)
      return n
    end
  end
  errors.raise("conflict", "the document of job %s is changed again and again", id)
end

local function candidates(client, before_ms)
  return {bool = {filter = {
    {term = {kind = "job"}}, {term = {ns = client:namespace()}},
    {terms = {state = {"done", "undone", "removed"}}}, {range = {updated = {lt = math.floor(before_ms)}}},
  }}}
end

-- Removes what ended before that time, or, without one, what each job's `keep` no longer asks for: at most
-- `most` jobs. -> their ids, how many documents of journals
function purge.old(client, older_ms, most)
  local index, now, ids, n = records.index(client), core.wall_ms(), core.array {}, 0
  local found = {}
  for view in client:scan(index, {query = candidates(client, now - (older_ms or 0))}) do
    local body = view.body
    local keep = older_ms or math.type(body.spec.keep) == "integer" and body.spec.keep or purge.keep_ms
    if view.state == "removed" or now - view.updated >= keep then found[#found + 1] = view.job end
    if #found == most then break end
  end
  for _, id in ipairs(found) do
    n = n + purge.one(client, id)
    ids[#ids + 1] = id
  end
  return ids, n
end

local most_at_once = 10

-- Before a job begins: removes some that are long over. That this fails is told, and no more.
function purge.some(client)
  local ok, why = pcall(purge.old, client, nil, most_at_once)
  if not ok and errors.code(why) == "interrupted" then error(why, 0) end
  if not ok and errors.code(why) ~= "conflict" then
    warn("jobs that are long over could not be removed: %s", core.tostring(why))
  end
end

return purge
