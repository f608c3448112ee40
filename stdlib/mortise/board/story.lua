-- Who had which lock when, as far as the board has seen it: what differs between one look and the next.
local core = require "mortise.core"
local shown = require "mortise.board.shown"

local story = {}

local events_most, for_a_look, path_most = 4000, 1000, 512

function story.new() return {events = {}, first = 1, n = 0} end

local function add(s, event)
  s.n = s.n + 1
  s.events[s.n] = event
  if s.n - s.first >= events_most then
    s.events[s.first] = nil
    s.first = s.first + 1
  end
end

-- Where rows of one path begin, those with the same holds left out: {[key] = row}
local function group(columns, at)
  local path, rows = columns.path[at], {}
  while columns.path[at] == path do
    rows[("%s %s %d"):format(columns.session[at].id, columns.mode[at], columns.n[at])] = at
    at = at + 1
  end
  return rows, at
end

local function same_row(a, i, b, j)
  return a.mode[i] == b.mode[j] and a.n[i] == b.n[j] and a.session[i].id == b.session[j].id
end

local function note(note_one, what, columns, rows, unless)
  for key, at in pairs(rows) do
    if not unless[key] then note_one(what, columns, at) end
  end
end

local none = {path = {}, mode = {}, session = {}, since = {}, n = {}, count = 0}

-- Walks both in the order of their paths.
local function compare(before, after, note_one)
  local i, j = 1, 1
  while i <= before.count or j <= after.count do
    local a, b = before.path[i], after.path[j]
    local alone = a == b and before.path[i + 1] ~= a and after.path[j + 1] ~= b
    if alone and same_row(before, i, after, j) then
      i, j = i + 1, j + 1
    elseif a == b then
      local old, new
      old, i = group(before, i)
      new, j = group(after, j)
      note(note_one, "gave back", before, old, new)
      note(note_one, "got", after, new, old)
    elseif a and (not b or core.before(a, b)) then
      note_one("gave back", before, i)
      i = i + 1
    else
      note_one("got", after, j)
      j = j + 1
    end
  end
end

-- Notes what has changed since the last look, the first 1,000 things of each.
function story.note(s, before, found)
  if not before or before.left_out > 0 or found.left_out > 0 then return end
  local left = for_a_look
  local function each(namespace)
    compare(before.columns[namespace] or none, found.columns[namespace] or none, function(what, columns, at)
      left = left - 1
      if left < 0 or #columns.path[at] > path_most then return end
      add(s, {
        at = found.at, since = before.at, namespace = namespace, path = columns.path[at], what = what,
        mode = columns.mode[at], who = shown.text(columns.session[at].who), session = columns.session[at].id,
        began = columns.since[at],
      })
    end)
  end
  for namespace in pairs(found.columns) do each(namespace) end
  for namespace in pairs(before.columns) do
    if not found.columns[namespace] then each(namespace) end
  end
end

-- The latest of a path, newest first.
function story.of(s, namespace, path, most)
  local list = core.array {}
  for at = s.n, s.first, -1 do
    local event = s.events[at]
    if event.path == path and event.namespace == namespace then
      list[#list + 1] = core.object {
        at = event.at, since = event.since, what = event.what, mode = event.mode, who = event.who,
        session = event.session, began = event.began,
      }
      if #list >= most then break end
    end
  end
  return list
end

return story
