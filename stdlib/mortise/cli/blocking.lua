-- Who waits for whom, from the entries of a list of locks (mortise.cli.holds): for people and `--json`. What
-- ends a deadlock is the protocol, which looks for itself.
local core = require "mortise.core"
local holds = require "mortise.cli.holds"
local sessions = require "mortise.sessions"
local visible = require "mortise.visible"

local blocking = {}

-- Gray's matrix: what each mode may be held beside. A mode that is not here fits nothing.
local fits = {
  IS = {IS = true, IX = true, S = true, SIX = true}, IX = {IS = true, IX = true}, S = {IS = true, S = true},
  SIX = {IS = true}, X = {},
}

local function clash(a, b) return not (fits[a] and fits[b] and fits[a][b]) end

local function place_of(entry) return entry.namespace .. ":" .. (entry.queued_at or entry.path) end

-- What stands for an entry's session in a list of all namespaces.
function blocking.owner_of(entry)
  if entry.damaged then return "damaged " .. place_of(entry) end
  return entry.namespace .. ":" .. entry.session
end

-- {[place] = {holders = {entry, ...}, line = {waiter, ...}}}, of the places where somebody waits
local function places_of(entries)
  local places = {}
  for _, entry in ipairs(entries) do
    if entry.waits then places[place_of(entry)] = {holders = {}, line = {}} end
  end
  for _, entry in ipairs(entries) do
    local place = places[place_of(entry)]
    if place then table.insert(entry.waits and place.line or place.holders, entry) end
  end
  return places
end

-- Its mode at the place where it stands, which for a waiter may be above the path that it wants.
local function mode_at(entry) return entry.queued_mode or entry.mode end

-- Adds the entries of `list`, up to `stop`, that keep the waiter out.
local function add_those_against(waiter, list, stop, into)
  local own = blocking.owner_of(waiter)
  for _, entry in ipairs(list) do
    if entry == stop then return end
    local keeps_out = blocking.owner_of(entry) ~= own and clash(mode_at(waiter), mode_at(entry))
    if keeps_out then into[#into + 1] = entry end
  end
end

-- [{waiter = entry, blockers = {entry, ...}}, ...]: who holds what it wants comes before who stands in line
-- before it. `entries` are in the order of the list.
function blocking.waits(entries)
  local waits = {}
  local places = places_of(entries)
  for _, entry in ipairs(entries) do
    if entry.waits then
      local place, found = places[place_of(entry)], {}
      add_those_against(entry, place.holders, nil, found)
      add_those_against(entry, place.line, entry, found)
      waits[#waits + 1] = {waiter = entry, blockers = found}
    end
  end
  return waits
end

-- ---- As lines ------------------------------------------------------------------------------------

local children_most = 20

-- The owner of an entry.
function blocking.who(entry)
  local text = sessions.owner_text(entry.record and entry.record.owner)
  return text ~= "" and text or "unknown"
end

-- Who has only a mark of intention there holds something below.
local function holder_text(entry, now)
  local held = holds.is_intention(entry.mode) and "holds something below" or "holds"
  local what = entry.waits and "waits for" or held
  return ("%s: %s %s (%s), for %s"):format(blocking.who(entry), what, visible(entry.path), entry.mode,
    holds.age(entry.since, now))
end

local function waiter_text(wait)
  local entry, others = wait.waiter, #wait.blockers - 1
  return ("%s: waits for %s (%s)%s"):format(blocking.who(entry), visible(entry.path), entry.mode,
    others > 0 and (", and for %d more"):format(others) or "")
end

-- {[owner] = {wait, ...}} by the first who is in the way, the owners in order, and who waits.
local function by_blocker(waits)
  local children, order, waiting = {}, {}, {}
  for _, wait in ipairs(waits) do
    local first = wait.blockers[1]
    waiting[blocking.owner_of(wait.waiter)] = true
    if first then
      local key = blocking.owner_of(first)
      if not children[key] then
        children[key] = {entry = first}
        order[#order + 1] = key
      end
      table.insert(children[key], wait)
    end
  end
  return children, order, waiting
end

-- Who keeps most others out comes first.
local function by_weight(children)
  return function(a, b)
    if #children[a] ~= #children[b] then return #children[a] > #children[b] end
    return core.before(a, b)
  end
end

-- For up to `most` lines: a function that adds one, and one that gives them, with how many were too many.
local function collector(most)
  local lines, left = {}, 0
  local function add(text)
    if #lines < most then lines[#lines + 1] = text else left = left + 1 end
  end
  return add, function()
    if left > 0 then lines[#lines + 1] = ("... and %d lines more"):format(left) end
    return lines
  end
end

-- A forest of lines, `most` of them: who is in the way of others, and below it who waits for it, and so on.
function blocking.lines(waits, now, most)
  local children, order, waiting = by_blocker(waits)
  local add, ended = collector(most)
  local seen = {}
  local function below(key, indent)
    if seen[key] then return add(indent .. "└─ (as above)") end
    seen[key] = true
    local list = children[key]
    local shown = math.min(#list, children_most)
    for i = 1, shown do
      local last, own = i == #list, blocking.owner_of(list[i].waiter)
      add(indent .. (last and "└─ " or "├─ ") .. waiter_text(list[i]))
      if children[own] then below(own, indent .. (last and "   " or "│  ")) end
    end
    if shown < #list then add(("%s└─ %d more"):format(indent, #list - shown)) end
  end
  local function from(key, word)
    if seen[key] then return end
    add(holder_text(children[key].entry, now) .. word)
    below(key, "")
  end
  table.sort(order, by_weight(children))
  for _, key in ipairs(order) do
    if not waiting[key] then from(key, "") end
  end
  for _, key in ipairs(order) do from(key, " (a circle: each waits for another)") end -- has no beginning
  return ended()
end

-- ---- For programs --------------------------------------------------------------------------------

local function short(entry)
  return core.object {
    namespace = entry.namespace, session = entry.session, hold = holds.name(entry), mode = entry.mode,
    path = entry.path, waits = entry.waits,
  }
end

-- [{waiter fields, at=, blockers=[...]}]
function blocking.objects(waits)
  local list = core.array {}
  for i, wait in ipairs(waits) do
    local object, blockers = short(wait.waiter), core.array {}
    object.waits = nil
    object.at = wait.waiter.queued_at
    for k, entry in ipairs(wait.blockers) do blockers[k] = short(entry) end
    object.blockers = blockers
    list[i] = object
  end
  return list
end

return blocking
