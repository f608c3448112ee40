-- What there is of a job already when it is to be run or planned: an earlier run of the same id.
local core = require "mortise.core"
local errors = require "mortise.errors"
local hint = require "mortise.hint"
local records = require "mortise.records"

local earlier = {}

function earlier.refuse_orphaned(client, record)
  error(core.error {
    code = "orphaned_job", job = record.job, retryable = false,
    message = records.advice(client, record.job, record.state, record.spec.change, record.halted),
  }, 0)
end

-- Raises what keeps one that does not stand from being run anew.
local function refuse(client, record)
  if record.alive then
    errors.raise("conflict", "job %s is at work already, of %s", record.job, record.owner)
  elseif record.state == "undone" and not record.began then
    return -- it was refused
  end
  errors.raise("conflict", "there is a job %s already, which is %s: to run it again, remove that "
    .. "(`%s jobs purge %s`), or give this one another name", record.job, record.state, hint.mortise(client),
    record.job)
end

-- What a second run of it finds: with `once` the result of one that is done, or an error; nil: it is the
-- first.
function earlier.met(client, id, once)
  local record = records.get(client, id)
  if not record then return nil end
  if record.state == "done" and once then
    return core.object {
      job = id, state = "done", already = true, changed = 0,
      rejected = record.counts.rejected, conflicts = record.counts.conflicts,
    }
  end
  if record.stands then earlier.refuse_orphaned(client, record) end
  refuse(client, record)
end

-- A store without an index for jobs runs none. Whether there is one, not every user may see.
local function need_index(client)
  local ok, why = pcall(records.find_index, client)
  if not ok and errors.code(why) ~= "auth" then error(why, 0) end
end

-- Before a plan: raises what the run would, or of one that was `found` in the store its resume; only of one
-- that stands half-done and can be gone on with it is said what is left. `id`: nil where no earlier run can
-- have had it. -> does it stand?
function earlier.foreseen(client, id, once, found)
  need_index(client)
  local record = id and records.get(client, id)
  if not record then return false end
  if found and (record.state == "undoing" or record.state == "undone" and record.began) then
    errors.raise("conflict", "job %s is %s: it cannot be resumed", id, record.state)
  end
  if record.stands and record.state == "undoing" then earlier.refuse_orphaned(client, record) end
  local goes = record.stands or found or once and record.state == "done"
  if not goes then refuse(client, record) end
  return record.stands
end

return earlier
