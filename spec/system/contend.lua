-- contend.lua FILE SECONDS SEED TASKS: takes and gives back random tree locks in several tasks, and
-- writes what happened to FILE for check_history.lua. Times are ms on CLOCK_BOOTTIME, which all
-- processes of the machine share:
--   ok TIME HOLD MODE PATH FENCE    granted; the time is from after the grant
--   sure TIME HOLD                  still held; the time is from before the check
--   fail TIME CODE                  not had, or lost
local core = require "mortise.core"

local file, seconds, seed, tasks = ...
math.randomseed(math.tointeger(tonumber(seed)))
local ends = core.now_ms() + tonumber(seconds) * 1000
local out = assert(io.open(file, "w"))
out:setvbuf "line"

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

local function say(...) out:write(table.concat({...}, " "), "\n") end

-- Holding it for a while: each check is noted with the time from before it.
local function hold(lock, name)
  for _ = 1, math.random(1, 4) do
    core.sleep(math.random(2, 15))
    local now = core.now_ms()
    lock:check()
    say("sure", now, name)
  end
end

local count = 0
local function once()
  count = count + 1
  local name = seed .. "." .. count
  local path, mode = any_path(), math.random() < 0.3 and "shared" or "exclusive"
  local lock <close> = mortise.acquire {tree = path, mode = mode, wait = "10s"}
  say("ok", core.now_ms(), name, mode, path, lock.fence)
  hold(lock, name)
end

-- What is expected while a node is dead.
local passing = {lock_timeout = true, lock_lost = true, unavailable = true, deadlock = true}

local function work()
  while core.now_ms() < ends do
    local ok, why = pcall(once)
    if not ok then
      local code = mortise.is_error(why) and why.code or tostring(why)
      say("fail", core.now_ms(), code)
      if not passing[code] then error(why, 0) end
      core.sleep(100)
    end
  end
end

local list = {}
for i = 1, math.tointeger(tonumber(tasks)) do list[i] = mortise.spawn(work) end
for _, task in ipairs(list) do task:join() end
out:close()
