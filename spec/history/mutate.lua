-- Makes a correct history wrong: mutate[KIND](events, random) changes one thing, so that the checker must
-- find a violation of this kind; false if this history has no place for it.
local modes = require "spec.history.modes"

local mutate = {}

-- ---- Finding -------------------------------------------------------------------------------------

local function pick(list, random) return #list > 0 and list[random(#list)] end

local function is(event, op, outcome) return event.op == op and event.is == outcome end

-- The granted acquisitions: {asked, granted, last (the last event that proves it), released}.
local function grants(events)
  local by_id, of_write, list = {}, {}, {}
  for i, event in ipairs(events) do
    local hold = by_id[event.id or of_write[event.w]]
    if is(event, "acquire", "invoke") then
      by_id[event.id] = {asked = event, paths = modes.expand(event.locks)}
    elseif is(event, "acquire", "ok") then
      hold.granted, hold.last = event, event
      list[#list + 1] = hold
    elseif event.op == "sure" then
      hold.last = event
    elseif is(event, "write", "invoke") then
      of_write[event.w] = event.id
    elseif is(event, "release", "invoke") then
      hold.released, hold.at = event, i
    end
  end
  return list
end

local function clash(a, b)
  for path, mode in pairs(a.paths) do
    if b.paths[path] and not modes.fits[b.paths[path]][mode] then return true end
  end
  return false
end

-- Two grants of different clients that exclude each other, the earlier first.
local function rivals(events, random)
  local list, pairs_found = grants(events), {}
  for i, a in ipairs(list) do
    for j = i + 1, #list do
      local b = list[j]
      if a.asked.who ~= b.asked.who and clash(a, b) then pairs_found[#pairs_found + 1] = {a, b} end
    end
  end
  local found = pick(pairs_found, random)
  if found then return found[1], found[2] end
end

local function find(events, random, fits)
  local list = {}
  for i, event in ipairs(events) do
    if fits(event) then list[#list + 1] = i end
  end
  local i = pick(list, random)
  return i and events[i], i
end

local function find_document(events, random, fits)
  return find(events, random, function(event) return event.op == "doc" and fits(event) end)
end

-- Is this write acknowledged?
local function acknowledged(events, w)
  for _, event in ipairs(events) do
    if event.w == w and is(event, "write", "ok") then return true end
  end
  return false
end

-- ---- Changing ------------------------------------------------------------------------------------

-- The earlier is still believed in when the later one's check passes.
function mutate.overlap(events, random)
  local a, b = rivals(events, random)
  if not a then return false end
  a.granted["until"] = b.granted.t + 1
  b.granted["until"] = b.granted.t + 2
  a.released.op, a.released.is = "sure", nil
  for i = #events, 1, -1 do -- nothing more of the earlier one
    local event = events[i]
    if event.id == a.asked.id and event.op == "release" then table.remove(events, i) end
  end
  return true
end

function mutate.fence(events, random)
  local a, b = rivals(events, random)
  if not a then return false end
  b.granted.fence = ("%d"):format(tonumber(a.granted.fence) - random(0, 1))
  return true
end

mutate["after-release"] = function(events, random)
  local hold = pick(grants(events), random)
  if not hold then return false end
  table.insert(events, hold.at + 1, {who = hold.asked.who, task = hold.asked.task, op = "sure",
    id = hold.asked.id, t = hold.released.t})
  return true
end

mutate["lost-early"] = function(events, random)
  local hold = pick(grants(events), random)
  if not hold then return false end
  hold.granted["until"] = hold.released.t + 100
  table.insert(events, hold.at, {who = hold.asked.who, task = hold.asked.task, op = "lost",
    id = hold.asked.id, t = hold.last.t})
  return true
end

mutate["missing-write"] = function(events, random)
  local doc = find_document(events, random, function(event)
    return acknowledged(events, event.log[1][1])
  end)
  if doc then table.remove(doc.log, 1) end
  return doc
end

mutate["double-write"] = function(events, random)
  local doc = find_document(events, random, function() return true end)
  if doc then table.insert(doc.log, doc.log[#doc.log]) end
  return doc
end

mutate["stale-write"] = function(events, random)
  local doc = find_document(events, random, function(event)
    return event.log[1][2] ~= event.log[#event.log][2]
  end)
  if doc then doc.log[1], doc.log[#doc.log] = doc.log[#doc.log], doc.log[1] end
  return doc
end

mutate["phantom-write"] = function(events, random)
  local doc = find_document(events, random, function() return true end)
  if doc then doc.log[#doc.log + 1] = {"nobody's", doc.log[#doc.log][2]} end
  return doc
end

-- Does an entry above it cover this one too? Then removing this one is no violation.
local function stands_below(entry, entries)
  for above in modes.ancestors(entry[1]) do
    for _, other in ipairs(entries) do
      local all_below = other[2] == "X" or (other[2] == "S" or other[2] == "SIX") and modes.covers.S[entry[2]]
      if other[1] == above and other[3] == entry[3] and all_below then return true end
    end
  end
  return false
end

local function needed(snapshot)
  local list = {}
  for i, entry in ipairs(snapshot.entries) do
    if not stands_below(entry, snapshot.entries) then list[#list + 1] = i end
  end
  return list
end

function mutate.uncovered(events, random)
  local snapshot = find(events, random, function(event) return event.op == "table" and event.entries[1] end)
  if snapshot then table.remove(snapshot.entries, pick(needed(snapshot), random)) end
  if snapshot then -- so that all of them are believed in meanwhile
    for _, hold in ipairs(grants(events)) do hold.granted["until"] = math.max(hold.last.t, snapshot.t) end
  end
  return snapshot
end

mutate["not-empty"] = function(events, random)
  local rest = find(events, random, function(event) return event.rest end)
  rest.entries = {{"/", "IS", "c1"}}
  return true
end

return mutate
