-- What the board remembers of the last hour: a point every few seconds, of the store and of each job.
local core = require "mortise.core"

local history = {}

local hour_ms, apart_ms = 3600000, 5000
local points_most, jobs_most = 720, 32

-- The members of a point, in its order; of a job.
history.names = {"at", "locks", "sessions", "waiting", "running", "standing", "took_ms"}
history.job_names = {"at", "rate", "conflicts", "rejected", "batch_ms", "left", "done"}

function history.new() return {points = {}, jobs = {}, order = {}} end

-- The last point becomes this one while it is younger than the distance of two.
local function add(points, point)
  local last, before = points[#points], points[#points - 1]
  local replaces = last and before and point[1] - before[1] < apart_ms
  points[replaces and #points or #points + 1] = point
  local old = 0
  while points[old + 1] and point[1] - points[old + 1][1] > hour_ms do old = old + 1 end
  old = math.max(old, #points - points_most)
  if old > 0 then
    table.move(points, old + 1, #points, 1)
    for i = #points, #points - old + 1, -1 do points[i] = nil end
  end
end

-- How long a batch took, from two moments of a job: so many came between them.
local function batch_ms(was, record, now)
  local more = was and record.batches and was.batches and record.batches - was.batches or 0
  if more <= 0 then return was and was.batch_ms or 0 end
  return (now - was.at) // more
end

local function forget_oldest(h)
  local oldest = table.remove(h.order, 1)
  h.jobs[oldest] = nil
end

local function add_job(h, record, now)
  local job = h.jobs[record.job]
  if not job then
    if #h.order >= jobs_most then forget_oldest(h) end
    job = {points = {}}
    h.jobs[record.job] = job
    h.order[#h.order + 1] = record.job
  end
  local counts = record.counts
  local took = batch_ms(job.was, record, now)
  if not job.was or record.batches ~= job.was.batches then
    job.was = {at = now, batches = record.batches, batch_ms = took}
  end
  add(job.points, {now, record.rate or 0, counts.conflicts, counts.rejected, took, record.left or 0,
    record.done or 0})
end

-- Adds a look's point.
function history.add(h, found)
  for _, record in ipairs(found.jobs) do
    if record.counts then add_job(h, record, found.at) end
  end
  add(h.points, {
    found.at, found.locks, found.n_sessions, found.waiting, found.running, found.standing, found.took_ms,
  })
end

local function plain(names, points)
  local list = core.array {}
  for i, point in ipairs(points) do list[i] = core.array(table.move(point, 1, #point, 1, {})) end
  return core.object {names = core.array(table.move(names, 1, #names, 1, {})), points = list}
end

function history.object(h) return plain(history.names, h.points) end

-- nil: nothing is known of it.
function history.of_job(h, id)
  local job = h.jobs[id]
  return job and plain(history.job_names, job.points)
end

return history
