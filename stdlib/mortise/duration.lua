-- Durations: "30s", "250ms", "1m30s", or a number of seconds (also as text); internally milliseconds.
local core = require "mortise.core"
local errors = require "mortise.errors"

local duration = {}

-- Floats, since a product of integers would wrap.
local units = {ms = 1.0, s = 1000.0, m = 60000.0, h = 3600000.0, d = 86400000.0}

local function parse_text(text)
  local total, rest = 0, text
  while rest ~= "" do
    local number, unit, after = rest:match "^(%d+%.?%d*)([a-z]+)(.*)$"
    if not number or not units[unit] then return nil end
    total, rest = total + (core.number(number) or math.huge) * units[unit], after
  end
  return text ~= "" and total or nil
end

-- Milliseconds as an integer, or nil and what is expected.
function duration.parse(value)
  local ms
  if type(value) == "number" then ms = value * units.s end
  if type(value) == "string" then
    ms = value:find "^%d+%.?%d*$" and (core.number(value) or math.huge) * units.s or parse_text(value)
  end
  if not ms or ms ~= ms then
    return nil, 'a number of seconds or text like "30s", "250ms", "1m30s"'
  end
  if ms < 0 or ms > core.time_max then
    return nil, "a time from 0s to " .. core.time_text(core.time_max)
  end
  return math.ceil(ms)
end

-- The same, raising invalid_argument; `what` names the value.
function duration.ms(value, what)
  local ms, why = duration.parse(value)
  if not ms then
    local shown = type(value) == "string" and ("%q"):format(value) or core.tostring(value)
    errors.bad("%s: %s, not %s", what, why, shown)
  end
  return ms
end

-- For people: 950 -> "950ms", 1500 -> "1.5s", 61000 -> "1m 1s", 7260000 -> "2h 1m".
function duration.text(ms)
  ms = math.max(0, math.floor(ms))
  if ms < 1000 then return ms .. "ms" end
  if ms < 60000 then
    local tenths = (ms + 50) // 100
    return (("%d.%ds"):format(tenths // 10, tenths % 10):gsub("%.0s", "s"))
  end
  local seconds = ms // 1000
  if seconds < 3600 then return ("%dm %ds"):format(seconds // 60, seconds % 60) end
  if seconds < 86400 then return ("%dh %dm"):format(seconds // 3600, seconds % 3600 // 60) end
  return ("%dd %dh"):format(seconds // 86400, seconds % 86400 // 3600)
end

return duration
