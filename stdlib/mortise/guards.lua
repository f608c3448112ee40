-- What sessions of jobs hold in the lock table. Of a job that stands half-done it is the guard, which nobody
-- takes over. What is left of a job that is over, or that was never begun since its process died before it
-- wrote the job's document, is given back by whoever meets it; and a job that stands may have lost its guard.
local core = require "mortise.core"
local errors = require "mortise.errors"
local records = require "mortise.records"
local sessions = require "mortise.sessions"
local visible = require "mortise.visible"
local warn = require "mortise.warn"

local guards = {}

-- ---- What there is -------------------------------------------------------------------------------

local function is_of_a_job(entry)
  return not entry.damaged and type(entry.job) == "string" and entry.job ~= ""
end

-- {path, mode} of all that sessions of a job hold.
function guards.entries(client, id)
  local list, known = {}, {}
  for lock in client:_each {kind = "locks", ns = client:namespace()} do
    for _, entry in ipairs(lock.holders) do
      local name = is_of_a_job(entry) and entry.job == id and entry.mode .. lock.path
      if name and not known[name] then list[#list + 1] = {lock.path, entry.mode} end
      if name then known[name] = true end
    end
  end
  return list
end

-- What it means that sessions of this job hold something, should they be dead: "stands", "over", "unborn", or
-- "unknown" where its document cannot be read. And its record. `namespace`: not this client's.
function guards.meaning(client, id, namespace)
  local ok, record = pcall(records.get, client, id, namespace)
  if not ok and errors.code(record) == "interrupted" then error(record, 0) end
  if not ok then return "unknown" end
  return not record and "unborn" or records.over[record.state] and "over" or "stands", record
end

-- Can what the dead left of such a job be given back?
guards.is_left = {over = true, unborn = true}

-- "left by job X, which is done"
function guards.left_text(id, record)
  return ("left by job %s, which %s"):format(id, record and "is " .. record.state or "never began")
end

-- {[job] = {session, ...}}, real-time: whoever holds anything has an entry at `/`.
local function at_root(client)
  local found = {}
  for _, lock in ipairs(client:_read_locks {"/"}) do
    for _, entry in ipairs(lock.holders) do
      if is_of_a_job(entry) then
        found[entry.job] = found[entry.job] or {}
        table.insert(found[entry.job], entry.session)
      end
    end
  end
  return found
end

local function are_dead(client, ids)
  local known, now, certain = client:_read_sessions(ids), core.wall_ms(), true
  for _, id in ipairs(ids) do
    local verdict = sessions.judge(known[id], now)
    if not verdict.dead then return false end
    certain = certain and (verdict.gone or verdict.state ~= "live" and verdict.state ~= "broken")
  end
  return true, certain
end

-- What dead processes have left of jobs that do not stand: {{job=, certain=, record=}, ...}; not `certain`:
-- they are silent, and that is all. Without `record` it never began.
function guards.left(client)
  local list = {}
  for id, ids in pairs(at_root(client)) do
    local dead, certain = are_dead(client, ids)
    local meaning, record
    if dead then meaning, record = guards.meaning(client, id) end
    if guards.is_left[meaning] then list[#list + 1] = {job = id, certain = certain, record = record} end
  end
  table.sort(list, function(a, b) return core.before(a.job, b.job) end)
  return list
end

-- ---- Giving it back ------------------------------------------------------------------------------

-- What the document of a job says that was never begun. All that is known of it is what it holds.
local function unborn_spec(list)
  local paths = core.array {}
  for _, each in ipairs(list) do
    if each[2] == "X" then paths[#paths + 1] = each[1] end
  end
  return core.json {
    unborn = true, index = "-", change = core.array {}, lock = {kind = "tree", paths = paths},
  }
end

function guards.refuse_unborn(id)
  errors.raise("not_found", "job %s never began, since its process ended before that: nothing of it is left",
    id)
end

-- Gives back what dead sessions of a job hold that does not stand half-done; raises conflict, and leaves it
-- there, if it does. -> how many entries there were
function guards.clear(client, id, wait_ms)
  core.job_id_check(id)
  local list = guards.entries(client, id)
  if #list == 0 then return 0 end
  records.ready(client)
  local session <close> = client:_lock_core():open_session(id)
  local held = session:acquire_paths(list, {wait_ms = wait_ms, adopts = true})
  held:job({verb = "clear", id = id, spec = unborn_spec(list)}):run()
  session:close()
  return #list
end

local sweep_ms = 2000

-- Before a job begins: the same of all that is certain. What cannot be given back stays for who meets it.
function guards.sweep(client)
  for _, each in ipairs(guards.left(client)) do
    local ok, why = true
    if each.certain then ok, why = pcall(guards.clear, client, each.job, sweep_ms) end
    if not ok and errors.code(why) == "interrupted" then error(why, 0) end
  end
end

-- ---- Jobs that stand -----------------------------------------------------------------------------

-- What the lock of a spec is on, without the paths above.
local function targets(lock)
  local list = {}
  for _, each in ipairs(core.lock_set(lock.kind, lock.index, lock.paths)) do
    if each.mode == "X" then list[#list + 1] = each.path end
  end
  return list
end

local looked_at = 256 -- paths of one job

-- Adds `guarded` to those that stand: does its lock stand at its paths? Not to one that lets others in.
-- `namespace`: not this client's.
function guards.mark(client, list, namespace)
  local paths, of = {}, {}
  for _, record in ipairs(list) do
    if record.stands and not record.lets_in then
      of[record.job] = table.move(targets(record.spec.lock), 1, looked_at, 1, {})
      for _, path in ipairs(of[record.job]) do paths[#paths + 1] = path end
    end
  end
  local held = {}
  for _, lock in ipairs(#paths > 0 and client:_read_locks(paths, namespace) or {}) do
    for _, entry in ipairs(lock.holders) do
      if is_of_a_job(entry) and entry.mode == "X" then held[entry.job .. lock.path] = true end
    end
  end
  for _, record in ipairs(list) do
    if of[record.job] then record.guarded = true end
    for _, path in ipairs(of[record.job] or {}) do
      record.guarded = record.guarded and held[record.job .. path] or false
    end
  end
  return list
end

local function set_of(list)
  local set = {}
  for _, path in ipairs(list) do set[path] = true end
  return set
end

-- Is one of the paths in the set, or below one of it? -> it
local function find_inside(list, set)
  for _, path in ipairs(list) do
    local at = path
    while at ~= "" do
      if set[at] then return path end
      at = at:match "^(.*)/"
    end
    if set["/"] then return path end
  end
end

-- A path of one list that is at, above or below one of the other.
local function find_shared(list, others)
  return find_inside(list, set_of(others)) or find_inside(others, set_of(list))
end

-- What fn(...) returns; nothing where the store has no jobs, or does not let this user see them.
local function if_seen(fn, ...)
  local ok, first, second = pcall(fn, ...)
  if ok then return first, second end
  local code = errors.code(first)
  if code == "auth" then
    warn("whether a job stands half-done there could not be seen: %s", first.message)
  elseif code ~= "not_found" then
    error(first, 0)
  end
end

local function list_lost(client, namespace, path)
  local list, lost = records.standing(client, namespace), {}
  for _, record in ipairs(guards.mark(client, list, namespace)) do
    local here = not path or find_shared({path}, targets(record.spec.lock))
    if record.guarded == false and here then lost[#lost + 1] = record end
  end
  return lost
end

-- Those that stand half-done without their guard. `path` (nil: anywhere): at, above or below it; `namespace`:
-- not this client's.
function guards.lost(client, path, namespace)
  return if_seen(list_lost, client, namespace, path) or {}
end

-- Takes the lock of one that has lost it, and leaves it there as its guard, so that who wants its paths is
-- told; others who have one there are waited for. -> false: it does not stand any more
function guards.restore(client, record, wait_ms)
  local lock = record.spec.lock
  local session <close> = client:_lock_core():open_session(record.job)
  session:acquire(lock.kind, lock.index, lock.paths, {wait_ms = wait_ms, adopts = true})
  local now = records.get(client, record.job)
  local stands = now and now.stands or false
  if stands then session:leave() end
  return stands
end

local function find_standing(client, paths, own)
  for _, record in ipairs(records.standing(client)) do
    local others = record.job ~= own and not record.lets_in and targets(record.spec.lock) or {}
    local path = find_shared(paths, others)
    if path then return record, path end
  end
end

-- The record of another job that stands half-done at, above or below a path of this lock, and that path.
-- Where the lock is held this can only be one that has lost its guard.
function guards.in_the_way(client, lock, own) return find_standing(client, targets(lock), own) end

-- The same, before anything is locked: a store that has no jobs, or does not let this user see them, is no
-- error.
function guards.foreseen(client, lock, own) return if_seen(guards.in_the_way, client, lock, own) end

local told = setmetatable({}, {__mode = "k"}) -- {[client] = {[job] = true}}

-- Warns, once of each job, where paths are locked at which one stands half-done that has lost its guard. That
-- takes requests, so not every lock asks.
function guards.tell(client, paths)
  local record, path = if_seen(find_standing, client, paths)
  told[client] = told[client] or {}
  if not record or told[client][record.job] then return end
  told[client][record.job] = true
  warn("%s is locked, but a job that has lost its lock has left it half-changed: %s", path,
    records.advice(client, record.job, record.state, record.spec.change, record.halted))
end

function guards.refuse(client, record, path)
  error(core.error {
    code = "orphaned_job", job = record.job, retryable = false,
    message = ("%s is in the way: %s"):format(visible(path),
      records.advice(client, record.job, record.state, record.spec.change, record.halted)),
  }, 0)
end

return guards
