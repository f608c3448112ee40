-- contend.lua FILE SECONDS SEED TASKS STOP: takes and gives back random tree locks in several tasks until
-- there is a file STOP, or SECONDS are over, and writes what happened to FILE for spec/history/check.lua.
-- Times are those of CLOCK_BOOTTIME, which all processes of the machine share.
local core = require "mortise.core"

local file, seconds, seed, tasks, stop = ...
math.randomseed(math.tointeger(tonumber(seed)))
local ends = core.now_ms() + tonumber(seconds) * 1000
local recorder = dofile "spec/history/record.lua" (file, "process" .. seed)
local client = mortise.connect {}

local paths = {"/"}
for _, a in ipairs {"a", "b", "c"} do
  paths[#paths + 1] = "/" .. a
  for _, b in ipairs {"x", "y", "z"} do
    paths[#paths + 1] = ("/%s/%s"):format(a, b)
    paths[#paths + 1] = ("/%s/%s/1"):format(a, b)
  end
end

-- The deep ones more often, else everybody waits for the root.
local function any_path()
  return paths[math.max(math.random(#paths), math.random(#paths), 1)]
end

local function stay(hold)
  for _ = 1, math.random(1, 4) do
    core.sleep(math.random(2, 15))
    recorder:sure(hold)
  end
end

-- What is expected while a node is dead.
local passing = {lock_timeout = true, lock_lost = true, unavailable = true, deadlock = true}

local function pass(code, why)
  if not passing[code] then error(why, 0) end
  core.sleep(100)
end

local function once(task)
  local path, shared = any_path(), math.random() < 0.3
  local hold, code, why = recorder:acquire(task, client, {tree = path, wait = "10s",
    mode = shared and "shared" or "exclusive"}, {{path, shared and "S" or "X"}})
  if not hold then return pass(code, why) end
  local ok, lost = pcall(stay, hold)
  if not ok then recorder:lost(hold) end
  recorder:release(hold)
  if not ok then pass(recorder.code_of(lost), lost) end
end

local stopped = false

local function look()
  local handle = io.open(stop)
  if handle then handle:close() end
  stopped = handle ~= nil or core.now_ms() >= ends
end

local list = {mortise.spawn(function()
  repeat
    core.sleep(200)
    look()
  until stopped
end)}
for i = 1, math.tointeger(tonumber(tasks)) do
  list[i + 1] = mortise.spawn(function()
    while not stopped do once(i) end
  end)
end
for _, task in ipairs(list) do task:join() end
recorder:close()
