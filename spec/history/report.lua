-- Reporting violations, and the end of the program.
local report = {}

local shown_max = 20
local count, by_kind = 0, {}

-- The input is not a history, so it cannot be judged.
function report.bad(format, ...)
  io.stdout:write("bad history: ", format:format(...), "\n")
  os.exit(2)
end

function report.violation(kind, format, ...)
  count = count + 1
  by_kind[kind] = (by_kind[kind] or 0) + 1
  if count <= shown_max then io.stdout:write(("violation: %s: " .. format):format(kind, ...), "\n") end
end

-- FILE:LINE and what a hold is, for people.
function report.hold(hold)
  local locks = {}
  for i, lock in ipairs(hold.locks) do locks[i] = lock[2] .. " " .. lock[1] end
  return ("%s (%s, %s) fence %s, believed %.0f to %.0f"):format(hold.id, table.concat(locks, ", "),
    hold.where, hold.fence or "?", hold.from or 0, hold.to or 0)
end

local function kinds()
  local list = {}
  for kind, n in pairs(by_kind) do list[#list + 1] = ("%s %d"):format(kind, n) end
  table.sort(list)
  return table.concat(list, ", ")
end

function report.finish(history)
  local n = history.counts
  io.stdout:write(("%d events: %d grants, %d refused, %d unknown, %d lost, "):format(n.events, n.granted,
    n.refused, n.unknown, n.lost), ("%d writes (%d unknown), %d tables\n"):format(n.writes,
    n.writes_unknown, n.tables))
  if count == 0 then
    io.stdout:write "no violation\n"
    os.exit(0)
  end
  io.stdout:write(("%d violations: %s\n"):format(count, kinds()))
  os.exit(1)
end

return report
