-- Who holds and who waits for which path: entries of the lock table with their owners, for `mortise locks`.
local core = require "mortise.core"
local duration = require "mortise.duration"
local guards = require "mortise.guards"
local sessions = require "mortise.sessions"
local stripes = require "mortise.stripes"

local holds = {}

holds.page = 5000 -- documents in one answer: for whoever lists a whole table, round trips cost most
holds.digits = 8 -- digits of a session's id in the name of a hold

-- The name of a hold in lists: "3f9a12cd/7", or "damaged" for all damaged entries at a path.
function holds.name(entry)
  if entry.damaged then return "damaged" end
  return ("%s/%d"):format(entry.session:sub(1, holds.digits), entry.n)
end

local intention = {IS = true, IX = true}

function holds.is_intention(mode) return intention[mode] or false end

-- Is this entry of a lock's document one that people want to see? Marks of intention only say that there is
-- something below, unless somebody waits there.
function holds.is_worth_showing(entry, lock)
  return entry.waits or #(lock.queue or {}) > 0 or not holds.is_intention(entry.mode)
end

-- The ancestors of a path and the path itself: "/", "/a", "/a/b" for "/a/b".
function holds.chain(path)
  local list = {"/"}
  for at in path:gmatch "()/" do
    if at > 1 then list[#list + 1] = path:sub(1, at - 1) end
  end
  if path ~= "/" then list[#list + 1] = path end
  return list
end

function holds.is_below(path, above)
  return above == "/" and path ~= "/" or path:sub(1, #above + 1) == above .. "/"
end

-- Days since 1970 as year, month, day (proleptic Gregorian, eras of 400 years that begin in March).
local function civil(days)
  days = days + 719468
  local era = days // 146097
  local of_era = days - era * 146097
  local year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
  local of_year = of_era - (365 * year + year // 4 - year // 100)
  local month = (5 * of_year + 2) // 153
  local day = of_year - (153 * month + 2) // 5 + 1
  month = month < 10 and month + 3 or month - 9
  return year + era * 400 + (month <= 2 and 1 or 0), month, day
end

-- "2026-11-22T01:28:43.120Z" for milliseconds since 1970; nil if there are none.
function holds.iso(ms)
  if math.type(ms) ~= "integer" or ms <= 0 then return nil end
  local seconds = ms // 1000
  local year, month, day = civil(seconds // 86400)
  return ("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ"):format(year, month, day, seconds // 3600 % 24,
    seconds // 60 % 60, seconds % 60, ms % 1000)
end

-- Splits PATH or NAMESPACE:PATH, as lists show them, into namespace (nil: this client's) and path.
function holds.place(text)
  local namespace, path = text:match "^([a-z0-9_-]+):(/.*)$"
  return namespace, path or text
end

function holds.age(ms, now)
  return math.type(ms) == "integer" and ms > 0 and duration.text(now - ms) or "?"
end

-- ---- Owners --------------------------------------------------------------------------------------

local none = {}

local function job_of(entry)
  return not entry.damaged and type(entry.job) == "string" and entry.job ~= "" and entry.job or nil
end

-- Adds what dead sessions of jobs that do not stand have `left`: guards.left_text.
local function learn_jobs(client, locks, known)
  for _, lock in ipairs(locks) do
    for _, entry in ipairs(lock.holders or {}) do
      local owner = job_of(entry) and known[lock.ns][entry.session]
      if owner and owner.verdict.dead and owner.meaning == nil then
        local record
        owner.meaning, record = guards.meaning(client, entry.job, lock.ns)
        owner.left = guards.is_left[owner.meaning] and guards.left_text(entry.job, record) or nil
      end
    end
  end
end

-- Reads the sessions of the entries of these locks into `known`: {[namespace] = {[id] = {record=,
-- verdict=}}}, without `record` for a missing session.
local function learn(client, locks, known, now)
  local missing = {}
  local function note(ns, entries)
    local of_ns = known[ns]
    for _, entry in ipairs(entries) do
      if not entry.damaged and of_ns[entry.session] == nil then
        of_ns[entry.session] = {}
        missing[ns] = missing[ns] or {}
        table.insert(missing[ns], entry.session)
      end
    end
  end
  for _, lock in ipairs(locks) do
    known[lock.ns] = known[lock.ns] or {}
    note(lock.ns, lock.holders or none)
    note(lock.ns, lock.queue or none)
  end
  for ns, ids in pairs(missing) do
    local found = client:_read_sessions(ids, ns)
    for _, id in ipairs(ids) do
      known[ns][id] = {record = found[id], verdict = sessions.judge(found[id], now)}
    end
  end
  learn_jobs(client, locks, known)
end

local function is_wanted(value)
  return type(value) == "table" and type(value.path) == "string" and type(value.mode) == "string"
    and math.type(value.n) == "integer"
end

-- What the session publishes that it waits for at this path in the store: {path, mode, n}, or nil.
local function wanted_at(session, path)
  local waiting = session and type(session.waiting) == "table" and session.waiting or {}
  for _, wait in ipairs(waiting) do
    if type(wait) == "table" and wait.path == path and wait["for"] and type(wait.mode) == "string" then
      return is_wanted(wait.wanted) and wait.wanted or {path = path, mode = wait.mode, n = 1}
    end
  end
end

local function entry_of(lock, entry, owner, waits)
  local job = type(entry.job) == "string" and entry.job ~= "" and entry.job or nil
  local is_guard = job and not waits and not entry.damaged
  return {
    namespace = lock.ns, path = lock.path, mode = entry.mode, session = entry.session, n = entry.n,
    since = entry.since, job = job, record = owner.record, waits = waits or false,
    verdict = is_guard and sessions.guarding(owner.verdict, job, owner.left) or owner.verdict,
    damaged = entry.damaged,
  }
end

local function waiter_of(lock, entry, owner)
  local found = entry_of(lock, entry, owner, true)
  local wanted = wanted_at(owner.record, lock.path)
  found.queued_at, found.queued_mode = lock.path, entry.mode
  -- An intention lock is always on the way to another path, which is published only after a while.
  found.known = wanted ~= nil or not intention[entry.mode]
  if wanted then
    found.path, found.mode = wanted.path, wanted.mode
    found.more = wanted.n > 1 and wanted.n - 1 or nil
  end
  return found
end

-- The owners shown for damaged entries.
local nobody, nobody_there = {verdict = sessions.damaged}, {verdict = sessions.stray}

local function owner_of(known, lock, entry)
  if not entry.damaged then return known[lock.ns][entry.session] end
  return pcall(core.path_check, lock.path, true) and nobody or nobody_there
end

-- Calls see(entry, lock) for each entry of these locks that `once`, of stripes.once(), has not had. -> false
-- once it returned false.
local function each_entry(locks, known, once, see)
  local function each(lock, entries, waits, make)
    for _, entry in ipairs(entries) do
      local new = once(lock, entry, waits)
      if new and see(make(lock, entry, owner_of(known, lock, entry)), lock) == false then return false end
    end
  end
  for _, lock in ipairs(locks) do
    if each(lock, lock.holders or none, false, entry_of) == false then return false end
    if each(lock, lock.queue or none, true, waiter_of) == false then return false end
  end
end

-- ---- What is asked for ---------------------------------------------------------------------------

-- Calls see(entry, lock) for all pages of a filter until it returns false. -> was the list fresh?
function holds.each(client, filter, see)
  local known, page, fresh, once = {}, {}, true, stripes.once()
  filter.page = filter.page or holds.page
  local now = core.wall_ms()
  local function flush()
    learn(client, page, known, now)
    local going = each_entry(page, known, once, see)
    page = {}
    return going
  end
  for lock, list in client:_each(filter) do
    fresh = not list.stale
    page[#page + 1] = lock
    if #page == core.list_page and flush() == false then return fresh end
  end
  flush()
  return fresh
end

-- The same for the current entries at and above a path: from above only those that block it, and waiters for
-- it.
local function at_and_above(client, namespace, path, see)
  local locks = client:_read_locks(holds.chain(path), namespace)
  local known = {}
  learn(client, locks, known, core.wall_ms())
  return each_entry(locks, known, stripes.once(), function(entry, lock)
    local here = lock.path == path
    local blocks = not entry.waits and not intention[entry.mode]
    local joins = entry.waits and (not entry.known or entry.path == path
      or holds.is_below(entry.path, path) or holds.is_below(path, entry.path))
    if here or blocks or joins then return see(entry, lock) end
  end)
end

-- Entries at this path, above and below it; like `each`.
function holds.around(client, namespace, path, see)
  if at_and_above(client, namespace, path, see) == false then return true end
  return holds.each(client, {kind = "locks", ns = namespace, path = path}, function(entry, lock)
    if lock.path ~= path then return see(entry, lock) end
  end)
end

local function of_hex(digits)
  local n = 0
  for digit in core.lower(digits):gmatch "." do
    n = n * 16 + ("0123456789abcdef"):find(digit, 1, true) - 1
  end
  return n
end

local function character(digits)
  return #digits <= 6 and of_hex(digits) <= 0x10ffff and utf8.char(of_hex(digits)) or nil
end

-- The path for a typed text: as it is, or with the escapes with which lists show characters that cannot be
-- typed, if only that path exists.
function holds.typed(client, namespace, text)
  local escaped = {n = "\n", r = "\r", t = "\t"}
  local raw = text:gsub("\\([nrt])", escaped)
    :gsub("\\x(%x%x)", function(digits) return string.char(of_hex(digits)) end)
    :gsub("\\u{(%x+)}", character)
  if raw == text then return text end
  local found = client:_read_locks({text, raw}, namespace)
  return found[1] and found[1].path or text
end

-- ---- For programs --------------------------------------------------------------------------------

local function plain(value)
  local kind = type(value)
  return (kind == "string" or kind == "number" or kind == "boolean") and value or nil
end

-- The owner of a session, or nil, as JSON shows it.
function holds.owner_object(session)
  local owner = session and session.owner
  if type(owner) ~= "table" then return nil end
  local out = {}
  for _, name in ipairs {"host", "user", "pid", "program", "script", "job", "boot", "pidns", "start"} do
    out[name] = plain(owner[name])
  end
  local by = owner.broken_by
  if type(by) == "table" then
    out.broken_by = core.object {host = plain(by.host), user = plain(by.user), pid = plain(by.pid)}
  end
  return core.object(out)
end

-- The object described in docs/operations.md.
function holds.object(entry)
  local session = entry.record
  return core.object {
    namespace = entry.namespace, path = entry.path, mode = entry.mode, waits = entry.waits,
    hold = holds.name(entry), session = entry.session, n = entry.n, since = holds.iso(entry.since),
    damaged = entry.damaged, job = entry.job,
    queued_at = entry.queued_at, path_known = entry.known, more = entry.more,
    state = entry.verdict.state, dead = entry.verdict.dead, orphaned = entry.verdict.orphaned,
    verdict = entry.verdict.text,
    owner = holds.owner_object(session), opened = session and holds.iso(session.opened),
    last_beat = session and holds.iso(session.beat_at), lease_ms = session and session.lease_ms,
  }
end

return holds
