-- The option yield_every: a job gives its lock back between batches if others wait for one of its paths.
local core = require "mortise.core"

local yielding = {}

yielding.row = {
  name = "yield_every", type = "duration",
  help = "of a list: how often others are let in who wait for one of its paths, between its batches",
}

-- All who wait for something that these paths exclude stand in the queue of one of them, or of an ancestor.
local function with_ancestors(paths)
  local known, list = {}, {}
  local function add(path)
    if not known[path] then list[#list + 1], known[path] = path, true end
  end
  for _, path in ipairs(paths) do
    add "/"
    for at in path:gmatch "()/" do
      if at > 1 then add(path:sub(1, at - 1)) end
    end
    add(path)
  end
  return list
end

local function is_wanted(client, paths, session)
  for _, lock in ipairs(client:_read_locks(paths)) do
    for _, waiter in ipairs(lock.queue) do
      if waiter.session ~= session then return true end
    end
  end
  return false
end

-- Returns what fn() does, which runs `work` under `held` in `session`, and stops the work as soon as others
-- wait, though not within the first `every_ms`.
function yielding.while_wanted(client, session, held, work, every_ms, fn)
  if not every_ms then return fn() end
  local paths, own, over = with_ancestors(held.paths), session:info().id, false
  local watcher = core.spawn(function()
    repeat
      core.sleep(every_ms)
      -- What cannot be read is looked at again. A cancel may come here, too, and pcall takes it for an error.
      local ok, wanted = pcall(is_wanted, client, paths, own)
    until over or ok and wanted
    if not over then work:yield() end
  end)
  local results = table.pack(pcall(fn))
  over = true
  watcher:cancel()
  pcall(watcher.join, watcher)
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

local sums = {"changed", "unknown", "redone", "bytes", "round_trips", "passes", "duration_ms"}

-- Adds what was done before others were let in, so that the result is of all.
function yielding.join(before, now)
  if not before then return now end
  for _, name in ipairs(sums) do now[name] = (now[name] or 0) + (before[name] or 0) end
  return now
end

-- What was under way when the job stopped is counted in its document alone.
function yielding.complete(result, counts)
  for _, name in ipairs {"matched", "changed", "unchanged", "deleted"} do
    result[name] = counts[name] or result[name]
  end
end

-- `on_progress`, for what comes after: with what was done before.
function yielding.progress(on_progress, before)
  if not (on_progress and before) then return on_progress end
  return function(done, all, more)
    done = done + before.changed
    return on_progress(done, math.max(all, done), more)
  end
end

return yielding
