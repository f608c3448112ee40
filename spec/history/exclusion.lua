-- No two incompatible holds at once, and a later one's fence is larger. A sweep over each path, with the
-- intentions that the holds have there; for each mode only the two tasks with the latest ends are remembered,
-- since a task does not conflict with itself.
local modes = require "modes"
local report = require "report"

-- The largest value of two different tasks: best, and the best of another task than that.
local function keep(top, hold, value)
  local first = top[1]
  if not first or value > first.value then
    if first and first.hold.task ~= hold.task then top[2] = first end
    top[1] = {hold = hold, value = value}
  elseif hold.task ~= first.hold.task and (not top[2] or value > top[2].value) then
    top[2] = {hold = hold, value = value}
  end
end

local function of_another(top, task)
  local first = top[1]
  if first and first.hold.task == task then return top[2] end
  return first
end

local function new_tops()
  local tops = {}
  for _, mode in ipairs(modes.all) do tops[mode] = {} end
  return tops
end

-- What is on each path: {holds and modes by their start, the same by their end}.
local function by_path(holds)
  local paths = {}
  local function add(name)
    for _, hold in ipairs(holds) do
      for path, mode in pairs(hold.paths) do
        local list = paths[path] or {starts = {}, ends = {}}
        paths[path] = list
        list = list[name]
        list[#list + 1], list[#list + 2] = hold, mode
      end
    end
  end
  for i, hold in ipairs(holds) do hold.paths, hold.order = modes.expand(hold.locks), i end
  add "starts"
  holds = table.move(holds, 1, #holds, 1, {})
  table.sort(holds, function(a, b)
    if a.to ~= b.to then return a.to < b.to end
    return a.order < b.order
  end)
  add "ends"
  return paths
end

local function check_overlap(path, active, hold, mode)
  for _, other in ipairs(modes.clash[mode]) do
    local top = of_another(active[other], hold.task)
    if top and top.value > hold.from then
      report.violation("overlap", "on %s, %s and %s:\n  %s\n  %s", path, other, mode, report.hold(top.hold),
        report.hold(hold))
    end
  end
end

local function check_fence(path, ended, hold, mode)
  for _, other in ipairs(modes.clash[mode]) do
    local top = of_another(ended[other], hold.task)
    if top and top.value >= hold.fence then
      report.violation("fence", "on %s, %s then %s:\n  %s\n  %s", path, other, mode, report.hold(top.hold),
        report.hold(hold))
    end
  end
end

local function sweep(path, list)
  local active, ended = new_tops(), new_tops()
  local ends, next_end = list.ends, 1
  for i = 1, #list.starts, 2 do
    local hold, mode = list.starts[i], list.starts[i + 1]
    -- One of no length may end before its own turn has come.
    while ends[next_end] and ends[next_end].to <= hold.from and ends[next_end].order < hold.order do
      keep(ended[ends[next_end + 1]], ends[next_end], ends[next_end].fence)
      next_end = next_end + 2
    end
    check_overlap(path, active, hold, mode)
    check_fence(path, ended, hold, mode)
    keep(active[mode], hold, hold.to)
  end
end

return function(holds)
  for path, list in pairs(by_path(holds)) do sweep(path, list) end
end
