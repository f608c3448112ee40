-- Reads histories: {holds = {...}, writes = {...}, stamps, documents, tables, killed, stops, broken,
-- last_grant, counts}. Violations that the order of one task's events alone shows are reported here.
local cjson = require "cjson"
local report = require "report"

local decode = cjson.new().decode
local modes = {IS = true, IX = true, S = true, SIX = true, X = true}
local history, by_id, by_write, where

local function bad(format, ...) report.bad("%s: " .. format, where(), ...) end

-- ---- Fields --------------------------------------------------------------------------------------

local function need(event, name, kind)
  local value = event[name]
  if type(value) ~= kind then bad("`%s` is a %s, not a %s", name, type(value), kind) end
  return value
end

local function fence_of(text)
  local fence = type(text) == "string" and text:match "^%d+$" and math.tointeger(tonumber(text))
  return fence or bad("a fence is a string of digits, not %s", tostring(text))
end

local function until_of(event)
  if event["until"] == nil then return -math.huge end
  return need(event, "until", "number")
end

local function locks_of(list)
  if #list == 0 then bad "an acquisition of nothing" end
  for _, lock in ipairs(list) do
    local path = type(lock) == "table" and lock[1]
    local good = type(path) == "string" and path:sub(1, 1) == "/" and modes[lock[2]]
    if not good then bad "a lock is [PATH, MODE]" end
  end
  return list
end

-- The acquisition that an event belongs to.
local function hold_of(event)
  local hold = by_id[need(event, "id", "string")] or bad("nothing was acquired as %s", event.id)
  if hold.who ~= event.who then bad("%s is %s's, not %s's", event.id, hold.who, tostring(event.who)) end
  return hold
end

local function held(event)
  local hold = hold_of(event)
  if not hold.from then bad("%s was not granted", event.id) end
  return hold
end

-- Belief that is proved at t.
local function believe(event, hold, t)
  local gone = hold.lost and "after-loss" or hold.released and "after-release"
  if gone then report.violation(gone, "%s: %s was believed in again", where(), hold.id) end
  hold.sure = math.max(hold.sure, t)
  hold["until"] = math.max(hold["until"], until_of(event))
end

-- ---- Acquisitions --------------------------------------------------------------------------------

local on = {}

on["acquire invoke"] = function(event)
  local id = need(event, "id", "string")
  if by_id[id] then bad("%s was used before, at %s", id, by_id[id].where) end
  local hold = {id = id, who = need(event, "who", "string"), session = event.session, where = where(),
    locks = locks_of(need(event, "locks", "table")), sure = -math.huge, ["until"] = -math.huge}
  hold.task = hold.who .. "\0" .. tostring(event.task or 0)
  by_id[id] = hold
  history.holds[#history.holds + 1] = hold
end

local function answered(event, outcome)
  local hold = hold_of(event)
  if hold.outcome then bad("%s was answered before: %s", hold.id, hold.outcome) end
  hold.outcome = outcome
  history.counts[outcome] = history.counts[outcome] + 1
  return hold
end

on["acquire ok"] = function(event)
  local hold = answered(event, "granted")
  hold.fence = fence_of(event.fence)
  hold.from, hold.sure, hold["until"] = event.t, event.t, until_of(event)
  hold.parts = {{locks = hold.locks, from = event.t, fence = hold.fence}}
  hold.session = event.session or hold.session
  hold.where = where()
  history.last_grant[hold.who] = math.max(history.last_grant[hold.who] or 0, event.t)
end

on["acquire fail"] = function(event) answered(event, "refused") end
on["acquire unknown"] = function(event) answered(event, "unknown") end

-- A hold is a list of parts, each with modes of its own.
on["convert invoke"] = function(event)
  local hold = held(event)
  if hold.converting then bad("%s is being converted already", hold.id) end
  hold.converting = {locks = locks_of(need(event, "locks", "table")), lower = event.lower}
  if not event.lower then return end
  hold.parts[#hold.parts].to = event.t
  table.insert(hold.parts, {locks = event.locks, from = event.t, fence = hold.fence})
end

local function converted(event)
  local hold = held(event)
  local change = hold.converting or bad("%s: an answer to no conversion", hold.id)
  hold.converting = nil
  return hold, change
end

on["convert ok"] = function(event)
  local hold, change = converted(event)
  if event.fence then hold.fence = fence_of(event.fence) end
  believe(event, hold, event.t)
  if change.lower then return end
  table.insert(hold.parts, {locks = change.locks, from = event.t, fence = hold.fence})
end

on["convert fail"], on["convert unknown"] = converted, converted

on.sure = function(event) believe(event, held(event), event.t) end

on.lost = function(event)
  local hold = held(event)
  if not hold.lost then history.counts.lost = history.counts.lost + 1 end
  hold.lost = hold.lost or event.t
end

on["release invoke"] = function(event)
  local hold = held(event)
  if hold.released then bad("%s is released twice", hold.id) end
  hold.released = event.t
end

local function released(event)
  local hold = hold_of(event)
  if not hold.released or hold.gone then bad("%s: an answer to no release", hold.id) end
  hold.gone = true
end

on["release ok"], on["release fail"], on["release unknown"] = released, released, released

-- ---- Writes --------------------------------------------------------------------------------------

on["write invoke"] = function(event)
  local hold, w = held(event), need(event, "w", "string")
  if by_write[w] then bad("write %s was used before", w) end
  if hold.lost or hold.released then believe(event, hold, event.t) end
  local write = {w = w, hold = hold, doc = need(event, "doc", "string"), at = event.t, where = where(),
    fence = event.fence and fence_of(event.fence) or hold.fence}
  by_write[w] = write
  history.writes[#history.writes + 1] = write
  history.counts.writes = history.counts.writes + 1
end

local function written(event, outcome)
  local write = by_write[need(event, "w", "string")] or bad("%s was never written", event.w)
  if write.outcome then bad("write %s was answered before", event.w) end
  write.outcome = outcome
  return write
end

-- The check before the sending passed, and that was after the invocation was noted.
on["write ok"] = function(event)
  local write = written(event, "ok")
  write.done = event.t
  write.hold.sure = math.max(write.hold.sure, write.at)
  write.hold["until"] = math.max(write.hold["until"], until_of(event))
  write.deadline = write.hold["until"]
end

on["write fail"] = function(event) written(event, "fail") end

on["write unknown"] = function(event)
  written(event, "unknown")
  history.counts.writes_unknown = history.counts.writes_unknown + 1
end

on.stamp = function(event)
  local list = history.stamps
  list[#list + 1] = {doc = need(event, "doc", "string"), fence = fence_of(event.fence), at = event.t,
    where = where()}
end

on.doc = function(event)
  local log = need(event, "log", "table")
  for _, entry in ipairs(log) do entry[2] = fence_of(entry[2]) end
  if history.documents[need(event, "doc", "string")] then bad("%s is shown twice", event.doc) end
  history.documents[event.doc] = {log = log, where = where()}
  history.n_documents = history.n_documents + 1
end

-- ---- The world -----------------------------------------------------------------------------------

on.table = function(event)
  for _, entry in ipairs(need(event, "entries", "table")) do
    local good = modes[entry[2]] and type(entry[3]) == "string" and math.tointeger(entry[4] or 0)
    if not good then bad "an entry is [PATH, MODE, SESSION] or [PATH, MODE, SESSION, STRIPE]" end
  end
  local list = history.tables
  list[#list + 1] = {from = need(event, "from", "number"), to = event.t, entries = event.entries,
    stripes = event.stripes or 1, rest = event.rest, where = where()}
  history.counts.tables = #list
end

on.killed = function(event)
  local who = need(event, "who", "string")
  history.killed[who] = math.min(history.killed[who] or math.huge, event.t)
end

local function stops_of(event)
  local who = need(event, "who", "string")
  history.stops[who] = history.stops[who] or {}
  return history.stops[who]
end

on.stopped = function(event) table.insert(stops_of(event), {event.t, math.huge}) end

on.continued = function(event)
  local list = stops_of(event)
  if #list == 0 then bad "continued without having been stopped" end
  list[#list][2] = event.t
end

on.broken = function(event) history.broken[need(event, "session", "string")] = true end

-- ---- Files ---------------------------------------------------------------------------------------

local function parse(line)
  local ok, event = pcall(decode, line)
  if not ok or type(event) ~= "table" then bad("no whole line of JSON: %s", line:sub(1, 80)) end
  need(event, "t", "number")
  need(event, "op", "string")
  return event
end

-- Events that others record about a client have no place in that client's own order.
local of_others = {killed = true, stopped = true, continued = true}

local function check_order(event, last)
  if of_others[event.op] then return end
  local task = tostring(event.who) .. "\0" .. tostring(event.task or 0)
  if event.t < (last[task] or -math.huge) then bad "time went back within one task" end
  last[task] = event.t
end

local function read_file(name)
  local file = io.open(name) or report.bad("%s cannot be read", name)
  local n, last = 0, {}
  where = function() return name .. ":" .. n end
  for line in file:lines "L" do
    n = n + 1
    if line:sub(-1) ~= "\n" then bad "the last line is cut off" end
    local event = parse(line)
    local handle = on[event.op] or on[event.op .. " " .. tostring(event.is)]
      or bad("no such event: %s %s", event.op, tostring(event.is))
    check_order(event, last)
    handle(event)
  end
  file:close()
  history.counts.events = history.counts.events + n
end

return function(files)
  by_id, by_write = {}, {}
  history = {holds = {}, writes = {}, by_write = by_write, stamps = {}, documents = {}, n_documents = 0,
    tables = {}, killed = {}, stops = {}, broken = {}, last_grant = {}, counts = {events = 0, granted = 0,
      refused = 0, unknown = 0, lost = 0, writes = 0, writes_unknown = 0, tables = 0}}
  for _, name in ipairs(files) do read_file(name) end
  return history
end
