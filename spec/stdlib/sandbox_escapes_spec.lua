-- Ways out of sandboxes that were found elsewhere, or thought of here: each is tried. docs/sandbox.md lists
-- them by the names of these tests.
-- luacheck: no max line length (each script stands on its line)
local core = require "mortise.core"
local busted_it = it

local tried = {}

-- A test, of which docs/sandbox.md must tell.
local function it(name, fn) -- luacheck: ignore
  tried[#tried + 1] = name
  busted_it(name, fn)
end

-- Of this process, in kB.
local function resident()
  local file = assert(io.open "/proc/self/status")
  local text = file:read "a"
  file:close()
  return tonumber(text:match "VmHWM:%s*(%d+)")
end

local small = {memory = 8 << 20, steps = 5 * 1000 * 1000, time_ms = 20 * 1000}

-- Runs it to its end. -> what `start` returned, or false and the error; and the lines that it printed
local function run(code, limits)
  local lines = {}
  local box <close> = core.sandbox(limits or small, function(line) lines[#lines + 1] = line end)
  local results = table.pack(pcall(box.start, box, "run", code, "=script"))
  while results[1] and results[2] == "ask" do
    local refusal = core.error {code = "unsupported", message = "nothing is asked here"}
    results = table.pack(pcall(box.answer, box, false, refusal))
  end
  if results[1] then return true, lines end
  return false, results[2], lines
end

-- The script prints "ok" at its end: what it tries is in asserts of its own.
local function holds(code, limits)
  local ok, lines = run(code .. "\nprint 'ok'", limits)
  assert.is_true(ok, tostring(lines))
  assert.equal("ok", lines[#lines])
end

local function is_over(budget, code, limits)
  local ok, why = run(code, limits)
  assert.is_false(ok, "it ended by itself")
  assert.is_true(core.is_error(why), tostring(why))
  assert.equal("script_error", why.code)
  assert.equal(budget, why.budget, tostring(why))
  assert.truthy(why.message:find ":%d+: the sandbox is out of ", why.message)
end

describe("a sandbox has no", function()
  it("files, programs, modules and debug library", function()
    holds [[
      for _, name in ipairs {"os", "io", "package", "debug", "require", "dofile", "loadfile", "warn", "cjson"} do
        assert(_G[name] == nil, name)
      end
      for name, value in pairs(_G) do
        assert(type(value) ~= "userdata", name)
      end]]
  end)

  it("way to Lua's own functions through loaded modules or globals of globals", function()
    holds [[
      assert(_G._G == _G and _G.loadstring == nil and _G.setfenv == nil and _G.getfenv == nil)
      assert(_G.newproxy == nil and _G.module == nil and string.dump == nil)]]
  end)

  it("configuration, secrets or environment", function()
    holds [[
      for _, name in ipairs {"raw", "client", "connect", "close", "create_index", "drop_index", "job", "get_job",
        "migrate", "spawn", "map", "with_global_lock", "init", "jobs", "metrics", "up", "rename"} do
        local ok, why = pcall(function() return mortise[name] end)
        assert(not ok and why.code == "unsupported", name)
      end]]
  end)

  it("access to the one who runs it", function()
    local box <close> = core.sandbox(small, print)
    assert.has_error(function() box:start("run", "x = 1", "=a", function() end) end)
    assert.has_error(function() box:start("run", "x = 1", "=a", setmetatable({}, {})) end)
    assert.is_nil(rawget(_G, "x"))
  end)
end)

describe("a sandbox reads no bytecode:", function()
  it("string.dump", function() holds "assert(string.dump == nil and ('').dump == nil)" end)

  it("load of a binary chunk, in any mode, as text or by a reader", function()
    local dumped = string.dump(function() return 1 end)
    holds(([[
      local code = %q
      for _, mode in ipairs {"b", "bt", "t"} do
        local ok, f = pcall(load, code, "x", mode)
        assert(not ok or f == nil)
        local given = false
        ok, f = pcall(load, function() if not given then given = true return code end end, "x", mode)
        assert(not ok or f == nil)
      end]]):format(dumped))
  end)

  it("the script itself", function()
    local ok, why = run(string.dump(function() return 1 end))
    assert.is_false(ok)
    assert.truthy(tostring(why):find "binary chunk")
  end)
end)

describe("nothing in a sandbox catches the end of its budget:", function()
  local loop = "while true do end"
  for name, code in pairs {
    ["a busy loop"] = loop,
    ["a loop of one jump"] = "::a:: goto a",
    ["pcall"] = "while true do pcall(function() " .. loop .. " end) end",
    ["pcall of pcall"] = "while true do pcall(pcall, pcall, function() " .. loop .. " end) end",
    ["xpcall and its handler"] = "while true do xpcall(function() " .. loop .. " end, function() " .. loop
      .. " end) end",
    ["a handler that loops for an error of its own"] = "xpcall(error, function() " .. loop .. " end)",
    ["coroutine.wrap"] = "while true do pcall(coroutine.wrap(function() " .. loop .. " end)) end",
    ["coroutine.resume"] = "while true do coroutine.resume(coroutine.create(function() " .. loop .. " end)) end",
    ["coroutine.close with a __close that loops"] = [[
      while true do
        local co = coroutine.create(function()
          local a <close> = setmetatable({}, {__close = function() while true do end end})
          coroutine.yield()
        end)
        coroutine.resume(co)
        coroutine.close(co)
      end]],
    ["many short coroutines"] = "while true do coroutine.wrap(function() end)() end",
    ["__close"] = [[
      local function f() local a <close> = setmetatable({}, {__close = function() while true do end end}) f() end
      f()]],
    ["__close that catches"] = [[
      local a <close> = setmetatable({}, {__close = function() while true do pcall(function() while true do end end) end
        end})
      while true do end]],
    ["__index"] = "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
    ["__index and __newindex of C functions"] = [[
      local t = setmetatable({}, {__len = function() return math.maxinteger end, __index = rawlen, __newindex = rawset})
      while true do pcall(table.insert, t, 1, 1) pcall(table.concat, t) pcall(table.unpack, t) pcall(table.sort, t) end]],
    ["__gc is refused, not run"] = [[
      assert(not pcall(setmetatable, {}, {__gc = function() while true do end end}))
      while true do local t = {} end]],
    ["__lt, __eq, __concat"] = [[
      local m = {} m.__lt = function(a, b) return a < b end m.__eq = m.__lt m.__concat = function(a, b) return a .. b end
      local a, b = setmetatable({}, m), setmetatable({}, m)
      while true do pcall(function() return a < b end) pcall(function() return a .. b end) end]],
    ["an iterator in C"] = "for _ in next, setmetatable({}, {}) do end for _ in (function() return 1 end) do end",
    ["select"] = "while true do select('#', table.unpack({}, 1, 200)) end",
    ["load in a loop"] = "while true do load('return 1')() end",
    ["load by an endless reader"] = "load(function() return ' ' end) while true do end",
    ["error objects"] = "while true do pcall(error, setmetatable({}, {__tostring = function() while true do end end})) end",
    ["tostring"] = "tostring(setmetatable({}, {__tostring = function() while true do end end}))",
    ["string.format with __tostring"] = "('%s'):format(setmetatable({}, {__tostring = function() while true do end end}))",
    ["gsub with a function"] = "while true do ('a'):gsub('.', function() return 'a' end) end",
    ["sort with a function"] = "while true do table.sort({3, 2, 1}, function(a, b) return a < b end) end",
    ["sort with an odd function"] = "while true do pcall(table.sort, {1, 2, 3, 4, 5}, function() return true end) end",
    ["printing"] = "while true do print(('x'):rep(1000)) end",
    ["JSON"] = "local t = {} for i = 1, 1000 do t[i] = i end while true do mortise.json(t) end",
    ["asking in a loop"] = "while true do pcall(mortise.get, 'a', 'b') end",
  } do
    it(name, function() is_over("instructions", code) end)
  end

  it("time, in a loop that takes no other budget", function()
    is_over("time", loop, {memory = 8 << 20, steps = math.maxinteger, time_ms = 50})
  end)

  it("time, while instructions are few and slow", function()
    is_over("time", "local s = ('x'):rep(1 << 20) while true do local _ = s < s .. 'a' end",
      {memory = 64 << 20, steps = math.maxinteger, time_ms = 100})
  end)

  it("and no later call of the same sandbox goes on", function()
    local box <close> = core.sandbox(small, print)
    assert.is_false((pcall(box.start, box, "run", loop, "=script")))
    local ok, why = pcall(box.start, box, "run", "return 1", "=script")
    assert.is_false(ok)
    assert.equal("instructions", why.budget)
  end)
end)

describe("a sandbox's memory is bounded:", function()
  for name, code in pairs {
    ["tables"] = "local t = {} for i = 1, math.huge do t[i] = {} end",
    ["a string made longer and longer"] = "local s = 'x' while true do s = s .. s end",
    ["string.rep of what is there"] = "local t = {} while true do t[#t + 1] = ('x'):rep(1 << 20) .. #t end",
    ["concat"] = "local t = {} for i = 1, 64 do t[i] = ('x'):rep(1 << 18) end while true do t[#t + 1] = table.concat(t) end",
    ["closures"] = "local t = {} while true do t[#t + 1] = function() return t end end",
    ["coroutines"] = "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
    ["gsub"] = "local s = ('x'):rep(1 << 16) while true do s = s:gsub('x', 'xx') end",
    ["string.pack"] = "local s = string.pack('c' .. (1 << 30), 'x')",
    ["caught, and again"] = "local t = {} while true do pcall(function() while true do t[#t + 1] = {} end end) end",
    ["in a coroutine"] = [[
      local t = {}
      while true do coroutine.wrap(function() while true do t[#t + 1] = {} end end)() end]],
    ["in a __close"] = [[
      local t = {}
      local a <close> = setmetatable({}, {__close = function() while true do t[#t + 1] = {} end end})]],
    ["what it prints"] = "print(('x'):rep(1 << 22), ('y'):rep(1 << 22))",
  } do
    it(name, function()
      local ok, why = run(code, {memory = 8 << 20, steps = 2000 * 1000 * 1000, time_ms = 60 * 1000})
      assert.is_false(ok)
      assert.truthy(why.budget == "memory" or why.budget == "instructions" or tostring(why):find "too large", tostring(why))
    end)
  end

  it("JSON of tables within tables, which makes much of little", function()
    local ok, why = run([[
      local t = {1}
      for _ = 1, 100 do t = {t, t} end
      mortise.json(t)]])
    assert.is_false(ok)
    assert.truthy(tostring(why):find "JSON text", tostring(why))
  end)

  it("JSON that fails again and again, whose buffers Lua does not see", function()
    local before = resident()
    is_over("instructions", [[
      local t = {('x'):rep(1000)}
      for _ = 1, 100 do t = {t, t} end
      while true do pcall(mortise.json, t) end]], {memory = 32 << 20, steps = 100 * 1000 * 1000, time_ms = 60 * 1000})
    assert.is_true(resident() - before < 400 << 10, "it has grown")
  end)

  it("buffers that iterations and documents keep", function()
    local before = resident()
    local ok, why = run([[
      local keep, doc = {}, mortise.view(('{"a":"%s"}'):format(('x'):rep(1 << 20)))
      for i = 1, 100000 do
        doc.b = i
        keep[i] = {pairs(doc)}
      end]], {memory = 16 << 20, steps = 1000 * 1000 * 1000, time_ms = 60 * 1000})
    assert.is_false(ok)
    assert.is_true(resident() - before < 400 << 10, tostring(why))
  end)

  it("what leaves it is bounded, too", function()
    local ok, why = run([[
      local t = {1}
      for _ = 1, 100 do t = {t, t} end
      error(t)]])
    assert.is_false(ok)
    assert.equal("script_error", core.is_error(why) and why.code)
  end)

  it("weak keys in an unlucky order, which collecting takes hours for", function()
    local chain = [=[
      local keys, all, kept, meta = {}, {}, {}, %s
      setmetatable(all, meta)
      for i = 1, 60000 do keys[i] = {} end
      for i = #keys, 2, -1 do local j = math.random(i) keys[i], keys[j] = keys[j], keys[i] end
      for i = 1, #keys - 1 do all[keys[i]] = keys[i + 1] end
      kept[1], keys = keys[1], nil
      %s
      while true do kept[2] = {} end]=]
    for _, each in ipairs {
      {"{__mode = 'k'}", ""}, {"{}", "meta.__mode = 'k'"}, {"{}", "rawset(meta, '__mode', 'k')"},
      {"{__index = {}}", "meta.__mode = 'k' local s = ('x'):rep(1 << 23) .. ('y'):rep(1 << 23)"},
      {"{}", "meta.__mode = 'k' while true do pcall(function() while true do kept[2] = {} end end) end"},
    } do
      local ok, why = run(chain:format(each[1], each[2]), {memory = 16 << 20, steps = 20 * 1000 * 1000, time_ms = 60 * 1000})
      assert.is_false(ok)
      assert.truthy(tostring(why):find "weak keys" or why.budget, tostring(why))
    end
  end)

  it("weak values are there", function()
    holds [[
      local weak = setmetatable({}, {__mode = "v"})
      local both = setmetatable({}, {__mode = "kv"})
      weak.x, both[{}] = {}, {}
      for i = 1, 200000 do local t = {} end
      assert(weak.x == nil and next(both) == nil)]]
  end)

  it("one that lives just below the most it may have ends, too", function()
    local ok, why = run([[
      local keep, n = {}, 0
      pcall(function() while collectgarbage "count" < 7900 do n = n + 1 keep[n] = {} end end)
      while true do local t = {} end]], {memory = 8 << 20, steps = 20 * 1000 * 1000, time_ms = 60 * 1000})
    assert.is_false(ok)
    assert.truthy(why.budget)
  end)
end)

describe("strings in a sandbox cannot blow up:", function()
  for name, code in pairs {
    ["string.rep of nothing, endlessly"] = "while true do local _ = (''):rep(math.maxinteger) .. (''):rep(1e15, '') end",
    ["string.rep that is refused later"] = "('x'):rep(1 << 40)",
    ["string.find with nested quantifiers"] = "(('a'):rep(50)):find(('a?'):rep(50) .. ('a'):rep(50) .. 'b')",
    ["string.match with many .*"] = "(('a'):rep(5000)):match('.*.*.*.*.*b')",
    ["string.gsub with .-"] = "(('a'):rep(20000)):gsub('.-.-.-b', '')",
    ["string.gmatch of what is not there"] = "for _ in (('a'):rep(20000)):gmatch '.-.-b' do end",
    ["%b over and over"] = "(('('):rep(100000)):gsub('%b()', '')",
    ["a frontier over a long set"] = "while true do (('a'):rep(1000)):find('%f[' .. ('b'):rep(1000) .. ']') end",
    ["back references"] = "(('a'):rep(5000)):match('(.*)%1%1%1b')",
    ["find of a plain text, quadratic elsewhere"] = [[
      local s, p = ('a'):rep(1 << 20), ('a'):rep(1 << 19) .. 'b'
      while true do s:find(p, 1, true) end]],
    ["comparison in sort"] = [[
      local a, b = ('x'):rep(1 << 20) .. 'a', ('x'):rep(1 << 20) .. 'b'
      local t = {}
      for i = 1, 20000 do t[i] = i % 2 == 0 and a or b end
      table.sort(t)]],
    ["conversion of long blanks"] = "local s = (' '):rep(1 << 20) while true do tonumber(s) pcall(function() return s + 1 end) end",
    ["upper, lower, reverse, byte"] = "local s = ('x'):rep(1 << 20) while true do s:upper() s:lower() s:reverse() end",
    ["utf8"] = "local s = ('x'):rep(1 << 20) while true do utf8.len(s) utf8.offset(s, -1) end",
    ["pack and unpack"] = "local f = ('b'):rep(1000) local s = ('x'):rep(1000) while true do f:unpack(s) end",
    ["unpacking much"] = "local t = {} while true do select('#', table.unpack(t, 1, 100000)) end",
    ["moving much"] = "table.move({}, 1, math.maxinteger - 1, 2)",
    ["concat of nothing"] = "while true do pcall(table.concat, {}, '', 1, math.maxinteger) table.concat({}, ('x'):rep(100000)) end",
    ["many assignments to a long document"] = [[
      local parts = {}
      for i = 1, 20000 do parts[i] = ('"k%d":1'):format(i) end
      local doc = mortise.view("{" .. table.concat(parts, ",") .. "}")
      for i = 1, 100000 do doc["f" .. i] = i end]],
    ["a long document with many assignments made"] = [[
      local doc = mortise.view(('{"a":"%s"}'):format(("x"):rep(10000)))
      pcall(function() for i = 1, 100 do doc["f" .. i] = i end end)
      while true do doc:_source() for _ in pairs(doc) do break end tostring(doc) doc:_table() end]],
    ["its JSON"] = [[
      local doc = mortise.view(('{"a":"%s"}'):format(("x"):rep(20000)))
      for i = 1, 50 do doc["f" .. i] = i end
      while true do mortise.json {doc, doc} end]],
    ["reading of a long document"] = [[
      local doc = mortise.view(('{"a":"%s","b":[1]}'):format(("x"):rep(100000)))
      while true do local _ = doc.b end]],
    ["remove and insert in front"] = "local t = {} for i = 1, 50000 do t[i] = i end while true do table.insert(t, 1, table.remove(t, 1)) end",
  } do
    it(name, function() is_over("instructions", code, {memory = 32 << 20, steps = 3000 * 1000, time_ms = 60 * 1000}) end)
  end
end)

describe("in a sandbox", function()
  it("the metatable of strings is kept", function()
    holds [[
      assert(getmetatable("") == "the metatable is not for scripts")
      assert(not pcall(setmetatable, "", {}))
      string.upper = function() return "mine" end
      assert(("x"):upper() == "mine")]] -- only its own
  end)

  it("no metatable that mortise sets can be reached, to put a finalizer there", function()
    holds [[
      local found = {mortise.array {}, mortise.object {}, mortise.view "{}", mortise.view '{"a":[{}]}'.a, print, print("")}
      local ok, why = pcall(mortise.get, "a", "b")
      found[#found + 1] = why
      for _, value in ipairs(found) do
        local meta = getmetatable(value)
        assert(type(meta) ~= "table", type(value))
      end
      for _, value in ipairs {mortise, mortise.reject "x"} do
        local meta = getmetatable(value)
        if type(meta) == "table" then
          meta.__gc = function() while true do end end
          assert(not pcall(setmetatable, {}, meta))
        end
      end]]
  end)

  it("a metatable that gets __gc later makes no finalizer", function()
    holds [[
      local n = 0
      local meta = {}
      for i = 1, 1000 do setmetatable({}, meta) end
      meta.__gc = function() n = n + 1 end
      for i = 1, 100000 do local t = {} end
      assert(n == 0)]]
  end)

  it("collectgarbage only counts", function()
    holds [[
      assert(collectgarbage "count" > 0)
      for _, what in ipairs {"collect", "stop", "restart", "step", "incremental", "generational", "setpause"} do
        assert(not pcall(collectgarbage, what), what)
      end]]
  end)

  it("nothing tells an address", function()
    local seen = tostring(print):match "0x%x+"
    local _, lines = run [[
      print(tostring(print), print, {}, coroutine.create(print), ("%s"):format({}), mortise.array {})
      print(pcall(string.format, "%p", {}), pcall(string.format, "%-10p", "x"), pcall(string.format, "%%%p", {}))
      print(select(2, pcall(error, {})), setmetatable({}, {__name = "mine"}))
      local ok, why = pcall(mortise.get, "a", "b")
      print(why .. {}, mortise.null)]]
    assert.truthy(seen)
    for _, line in ipairs(lines) do
      for number in line:gmatch "0x(%x+)" do
        assert.equal(16, #number, line)
        assert.not_equal("00000000", number:sub(1, 8), line)
        assert.not_equal("00005", number:sub(1, 5), line)
        assert.not_equal("00007f", number:sub(1, 6), line)
      end
    end
  end)

  it("environments of load stay inside", function()
    holds [[
      local env = {}
      load("x = 1", "c", "t", env)()
      assert(env.x == 1 and x == nil)
      assert(load("return _ENV", "c", "t", nil)() == nil)
      assert(load("return _ENV")() == _G)
      local f = load("local _ENV <const> = {y = 2} return y")
      assert(f() == 2)]]
  end)

  it("code that old compilers broke on is refused, or runs", function()
    holds [[
      local parts = {"local t = {"}
      for i = 1, 300 do parts[#parts + 1] = ("%q, "):format("c" .. i) end
      parts[#parts + 1] = "} local _ENV <const> = {a = 1} return a, t[300]"
      local a, last = load(table.concat(parts))()
      assert(a == 1 and last == "c300")
      for _, deep in ipairs {"(", "{", "function() ", "-", "not ", "if true then ", "a."} do
        assert(pcall(load, "return " .. deep:rep(3000)))
      end
      assert(not load(("x = "):rep(300) .. "1"))]]
  end)

  it("a chunk with ten thousands of labels costs what it takes", function()
    is_over("instructions", [[
      local parts = {}
      for i = 1, 20000 do parts[i] = "::l" .. i .. "::" end
      load(table.concat(parts, " "))]])
  end)

  it("a chunk is bounded", function()
    holds "assert(not pcall(load, ('x = 1 '):rep(100000)))"
  end)

  it("nested coroutine.close does not use up the C stack", function()
    local ok, why = run([[
      local prev
      for i = 1, 20000 do
        local inner = prev
        local co = coroutine.create(function()
          local x <close> = setmetatable({}, {__close = function() if inner then coroutine.close(inner) end end})
          coroutine.yield()
        end)
        coroutine.resume(co)
        prev = co
      end
      print(coroutine.close(prev))]], {memory = 64 << 20, steps = 100 * 1000 * 1000, time_ms = 60 * 1000})
    assert.is_true(ok, tostring(why))
  end)

  it("deep recursion of every kind ends with an error", function()
    holds([[
      local function deep() return 1 + deep() end
      assert(not pcall(deep))
      local t = setmetatable({}, {}) getmetatable(t).__index = function(_, k) return t[k + 1] end
      assert(not pcall(function() return t[1] end))
      local function nest(n) return coroutine.wrap(function() return nest(n + 1) end)() end
      assert(not pcall(nest, 1))
      local function sub(s) return (s:gsub(".", sub)) end
      assert(not pcall(sub, "a"))
      local function sorted() table.sort({1, 2}, sorted) return false end
      assert(not pcall(sorted))
      local function handled() return xpcall(error, handled) end
      handled()]], {memory = 128 << 20, steps = 100 * 1000 * 1000, time_ms = 60 * 1000})
  end)

  it("yields across what cannot be yielded across are errors", function()
    holds [[
      local function tries(f) local co = coroutine.wrap(f) return pcall(co) end
      assert(not tries(function() table.sort({2, 1}, function() coroutine.yield() end) end))
      assert(not tries(function() ("a"):gsub(".", function() coroutine.yield() end) end))
      assert(not tries(function() return load(function() coroutine.yield() end) end))
      assert(not pcall(coroutine.yield))
      assert(not coroutine.resume(coroutine.running()))]]
  end)

  it("what is asked of the store passes through coroutines, and not through what cannot wait", function()
    holds [[
      local function asks() local ok, why = pcall(mortise.get, "a", "b") return why.message end
      assert(asks() == "nothing is asked here")
      assert(coroutine.wrap(asks)() == "nothing is asked here")
      assert(coroutine.wrap(function() return coroutine.wrap(asks)() end)() == "nothing is asked here")
      local co = coroutine.create(function() local a = asks() local b = coroutine.yield(a) return a .. b end)
      local ok, first = coroutine.resume(co)
      assert(first == "nothing is asked here")
      ok, first = coroutine.resume(co, "!")
      assert(first == "nothing is asked here!")
      local _, why = pcall(table.sort, {2, 1}, function() mortise.get("a", "b") end)
      assert(why:find "cannot be asked from within")
      _, why = pcall(table.sort, {2, 1}, function() coroutine.wrap(function() mortise.get("a", "b") end)() end)
      assert(why:find "cannot be asked from within")]]
  end)

  it("an array of a document is read in order at little cost", function()
    holds([[
      local parts, sum = {}, 0
      for i = 1, 20000 do parts[i] = i end
      local doc = mortise.view(mortise.json {list = parts})
      local list = doc.list
      for i, each in ipairs(list) do sum = sum + each end
      for i = 1, #list do sum = sum + list[i] end
      assert(sum == 2 * 20000 * 20001 / 2)]], {memory = 8 << 20, steps = 3000 * 1000, time_ms = 0})
  end)

  it("values that are passed do not change with what is outside", function()
    local box <close> = core.sandbox(small, print)
    local what = {a = {1, 2}, n = math.mininteger, f = 0.1, e = core.array {}, o = core.object {}, z = core.null}
    local step = table.pack(box:start("run", [[
      local ok, why = pcall(mortise.get, ...)
      assert(why.a[2] == 2 and why.n == math.mininteger and why.f == 0.1 and mortise.json(why.e) == "[]")
      assert(mortise.json(why.o) == "{}" and why.z == mortise.null and mortise.is_error(why))]], "=a", "x", "y"))
    assert.same({"ask", "get", "x", "y"}, {table.unpack(step, 1, 4)})
    local why = core.error {code = "conflict", message = "m"}
    for name, value in pairs(what) do why[name] = value end
    assert.equal("done", (box:answer(false, why)))
  end)

  it("it runs once at a time, and not once it is closed", function()
    local box = core.sandbox(small, print)
    assert.equal("ask", (box:start("run", "mortise.now()", "=a")))
    assert.equal("done", (box:answer(true, 1)))
    assert.has_error(function() box:answer(true, 1) end)
    box:close()
    box:close()
    assert.has_error(function() box:start("run", "", "=a") end)
  end)

  it("an error has its place, and comes out whole", function()
    local _, why = run "local x\nx.y = 1"
    assert.truthy(why.message:find("script:2: attempt to index a nil value (local 'x')", 1, true), why.message)
    _, why = run "error {code = 1, why = {2}}"
    assert.same({code = 1, why = {2}}, why)
    _, why = run "error(setmetatable({}, {__tostring = function() return 'mine' end}))"
    assert.equal("mine", why.message)
    _, why = run "error()"
    assert.is_nil(why)
  end)

  it("clean-up by __close is done when it fails, and what that asks is answered", function()
    local box <close> = core.sandbox(small, print)
    local step = table.pack(box:start("run", [[
      local a <close> = setmetatable({}, {__close = function() mortise.refresh "a" end})
      error "x"]], "=a"))
    assert.equal("refresh", step[2])
    local ok, why = pcall(box.answer, box, true)
    assert.is_false(ok)
    assert.truthy(why.message:find "x$")
  end)
end)

describe("docs/sandbox.md", function()
  busted_it("lists each of these", function()
    local file = assert(io.open "docs/sandbox.md")
    local text = file:read "a":gsub("[ \n]+", " "):gsub("`", "")
    file:close()
    for _, name in ipairs(tried) do
      assert.truthy(text:find(name:gsub("`", ""), 1, true), name)
    end
  end)
end)
