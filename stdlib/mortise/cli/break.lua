-- mortise locks break: ends a session without its owner's consent.
local confirm = require "mortise.cli.confirm"
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local guards = require "mortise.guards"
local hint = require "mortise.hint"
local holds = require "mortise.cli.holds"
local mortise = require "mortise"
local normalised = require "mortise.path"
local output = require "mortise.cli.output"
local sessions = require "mortise.sessions"
local stripes = require "mortise.stripes"
local visible = require "mortise.visible"

local breaking = {}

local shortest = holds.digits

-- ---- What is meant -------------------------------------------------------------------------------

local function read_hold(text)
  if text == "damaged" then return text end
  local id, n = text:match "^(%x+)/(%d+)$"
  if not id or #id < shortest then
    errors.bad("--hold %s: as `mortise locks` shows it, like 3f9a12cd/7", text)
  end
  return core.lower(id), math.tointeger(core.number(n))
end

-- Reads PATH or NAMESPACE:PATH. Damaged entries may be at a path where no lock can be.
local function read_path(text, hold)
  local namespace, path = holds.place(text)
  if hold ~= "damaged" then return namespace, normalised(path, true) end
  local ok, checked = pcall(normalised, path, true)
  return namespace, ok and checked or path
end

-- -> the namespace (nil: this client's) and the path, if given
local function check(ctx)
  local o, path = ctx.options, ctx.arguments[2]
  if (path == nil) == (o.session == nil) or (path ~= nil) ~= (o.hold ~= nil) then
    errors.bad("usage: mortise locks break PATH --hold HOLD, or mortise locks break --session ID")
  end
  if o.session and not (o.session:find "^%x+$" and #o.session >= shortest) then
    errors.bad("--session %s: at least %d hex digits", o.session, shortest)
  end
  if path then return read_path(path, o.hold) end
end

local function starts(text, with) return text:sub(1, #with) == with end

-- Reports that the target does not exist; `lines` list what does.
local function refuse(ctx, code, message, lines)
  if ctx.options.json then output.json {error = {code = code, message = message, found = lines}} end
  output.line(io.stderr, "mortise: ", message)
  for _, line in ipairs(lines) do output.line(io.stderr, "  ", line) end
  return nil
end

local function add_lines(lines, known, path, entries, word)
  for _, entry in ipairs(entries) do
    local session = known[entry.session]
    if not entry.again then
      lines[#lines + 1] = ("%s  %s %s  %s  by %s"):format(visible(path), entry.mode, word, holds.name(entry),
        sessions.owner_text(session and session.owner))
    end
  end
end

-- The entries at a path, in all its stripes; `again`, where the same stands in another stripe too.
local function entries_at(client, path)
  local found, once = {holders = {}, queue = {}}, stripes.once()
  for _, lock in ipairs(client:_read_locks {path}) do
    for name, into in pairs(found) do
      for _, entry in ipairs(lock[name]) do
        entry.again = not once(lock, entry, name == "queue")
        into[#into + 1] = entry
      end
    end
  end
  return found
end

-- The session of the given hold, or "damaged", from the path's current state; or nil after reporting why not.
local function by_hold(client, ctx, path)
  local id, n = read_hold(ctx.options.hold)
  local lock = entries_at(client, path)
  local ids, lines = {}, {}
  for _, entries in ipairs {lock.holders, lock.queue} do
    for _, entry in ipairs(entries) do
      if not entry.damaged then
        ids[#ids + 1] = entry.session
      elseif id == "damaged" then
        return id
      end
    end
  end
  for _, entry in ipairs(lock.holders) do
    if not entry.damaged and entry.n == n and starts(entry.session, id) then return entry.session end
  end
  local known = #ids > 0 and client:_read_sessions(ids) or {}
  add_lines(lines, known, path, lock.holders, "held")
  add_lines(lines, known, path, lock.queue, "waited for")
  if #lock.holders == 0 then lines[#lines + 1] = "nobody holds it now" end
  return refuse(ctx, "not_held", ("%s is not held as %s (any more); nothing was done"):format(visible(path),
    ctx.options.hold), lines)
end

-- Finds sessions that have not ended, and ended ones that still hold something.
local function by_session(client, ctx)
  local prefix = core.lower(ctx.options.session)
  local found, seen = {}, {}
  local function add(id)
    if not seen[id] and starts(id, prefix) then found[#found + 1] = id end
    seen[id] = true
  end
  for session in client:_each {kind = "sessions", ns = client:namespace(), session = prefix} do
    add(session.session)
  end
  for lock in client:_each {kind = "locks", ns = client:namespace(), session = prefix} do
    for _, entry in ipairs(lock.holders) do
      if not entry.damaged then add(entry.session) end
    end
  end
  if #found == 1 then return found[1] end
  if #found == 0 then
    return refuse(ctx, "not_held", ("no session %s holds anything or lives; nothing was done"):format(prefix),
      found)
  end
  return refuse(ctx, "several", ("%s are several sessions; nothing was done"):format(prefix), found)
end

local function find(client, ctx, path)
  if path then return by_hold(client, ctx, path) end
  return by_session(client, ctx)
end

-- ---- Saying what it means ------------------------------------------------------------------------

-- The locks in which it holds something: those that a search finds, the one at `named` (or nil), and their
-- ancestors.
local function locks_of(client, id, named)
  local found, above, seen = {}, {}, {}
  local function add(path)
    if not seen[path] then above[#above + 1] = path end
    seen[path] = true
  end
  for lock in client:_each {kind = "locks", ns = client:namespace(), session = id} do
    found[#found + 1] = lock
    seen[lock.path] = true
  end
  for _, path in ipairs(named and holds.chain(named) or {}) do add(path) end
  for i = 1, #found do
    for _, path in ipairs(holds.chain(found[i].path)) do add(path) end
  end
  for _, lock in ipairs(client:_read_locks(above)) do found[#found + 1] = lock end
  table.sort(found, function(a, b) return core.before(a.path, b.path) end)
  return found
end

-- What would be removed: {path=, mode=, n=} of each hold that is not an intention lock, the number of all
-- entries, and the job that they guard, or nil.
local function holds_of(client, id, named)
  local found, entries, job, once = {}, 0, nil, stripes.once()
  for _, lock in ipairs(locks_of(client, id, named)) do
    for _, entry in ipairs(lock.holders or {}) do
      if entry.session == id then
        entries = entries + 1
        job = entry.job or job
        if not holds.is_intention(entry.mode) and once(lock, entry, false) then
          found[#found + 1] = {path = lock.path, mode = entry.mode, n = entry.n, since = entry.since}
        end
      end
    end
  end
  return found, entries, job
end

local shown_most = 20

-- What becomes of what they guard.
local function explain_guard(say, job, abandon)
  if abandon then
    say("they guard job %s: what that has changed half-way stays as it is, and others get at it", job)
    say("resume the job or roll it back where you can, in place of this")
  else
    say("they guard job %s: what stands half-done keeps its lock until it is resumed or rolled back", job)
  end
end

-- `found`, `entries` and `job` as from holds_of.
local function explain(session, id, found, entries, job, abandon)
  local now = core.wall_ms()
  local verdict = sessions.judge(session, now)
  local lines = {("session %s of %s"):format(id, sessions.owner_text(session and session.owner))}
  local function say(format, ...) lines[#lines + 1] = "  " .. format:format(...) end
  if session then say("opened %s ago, %s", holds.age(session.opened, now), verdict.text) end
  say(job and not abandon and "it loses all of its locks, %d %s:" or "all of its locks go, %d %s:", entries,
    entries == 1 and "entry" or "entries")
  for i = 1, math.min(#found, shown_most) do
    say("  %s  %s  since %s", visible(found[i].path), found[i].mode, holds.age(found[i].since, now))
  end
  if #found > shown_most then say("  and %d more", #found - shown_most) end
  if job then explain_guard(say, job, abandon) end
  if verdict.damaged then
    say("its document is damaged, so nobody can say how long its owner would believe: others get in at once")
    say("make sure that no process works under it")
  elseif verdict.gone or session and session.state ~= "live" and session.state ~= "broken" then
    say("it is over already: others get in at once")
  elseif session then
    say("its owner loses them at its next heartbeat; others get in after its lease, %s, and a margin",
      duration.text(session.lease_ms))
    say("what its owner is changing is left as it is then: end the process first where you can")
  end
  return lines
end

-- What ending a session would mean, for who is asked: lines, and the job that its locks guard, or nil. Raises
-- orphaned_job where only that guard is left.
function breaking.foresee(client, id, abandon)
  local record = client:_read_sessions {id}[id]
  local found, entries, job = holds_of(client, id)
  breaking.check_guard(client, record, job, {abandon = abandon})
  if not record and entries == 0 then
    errors.raise("not_found", "no session %s holds anything or lives", id)
  end
  return explain(record, id, found, entries, job, abandon), job
end

-- The damaged entries at a path, as from holds_of.
local function damaged_at(client, path)
  local found = {}
  local lock = entries_at(client, path)
  for _, entries in ipairs {lock.holders, lock.queue} do
    for _, entry in ipairs(entries) do
      if entry.damaged then
        found[#found + 1] = {path = path, mode = entry.mode, n = entry.n, since = entry.since}
      end
    end
  end
  return found, #found
end

local function explain_damaged(path, entries)
  return {
    ("%d %s of %s as no client of mortise writes them"):format(entries, entries == 1 and "entry" or "entries",
      visible(path)),
    "  they go, and nothing else at that path: others get in at once",
    "  make sure that no process works under them",
  }
end

local function confirmed(ctx)
  if confirm.required(ctx, "Break it?") then return true end
  output.line(io.stderr, "not broken: nothing was done")
  return false
end

-- ---- Doing it ------------------------------------------------------------------------------------

local marked_words = "the session may stay marked: its owner loses its locks at its next heartbeat, others "
  .. "take them over after its lease, and the same command goes on from here\n"

local tell_ms = 10000

-- Waits until it is done and reports its progress.
local function follow(state, quiet)
  local function say(format, ...)
    if not quiet then output.line(io.stderr, format:format(...)) end
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

local function clear(client, path, quiet)
  local evicted = 0
  for _, name in ipairs(client:_place_names {path}) do
    local state <close> = client:_clear_damaged(name)
    evicted = evicted + follow(state, quiet).evicted
  end
  return {evicted = evicted}
end

local function go(client, id, path, o)
  local quiet = o.json
  if id == "damaged" then return clear(client, path, quiet) end
  local state <close> = client:_break_session(id, o.abandon)
  local ok, result = pcall(follow, state, quiet)
  if ok then return result end
  io.stderr:write(marked_words)
  error(result, 0)
end

-- Of a job whose process is gone there is only its guard, which stays.
function breaking.check_guard(client, record, job, o)
  if not job or o.abandon or not sessions.judge(record, core.wall_ms()).dead then return end
  if guards.is_left[guards.meaning(client, job)] then return end
  error(core.error {
    code = "orphaned_job", job = job, retryable = false,
    message = ("nobody is at work there any more: this guards job %s, which stands half-done. `%s jobs "
      .. "resume %s` goes on, `%s jobs rollback %s` undoes it; --abandon leaves what it has changed as "
      .. "it is, and lets others at it"):format(job, hint.mortise(), job, hint.mortise(), job),
  }, 0)
end

local clear_ms = 10000

-- What is left for the job: given back if that does not stand half-done. -> how many entries; does it stand?
local function give_back(client, job)
  if not guards.is_left[guards.meaning(client, job)] then return 0, #guards.entries(client, job) > 0 end
  return guards.clear(client, job, clear_ms), false
end

-- Ends a session that somebody was asked about, and gives back what is left for a job that does not stand
-- half-done. -> how many entries were removed; does the job stand?
function breaking.carry_out(client, id, job, abandon)
  local result = go(client, id, nil, {json = true, abandon = abandon})
  local removed, stands = 0, false
  if job and not abandon then removed, stands = give_back(client, job) end
  return removed + result.evicted, stands
end

function breaking.run(ctx)
  local namespace, path = check(ctx)
  local client <close> = mortise.connect {namespace = namespace}
  client:verify()
  path = path and holds.typed(client, client:namespace(), path)
  local id = find(client, ctx, path)
  if not id then return 3 end
  local damaged = id == "damaged"
  local record = not damaged and client:_read_sessions {id}[id] or nil
  local found, entries, job
  if damaged then
    found, entries = damaged_at(client, path)
  else
    found, entries, job = holds_of(client, id, path)
  end
  breaking.check_guard(client, record, job, ctx.options)
  if not ctx.options.json then
    local lines = damaged and explain_damaged(path, entries)
      or explain(record, id, found, entries, job, ctx.options.abandon)
    for _, line in ipairs(lines) do output.line(io.stderr, line) end
  end
  if not confirmed(ctx) then return 3 end
  if find(client, ctx, path) ~= id then return 3 end -- answering may have taken a while
  local result, removed, stands = go(client, id, path, ctx.options), 0, false
  if job and not ctx.options.abandon then removed, stands = give_back(client, job) end
  removed = removed + result.evicted
  if ctx.options.json then
    for _, each in ipairs(found) do each.since = holds.iso(each.since) end
    output.json {
      session = id, holds = core.array(found), entries = entries, removed = removed,
      guards = stands and job or nil,
      waited = not (damaged or result.gone or record and record.damaged),
    }
  elseif damaged then
    output.line(io.stdout, "what was damaged at ", visible(path), " is gone")
  else
    io.stdout:write(("%s is over: %d %s removed\n"):format(id:sub(1, shortest), removed,
      removed == 1 and "entry" or "entries"))
  end
  if stands and not ctx.options.json then
    output.line(io.stdout, ("job %s stands half-done and keeps its lock: %s jobs show %s says what may "
      .. "be done"):format(job, hint.mortise(), job))
  end
end

return breaking
