-- contend.lua HISTORY FILE WHO SECONDS SEED TASKS: the mortise side of interop_test.py. Takes and gives
-- back random tree locks in several tasks, and records it (HISTORY is the folder spec/history).
local core = require "mortise.core"

local history, file, who, seconds, seed, tasks = ...
math.randomseed(math.tointeger(tonumber(seed)))
local ends = core.now_ms() + tonumber(seconds) * 1000
local recorder = dofile(history .. "/record.lua")(file, who)
local client = mortise.connect {}

local paths = {"/"}
for _, a in ipairs {"a", "b", "c"} do
  paths[#paths + 1] = "/" .. a
  for _, b in ipairs {"x", "y", "z"} do
    paths[#paths + 1] = ("/%s/%s"):format(a, b)
    paths[#paths + 1] = ("/%s/%s/1"):format(a, b)
  end
end

local function once(task)
  local path, shared = paths[math.max(math.random(#paths), math.random(#paths))], math.random() < 0.3
  local hold, _, why = recorder:acquire(task, client, {tree = path, wait = "30s",
    mode = shared and "shared" or "exclusive"}, {{path, shared and "S" or "X"}})
  if not hold then error(why, 0) end
  for _ = 1, math.random(0, 3) do core.sleep(math.random(1, 15)) end
  recorder:sure(hold)
  recorder:release(hold)
  core.sleep(math.random(0, 10))
end

local list = {}
for i = 1, math.tointeger(tonumber(tasks)) do
  list[i] = mortise.spawn(function() while core.now_ms() < ends do once(i) end end)
end
for _, task in ipairs(list) do task:join() end
recorder:close()
