-- The screen of `mortise watch`: lines from a look at the store (overview.lua) and what the person wants to
-- see of it. It writes nothing, and knows no keys.
local blocking = require "mortise.cli.blocking"
local core = require "mortise.core"
local duration = require "mortise.duration"
local holds = require "mortise.cli.holds"
local locks = require "mortise.cli.locks"
local output = require "mortise.cli.output"
local overview = require "mortise.cli.overview"
local printable = require "mortise.printable"
local progress = require "mortise.cli.progress"
local visible = require "mortise.visible"

local watch_screen = {}

local bar_width, jobs_most, waits_most = 20, 5, 8

-- ---- Which locks, in which order -----------------------------------------------------------------

local who = blocking.who

local function since(entry)
  local value = entry.seen or entry.since
  return math.type(value) == "integer" and value or math.maxinteger
end

watch_screen.sorts = {
  {name = "age", before = function(a, b) return since(a) < since(b) end},
  {name = "path", before = function(a, b) return core.before(a.path, b.path) end},
  {name = "who", before = function(a, b) return a.session < b.session end},
}

local function matches(entry, filter)
  local text = entry.path .. " " .. who(entry) .. " " .. (entry.job or "")
  return text:find(filter, 1, true) ~= nil
end

-- Those that match, in order; who waits, and what is waited for, comes first. `view`: {sort=, filter=}
function watch_screen.choose(look, view)
  local chosen, first = {}, {}
  for _, wait in ipairs(look.waits) do
    first[wait.waiter] = true
    for _, entry in ipairs(wait.blockers) do first[entry] = true end
  end
  for _, entry in ipairs(look.entries) do
    if matches(entry, view.filter) then chosen[#chosen + 1] = entry end
  end
  local before = watch_screen.sorts[view.sort].before
  table.sort(chosen, function(a, b)
    if first[a] ~= first[b] then return first[a] or false end
    return before(a, b)
  end)
  return chosen
end

-- ---- The parts -----------------------------------------------------------------------------------

local function add_title(lines, text) lines[#lines + 1] = {text, style = "title"} end

local function add_waits(lines, look)
  local forest = blocking.lines(look.waits, look.at, waits_most)
  if #forest == 0 then return end
  add_title(lines, "WHO WAITS FOR WHOM")
  for _, line in ipairs(forest) do lines[#lines + 1] = {line, style = "waits"} end
end

local function job_line(record)
  local parts = {record.job, record.state}
  if record.stands then parts[2] = record.state .. ", stands half-done" end
  if (record.total or 0) > 0 then
    parts[#parts + 1] = progress.bar(record.done, record.total, bar_width)
    parts[#parts + 1] = ("%d%% of %s"):format(record.done * 100 // record.total,
      progress.grouped(record.total))
  end
  if record.rate then parts[#parts + 1] = progress.rate_text(record.rate) end
  if record.seconds_left then parts[#parts + 1] = duration.text(record.seconds_left * 1000) .. " left" end
  parts[#parts + 1] = record.waits
  return table.concat(parts, "  ")
end

local function add_jobs(lines, look)
  if #look.jobs == 0 then return end
  add_title(lines, "JOBS")
  for i = 1, math.min(#look.jobs, jobs_most) do
    local record = look.jobs[i]
    lines[#lines + 1] = {job_line(record), style = record.stands and "waits" or nil}
  end
  if #look.jobs > jobs_most then lines[#lines + 1] = {("... and %d more"):format(#look.jobs - jobs_most)} end
end

local function row_of(entry, look, mark, namespace)
  local place = entry.namespace == namespace and entry.path or entry.namespace .. ":" .. entry.path
  local age = holds.age(entry.seen or entry.since, look.at)
  return {
    mark .. visible(place), entry.mode, entry.waits and "waits" or "holds", holds.name(entry),
    (entry.seen and ">" or "") .. age, who(entry), entry.verdict.state == "live" and "" or entry.verdict.text,
  }
end

-- The index of the followed entry, or of the nearest.
local function find_followed(chosen, view)
  for i, entry in ipairs(chosen) do
    if overview.key(entry) == view.followed then return i end
  end
  return math.max(1, math.min(view.at, #chosen))
end

local function add_locks(lines, look, view, room)
  local chosen = watch_screen.choose(look, view)
  view.at = find_followed(chosen, view)
  view.n = #chosen
  view.entry = chosen[view.at]
  view.followed = view.entry and overview.key(view.entry) or view.followed
  add_title(lines, ("LOCKS, %s of %s, by %s%s"):format(progress.grouped(#chosen),
    progress.grouped(#look.entries), watch_screen.sorts[view.sort].name,
    view.filter ~= "" and (", with `%s`"):format(view.filter) or ""))
  local shown = math.max(1, room - 2)
  view.top = math.max(1, math.min(view.top, view.at))
  if view.at >= view.top + shown then view.top = view.at - shown + 1 end
  local rows = {{"  PATH", "MODE", "", "HOLD", "SINCE", "WHO", ""}}
  for i = view.top, math.min(#chosen, view.top + shown - 1) do
    rows[#rows + 1] = row_of(chosen[i], look, i == view.at and "> " or "  ", view.namespace)
  end
  for i, line in ipairs(output.lines(rows, 1)) do
    lines[#lines + 1] = {line, style = i == 1 and "title" or i - 2 + view.top == view.at and "chosen" or nil}
  end
end

local function add_details(lines, look, view)
  if not view.details or not view.entry then return end
  for _, line in ipairs(locks.who_lines(view.entry, look.at, view.namespace)) do
    lines[#lines + 1] = {line}
  end
end

local keys_text = "q quit  s sort  / filter  up, down choose and follow  Enter details  p pause"

local function footer(view)
  if view.typing then return "filter: " .. view.typing .. "_   (Enter takes it, Esc drops it)" end
  return keys_text .. (view.paused and "   PAUSED" or "")
end

-- Lines {text, style=} of a screen of `height` lines. `view`: {sort=, filter=, at=, top=, followed=,
-- details=, paused=, typing=, namespace=, url=, failure=}, in which it notes what is chosen.
function watch_screen.lines(look, view, height)
  local lines = {}
  lines[1] = {("mortise watch  %s  namespace %s  %s  read in %s"):format(view.url, view.namespace,
    (holds.iso(look.at) or ""):sub(12, 19), duration.text(look.took_ms)), style = "title"}
  lines[2] = {overview.sum(look)}
  if view.failure then lines[#lines + 1] = {"what follows is older: " .. view.failure, style = "waits"} end
  add_waits(lines, look)
  add_jobs(lines, look)
  local details = {}
  add_details(details, look, view)
  add_locks(lines, look, view, math.max(3, height - #lines - #details - 2))
  add_details(lines, look, view)
  while #lines > height - 1 do lines[#lines] = nil end
  lines[#lines + 1] = {footer(view), style = "title"}
  for _, line in ipairs(lines) do line[1] = printable(line[1]) end
  return lines
end

return watch_screen
