-- Snapshots of the lock table: every hold that was believed in throughout has its entries there, on its
-- ancestors too; no place has incompatible entries; at rest there are no entries.
local modes = require "modes"
local report = require "report"

-- {[session] = {[path] = {[stripe] = mode}}}
local function by_session(entries)
  local sessions = {}
  for _, entry in ipairs(entries) do
    local path, mode, session, stripe = table.unpack(entry)
    local own = sessions[session] or {}
    sessions[session], own[path] = own, own[path] or {}
    own[path][stripe or 0] = mode
  end
  return sessions
end

-- Of a path that has stripes an intention stands in one, any other mode in all.
local function stands_at(there, mode, stripes)
  local count = 0
  for _, found in pairs(there or {}) do
    if modes.covers[found][mode] then count = count + 1 end
  end
  return count >= (modes.covers.IX[mode] and 1 or stripes)
end

-- Is `mode` on this path covered by what stands there, or by what stands above it and covers all below?
local function stands(own, path, mode, stripes)
  local function at(where, what)
    return stands_at(own[where], what, modes.may_have_stripes(where) and stripes or 1)
  end
  if at(path, mode) then return true end
  for above in modes.ancestors(path) do
    if at(above, "X") or modes.covers.S[mode] and at(above, "S") then return true end
  end
  return false
end

local function text(there)
  local list = {}
  for stripe, mode in pairs(there or {}) do list[#list + 1] = ("%s (stripe %d)"):format(mode, stripe) end
  table.sort(list)
  return list[1] and table.concat(list, ", ") or "nothing"
end

local function check_covered(snapshot, sessions, hold)
  if not hold.session then return end
  local own = sessions[hold.session] or {}
  for path, mode in pairs(hold.paths) do
    if not stands(own, path, mode, snapshot.stripes) then
      report.violation("uncovered", "%s: on %s there is %s, not %s, of %s", snapshot.where, path,
        text(own[path]), mode, report.hold(hold))
    end
  end
end

local function check_compatible(snapshot)
  local places = {}
  for _, entry in ipairs(snapshot.entries) do
    local place = ("%d %s"):format(entry[4] or 0, entry[1])
    for _, other in ipairs(places[place] or {}) do
      if other[3] ~= entry[3] and not modes.fits[other[2]][entry[2]] then
        report.violation("table", "%s: %s has %s of %s and %s of %s", snapshot.where, entry[1], other[2],
          other[3], entry[2], entry[3])
      end
    end
    places[place] = places[place] or {}
    table.insert(places[place], entry)
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
