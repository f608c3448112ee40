local mortise = require "mortise"

describe("tasks", function()
  it("run beside one another", function()
    local order = {}
    local a = mortise.spawn(function() mortise.sleep "40ms" order[#order + 1] = "a" return 1, 2 end)
    local b = mortise.spawn(function() mortise.sleep(0.01) order[#order + 1] = "b" end)
    assert.same({1, 2}, {a:join()})
    b:join()
    assert.same({"b", "a"}, order)
  end)

  it("map a list with a limit", function()
    local running, most = 0, 0
    local results = mortise.map({1, 2, 3, 4, 5, 6, 7}, function(value, i)
      running = running + 1
      most = math.max(most, running)
      mortise.sleep "5ms"
      running = running - 1
      return value * i
    end, {limit = 3})
    assert.same({1, 4, 9, 16, 25, 36, 49, n = 7}, results)
    assert.equal(3, most)
    assert.same({n = 0}, mortise.map({}, print))
  end)

  it("end the others at the first error, which is raised", function()
    local done, stopped = 0, 0
    local ok, why = pcall(mortise.map, {1, 2, 3, 4, 5, 6, 7, 8}, function(value)
      if value == 2 then
        mortise.sleep "5ms"
        error("boom", 0)
      end
      local guard <close> = setmetatable({}, {
        __close = function(_, e) if e then stopped = stopped + 1 end end,
      })
      mortise.sleep "10s"
      done = done + (guard and 1 or 0)
    end, {limit = 4})
    assert.is_false(ok)
    assert.equal("boom", why.message or why)
    assert.same({0, 3}, {done, stopped})
  end)

  it("raise the first error also where the others had not begun", function()
    local ok, why = pcall(mortise.map, {1, 2, 3}, function(value)
      if value == 1 then error("first", 0) end
      mortise.sleep "10s"
    end)
    assert.is_false(ok)
    assert.equal("first", why.message or why)
  end)

  it("do not wait for one another in a circle", function()
    local list, met = {}, {}
    for i = 1, 3 do
      list[i] = mortise.spawn(function()
        mortise.sleep(0.001 * i)
        local ok, why = pcall(list[i % 3 + 1].join, list[i % 3 + 1])
        if not ok then met[#met + 1] = why.code end
      end)
    end
    for i = 1, 3 do list[i]:join() end
    assert.same({"deadlock"}, met)
  end)

  it("do not wait for one whose child waits for them", function()
    local parent, child, met
    local first = mortise.spawn(function()
      mortise.sleep(0.002)
      local ok, why = pcall(child.join, child)
      met = not ok and why.code
    end)
    parent = mortise.spawn(function()
      child = mortise.spawn(function() first:join() end)
      child:join()
    end)
    parent:join()
    assert.equal("deadlock", met)
  end)

  it("refuse what is no time", function()
    local ok, why = pcall(mortise.sleep, "soon")
    assert.is_false(ok)
    assert.equal("invalid_argument", why.code)
    assert.equal(90.0, mortise.seconds "1m30s")
  end)
end)
