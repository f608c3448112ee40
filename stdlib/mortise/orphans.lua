-- The option on_orphan: what is done when the guard of a job that stands half-done stops a call.
local core = require "mortise.core"
local errors = require "mortise.errors"
local warn = require "mortise.warn"

local guards = require("mortise.later") "mortise.guards"

local orphans = {}

orphans.row = {
  name = "on_orphan", type = "string", default = "fail", values = {"fail", "resume", "rollback"},
  help = "if a job that stands half-done is in the way: raise orphaned_job, or go on with it, or undo it",
}

local recoveries_max = 64 -- in one call

local over = {done = true, undone = true}

-- Was it recovered, by us or by another process? An error that only says what the job leaves behind is told.
local function is_out_of_the_way(id, ok, why)
  if ok then return true end
  if not core.is_error(why) then return false end
  if why.result and over[why.result.state] then
    warn("job %s was in the way and is %s, but: %s", id, why.result.state, why.message)
    return true
  end
  return why.code == "conflict" and not why.result -- another has adopted its lock
end

local function recover(client, id, o)
  local job = require "mortise.job" -- which uses this module
  local ok, why = pcall(job.recover, client, id, o)
  if is_out_of_the_way(id, ok, why) then return end
  if core.is_error(why) then why.message = ("job %s is in the way: %s"):format(id, why.message) end
  error(why, 0)
end

-- A process that died before its job began, or after its end, can leave what guards nothing.
local function is_left(client, id)
  return guards.is_left[guards.meaning(client, id)]
end

-- Returns what attempt() does. While the guard of a dead job stops that, recovers the job as `o.on_orphan`
-- says, or gives back what is left of one that is over or never began, and attempts it again. Of several
-- who do so at the same time one recovers the job, and the others wait for its lock, each as long as its
-- `o.wait` says.
function orphans.past(client, o, attempt)
  local recovers = (o.on_orphan or "fail") ~= "fail"
  for _ = 1, recoveries_max do
    local ok, result = pcall(attempt)
    if ok then return result end
    if errors.code(result) ~= "orphaned_job" or not result.job then error(result, 0) end
    if not (recovers or is_left(client, result.job)) then error(result, 0) end
    recover(client, result.job, o)
  end
  return attempt()
end

return orphans
