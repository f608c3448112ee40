-- contend.lua FILE WHO SECONDS SEED TASKS: the mortise side of interop_test.py. Takes and gives back
-- random tree locks in several tasks; a line of JSON for each hold: who, path, mode, granted and
-- released (ms on CLOCK_BOOTTIME), fence.
local core = require "mortise.core"

local file, who, seconds, seed, tasks = ...
math.randomseed(math.tointeger(tonumber(seed)))
local ends = core.now_ms() + tonumber(seconds) * 1000
local out = assert(io.open(file, "w"))

local paths = {"/"}
for _, a in ipairs {"a", "b", "c"} do
  paths[#paths + 1] = "/" .. a
  for _, b in ipairs {"x", "y", "z"} do
    paths[#paths + 1] = ("/%s/%s"):format(a, b)
    paths[#paths + 1] = ("/%s/%s/1"):format(a, b)
  end
end

local function once(task)
  local path = paths[math.max(math.random(#paths), math.random(#paths))]
  local mode = math.random() < 0.3 and "shared" or "exclusive"
  local lock = mortise.acquire {tree = path, mode = mode, wait = "30s"}
  local granted, fence = core.now_ms(), lock.fence
  for _ = 1, math.random(0, 3) do core.sleep(math.random(1, 15)) end
  lock:check()
  local released = core.now_ms()
  lock:release()
  out:write(([[{"who":"%s.%d","path":"%s","mode":"%s","granted":%d,"released":%d,"fence":%d}]]):format(
    who, task, path, mode == "shared" and "S" or "X", granted, released, fence), "\n")
  core.sleep(math.random(0, 10))
end

local list = {}
for i = 1, math.tointeger(tonumber(tasks)) do
  list[i] = mortise.spawn(function() while core.now_ms() < ends do once(i) end end)
end
for _, task in ipairs(list) do task:join() end
assert(out:close())
