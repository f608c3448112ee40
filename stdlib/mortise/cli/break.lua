-- mortise locks break: ends a session against its owner's will.
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local mortise = require "mortise"
local normalised = require "mortise.path"
local output = require "mortise.cli.output"
local sessions = require "mortise.sessions"

local breaking = {}

local shortest = 8 -- digits of a session's id that name it

-- What a list calls a hold: "3f9a12cd/7".
function breaking.hold_text(entry)
  return ("%s/%d"):format(entry.session:sub(1, shortest), entry.n)
end

-- ---- What is meant -------------------------------------------------------------------------------

local function read_hold(text)
  local id, n = text:match "^(%x+)/(%d+)$"
  if not id or #id < shortest then
    errors.bad("--hold %s: as `mortise locks` shows it, like 3f9a12cd/7", text)
  end
  return core.lower(id), math.tointeger(core.number(n))
end

local function check(ctx)
  local o, path = ctx.options, ctx.arguments[2]
  if (path == nil) == (o.session == nil) or (path ~= nil) ~= (o.hold ~= nil) then
    errors.bad("usage: mortise locks break PATH --hold HOLD, or mortise locks break --session ID")
  end
  if o.session and not (o.session:find "^%x+$" and #o.session >= shortest) then
    errors.bad("--session %s: at least %d hex digits", o.session, shortest)
  end
  return path and normalised(path)
end

local function starts(text, with) return text:sub(1, #with) == with end

-- Raises: what was meant is not there. `lines` say what is.
local function refuse(message, lines)
  table.insert(lines, 1, message)
  io.stderr:write("mortise: ", table.concat(lines, "\n  "), "\n")
  return nil
end

local function entry_line(list, path, entry, word)
  local session = sessions.by_id(list.sessions)[entry.session]
  return ("%s  %s %s  %s  by %s"):format(path, entry.mode, word, breaking.hold_text(entry),
    sessions.owner_text(session and session.owner))
end

-- The session that has the hold which was shown, or nil and it was said why not.
local function by_hold(list, path, hold)
  local id, n = read_hold(hold)
  local lines = {}
  for _, lock in ipairs(list.locks) do
    if lock.path == path then
      for _, entry in ipairs(lock.holders or {}) do
        if entry.n == n and starts(entry.session, id) then return entry.session end
        lines[#lines + 1] = entry_line(list, path, entry, "held")
      end
      for _, entry in ipairs(lock.queue or {}) do
        lines[#lines + 1] = entry_line(list, path, entry, "waited for")
      end
    end
  end
  if #lines == 0 then lines[1] = "nobody holds it now" end
  return refuse(("%s is not held as %s (any more); nothing was done"):format(path, hold), lines)
end

local function by_session(list, prefix)
  local found, seen = {}, {}
  local function add(id)
    if not seen[id] and starts(id, prefix) then found[#found + 1] = id end
    seen[id] = true
  end
  for _, lock in ipairs(list.locks) do
    for _, entry in ipairs(lock.holders or {}) do add(entry.session) end
    for _, entry in ipairs(lock.queue or {}) do add(entry.session) end
  end
  for _, session in ipairs(list.sessions) do
    if session.state == "live" or session.state == "broken" then add(session.session) end
  end
  if #found == 1 then return found[1] end
  return refuse(#found == 0 and ("no session %s holds anything or lives; nothing was done"):format(prefix)
    or ("%s are several sessions; nothing was done"):format(prefix), found)
end

local function find(list, ctx, path)
  if path then return by_hold(list, path, ctx.options.hold) end
  return by_session(list, core.lower(ctx.options.session))
end

-- ---- Saying what it means ------------------------------------------------------------------------

local intention = {IS = true, IX = true}

-- What goes: {path=, mode=, n=} of each hold that is no mark of intention, and how many entries there are.
local function holds_of(list, id)
  local found, entries = {}, 0
  table.sort(list.locks, function(a, b) return core.before(a.path, b.path) end)
  for _, lock in ipairs(list.locks) do
    for _, entry in ipairs(lock.holders or {}) do
      if entry.session == id then
        entries = entries + 1
        if not intention[entry.mode] then
          found[#found + 1] = {path = lock.path, mode = entry.mode, n = entry.n, since = entry.since}
        end
      end
    end
  end
  return found, entries
end

local shown_most = 20

local function age(since, now)
  return math.type(since) == "integer" and since > 0 and duration.text(now - since) or "?"
end

local function explain(list, id)
  local now = os.time() * 1000
  local session = sessions.by_id(list.sessions)[id]
  local verdict = sessions.judge(session, now)
  local holds, entries = holds_of(list, id)
  local lines = {("session %s of %s"):format(id, sessions.owner_text(session and session.owner))}
  local function say(format, ...) lines[#lines + 1] = "  " .. format:format(...) end
  if session then say("opened %s ago, %s", age(session.opened, now), verdict.text) end
  say("all of its locks go, %d %s:", entries, entries == 1 and "entry" or "entries")
  for i = 1, math.min(#holds, shown_most) do
    say("  %s  %s  since %s", holds[i].path, holds[i].mode, age(holds[i].since, now))
  end
  if #holds > shown_most then say("  and %d more", #holds - shown_most) end
  if verdict.gone or session and session.state ~= "live" and session.state ~= "broken" then
    say("it is over already: others get in at once")
  elseif session then
    say("its owner loses them at its next heartbeat; others get in after its lease, %s, and a margin",
      duration.text(session.lease_ms))
    say("what its owner is changing is left as it is then: end the process first where you can")
  end
  return table.concat(lines, "\n") .. "\n"
end

local function confirmed(ctx)
  if ctx.options.yes then return true end
  if ctx.options.json or not output.is_terminal(0) then
    errors.bad("nobody can be asked whether to do this: say --yes")
  end
  io.stderr:write("Break it? (yes/no) ")
  return core.lower(io.stdin:read "l" or "") == "yes"
end

-- ---- Doing it ------------------------------------------------------------------------------------

local hint = "the session may stay marked: its owner loses its locks at its next heartbeat, others take "
  .. "them over after its lease, and the same command goes on from here\n"

local tell_ms = 10000

-- Until it is done. Says where it is, to people.
local function follow(state, quiet)
  local function say(format, ...)
    if not quiet then io.stderr:write(format:format(...), "\n") end
  end
  local told, phase
  while true do
    local p = state:progress()
    if p.phase == "waiting" and (phase ~= "waiting" or told - p.left_ms >= tell_ms) then
      say("%s; %s to wait", phase == "waiting" and "still marked" or "marked", duration.text(p.left_ms))
      told = p.left_ms
    end
    phase = p.phase
    if phase == "done" then return p end
    mortise.sleep(0.05)
  end
end

local function go(client, id, quiet)
  local state <close> = client:_break_session(id)
  local ok, result = pcall(follow, state, quiet)
  if ok then return result end
  io.stderr:write(hint)
  error(result, 0)
end

function breaking.run(ctx)
  local path = check(ctx)
  local client <close> = mortise.connect {}
  client:verify()
  local list = client:list()
  local id = find(list, ctx, path)
  if not id then return 3 end
  if not ctx.options.json then io.stderr:write(explain(list, id)) end
  if not confirmed(ctx) then return 3 end
  list = client:list() -- the answer may have taken its time
  if find(list, ctx, path) ~= id then return 3 end
  local result = go(client, id, ctx.options.json)
  if ctx.options.json then
    local holds, entries = holds_of(list, id)
    output.json {
      session = id, holds = holds, entries = entries, removed = result.evicted, waited = not result.gone,
    }
  else
    io.stdout:write(("%s is over: %d %s removed\n"):format(id:sub(1, shortest), result.evicted,
      result.evicted == 1 and "entry" or "entries"))
  end
end

return breaking
