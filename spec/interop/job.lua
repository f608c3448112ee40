-- job.lua PATH JOB VERB: takes the lock for the job (none: ""), or with the VERB adopt takes it over from the
-- dead session of the job. Prints `held FENCE`, or `orphaned_job JOB`; at a line on its standard input ends
-- its session, which leaves what it took as the guard of the job, but gives back what it has adopted.
local core = require "mortise.core"
local path, job, verb = ...
io.stdout:setvbuf "line"
local own = mortise.client():_lock_core()
local session = job ~= "" and own:open_session(job) or own
local adopts = verb == "adopt" or nil
local ok, lock = pcall(session.acquire, session, "tree", nil, {path}, {wait_ms = 20000, adopts = adopts})
if not ok then
  print(core.is_error(lock) and ("%s %s"):format(lock.code, lock.job or "") or tostring(lock))
  return
end
print("held " .. lock.fence)
io.read()
lock:check()
if adopts then session:close() else session:leave() end
print "left"
