-- close_inside.lua STORE NAMESPACE INDEX KIND WAY MOST: calls each method of a handle and closes the handle,
-- or its client, inside that call: from a metamethod of a table argument, from a finalizer, or in another
-- task; at its first occasion, at its second, and so on, MOST times. Anything that is not a clear error is
-- printed.
local calls = require "spec.hostile.calls"
local mortise = require "mortise"

local store, namespace, index, kind, way, most = table.unpack(arg)
most = math.tointeger(most)

-- A table like `value`, all the way down, that says so when it is looked into.
local function watched(value, look)
  if type(value) ~= "table" or getmetatable(value) then return value end
  return setmetatable({}, {
    __index = function(_, key) look() return watched(value[key], look) end,
    __len = function() look() return #value end,
    __pairs = function() look() return pairs(value) end,
    __tostring = function() look() return "watched" end,
    __call = function() look() end,
  })
end

local ways = {}

-- Each arms the n-th occasion and calls run(); -> was it reached?
function ways.metamethod(n, close, run, given)
  local left = n
  for i = 1, given.n do
    given[i] = watched(given[i], function()
      left = left - 1
      if left == 0 then close() end
    end)
  end
  run()
  return left <= 0
end

-- A collection at every allocation.
function ways.finalizer(n, close, run)
  local left = n
  local function arm()
    setmetatable({}, {__gc = function()
      left = left - 1
      if left == 0 then close() elseif left > 0 then arm() end
    end})
  end
  collectgarbage("incremental", 1, 1000, 30)
  collectgarbage()
  arm()
  run()
  collectgarbage("incremental", 200, 100, 13)
  local reached = left <= 0
  left = -1
  return reached
end

function ways.task(n, close, run)
  local closer = mortise.spawn(function()
    for _ = 2, n do mortise.sleep(0) end
    close()
  end)
  run()
  local reached = closer:done()
  closer:join()
  return reached
end

local function is_clear(why)
  if mortise.is_error(why) then return true end
  return type(why) == "string" and not why:find "attempt to"
end

local tries = 0

-- One try; -> was the occasion reached?
local function try(name, n, whom)
  local e = calls.open(store, namespace, index)
  local handle = calls.make[kind](e)
  local method
  for _, each in ipairs(calls.methods(kind, handle)) do
    if each[1] == name then method = each[2] end
  end
  local given = calls.pack(e, kind, name)
  local function close()
    calls.close(e, whom, whom == "core.client" and e.core or whom == "client" and e.client or handle)
  end
  local ok, why = true, nil
  local reached = ways[way](n, close, function()
    ok, why = pcall(method, handle, table.unpack(given, 1, given.n))
    if ok and type(why) == "userdata" then ok, why = pcall(function() return tostring(why) end) end
  end, given)
  if not ok and not is_clear(why) then
    print(("%s.%s, %s closed at occasion %d: %s"):format(kind, name, whom, n, tostring(why)))
  end
  calls.finish(e)
  tries = tries + 1
  return reached
end

local e = calls.open(store, namespace, index)
local names = {}
for _, each in ipairs(calls.methods(kind, calls.make[kind](e))) do names[#names + 1] = each[1] end
calls.finish(e)
local victims = {[kind] = true, ["core.client"] = true, client = not kind:find "^core" or nil}
for _, name in ipairs(names) do
  for whom in pairs(victims) do
    for n = 1, most do
      if not try(name, n, whom) then break end
    end
  end
end
io.stderr:write(("%d tries\n"):format(tries))
