-- From when to when each granted hold was believed in: hold.from to hold.to. Never too long; see the
-- head of check.lua. -> the granted holds, by hold.from.
local report = require "report"

local function check_loss(history, hold)
  local early = hold.lost and hold.lost < hold["until"]
  local believed = not hold.released or hold.released > (hold.lost or 0)
  if early and believed and not history.broken[hold.session or ""] then
    report.violation("lost-early", "%s at %.0f, its deadline was %.0f", report.hold(hold), hold.lost,
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

return function(history)
  local holds = {}
  for _, hold in ipairs(history.holds) do
    if hold.from then
      hold.to = last_belief(history, hold)
      holds[#holds + 1] = hold
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
