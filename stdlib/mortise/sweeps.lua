-- What a server's own task does for a job after the job's process is gone (core/job/sweep.h): it goes on
-- until somebody resumes or undoes the job, or its time is over, and nobody writes down how far it is.
local core = require "mortise.core"
local duration = require "mortise.duration"

local sweeps = {}

-- What can be seen of its tasks now. -> is one at work; and how many documents they have changed
local function see(client, record, namespace)
  local own, running, changed, known = client:_open_core(), false, 0, false
  local function add(id)
    local task = own:job_task(id)
    running = running or task.running or task.lost
    changed = changed + task.updated
    known = known or id == record.task
  end
  for _, id in ipairs(own:job_tasks(namespace or client:namespace(), record.job)) do add(id) end
  if record.task and not known then add(record.task) end
  return running, changed
end

-- Of a record that stands. -> nil where the server is not at work for it; else {running= (nil: that cannot be
-- seen), changed= (so many documents at least), not_after= (seconds since 1970, by the server's clock, nil:
-- not known)}
function sweeps.look(client, record, namespace)
  if not (record.stands and record.sweeps) then return nil end
  local found = core.object {changed = record.swept or 0, not_after = record.not_after}
  local ok, running, changed = pcall(see, client, record, namespace)
  if ok then found.running, found.changed = running, math.max(found.changed, changed) end
  return found
end

-- Adds that to a record, as `server`, and what the task has changed to how far it is.
function sweeps.mark(client, record)
  local found = sweeps.look(client, record)
  record.server = found
  local more = found and found.changed - (record.swept or 0) or 0
  if more == 0 then return end
  record.swept, record.done = found.changed, record.done + more
  record.total = math.max(record.total or 0, record.done)
  record.left = record.total - record.done
end

-- May there be one that is still at work?
function sweeps.goes_on(found) return found ~= nil and found.running ~= false end

-- "the server's own task is still at work on it, for 25s at most or until somebody resumes or undoes it: at
-- least 300 documents changed". While it works in slices, and where it has ended, a server may not say how
-- many.
function sweeps.text(found)
  local changed = found.changed > 0 and ("at least %d documents changed"):format(found.changed)
    or "how many documents it has changed, it does not say"
  if found.running == false then return "the server's own task is not at work any more: " .. changed end
  local left = found.not_after and math.floor(found.not_after * 1000) - core.wall_ms() or 0
  return ("the server's own task %s at work on it, %suntil somebody resumes or undoes it: %s"):format(
    found.running and "is still" or "may still be",
    left > 0 and ("for %s at most or "):format(duration.text(left)) or "", changed)
end

-- After a resume of a job whose record was `before`: how many documents the server's task had changed, which
-- the result does not count.
function sweeps.earlier(before, job, result)
  local now = before and before.sweeps and job:status()
  if not now then return 0 end
  return math.max(0, now.counts.changed - before.counts.changed - result.changed)
end

return sweeps
