-- check_history.lua [--after TIME] FILE...: judges the histories that contend.lua wrote. A hold is
-- believed in from its grant to its last check. Fails, naming both holds, where two incompatible ones
-- overlap, or the later of two incompatible ones has no larger fence; with --after also where a
-- history has no grant later than that.

local function fail(format, ...)
  io.stdout:write(format:format(...), "\n")
  os.exit(1)
end

-- ---- Reading -------------------------------------------------------------------------------------

local function read(file, holds)
  local own, last = {}, nil
  for line in io.lines(file) do
    local kind, time, rest = line:match "^(%a+) (%d+) (.*)$"
    if not kind then fail("%s: no history: %s", file, line) end
    time = math.tointeger(tonumber(time))
    if kind == "ok" then
      local name, mode, path, fence = rest:match "^(%S+) (%a+) (/%S*) (%d+)$"
      if not name then fail("%s: no grant: %s", file, line) end
      local hold = {name = file .. ":" .. name, mode = mode, path = path, from = time, to = time,
        fence = math.tointeger(tonumber(fence))}
      own[name], last = hold, time
      holds[#holds + 1] = hold
    elseif kind == "sure" then
      local hold = own[rest] or fail("%s: checks what was not granted: %s", file, line)
      hold.to = math.max(hold.to, time)
    end
  end
  return last
end

-- ---- Judging -------------------------------------------------------------------------------------

local function inside(path, above)
  return above == "/" or path == above or path:sub(1, #above + 1) == above .. "/"
end

local function conflict(a, b)
  if a.mode == "shared" and b.mode == "shared" then return false end
  return inside(a.path, b.path) or inside(b.path, a.path)
end

local function text(hold)
  return ("%s (%s on %s, %d to %d, fence %d)"):format(hold.name, hold.mode, hold.path, hold.from,
    hold.to, hold.fence)
end

local function check_overlap(active, hold)
  for _, other in ipairs(active) do
    if other.from < hold.to and hold.from < other.to and conflict(other, hold) then
      fail("both held at once:\n  %s\n  %s", text(other), text(hold))
    end
  end
end

-- `latest` has, for each mode and path, the ended hold with the largest fence.
local function check_fences(latest, hold)
  for _, other in pairs(latest) do
    if conflict(other, hold) and other.fence >= hold.fence then
      fail("the later has no larger fence:\n  %s\n  %s", text(other), text(hold))
    end
  end
end

local function end_holds(active, latest, now)
  local left = {}
  for _, hold in ipairs(active) do
    if hold.to > now then
      left[#left + 1] = hold
    else
      local key = hold.mode .. hold.path
      if not latest[key] or latest[key].fence < hold.fence then latest[key] = hold end
    end
  end
  return left
end

-- A sweep in the order of the grants. Two holds of no length in the same ms have no order.
local function judge(holds)
  table.sort(holds, function(a, b)
    if a.from ~= b.from then return a.from < b.from end
    if a.to ~= b.to then return a.to < b.to end
    return a.fence < b.fence
  end)
  local active, latest = {}, {}
  for _, hold in ipairs(holds) do
    active = end_holds(active, latest, hold.from)
    check_overlap(active, hold)
    check_fences(latest, hold)
    active[#active + 1] = hold
  end
end

-- ---- All -----------------------------------------------------------------------------------------

local files, after = {...}, nil
if files[1] == "--after" then
  after = math.tointeger(tonumber(files[2]))
  files = table.move(files, 3, #files, 1, {})
end
local holds = {}
for _, file in ipairs(files) do
  local last = read(file, holds)
  if after and not (last and last > after) then fail("%s: nothing was granted after %d", file, after) end
end
judge(holds)
io.stdout:write(("%d holds, no two of them incompatible at once\n"):format(#holds))
