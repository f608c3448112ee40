-- Snapshots of the lock table: every hold that was believed in throughout has its entries there, on its
-- ancestors too; no path has incompatible entries; at rest there are no entries.
local modes = require "modes"
local report = require "report"

-- {[session] = {[path] = mode}}
local function by_session(entries)
  local sessions = {}
  for _, entry in ipairs(entries) do
    local own = sessions[entry[3]] or {}
    sessions[entry[3]], own[entry[1]] = own, entry[2]
  end
  return sessions
end

-- Is `mode` on this path covered by an entry there, or by one above it that covers all below?
local function stands(own, path, mode)
  if own[path] and modes.covers[own[path]][mode] then return true end
  for above in modes.ancestors(path) do
    local there = own[above]
    if there == "X" or (there == "S" or there == "SIX") and modes.covers.S[mode] then return true end
  end
  return false
end

local function check_covered(snapshot, sessions, hold)
  if not hold.session then return end
  local own = sessions[hold.session] or {}
  for path, mode in pairs(hold.paths) do
    if not stands(own, path, mode) then
      report.violation("uncovered", "%s: on %s there is %s, not %s, of %s", snapshot.where, path,
        own[path] or "nothing", mode, report.hold(hold))
    end
  end
end

local function check_compatible(snapshot)
  local paths = {}
  for _, entry in ipairs(snapshot.entries) do
    for _, other in ipairs(paths[entry[1]] or {}) do
      if other[3] ~= entry[3] and not modes.fits[other[2]][entry[2]] then
        report.violation("table", "%s: %s has %s of %s and %s of %s", snapshot.where, entry[1], other[2],
          other[3], entry[2], entry[3])
      end
    end
    paths[entry[1]] = paths[entry[1]] or {}
    table.insert(paths[entry[1]], entry)
  end
end

local function check_rest(snapshot)
  local first = snapshot.entries[1]
  if first then
    report.violation("not-empty", "%s: %d entries at rest, %s on %s of %s among them", snapshot.where,
      #snapshot.entries, first[2], first[1], first[3])
  end
end

local function still_believed(active, time)
  local left = {}
  for _, hold in ipairs(active) do
    if hold.to >= time then left[#left + 1] = hold end
  end
  return left
end

return function(history, holds)
  table.sort(history.tables, function(a, b) return a.from < b.from end)
  local active, next_hold = {}, 1
  for _, snapshot in ipairs(history.tables) do
    while holds[next_hold] and holds[next_hold].from <= snapshot.from do
      active[#active + 1] = holds[next_hold]
      next_hold = next_hold + 1
    end
    active = still_believed(active, snapshot.from)
    local sessions = by_session(snapshot.entries)
    for _, hold in ipairs(active) do
      if hold.to >= snapshot.to then check_covered(snapshot, sessions, hold) end
    end
    check_compatible(snapshot)
    if snapshot.rest then check_rest(snapshot) end
  end
end
