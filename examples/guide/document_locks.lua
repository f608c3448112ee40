-- Document locks: one lock document for each file that a scan found, created in bulk with the
-- process's id. Some may belong to others: those are retried. A process that comes back after a
-- pause locks again with a scripted upsert, which does nothing where the lock is its own and fails
-- where it is another's. All of a process's locks are given back by its id.
package.path = (arg[0]:match("^(.*)/") or ".") .. "/?.lua;" .. package.path
local requests = require "requests"

local FILES, LOCKS = "guide-files", "guide-document-locks"
local ME, OTHER = "process-123", "process-456"

local function create_files()
  local lines = {}
  for i = 1, 25 do
    lines[#lines + 1] = {index = {_id = tostring(i)}}
    lines[#lines + 1] = {path = "/clinton/projects/" .. i, name = "file" .. i}
  end
  requests.expect({200}, "POST", "/" .. FILES .. "/_bulk?refresh=true", requests.lines(lines))
end

-- Every id under a path, page by page, in a scroll.
local function scan(prefix)
  local ids = {}
  local _, answer = requests.expect({200}, "POST", "/" .. FILES .. "/_search?scroll=1m", {
    size = 10,
    sort = {"_doc"},
    _source = false,
    query = {prefix = {path = prefix}},
  })
  while #answer.hits.hits > 0 do
    for _, hit in ipairs(answer.hits.hits) do ids[#ids + 1] = hit._id end
    _, answer = requests.expect({200}, "POST", "/_search/scroll", {
      scroll = "1m",
      scroll_id = answer._scroll_id,
    })
  end
  requests.expect({200}, "DELETE", "/_search/scroll", {scroll_id = {answer._scroll_id}})
  return ids
end

-- One bulk of creates. Returns the ids that somebody else has.
local function create_locks(ids, process)
  local lines = {}
  for _, id in ipairs(ids) do
    lines[#lines + 1] = {create = {_id = id}}
    lines[#lines + 1] = {process_id = process}
  end
  local _, answer = requests.expect({200}, "POST", "/" .. LOCKS .. "/_bulk", requests.lines(lines))
  local failed = {}
  for i, item in ipairs(answer.items) do
    if item.create.status == 409 then
      failed[#failed + 1] = ids[i]
    else
      assert(item.create.status == 201, "an unexpected status")
    end
  end
  return failed
end

-- Locks again what this process may hold already: a scripted upsert for each.
local RELOCK = [[
  if (ctx._source.process_id != params.process_id) {
    throw new IllegalStateException('held by ' + ctx._source.process_id);
  }
  ctx.op = 'noop';
]]
local function relock(ids, process)
  local lines = {}
  for _, id in ipairs(ids) do
    lines[#lines + 1] = {update = {_id = id}}
    lines[#lines + 1] = {
      script = {source = RELOCK, params = {process_id = process}},
      upsert = {process_id = process},
    }
  end
  local _, answer = requests.expect({200}, "POST", "/" .. LOCKS .. "/_bulk", requests.lines(lines))
  local mine, others = 0, 0
  for _, item in ipairs(answer.items) do
    if item.update.status < 300 then mine = mine + 1 else others = others + 1 end
  end
  return mine, others
end

-- A search finds only what was refreshed: so refresh, then delete by the process's id.
local function release(process)
  requests.expect({200}, "POST", "/" .. LOCKS .. "/_refresh")
  local _, answer = requests.expect({200}, "POST", "/" .. LOCKS .. "/_delete_by_query", {
    query = {term = {process_id = process}},
  })
  return answer.deleted
end

requests.fresh_index(FILES, {"path", "name"})
requests.fresh_index(LOCKS, {"process_id"})
create_files()

local ids = scan("/clinton/projects")
assert(#ids == 25, "the scan finds every file")
print(("the scan found %d files"):format(#ids))

assert(#create_locks({"7", "8"}, OTHER) == 0)
local failed = create_locks(ids, ME)
assert(#failed == 2, "two are another's")
print(("%d locked, %d held by another process"):format(#ids - #failed, #failed))

assert(release(OTHER) == 2)
failed = create_locks(failed, ME)
assert(#failed == 0)
print("the other gave its locks back: the retry got the rest")

local mine, others = relock(ids, ME)
assert(mine == 25 and others == 0)
mine, others = relock({"1", "2"}, OTHER)
assert(mine == 0 and others == 2)
print("locking again: no change for the owner, a failure for anyone else")

local released = release(ME)
assert(released == 25)
print(("released %d locks by process id"):format(released))

requests.drop_index(FILES)
requests.drop_index(LOCKS)
