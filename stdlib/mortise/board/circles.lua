-- Who waits for whom in a circle, from the waits of a look (mortise.cli.blocking). What ends it is the
-- protocol, which looks for itself; here it is only shown.
local blocking = require "mortise.cli.blocking"

local circles = {}

-- {[owner] = {wait, ...}}, and the owners in order
local function by_owner(waits)
  local of, order = {}, {}
  for _, wait in ipairs(waits) do
    local owner = blocking.owner_of(wait.waiter)
    if not of[owner] then
      of[owner] = {}
      order[#order + 1] = owner
    end
    table.insert(of[owner], wait)
  end
  return of, order
end

-- The steps of a path from one owner back to itself: {{wait=, blocker=}, ...}; nil: there is none. Each
-- owner is gone through once (`done`), whoever it is asked for.
local function find_from(of, first, done)
  local on_path, steps = {}, {}
  local stack = {{owner = first, wait = 1, blocker = 0}}
  on_path[first] = 1
  while #stack > 0 do
    local top = stack[#stack]
    local wait = (of[top.owner] or {})[top.wait]
    top.blocker = top.blocker + 1
    local blocker = wait and wait.blockers[top.blocker]
    if not wait then
      on_path[top.owner], done[top.owner] = nil, true
      stack[#stack], steps[#stack] = nil, nil
    elseif not blocker then
      top.wait, top.blocker = top.wait + 1, 0
    else
      local owner = blocking.owner_of(blocker)
      steps[#stack] = {wait = wait, blocker = blocker}
      if on_path[owner] then return table.move(steps, on_path[owner], #stack, 1, {}) end
      if not done[owner] and of[owner] then
        stack[#stack + 1] = {owner = owner, wait = 1, blocker = 0}
        on_path[owner] = #stack
      end
    end
  end
end

-- `most` circles, one for each group that waits for one another: lists of {wait=, blocker=}.
function circles.find(waits, most)
  local of, order = by_owner(waits)
  local done, found = {}, {}
  for _, owner in ipairs(order) do
    local steps = not done[owner] and find_from(of, owner, done)
    if steps then
      found[#found + 1] = steps
      for _, step in ipairs(steps) do done[blocking.owner_of(step.wait.waiter)] = true end
    end
    if #found >= most then break end
  end
  return found
end

return circles
