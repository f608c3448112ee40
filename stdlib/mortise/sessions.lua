-- Tells for lists of locks and sessions who is probably alive. This is only for people: locks are taken over
-- by the protocol, which compares no clocks.
local core = require "mortise.core"
local duration = require "mortise.duration"

local sessions = {}

local function first_line(file)
  local handle = io.open(file, "rb")
  if not handle then return nil end
  local line = handle:read "l"
  handle:close()
  return line
end

local function output_of(command)
  local pipe = io.popen(command .. " 2>/dev/null")
  local line = pipe and pipe:read "l"
  if pipe then pipe:close() end
  return line
end

local here
local function this_machine()
  here = here or {
    boot = first_line "/proc/sys/kernel/random/boot_id",
    pidns = output_of "readlink /proc/self/ns/pid",
  }
  return here
end

local function same(a, b)
  if not a or not b then return false end
  a, b = core.tostring(a):gsub("[^0-9A-Za-z]", ""), core.tostring(b):gsub("[^0-9A-Za-z]", "")
  return a:find(b, 1, true) ~= nil or b:find(a, 1, true) ~= nil
end

-- Start time of a process in kernel ticks.
local function start_of(pid)
  local line = first_line(("/proc/%d/stat"):format(pid))
  local rest = line and line:match ".*%) +(.*)$"
  if not rest then return nil end
  local at = 0
  for field in rest:gmatch "[^ ]+" do
    at = at + 1
    if at == 20 then return math.tointeger(core.number(field)) end
  end
end

-- Did the owner run on this machine, and is its process gone? nil if unknown.
function sessions.is_gone(owner)
  local machine = this_machine()
  if type(owner) ~= "table" or math.type(owner.pid) ~= "integer" then return nil end
  if not same(machine.boot, owner.boot) or not same(machine.pidns, owner.pidns) then return nil end
  local start = start_of(owner.pid)
  return start == nil or (math.type(owner.start) == "integer" and owner.start ~= start)
end

-- Owners' fields may have any type.
local function is_text(value)
  return type(value) == "string" and value ~= "" or type(value) == "number"
end

-- What it runs: a script, or a command with its target; else the program; else "?".
function sessions.runs_text(owner)
  local what = is_text(owner.script) and owner.script or is_text(owner.program) and owner.program
  return what and core.tostring(what) or "?"
end

-- "move.lua, job nightly, root@host, pid 12"
function sessions.owner_text(owner)
  if type(owner) ~= "table" then return "unknown" end
  local parts = {}
  local function add(format, value)
    if is_text(value) then parts[#parts + 1] = format:format(core.tostring(value)) end
  end
  if is_text(owner.script) or is_text(owner.program) then add("%s", sessions.runs_text(owner)) end
  add("job %s", owner.job)
  local user = is_text(owner.user) and is_text(owner.host) and core.tostring(owner.user) .. "@" or ""
  add("%s", is_text(owner.host) and user .. core.tostring(owner.host) or nil)
  add("pid %s", owner.pid)
  return table.concat(parts, ", ")
end

-- The verdict on a damaged entry.
sessions.damaged = {
  state = "damaged", damaged = true, dead = false, text = "damaged: nobody takes it over, break it by hand",
}

-- The same at a place where no lock can be.
sessions.stray = {
  state = "damaged", damaged = true, stray = true, dead = false,
  text = "damaged, and at no path: in nobody's way",
}

local late_ms = 60000 -- allowed difference of clocks

-- The verdict on what a session of this verdict holds for a job: nobody takes that over, unless it guards
-- nothing any more, as `left` says.
function sessions.guarding(verdict, job, left)
  if not verdict.dead then return verdict end
  local result = {}
  for name, value in pairs(verdict) do result[name] = value end
  result.orphaned = not left or nil
  result.text = verdict.text:gsub("will be taken over$", function() return left or "guards job " .. job end)
  return result
end

-- The verdict on a session at `now_ms`: {state, silent_ms, dead, text}.
function sessions.judge(session, now_ms)
  if not session then
    return {state = "missing", dead = true, text = "its session is gone: will be taken over"}
  end
  if session.damaged then
    return sessions.damaged
  end
  local beat = math.type(session.beat_at) == "integer" and session.beat_at or now_ms
  local silent = math.max(0, now_ms - beat)
  local result = {state = session.state, silent_ms = silent}
  if session.state ~= "live" and session.state ~= "broken" then
    result.dead, result.text = true, session.state .. ": will be taken over"
  elseif sessions.is_gone(session.owner) then
    result.dead, result.gone, result.text = true, true, "its process is gone: will be taken over"
  elseif silent > (session.lease_ms or 0) + 1000 then
    result.dead = true
    result.text = ("no heartbeat for %s (lease %s): will be taken over"):format(duration.text(silent),
      duration.text(session.lease_ms or 0))
  else
    result.dead, result.text = false, ("alive %s ago"):format(duration.text(silent))
    if beat > now_ms + late_ms then result.text = "alive, if its heartbeat's time is right: it lies ahead" end
    if session.state == "broken" then
      local by = type(session.owner) == "table" and session.owner.broken_by
      result.text = ("marked as broken%s: over after its lease"):format(
        type(by) == "table" and " by " .. sessions.owner_text {user = by.user, host = by.host, pid = by.pid}
          or "")
    end
  end
  return result
end

-- Who we are, for people: "ann@host, pid 7".
function sessions.own_text()
  local own = core.json_decode(core.identity())
  return sessions.owner_text {user = own.user, host = own.host, pid = own.pid}
end

-- Is the owner the same user on the same host as we are, going by names?
local me
function sessions.is_mine(owner)
  me = me or core.json_decode(core.identity())
  return type(owner) == "table" and owner.user == me.user and owner.host == me.host
end

-- {[id] = session}
function sessions.by_id(list)
  local map = {}
  for _, session in ipairs(list) do map[session.session] = session end
  return map
end

return sessions
