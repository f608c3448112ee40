-- A plain write (client:index, create, update, delete, bulk) of a task that holds a lock is the lock's: it
-- goes through a writer of that lock, so that it is sent only while the lease lasts, compared with what is
-- there, and refused once the lock is lost. The lock is the one that the task took last of this client and
-- still holds; if it holds none, the one that protected its starter when it was started.
local core = require "mortise.core"
local errors = require "mortise.errors"

local protect = {}

-- The clients that took locks.
local clients = setmetatable({}, {__mode = "k"})

-- What tasks were started under: by a task's number, {client = lock}.
local inherited = {}

-- Notes a new lock as the running task's.
function protect.took(lock)
  clients[lock._client] = true
  lock._task = core.running()
end

-- The lock, held or lost, that protects what the running task writes with this client; nil: none.
local function of(client)
  local task, last = core.running(), nil
  for lock in pairs(client._locks) do
    if lock._task == task and (not last or lock._number > last._number) then last = lock end
  end
  return last or inherited[task] and inherited[task][client]
end

local function check(lock)
  if lock._released then
    errors.raise("lock_lost", "%s: this task was started under it, and it was released since: join the task "
      .. "inside its block, or write with `unguarded = true`", core.tostring(lock))
  end
  lock:check()
end

-- The same, if it is held for sure; else raises lock_lost.
function protect.by(client)
  client:_open_core()
  local lock = of(client)
  if lock then check(lock) end
  return lock
end

-- ---- Tasks ---------------------------------------------------------------------------------------

local function inheritance()
  local own
  for client in pairs(clients) do
    local lock = of(client)
    if lock then
      own = own or {}
      own[client] = lock
    end
  end
  return own
end

local Inherited = {}

function Inherited:__close() inherited[self.task] = nil end

-- The function of a new task, so that what protects the running task protects that one too.
function protect.passed_on(fn)
  local own = inheritance()
  if not own then return fn end
  return function(...)
    local inside <close> = setmetatable({task = core.running()}, Inherited)
    inherited[inside.task] = own
    return fn(...)
  end
end

-- ---- Writing -------------------------------------------------------------------------------------

-- The items, in order, as lists in which no document comes twice, since a writer's requests may overtake one
-- another.
local function parts(items)
  local list, part, ids = {}, {}, {}
  for _, item in ipairs(items) do
    if ids[item.id] then
      list[#list + 1] = part
      part, ids = {}, {}
    end
    ids[item.id] = true
    part[#part + 1] = item
  end
  list[#list + 1] = part
  return list
end

-- What the store would say of the same item without a lock.
local function result_of(item, answer)
  local result, status = answer.result, answer.status
  local outcome, nothing_there = answer.outcome, answer.result == "none" and not answer.doubted
  if outcome == "rejected" then
    result = "rejected"
  elseif outcome == "already" and item.kind == "delete" then
    if answer.doubted then result = "noop" elseif nothing_there then result, status = "missing", 404 end
  elseif outcome == "already" then
    result = "noop"
  elseif outcome == "conflict" and item.kind == "update" and nothing_there then
    result, status = "missing", 404
  elseif outcome == "conflict" and result ~= "missing" then
    result, status = "conflict", 409
  end
  return {
    result = result, status = status, seq_no = answer.seq_no, term = answer.term, type = answer.type,
    reason = answer.reason,
  }
end

-- Its writer is closed if another task releases the lock meanwhile.
local function fail(lock, why, results, applied)
  if lock._released and why.code == "interrupted" and why.message == "the writer was closed" then
    why.code, why.message = "lock_lost", core.tostring(lock) .. ": it was released while this was written"
  end
  why.ambiguous = why.ambiguous or applied
  why.results = core.array(results)
  error(why, 0)
end

local docs_max = 1000

-- Writes items of client:_open_core():bulk under the lock. -> their results in the same form. If some have
-- none, raises what stopped it, with err.results, where those have "none".
function protect.write(lock, index, items, refresh)
  local own <close> = lock._held:writer(index, {docs = math.min(#items, docs_max)})
  local results, applied = {}, false
  for _, part in ipairs(parts(items)) do
    check(lock)
    local answers, why = own:write(part, {refresh = refresh, exact = true})
    for i, answer in ipairs(answers) do results[#results + 1] = result_of(part[i], answer) end
    if why then fail(lock, why, results, applied) end
    for _, answer in ipairs(answers) do applied = applied or answer.outcome == "applied" end
  end
  return results
end

return protect
