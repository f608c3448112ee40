-- A look as the page gets it: bounded, whatever there is.
local blocking = require "mortise.cli.blocking"
local circles = require "mortise.board.circles"
local core = require "mortise.core"
local holds = require "mortise.cli.holds"
local job_shown = require "mortise.cli.job_shown"
local levels = require "mortise.board.levels"
local records = require "mortise.records"
local shown = require "mortise.board.shown"

local data = {}

local waits_most, blockers_most, circles_most, circle_most = 20, 3, 3, 8
local sessions_most, jobs_most, namespaces_most = 25, 20, 20

-- ---- Waits ---------------------------------------------------------------------------------------

local function blocker(entry)
  return core.object {
    who = shown.text(blocking.who(entry)), shown = shown.path(entry.path), mode = entry.mode,
    hold = holds.name(entry), session = entry.session, waits = entry.waits or nil,
    path = shown.raw(entry.path), namespace = entry.namespace,
  }
end

local function wait_object(wait)
  local object, blockers = levels.waiter(wait), core.array {}
  for k = 1, math.min(#wait.blockers, blockers_most) do blockers[k] = blocker(wait.blockers[k]) end
  object.blockers, object.more = blockers, #wait.blockers - #blockers
  return object
end

-- Those of our namespace come first.
local function waits_of(found, own)
  local list = core.array {}
  for _, is_ours in ipairs {true, false} do
    for _, wait in ipairs(found.waits) do
      local fits = (wait.waiter.namespace == own) == is_ours
      if fits and #list < waits_most then list[#list + 1] = wait_object(wait) end
    end
  end
  return list
end

local function circles_of(found)
  local list = core.array {}
  for i, steps in ipairs(circles.find(found.waits, circles_most)) do
    local objects = core.array {}
    for k = 1, math.min(#steps, circle_most) do
      objects[k] = core.object {
        who = shown.text(blocking.who(steps[k].wait.waiter)), wants = shown.path(steps[k].wait.waiter.path),
        of = shown.text(blocking.who(steps[k].blocker)),
      }
    end
    list[i] = core.object {steps = objects, more = #steps - #objects}
  end
  return list
end

-- ---- Sessions ------------------------------------------------------------------------------------

-- Who waits comes first, then who holds most.
local function is_before(a, b)
  if (a.waits > 0) ~= (b.waits > 0) then return a.waits > 0 end
  if a.holds ~= b.holds then return a.holds > b.holds end
  return core.before(a.id, b.id)
end

-- The first `most` of a list in that order, without sorting all of it.
local function first_of(list, most)
  local chosen = {}
  for _, session in ipairs(list) do
    local last = chosen[#chosen]
    if #chosen < most or is_before(session, last) then
      if #chosen == most then chosen[most] = nil end
      local at = #chosen + 1
      while at > 1 and is_before(session, chosen[at - 1]) do at = at - 1 end
      table.insert(chosen, at, session)
    end
  end
  return chosen
end

function data.session(session, found)
  local verdict = session.verdict
  local left = not verdict.dead and session.beat_at and session.lease_ms
    and session.beat_at + session.lease_ms - found.at or nil
  return core.object {
    namespace = session.namespace, id = session.id, who = shown.text(session.who), opened = session.opened,
    lease_ms = session.lease_ms, left_ms = left, holds = session.holds, waits = session.waits,
    state = verdict.state, dead = verdict.dead or nil, verdict = shown.text(verdict.text),
  }
end

local function sessions_of(found)
  local list = core.array {}
  for i, session in ipairs(first_of(found.session_list, sessions_most)) do
    list[i] = data.session(session, found)
  end
  return list
end

-- ---- Jobs ----------------------------------------------------------------------------------------

local function phase_of(record)
  local work = record.work
  return type(work) == "table" and type(work.phase) == "string" and shown.text(work.phase) or nil
end

-- What the page's buttons may ask for.
local function verbs_of(record)
  local verbs = core.array {}
  if record.alive then
    local paused = record.waits and record.waits:find "^paused" ~= nil
    verbs = core.array {paused and "resume" or "pause", "throttle"}
  elseif record.stands then
    verbs = core.array(record.state == "undoing" and {"rollback"} or {"resume", "rollback"})
  elseif record.state == "done" and not record.work then
    verbs = core.array {"rollback"}
  end
  return verbs
end

local function damaged(record)
  return core.object {job = shown.text(record.job), state = "damaged", verbs = core.array {}}
end

function data.job(record)
  if not record.counts then return damaged(record) end
  local is_over = records.over[record.state]
  return core.object {
    job = record.job, state = record.state, stands = record.stands or nil, alive = record.alive or nil,
    migration = record.spec.migrate ~= nil or nil, phase = phase_of(record),
    waits = shown.text(record.waits), reason = shown.text(record.reason),
    index = shown.text(record.spec.index),
    locks = shown.text(job_shown.paths_text(record.spec.lock), 400), owner = shown.text(record.owner),
    done = record.done, total = record.total, left = not is_over and record.left or nil, rate = record.rate,
    seconds_left = record.seconds_left, counts = record.counts, batches = record.batches,
    created = math.floor(record.created * 1000), updated = math.floor(record.updated * 1000),
    unguarded = record.guarded == false or nil, verbs = verbs_of(record),
  }
end

local function jobs_of(found)
  local list, chosen = core.array {}, {}
  for _, stands in ipairs {true, false} do
    for _, record in ipairs(found.jobs) do
      if (record.stands or false) == stands then chosen[#chosen + 1] = record end
    end
  end
  for _, record in ipairs(found.ended) do chosen[#chosen + 1] = record end
  for i = 1, math.min(#chosen, jobs_most) do list[i] = data.job(chosen[i]) end
  return list, #chosen - #list
end

-- ---- All -----------------------------------------------------------------------------------------

local function namespaces_of(found, own)
  local list = core.array {}
  for namespace, columns in pairs(found.columns) do
    list[#list + 1] = core.object {namespace = namespace, n = columns.count, waits = columns.waits}
  end
  table.sort(list, function(a, b)
    if (a.namespace == own) ~= (b.namespace == own) then return a.namespace == own end
    return core.before(a.namespace, b.namespace)
  end)
  for i = #list, namespaces_most + 1, -1 do list[i] = nil end
  return list
end

-- `board`: {start=, number=, page=, steered=, namespace=, url=, version=, interval_ms=, failure=}
function data.object(board, found)
  local object = core.object {
    start = board.start, number = board.number, page = board.page, url = board.url,
    control = board.steered or nil,
    namespace = board.namespace, version = board.version, failure = shown.text(board.failure),
    interval_ms = board.interval_ms, now = core.wall_ms(),
  }
  if not found then return object end
  local jobs, more = jobs_of(found)
  object.at, object.took_ms, object.refreshed = found.at, found.took_ms, found.fresh
  object.sums = core.object {
    locks = found.locks, sessions = found.n_sessions, waiting = found.waiting, running = found.running,
    standing = found.standing, left_out = found.left_out > 0 and found.left_out or nil,
  }
  object.waits, object.circles = waits_of(found, board.namespace), circles_of(found)
  object.waits_more = found.waiting - #object.waits
  object.sessions = sessions_of(found)
  object.sessions_more = found.n_sessions - #object.sessions
  object.jobs, object.jobs_more = jobs, more
  object.namespaces = namespaces_of(found, board.namespace)
  return object
end

return data
