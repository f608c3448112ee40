-- Runs a rename or a job of the core, which has run, progress and cancel, while a function is told how far it
-- is.
local context = require "mortise.context"
local core = require "mortise.core"

local progress_ms = 200

local function tell(work, on_progress, what)
  local done, all, conflicts, rejected, limit, waits = work:progress()
  local _ <close> = context.at("on_progress of %s: %d of %d documents done", what, done, all)
  on_progress(done, all, {conflicts = conflicts, rejected = rejected, limit = limit, waits = waits})
end

-- Calls on_progress a few times a second; an error in it ends the work.
local function watch(work, on_progress, what, state)
  return core.spawn(function()
    local ok, why = pcall(function()
      while true do
        core.sleep(progress_ms)
        tell(work, on_progress, what)
      end
    end)
    if not ok and not state.over then
      state.failed, state.why = true, why
      work:cancel()
    end
  end)
end

-- -> what work:run returns. `on_progress(done, all)` may be nil; `what` names the work in its errors.
return function(work, on_progress, what)
  if not on_progress then return work:run() end
  local state = {}
  local watcher = watch(work, on_progress, what, state)
  local ok, result = pcall(work.run, work)
  state.over = true
  watcher:cancel()
  watcher:join()
  if state.failed then error(state.why, 0) end
  if not ok then error(result, 0) end
  tell(work, on_progress, what)
  return result
end
