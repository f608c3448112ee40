-- What a sandbox costs: the same code in one and outside, in turn. mortise run bench/sandbox.lua [ROUNDS]
local core = require "mortise.core"

local rounds = math.tointeger(tonumber((...))) or 9

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local function time(fn)
  collectgarbage()
  local before = os.clock()
  fn()
  return os.clock() - before
end

local limits = {memory = 256 << 20, steps = math.maxinteger, time_ms = 0}

-- Code that does something `n` times, as a function outside and in a sandbox.
local function both(code, n)
  local outside = assert(load(code))
  local box = core.sandbox(limits, print)
  return function() outside(n) end, function() assert(box:start("run", code, "=bench", n) == "done") end
end

local document = core.json {
  path = "/projects/clinton/report-17.txt", size = 4711, owner = "gore", tags = {"a", "b", "c"},
  text = ("a few words of it "):rep(12), deep = {x = {y = 1, z = 2}},
}

local change = [[
  return function(doc)
    doc.owner = doc.owner:upper()
    doc.size = doc.size + #doc.tags
    doc.path = doc.path:gsub("^/projects", "/archive")
  end]]

local function changes(n)
  local plain, confined = load(change)(), mortise.sandboxed(change)
  local function each(fn)
    return function()
      for i = 1, n do
        local view = core.view(document, {id = "d" .. i, index = "fs"})
        fn(view)
        view:_source()
      end
    end
  end
  return each(plain), each(confined)
end

local cases = {
  {"a change, for each document", 20000, changes},
  {"a loop of arithmetic, for each pass", 5000000, function(n)
    return both("local n, a = ..., 0 for i = 1, n do a = a + i % 7 end return a", n)
  end},
  {"calls of a function", 2000000, function(n)
    return both("local n, a = ..., 0 local function f(x) return x + 1 end for i = 1, n do a = f(a) end", n)
  end},
  {"tables made and dropped", 500000, function(n)
    return both("local n = ... for i = 1, n do local t = {i, x = i} end", n)
  end},
  {"find of a pattern in 40 bytes", 500000, function(n)
    return both("local n = ... local s = '/projects/clinton/2024/report-17.txt' "
      .. "for i = 1, n do s:find('([^/]*)%.(%w+)$') end", n)
  end},
  {"gsub over 1,000 bytes", 10000, function(n)
    return both("local n = ... local s = ('a few words '):rep(80) for i = 1, n do s:gsub('%w+', '<%0>') end", n)
  end},
  {"a sandbox made, and an empty script run", 200, function(n)
    return function()
      for _ = 1, n do load("return 1")() end
    end, function()
      for _ = 1, n do
        local box <close> = core.sandbox(limits, print)
        box:start("run", "return 1", "=bench")
      end
    end
  end},
}

print(("%-42s %12s %12s %18s"):format("CPU", "outside", "sandbox", "ratio (min-max)"))
for _, case in ipairs(cases) do
  local name, n, make = table.unpack(case)
  local outside, inside = make(n)
  local a, b, ratios = {}, {}, {}
  for i = 1, rounds do
    a[i], b[i] = time(outside), time(inside)
    ratios[i] = b[i] / a[i]
  end
  local ratio = median(ratios)
  print(("%-42s %9.3f us %9.3f us %7.2f (%.2f-%.2f)"):format(name, median(a) / n * 1e6, median(b) / n * 1e6, ratio,
    ratios[1], ratios[#ratios]))
end
