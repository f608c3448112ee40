-- The tree of locks, one level at a time, from the sorted columns of a look (look.lua): what lies below a
-- path stands in one piece there.
local blocking = require "mortise.cli.blocking"
local core = require "mortise.core"
local shown = require "mortise.board.shown"

local levels = {}

local children_most, here_most = 60, 40

-- The first row whose path is not before `text`, from row `low` on.
local function first_at(columns, text, low)
  local high = columns.count + 1
  while low < high do
    local middle = (low + high) // 2
    if core.before(columns.path[middle], text) then low = middle + 1 else high = middle end
  end
  return low
end

-- All that is below a path is in [first, last).
local function range_below(columns, path)
  if path == "/" then
    local first = first_at(columns, "/", 1)
    while columns.path[first] == "/" do first = first + 1 end
    return first, columns.count + 1
  end
  local first = first_at(columns, path .. "/", 1)
  return first, first_at(columns, path .. "0", first) -- "0" comes right after "/"
end

-- {[child's path] = how many wait at it or below}, of one path; and how many at the path itself
local function waits_below(found, namespace, path)
  local below, here, start = {}, 0, path == "/" and 1 or #path + 1
  for _, wait in ipairs(found.waits) do
    local entry = wait.waiter
    if entry.namespace == namespace then
      if entry.path == path then
        here = here + 1
      elseif path == "/" or entry.path:sub(1, start) == path .. "/" then
        local child = entry.path:match("^[^/]+", start + 1)
        local full = child and entry.path:sub(1, start + #child)
        if full then below[full] = (below[full] or 0) + 1 end
      end
    end
  end
  return below, here
end

-- The children: {path=, n= locks at and below it, one= its only row or nil, waits=}
local function children_of(found, namespace, columns, path)
  local first, last = range_below(columns, path)
  local below = waits_below(found, namespace, path)
  local list, start = {}, path == "/" and 1 or #path + 1
  local at = first
  while at < last do
    local row = columns.path[at]
    local slash = row:find("/", start + 1, true)
    local child = slash and row:sub(1, slash - 1) or row
    local next_at = at + 1
    if slash or columns.path[next_at] and columns.path[next_at]:sub(1, #child) == child then
      -- "/a", "/a-b", "/a/b": what is below a path does not stand right behind it
      local from, to = range_below(columns, child)
      local own = first_at(columns, child, first)
      local own_last = own
      while columns.path[own_last] == child do own_last = own_last + 1 end
      if slash and own_last > own then
        next_at = to -- it was listed where it stands itself
      else
        local n = own_last - own + to - from
        list[#list + 1] = {path = child, n = n, at = at, one = n == 1}
        next_at = slash and to or own_last
      end
    else
      list[#list + 1] = {path = child, n = 1, at = at, one = true}
    end
    at = next_at
  end
  for _, each in ipairs(list) do
    each.waits = below[each.path] or 0
    below[each.path] = nil
  end
  for child, n in pairs(below) do list[#list + 1] = {path = child, n = 0, waits = n} end
  return list
end

-- What is waited for comes first, then the larger where not all can be shown, then by name.
local function order(list)
  local by_size = #list > children_most
  table.sort(list, function(a, b)
    if a.waits ~= b.waits then return a.waits > b.waits end
    if by_size and a.n ~= b.n then return a.n > b.n end
    return core.before(a.path, b.path)
  end)
end

-- One row, for the page.
function levels.row(columns, namespace, at)
  local session = columns.session[at]
  return core.object {
    namespace = namespace, path = shown.raw(columns.path[at]), shown = shown.path(columns.path[at]),
    mode = columns.mode[at], since = columns.since[at],
    hold = ("%s/%d"):format(session.id:sub(1, 8), columns.n[at]),
    session = session.id, who = shown.text(session.who), verdict = shown.text(session.verdict.text),
    dead = session.verdict.dead or false, job = columns.job[at] and shown.text(columns.job[at]) or nil,
  }
end

-- One that waits, for the page.
function levels.waiter(wait)
  local entry = wait.waiter
  return core.object {
    namespace = entry.namespace, path = shown.raw(entry.path), shown = shown.path(entry.path),
    mode = entry.mode,
    session = entry.session, who = shown.text(blocking.who(entry)), seen = wait.seen,
    at = entry.queued_at ~= entry.path and shown.path(entry.queued_at) or nil,
  }
end

-- The level below a path: {path, rows= at the path itself, waiters=, children=, more=}
function levels.of(found, namespace, path)
  local columns = found.columns[namespace] or {count = 0, path = {}}
  local rows, waiters, children = core.array {}, core.array {}, core.array {}
  local at, here = first_at(columns, path, 1), 0
  while columns.path[at] == path do
    here = here + 1
    if here <= here_most then rows[here] = levels.row(columns, namespace, at) end
    at = at + 1
  end
  for _, wait in ipairs(found.waits) do
    local is_here = wait.waiter.namespace == namespace and wait.waiter.path == path
    if is_here and #waiters < here_most then waiters[#waiters + 1] = levels.waiter(wait) end
  end
  local list = children_of(found, namespace, columns, path)
  order(list)
  for i = 1, math.min(#list, children_most) do
    local each = list[i]
    local name = each.path:sub(path == "/" and 2 or #path + 2)
    children[i] = core.object {
      path = shown.raw(each.path), name = shown.path(name, 80), n = each.n, waits = each.waits,
      row = each.one and each.waits == 0 and levels.row(columns, namespace, each.at) or nil,
    }
  end
  return core.object {
    namespace = namespace, path = path, rows = rows, here = here, waiters = waiters, children = children,
    more = #list - #children,
  }
end

-- ---- Searching -----------------------------------------------------------------------------------

local counted_most = 1000

-- All paths of a namespace as one text, a line each, and where each begins: made at a look's first search.
local function text_of(columns)
  if not columns.text then
    local starts, at = {}, 1
    for i = 1, columns.count do
      starts[i] = at
      at = at + #columns.path[i] + 1
    end
    columns.text, columns.starts = table.concat(columns.path, "\n", 1, columns.count), starts
  end
  return columns.text, columns.starts
end

-- The row whose path has the byte at `position`.
local function row_at(starts, position)
  local low, high = 1, #starts
  while low < high do
    local middle = (low + high + 1) // 2
    if starts[middle] <= position then low = middle else high = middle - 1 end
  end
  return low
end

-- Calls see(row) for those that have it, 1,000 at most. -> how many
local function each_match(columns, text, see)
  local all, starts = text_of(columns)
  local n, from = 0, 1
  while n < counted_most do
    local position = all:find(text, from, true)
    if not position then break end
    local row = row_at(starts, position)
    n, from = n + 1, starts[row + 1]
    see(row)
    if not from then break end
  end
  return n
end

-- The locks that have this in their path, the waiters, and the sessions: the first of each, and how many
-- locks there are, 1,000 standing for more.
function levels.search(found, text, most)
  local locks, waiters, owners, n = core.array {}, core.array {}, core.array {}, 0
  for _, session in ipairs(found.session_list) do
    local matches = session.who:find(text, 1, true) or session.id:find(text, 1, true) == 1
    if matches and #owners < most then owners[#owners + 1] = session end
  end
  for namespace, columns in pairs(found.columns) do
    n = n + each_match(columns, text, function(row)
      if #locks < most then locks[#locks + 1] = levels.row(columns, namespace, row) end
    end)
  end
  for _, wait in ipairs(found.waits) do
    local entry = wait.waiter
    local matches = entry.path:find(text, 1, true) or blocking.who(entry):find(text, 1, true)
    if matches and #waiters < most then waiters[#waiters + 1] = levels.waiter(wait) end
  end
  return locks, waiters, owners, math.min(n, counted_most)
end

return levels
