-- api.lua STORE NAMESPACE INDEX SEED STEPS: so many random calls of all that scripts can reach, with right
-- arguments and wrong ones, in tasks, coroutines, metamethods and finalizers, which close handles meanwhile.
-- Only what ends the process is a finding: the sanitizers', and Lua's own checks where they are compiled
-- in. The same seed makes the same choices.
local calls = require "spec.hostile.calls"
local mortise = require "mortise"

local store, namespace, index, seed, steps = table.unpack(arg)
math.randomseed(math.tointeger(seed))

local kinds = calls.kinds()
local pool_most, tasks_most = 24, 16
local pool, tasks, e = {}, {}, nil

local function pick(list) return list[math.random(#list)] end
local function chance(percent) return math.random(100) <= percent end

-- ---- Values --------------------------------------------------------------------------------------

local function cycle()
  local t = {1, a = "b"}
  t.self = t
  return t
end

local function deep()
  local t = {}
  for _ = 1, 300 do t = {t} end
  return t
end

local close_one

-- A table that closes something when it is looked into, and answers with anything.
local function treacherous(value)
  return setmetatable({}, {
    __index = function(_, key)
      if chance(50) then close_one() end
      return type(value) == "table" and value[key] or nil
    end,
    __len = function()
      if chance(50) then close_one() end
      return chance(80) and type(value) == "table" and #value or pick {0, 1, 3, -1, math.maxinteger, "x"}
    end,
    __pairs = function() close_one() return pairs(type(value) == "table" and value or {}) end,
    __tostring = function() close_one() return "treacherous" end,
    __name = "treacherous",
  })
end

local values = {
  function() return nil end, function() return chance(50) end,
  function() return pick {0, -1, 1, 7, 1 << 31, math.mininteger, math.maxinteger} end,
  function() return pick {0.5, -0.0, 1e308, 0 / 0, 1 / 0} end,
  function() return pick {"", "\0", "a\0b", "/a", "/", "\xff\xfe", "%s%n", "{}", "[1", "_id"} end,
  function() return ("x"):rep(70000) end,
  function() return {} end, function() return {"1", "2", 3} end, cycle, deep,
  function() return {kind = "index", id = "r", body = "{}"} end,
  function() return {[1.5] = 1, [true] = 2, x = {}} end,
  function() return treacherous {"1", "2", "3"} end,
  function() return treacherous {{"/a", "X"}, {"/b", "S"}} end,
  function() return function() if chance(50) then close_one() end return 1 end end,
  function() return coroutine.create(function() coroutine.yield() end) end,
  function() return mortise.null end, function() return io.stdout end,
  function() return #pool > 0 and pick(pool).handle or nil end,
}

local function value() return pick(values)() end

-- ---- Calls ---------------------------------------------------------------------------------------

local function remember(kind, handle)
  if type(handle) ~= "userdata" and type(handle) ~= "table" then return end
  local entry = {kind = kind, handle = handle}
  if #pool < pool_most then pool[#pool + 1] = entry else pool[math.random(pool_most)] = entry end
end

local function make()
  local kind = pick(kinds)
  local ok, handle = pcall(calls.make[kind], e)
  if ok then remember(kind, handle) end
end

function close_one()
  if #pool == 0 then return end
  local it = table.remove(pool, math.random(#pool))
  calls.close(e, it.kind, it.handle)
end

local function arguments(kind, name)
  local ok, given = pcall(calls.pack, e, kind, name)
  if not ok then given = table.pack() end
  if name == "sleep" or name == "connect" or name == "open" then return given end
  if chance(25) then given.n = math.random(0, 5) end
  for i = 1, given.n do
    if chance(15) then
      given[i] = value()
    elseif type(given[i]) == "table" and chance(25) then
      given[i] = treacherous(given[i])
    end
  end
  return given
end

local function call()
  if #pool == 0 then make() end
  if #pool == 0 then return end
  local it = pick(pool)
  local ok, list = pcall(calls.methods, it.kind, it.handle)
  if not ok or #list == 0 then return end
  local method = pick(list)
  local given = arguments(it.kind, method[1])
  local self = chance(97) and it.handle or value()
  local results = table.pack(pcall(method[2], self, table.unpack(given, 1, given.n)))
  for i = 2, results.n do
    local made = results[i]
    if type(made) == "userdata" and chance(50) then remember("document", made) end
    if chance(10) then pcall(tostring, made) end
  end
end

-- ---- Where they happen ---------------------------------------------------------------------------

local places = {}

function places.here() call() end
function places.again() for _ = 1, math.random(5) do call() end end
function places.made() make() end
function places.closed() close_one() end

function places.task()
  if #tasks >= tasks_most then pcall(table.remove(tasks, math.random(#tasks)).join, tasks[1]) end
  local n = math.random(4)
  tasks[#tasks + 1] = mortise.spawn(function()
    for _ = 1, n do
      pcall(call)
      if chance(30) then pcall(mortise.sleep, 0) end
      if chance(10) then coroutine.yield(value()) end
    end
    return value(), value()
  end)
end

function places.cancelled()
  if #tasks > 0 then pick(tasks):cancel() end
end

function places.joined()
  if #tasks > 0 then
    local task = table.remove(tasks, math.random(#tasks))
    pcall(task.join, task)
  end
end

function places.coroutine()
  local co = coroutine.create(function()
    call()
    coroutine.yield()
    local _ <close> = setmetatable({}, {__close = call})
    call()
    coroutine.yield()
  end)
  for _ = 1, math.random(0, 4) do coroutine.resume(co, value()) end
  if chance(50) then coroutine.close(co) end
end

function places.comparison()
  pcall(table.sort, {3, 1, 2}, function(a, b) call() return a < b end)
end

function places.metamethod()
  local t = setmetatable({}, {__index = function() call() return 1 end, __close = function() call() end})
  local _ <close> = t
  return t.x
end

function places.finalizer()
  local meta = {__gc = function() pcall(chance(50) and call or close_one) end}
  for _ = 1, math.random(3) do setmetatable({}, meta) end
end

-- Collects at every allocation of some calls, and finalizers close what is in use.
function places.collected()
  local left = math.random(30)
  local function arm()
    setmetatable({}, {__gc = function()
      left = left - 1
      if left > 0 then arm() elseif left == 0 then close_one() end
    end})
  end
  collectgarbage("incremental", 1, 1000, 30)
  collectgarbage()
  arm()
  call()
  left = -1
  collectgarbage(chance(20) and "generational" or "incremental", 0, 0, 13)
  collectgarbage("incremental", 200, 100, 13)
end

function places.step() collectgarbage(pick {"step", "collect"}) end
function places.slept() pcall(mortise.sleep, 0) end

-- A new client, now and then: what was made of the old one stays.
function places.opened()
  if chance(30) then
    if chance(70) then calls.finish(e) end
    e = calls.open(store, namespace, index)
  end
end

local names = {}
for name in pairs(places) do names[#names + 1] = name end
table.sort(names)
local often = {"here", "here", "again", "made", "task", "collected"}
for _, name in ipairs(often) do names[#names + 1] = name end

local trace = os.getenv "MORTISE_API_TRACE"

local function act(i)
  local name = pick(names)
  if trace then io.stderr:write(i, " ", name, "\n") end
  local ok, why = pcall(places[name])
  if trace and not ok then io.stderr:write("  ", tostring(why), "\n") end
end

-- A task that was cancelled fails the one that started it, which is not the program.
local all = mortise.spawn(function()
  e = calls.open(store, namespace, index)
  for i = 1, math.tointeger(steps) do act(i) end
  for _, task in ipairs(tasks) do pcall(task.join, task) end
  if chance(50) then calls.finish(e) end
end)
pcall(all.join, all)
