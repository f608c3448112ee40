-- From when to when each granted hold was believed in, and in which modes: never too long; see the head
-- of check.lua. -> a list of {id, task, session, where, locks, fence, from, to}, by `from`: one for each
-- hold, or more where it was converted.
local report = require "report"

local function check_loss(history, hold)
  local early = hold.lost and hold.lost < hold["until"]
  local believed = not hold.released or hold.released > (hold.lost or 0)
  if early and believed and not history.broken[hold.session or ""] then
    report.violation("lost-early", "%s (%s) at %.0f, its deadline was %.0f", hold.id, hold.where, hold.lost,
      hold["until"])
  end
  return early
end

local function last_belief(history, hold)
  local last = hold.sure
  if not check_loss(history, hold) then
    last = math.max(last, math.min(hold["until"], history.killed[hold.who] or math.huge))
  end
  return math.max(hold.from, math.min(last, hold.released or math.huge))
end

local function finish(hold, part)
  part.id, part.task, part.session, part.where = hold.id, hold.task, hold.session, hold.where
  part.to = math.max(part.from, math.min(hold.to, part.to or math.huge))
  return part
end

return function(history)
  local holds = {}
  for _, hold in ipairs(history.holds) do
    if hold.from then
      hold.to = last_belief(history, hold)
      for _, part in ipairs(hold.parts) do holds[#holds + 1] = finish(hold, part) end
    end
  end
  -- Two of no length at the same moment have no order.
  table.sort(holds, function(a, b)
    if a.from ~= b.from then return a.from < b.from end
    if a.to ~= b.to then return a.to < b.to end
    return a.fence < b.fence
  end)
  return holds
end
