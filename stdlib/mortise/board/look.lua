-- One look at a store, for `mortise board`: what it keeps of each lock is a few numbers and its path, in
-- columns, since there may be 50,000. A look costs one list of the locks, one of the sessions and one search
-- for jobs.
local blocking = require "mortise.cli.blocking"
local core = require "mortise.core"
local errors = require "mortise.errors"
local guards = require "mortise.guards"
local holds = require "mortise.cli.holds"
local records = require "mortise.records"
local sessions = require "mortise.sessions"

local look = {}

local page = 2500 -- documents in one answer: their tables are garbage a moment later
local rows_most, bytes_most = 200000, 24 << 20
local contended_most, contended_here = 4000, 200 -- where somebody waits: in all, and of each kind at a place

-- ---- Sessions ------------------------------------------------------------------------------------

local function integer(value) return math.type(value) == "integer" and value or nil end

local function new_session(namespace, id, record, verdict)
  local known = record or {}
  return {
    namespace = namespace, id = id, who = sessions.owner_text(record and record.owner),
    opened = integer(known.opened), beat_at = integer(known.beat_at), lease_ms = integer(known.lease_ms),
    verdict = verdict, holds = 0, waits = 0,
  }
end

local function add_session(found, key, made)
  found.sessions[key] = made
  found.n_sessions = found.n_sessions + 1
  found.session_list[found.n_sessions] = made
  return made
end

local function session_of(found, entry)
  local key = blocking.owner_of(entry)
  return found.sessions[key] or add_session(found, key,
    new_session(entry.namespace, entry.damaged and "damaged" or entry.session, entry.record,
      entry.verdict))
end

local function read_sessions(client, found)
  for record in client:_each {kind = "sessions", page = page} do
    local key = record.ns .. ":" .. record.session
    if not found.sessions[key] then
      local verdict = sessions.judge(record, found.at)
      add_session(found, key, new_session(record.ns, record.session, record, verdict))
    end
  end
end

-- ---- Locks ---------------------------------------------------------------------------------------

-- {path =, mode =, session =, since =, n =, job =}, each a list, in the order of the paths.
local function columns_of(found, namespace)
  local columns = found.columns[namespace]
  if not columns then
    columns = {path = {}, mode = {}, session = {}, since = {}, n = {}, job = {}, count = 0, waits = 0}
    found.columns[namespace] = columns
  end
  return columns
end

-- What is out of order is put there at the end (`sort`).
local function add_row(found, entry, session)
  local columns = columns_of(found, entry.namespace)
  if found.n_rows >= rows_most or found.bytes + #entry.path > bytes_most then
    found.left_out = found.left_out + 1
    return
  end
  local at = columns.count + 1
  if at > 1 and core.before(entry.path, columns.path[at - 1]) then columns.unsorted = true end
  columns.path[at], columns.mode[at], columns.session[at] = entry.path, entry.mode, session
  columns.since[at], columns.n[at] = integer(entry.since) or 0, integer(entry.n) or 0
  columns.job[at] = entry.job or false
  columns.count = at
  found.n_rows, found.bytes = found.n_rows + 1, found.bytes + #entry.path
end

local function sort(columns)
  if not columns.unsorted then return end
  local order, path = {}, columns.path
  for i = 1, columns.count do order[i] = i end
  table.sort(order, function(a, b)
    if path[a] ~= path[b] then return core.before(path[a], path[b]) end
    return a < b
  end)
  for _, name in ipairs {"path", "mode", "session", "since", "n", "job"} do
    local before, after = columns[name], {}
    for i, from in ipairs(order) do after[i] = before[from] end
    columns[name] = after
  end
end

local function keep_contended(found, entry)
  local place = (entry.waits and "w " or "h ") .. entry.namespace .. ":" .. (entry.queued_at or entry.path)
  local here = (found.contended_at[place] or 0) + 1
  if here > contended_here or #found.contended >= contended_most then return end
  found.contended_at[place] = here
  found.contended[#found.contended + 1] = entry
end

local function add_entry(found, entry, lock)
  local session = session_of(found, entry)
  if entry.verdict.orphaned then session.verdict = entry.verdict end
  if entry.waits then
    session.waits, found.waiting = session.waits + 1, found.waiting + 1
    local columns = columns_of(found, entry.namespace)
    columns.waits = columns.waits + 1
  elseif not holds.is_intention(entry.mode) then
    session.holds, found.locks = session.holds + 1, found.locks + 1
  end
  if entry.waits or lock.stripe or #(lock.queue or {}) > 0 then keep_contended(found, entry) end
  if not entry.waits and holds.is_worth_showing(entry, lock) then add_row(found, entry, session) end
end

-- ---- Waits ---------------------------------------------------------------------------------------

-- What a waiter is known by from one look to the next.
local function key_of(entry)
  return ("%s %d %s"):format(blocking.owner_of(entry), entry.n or 0, entry.path)
end

-- The store does not say since when somebody waits.
local function note_first(found, before)
  for _, wait in ipairs(found.waits) do
    local key = key_of(wait.waiter)
    found.seen[key] = before and before.seen[key] or found.at
    wait.seen = found.seen[key]
  end
end

-- ---- Jobs ----------------------------------------------------------------------------------------

local unseen = {not_found = true, auth = true}
local ended_most = 20

local function unfinished(client)
  local ok, list = pcall(records.unfinished, client)
  if ok then return guards.mark(client, list) end
  if unseen[errors.code(list)] then return {} end
  error(list, 0)
end

-- Those that were there in the last look and are not any more: how they have ended, the latest first.
local function ended(client, found, before)
  local there, list = {}, {}
  for _, record in ipairs(found.jobs) do there[record.job] = true end
  for _, record in ipairs(before and before.jobs or {}) do
    if not there[record.job] and #list < ended_most then
      local ok, now = pcall(records.get, client, record.job)
      if not ok and errors.code(now) == "interrupted" then error(now, 0) end
      list[#list + 1] = ok and now or nil
      there[record.job] = true
    end
  end
  for _, record in ipairs(before and before.ended or {}) do
    if not there[record.job] and #list < ended_most then list[#list + 1] = record end
  end
  return list
end

-- ---- A look --------------------------------------------------------------------------------------

-- `before`: the last one, or nil. -> {at=, took_ms=, fresh=, locks=, waiting=, sessions=, session_list=,
-- n_sessions=, columns={[namespace]=}, left_out=, waits=, jobs=, running= and standing= of them, ended=}
function look.take(client, before)
  local began = core.now_ms()
  local found = {
    at = core.wall_ms(), locks = 0, waiting = 0, sessions = {}, session_list = {}, n_sessions = 0,
    columns = {}, n_rows = 0, bytes = 0, left_out = 0, running = 0, standing = 0, contended = {},
    contended_at = {}, seen = {},
  }
  found.fresh = holds.each(client, {kind = "locks", page = page}, function(entry, lock)
    add_entry(found, entry, lock)
  end)
  for _, columns in pairs(found.columns) do sort(columns) end
  read_sessions(client, found)
  found.waits = blocking.waits(found.contended)
  found.contended, found.contended_at = nil, nil
  note_first(found, before)
  found.jobs = unfinished(client)
  for _, record in ipairs(found.jobs) do
    local which = (record.stands or not record.counts) and "standing" or "running"
    found[which] = found[which] + 1
  end
  found.ended = ended(client, found, before)
  found.took_ms = core.now_ms() - began
  return found
end

return look
