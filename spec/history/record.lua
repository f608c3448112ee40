-- For scripts that mortise runs: takes locks and writes down what happens, as check.lua reads it.
--   local record = dofile "spec/history/record.lua" (FILE, WHO[, CLOCK])
-- CLOCK: microseconds, of all recorders the same; else CLOCK_BOOTTIME. A task's holds are
-- {id=, lock=, locks=, task=}.
local core = require "mortise.core"

local Recorder = {}
Recorder.__index = Recorder

local function boot_us() return core.now_ms() * 1000 end

-- Certainly not granted; with any other error the lock may have been granted.
local refused = {lock_timeout = true, deadlock = true}

local function code_of(why) return mortise.is_error(why) and why.code or tostring(why) end

function Recorder:say(t, task, op, is, event)
  event.t, event.who, event.task, event.op, event.is = t, self.who, task, op, is
  self.out:write(core.json(event), "\n")
end

function Recorder:next_id()
  self.ids = self.ids + 1
  return self.who .. "." .. self.ids
end

-- What is left of the lease counts from before it is asked for, and is in whole milliseconds of a clock
-- that was cut off to such. Nothing left is no belief.
local function deadline(hold, t)
  local left = hold.lock:remaining()
  return left > 0 and t + math.floor(left * 1e6) - 1000 or nil
end

-- `request` is client:acquire's, `locks` the same as [[PATH, MODE], ...]. -> a hold, or nil and the code.
function Recorder:acquire(task, client, request, locks)
  local hold = {id = self:next_id(), task = task, locks = locks}
  self:say(self.now(), task, "acquire", "invoke", {id = hold.id, locks = locks})
  local ok, result = pcall(client.acquire, client, request)
  local t = self.now()
  if not ok then
    local code = code_of(result)
    self:say(t, task, "acquire", refused[code] and "fail" or "unknown", {id = hold.id, code = code})
    return nil, code, result
  end
  hold.lock = result
  local session = client:session()
  self:say(t, task, "acquire", "ok", {id = hold.id, fence = ("%d"):format(result.fence),
    ["until"] = deadline(hold, t), session = session and session.id})
  return hold
end

-- Raises what lock:check raises.
function Recorder:sure(hold)
  local t = self.now()
  hold.lock:check()
  self:say(t, hold.task, "sure", nil, {id = hold.id, ["until"] = deadline(hold, t)})
end

function Recorder:lost(hold)
  if not hold.lost and not hold.released then
    hold.lost = true
    self:say(self.now(), hold.task, "lost", nil, {id = hold.id})
  end
end

-- To other modes: `verb` is "upgrade" or "downgrade", `given` its options. -> true, or nil and the code.
function Recorder:convert(hold, verb, given, locks)
  local lower = verb == "downgrade" or nil
  self:say(self.now(), hold.task, "convert", "invoke", {id = hold.id, locks = locks, lower = lower})
  local ok, result = pcall(hold.lock[verb], hold.lock, given)
  local t = self.now()
  if not ok then
    local code = code_of(result)
    self:say(t, hold.task, "convert", refused[code] and "fail" or "unknown", {id = hold.id, code = code})
    return nil, code
  end
  hold.locks = locks
  self:say(t, hold.task, "convert", "ok", {id = hold.id, fence = ("%d"):format(hold.lock.fence),
    ["until"] = deadline(hold, t)})
  return true
end

-- A protected write: `write` does it with hold.lock, and returns its outcome: "ok", "fail" or "unknown".
-- `w` names it.
function Recorder:write(hold, w, doc, write)
  self:say(self.now(), hold.task, "write", "invoke", {id = hold.id, w = w, doc = doc,
    fence = ("%d"):format(hold.lock.fence)})
  local ok, outcome, why = pcall(write, hold.lock)
  local t = self.now()
  if not ok then outcome, why = "unknown", outcome end
  self:say(t, hold.task, "write", outcome, {w = w, ["until"] = outcome == "ok" and deadline(hold, t) or nil,
    code = why and code_of(why)})
  return outcome, why and code_of(why)
end

-- Stops believing, then gives it back. Nothing is raised.
function Recorder:release(hold)
  if hold.released then return end
  hold.released = true
  self:say(self.now(), hold.task, "release", "invoke", {id = hold.id})
  local ok, why = pcall(hold.lock.release, hold.lock)
  self:say(self.now(), hold.task, "release", ok and "ok" or "unknown", {id = hold.id,
    code = not ok and code_of(why) or nil})
end

function Recorder:close() assert(self.out:close()) end

return function(file, who, clock)
  local out = assert(io.open(file, "w"))
  out:setvbuf "line"
  return setmetatable({out = out, who = who, now = clock or boot_us, ids = 0, code_of = code_of}, Recorder)
end
