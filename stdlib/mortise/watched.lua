-- Runs a rename or a job of the core, which has run, progress and cancel, while a function is told how far it
-- is.
local context = require "mortise.context"
local core = require "mortise.core"

local progress_ms = 200

local function tell(work, on_progress, what, over)
  local done, all, conflicts, rejected, limit, waits = work:progress()
  local _ <close> = context.at("on_progress of %s: %d of %d documents done", what, done, all)
  on_progress(done, all, {
    conflicts = conflicts, rejected = rejected, limit = limit, waits = waits, over = over,
  })
end

-- Calls on_progress a few times a second; an error in it ends the work.
local function watch(work, on_progress, what, state, on_start)
  return core.spawn(function()
    local ok, why = pcall(function()
      if on_start then on_start(work) end
      while on_progress do
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

-- -> what work:run returns. `on_progress(done, all)` may be nil, as `on_start(work)`, which is called first;
-- `what` names the work in errors of the former; `run(work)` is called instead of work:run().
return function(work, on_progress, what, on_start, run)
  run = run or work.run
  if not (on_progress or on_start) then return run(work) end
  local state = {}
  local watcher = watch(work, on_progress, what, state, on_start)
  local ok, result = pcall(run, work)
  state.over = true
  watcher:cancel()
  watcher:join()
  if state.failed then error(state.why, 0) end
  if not ok then error(result, 0) end
  if on_progress then tell(work, on_progress, what, true) end
  return result
end
