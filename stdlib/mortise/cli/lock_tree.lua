-- Locks as a tree of paths in so many lines: what is contended first, then as much as fits; what does not is
-- one line of counts.
local core = require "mortise.core"
local duration = require "mortise.duration"
local holds = require "mortise.cli.holds"
local output = require "mortise.cli.output"
local sessions = require "mortise.sessions"
local visible = require "mortise.visible"

local lock_tree = {}

local children_most, entries_most = 20, 5 -- lines of one node

-- ---- Building it ---------------------------------------------------------------------------------

local none = {} -- the children of a leaf, of which there may be 100,000s

local function new_node(name) return {name = name, entries = none, children = none, n = 0, waits = 0} end

local function add_child(node, name)
  local child = new_node(name)
  if node.children == none then node.children = {} end
  node.children[#node.children + 1] = child
  return child
end

-- The node of a path among `nodes`, {[path] = node} of what has something below it or entries.
local function node_at(nodes, path)
  local node = nodes[path]
  if node then return node end
  local above, name = path:match "^(.*)/([^/]+)$"
  node = add_child(node_at(nodes, above), name)
  nodes[path] = node
  return node
end

local function insert(nodes, entry)
  local node = node_at(nodes, entry.path == "/" and "" or entry.path)
  if node.entries == none then node.entries = {} end
  node.entries[#node.entries + 1] = entry
end

-- Counts the entries, and those that wait, of each node and what is below it.
local function count(node)
  local n, waits = #node.entries, 0
  for _, entry in ipairs(node.entries) do
    if entry.waits then waits = waits + 1 end
  end
  for _, child in ipairs(node.children) do
    count(child)
    n, waits = n + child.n, waits + child.waits
  end
  node.n, node.waits = n, waits
end

-- What has nothing of its own and one child becomes one node with it.
local function compress(node, is_root)
  while #node.entries == 0 and #node.children == 1 do
    local only = node.children[1]
    only.name = (is_root and node.name == "/" and "/" or node.name .. "/") .. only.name
    node = only
  end
  for i, child in ipairs(node.children) do node.children[i] = compress(child) end
  return node
end

-- What is waited for, then by name; where not all can be shown, by size.
local function order(node)
  local by_size = #node.children > children_most
  table.sort(node.children, function(a, b)
    if a.waits ~= b.waits then return a.waits > b.waits end
    if by_size and a.n ~= b.n then return a.n > b.n end
    return core.before(a.name, b.name)
  end)
end

-- A tree for each namespace, ours first.
function lock_tree.build(entries, namespace)
  local by_namespace, list = {}, {}
  for _, entry in ipairs(entries) do
    local ns = entry.namespace or namespace
    local nodes = by_namespace[ns]
    if not nodes then
      local root = new_node(ns == namespace and "/" or ns .. ":/")
      root.own, nodes = ns == namespace, {[""] = root}
      by_namespace[ns], list[#list + 1] = nodes, root
    end
    insert(nodes, entry)
  end
  table.sort(list, function(a, b)
    if a.own ~= b.own then return a.own end
    return core.before(a.name, b.name)
  end)
  for i, root in ipairs(list) do
    count(root)
    list[i] = compress(root, true)
  end
  return list
end

-- ---- What is open --------------------------------------------------------------------------------

local function shown_children(node) return math.min(#node.children, children_most) end
local function shown_entries(node) return math.min(#node.entries, entries_most) end

-- The lines that it has when it is open, with its children closed.
local function lines_of(node)
  local more = (#node.entries > entries_most and 1 or 0) + (#node.children > children_most and 1 or 0)
  return math.max(1, shown_entries(node)) + shown_children(node) + more
end

local function is_better(a, b)
  if (a.waits > 0) ~= (b.waits > 0) then return a.waits > 0 end
  return lines_of(a) < lines_of(b)
end

-- One of a single entry says all in its line.
local function is_whole(node) return #node.children == 0 and #node.entries == 1 end

-- Opens nodes as long as the lines suffice: the best of those that can be seen, again and again.
local function open_some(roots, most)
  local closed, left = {}, most - #roots
  local function see(node)
    if is_whole(node) then node.open = true else closed[#closed + 1] = node end
  end
  for _, root in ipairs(roots) do see(root) end
  while #closed > 0 do
    local best = 1
    for i = 2, #closed do
      if is_better(closed[i], closed[best]) then best = i end
    end
    local node = table.remove(closed, best)
    local cost = lines_of(node) - 1
    if cost <= left then
      left, node.open = left - cost, true
      order(node)
      for i = 1, shown_children(node) do see(node.children[i]) end
    end
  end
end

-- ---- As rows -------------------------------------------------------------------------------------

local function lease_left(entry, now)
  local record = entry.record
  if entry.verdict.dead or not record or math.type(record.beat_at) ~= "integer" then return "" end
  return duration.text(record.beat_at + (record.lease_ms or 0) - now) .. " left"
end

local function word_of(entry)
  if not entry.waits then return "holds" end
  return entry.queued_at == entry.path and "waits" or "waits at " .. visible(entry.queued_at)
end

local function cells(path, entry, now)
  local verdict = entry.verdict
  local state = (verdict.dead or verdict.damaged or verdict.state ~= "live") and "; " .. verdict.text or ""
  return {
    path, entry.mode, word_of(entry), holds.name(entry), holds.age(entry.since, now), lease_left(entry, now),
    sessions.owner_text(entry.record and entry.record.owner) .. state,
  }
end

-- Counts of what lies in these nodes: locks (not the marks above them), sessions, who waits.
local function sum_of(nodes)
  local seen, held, waits, owners = {}, 0, 0, 0
  local function walk(node)
    for _, entry in ipairs(node.entries) do
      if entry.waits then
        waits = waits + 1
      elseif not holds.is_intention(entry.mode) then
        held = held + 1
      end
      if not seen[entry.session] then owners = owners + 1 end
      seen[entry.session] = true
    end
    for _, child in ipairs(node.children) do walk(child) end
  end
  for _, node in ipairs(nodes) do walk(node) end
  return output.counted(held, "lock", "locks") .. " of " .. output.counted(owners, "session", "sessions")
    .. (waits > 0 and (", %d wait"):format(waits) or "")
end

local function summary(path, text) return {path, "", "", "", "", "", text} end

local function add_entries(rows, node, prefix, below, now)
  local blank = below .. (shown_children(node) > 0 and "│" or "")
  for i = 1, shown_entries(node) do
    rows[#rows + 1] = cells(i == 1 and prefix .. visible(node.name) or blank, node.entries[i], now)
  end
  local rest = #node.entries - shown_entries(node)
  if rest > 0 then rows[#rows + 1] = summary(blank, ("... and %d more here"):format(rest)) end
  if #node.entries == 0 then rows[#rows + 1] = summary(prefix .. visible(node.name), "") end
end

-- `prefix`: what stands before its name; `below`: before what is below it.
local function add_rows(rows, node, prefix, below, now)
  if not node.open then
    local path = prefix .. visible(node.name) .. (#node.children > 0 and "/..." or "")
    rows[#rows + 1] = summary(path, sum_of {node})
    return
  end
  add_entries(rows, node, prefix, below, now)
  local shown = shown_children(node)
  for i = 1, shown do
    local last = i == #node.children
    add_rows(rows, node.children[i], below .. (last and "└─ " or "├─ "),
      below .. (last and "   " or "│  "), now)
  end
  if shown == #node.children then return end
  rows[#rows + 1] = summary(below .. "└─ ...", ("%d more paths: %s"):format(#node.children - shown,
    sum_of(table.move(node.children, shown + 1, #node.children, 1, {}))))
end

lock_tree.heading = {"PATH", "MODE", "", "HOLD", "SINCE", "LEASE", "WHO"}

-- Rows for output.columns, about `most` of them. `entries`: a list of holds.lua's; `namespace`: ours.
function lock_tree.rows(entries, namespace, now, most)
  local roots, rows = lock_tree.build(entries, namespace), {}
  open_some(roots, most)
  for _, root in ipairs(roots) do add_rows(rows, root, "", "", now) end
  return rows
end

-- "50000 locks of 1000 sessions, 3 wait"
function lock_tree.sum(entries) return sum_of {{entries = entries, children = none}} end

return lock_tree
