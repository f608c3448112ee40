-- What goes on in a store at one moment: locks, who waits for whom, jobs; for `mortise watch`.
local blocking = require "mortise.cli.blocking"
local core = require "mortise.core"
local errors = require "mortise.errors"
local guards = require "mortise.guards"
local holds = require "mortise.cli.holds"
local progress = require "mortise.cli.progress"
local records = require "mortise.records"

local overview = {}

-- What a waiter is known by from one look to the next.
function overview.key(entry)
  return ("%s %s %s %s"):format(blocking.owner_of(entry), entry.n or 0, entry.waits and "waits" or "holds",
    entry.path)
end

-- When each waiter was first seen: the store does not say since when it waits.
local function note_first(waits, seen, now)
  local still = {}
  for _, wait in ipairs(waits) do
    local key = overview.key(wait.waiter)
    still[key] = seen and seen[key] or now
    wait.waiter.seen = still[key]
  end
  return still
end

local unseen = {not_found = true, auth = true}

-- The jobs that are not over; none where the store has none, or does not let this user see them.
local function read_jobs(client)
  local ok, list = pcall(records.unfinished, client)
  if ok then return guards.mark(client, list) end
  if unseen[errors.code(list)] then return {} end
  error(list, 0)
end

-- One scan of the lock table. `before`: the last look, or nil.
-- -> {at=, entries=, waits=, locks=, sessions=, jobs=, fresh=, took_ms=}
function overview.take(client, before)
  local began, owners = core.now_ms(), {}
  local look = {at = core.wall_ms(), entries = {}, locks = 0, sessions = 0}
  look.fresh = holds.each(client, {kind = "locks", unsorted = true}, function(entry, lock)
    local owner = blocking.owner_of(entry)
    if not owners[owner] then look.sessions = look.sessions + 1 end
    owners[owner] = true
    if not entry.waits and not holds.is_intention(entry.mode) then look.locks = look.locks + 1 end
    if holds.is_worth_showing(entry, lock) then look.entries[#look.entries + 1] = entry end
  end)
  look.waits = blocking.waits(look.entries)
  look.seen = note_first(look.waits, before and before.seen, look.at)
  look.jobs = read_jobs(client)
  look.took_ms = core.now_ms() - began
  return look
end

-- {running=, standing=}
function overview.count_jobs(look)
  local running, standing = 0, 0
  for _, record in ipairs(look.jobs) do
    if record.stands or record.state == "damaged" then standing = standing + 1 else running = running + 1 end
  end
  return {running = running, standing = standing}
end

-- "50,000 locks of 1,000 sessions, 2 wait; 1 job runs, 0 stand half-done"
function overview.sum(look)
  local jobs = overview.count_jobs(look)
  return ("%s %s of %s %s, %s wait; %d %s, %d stand half-done"):format(
    progress.grouped(look.locks), look.locks == 1 and "lock" or "locks",
    progress.grouped(look.sessions), look.sessions == 1 and "session" or "sessions",
    progress.grouped(#look.waits), jobs.running, jobs.running == 1 and "job runs" or "jobs run",
    jobs.standing)
end

-- For `--json`.
function overview.object(look)
  local jobs, count = core.array {}, overview.count_jobs(look)
  for i, record in ipairs(look.jobs) do
    jobs[i] = core.object {
      job = record.job, state = record.state, stands = record.stands, waits = record.waits,
      done = record.done, all = record.total, rate = record.rate, seconds_left = record.seconds_left,
    }
  end
  return core.object {
    at = holds.iso(look.at), locks = look.locks, sessions = look.sessions, waiting = #look.waits,
    waits = blocking.objects(look.waits), jobs = jobs, running = count.running, standing = count.standing,
    refreshed = look.fresh, took_ms = look.took_ms,
  }
end

return overview
