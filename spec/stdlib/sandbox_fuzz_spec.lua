-- Random scripts and patterns in sandboxes. MORTISE_FUZZ_SEED repeats a run, MORTISE_FUZZ_RUNS makes it
-- longer.
-- luacheck: no max line length (lists of what programs are made of)
local core = require "mortise.core"

local seed = tonumber(os.getenv "MORTISE_FUZZ_SEED" or os.time())
local runs = tonumber(os.getenv "MORTISE_FUZZ_RUNS" or 150)

local function one(list) return list[math.random(#list)] end

-- ---- Programs ------------------------------------------------------------------------------------

-- Makes statements and expressions that nest, loop, catch, yield and grow.
local Maker = {}
Maker.__index = Maker

local simple = {
  "1", "2^53", "-1", "0.5", "nil", "true", "'x'", "('xy'):rep(100)", "{}", "{1, 2, 3}", "x", "y", "t", "s", "f", "co",
  "math.maxinteger", "#s", "#t", "_ENV", "mortise", "print", "pcall", "next",
}
local binary = {"+", "-", "*", "//", "%", "..", "==", "<", "and", "or", "|", ">>"}
local calls = {
  "tostring(%s)", "tonumber(%s)", "type(%s)", "#(%s)", "(%s):rep(1000)", "(%s):upper()", "(%s):find('(a*)*b')",
  "(%s):gsub('.-', '%%0%%0')", "(%s):match('.*.*.*x')", "table.concat(%s)", "table.unpack(%s)", "table.pack(%s)",
  "table.sort(%s)", "table.insert(t, %s)", "table.move(%s, 1, 100, 2)", "select('#', %s)", "pcall(%s)", "xpcall(%s, f)",
  "pcall(error, %s)", "setmetatable({}, %s)", "getmetatable(%s)", "rawset(t, %s, 1)", "rawget(t, %s)", "rawlen(%s)",
  "coroutine.wrap(%s)()", "coroutine.create(%s)", "coroutine.resume(%s)", "coroutine.resume(co, %s)",
  "coroutine.close(%s)", "coroutine.yield(%s)", "load(%s)", "load('return ' .. tostring(%s))", "mortise.json(%s)",
  "mortise.view(%s)", "mortise.array(%s)", "mortise.get(%s, 'id')", "mortise.sleep(%s)", "string.format('%%s %%q', %s, 1)",
  "string.pack('s', %s)", "utf8.len(%s)", "utf8.char(%s)", "math.floor(%s)", "next(%s)", "assert(%s)", "print(%s)",
  "collectgarbage(%s)", "ipairs(%s)", "(%s)()", "(%s)[1]", "(%s).x",
}

function Maker:expression(deep)
  if deep <= 0 or math.random(3) == 1 then return one(simple) end
  local kind = math.random(4)
  if kind == 1 then return ("(%s %s %s)"):format(self:expression(deep - 1), one(binary), self:expression(deep - 1)) end
  if kind == 2 then return ("function(x, y, ...) %s end"):format(self:block(deep - 2)) end
  if kind == 3 then
    return ("{%s, [%s] = %s}"):format(self:expression(deep - 1), one {"'x'", "1", "s"}, self:expression(deep - 1))
  end
  return (one(calls):gsub("%%s", function() return self:expression(deep - 1) end, 1):gsub("%%%%", "%%"))
end

function Maker:statement(deep)
  local kind = math.random(14)
  if deep <= 0 or kind <= 3 then return one {"x", "y", "t", "s", "f", "co", "t[#t + 1]"} .. " = " .. self:expression(deep) end
  if kind == 4 then return ("while %s do %s end"):format(self:expression(1), self:block(deep - 1)) end
  if kind == 5 then return ("for i = 1, %s do %s end"):format(one {"10", "1e9", "x"}, self:block(deep - 1)) end
  if kind == 6 then return ("for k, v in pairs(%s) do %s end"):format(self:expression(1), self:block(deep - 1)) end
  if kind == 7 then return ("repeat %s until %s"):format(self:block(deep - 1), self:expression(1)) end
  if kind == 8 then return ("if %s then %s else %s end"):format(self:expression(1), self:block(deep - 1), self:block(deep - 1)) end
  if kind == 9 then
    return ("do local c <close> = setmetatable({}, {__close = function() %s end}) %s end"):format(self:block(deep - 2),
      self:block(deep - 1))
  end
  if kind == 10 then return ("pcall(function() %s end)"):format(self:block(deep - 1)) end
  if kind == 11 then return ("co = coroutine.create(function(...) %s end) coroutine.resume(co)"):format(self:block(deep - 1)) end
  if kind == 12 then
    return ("t = setmetatable({}, {%s = function(...) %s end})"):format(
      one {"__index", "__newindex", "__call", "__eq", "__lt", "__concat", "__len", "__tostring", "__pairs", "__gc", "__mode",
        "__close", "__name", "__metatable"}, self:block(deep - 1))
  end
  if kind == 13 then return "while true do " .. self:block(deep - 1) .. " end" end
  return "pcall(" .. self:expression(deep - 1) .. ", " .. self:expression(1) .. ")"
end

function Maker:block(deep)
  local parts = {}
  for i = 1, math.random(math.max(1, deep)) do parts[i] = self:statement(deep - 1) end
  return table.concat(parts, "\n")
end

local function program()
  local own = setmetatable({}, Maker)
  local parts = {"local x, y, t, s, f, co = 1, 2, {}, 'abc', print, nil"}
  for i = 1, 6 do parts[i + 1] = ("pcall(function()\n%s\nend)"):format(own:block(4)) end
  return table.concat(parts, "\n")
end

describe("with seed " .. seed .. ", random scripts", function()
  it("end within their budgets, with an error or without", function()
    math.randomseed(seed)
    local over, compiled = 0, 0
    for i = 1, runs do
      local code = program()
      if load(code) then compiled = compiled + 1 end
      local limits = {memory = 4 << 20, steps = 300 * 1000, time_ms = 30 * 1000}
      local box = core.sandbox(limits, function() end)
      local step = table.pack(pcall(box.start, box, "run", code, "=random"))
      while step[1] and step[2] == "ask" do
        if math.random(2) == 1 then
          step = table.pack(pcall(box.answer, box, true, math.random(10), "x", {1}))
        else
          step = table.pack(pcall(box.answer, box, false, core.error {code = "conflict", message = "no"}))
        end
      end
      local stats, shown = box:stats(), ("program %d of seed %d:\n%s"):format(i, seed, code)
      assert.is_true(stats.memory_most <= limits.memory, shown)
      if not step[1] and core.is_error(step[2]) and step[2].budget then
        over = over + 1
        assert.not_equal("time", step[2].budget, shown) -- 300,000 steps take far less than 30 s
      else
        assert.is_true(stats.steps <= limits.steps + 100, shown)
      end
      box:close()
    end
    assert.is_true(compiled > runs * 3 // 4, compiled .. " of them compile")
    assert.is_true(over > runs // 20, "only " .. over .. " used up what they may")
  end)
end)

-- ---- Patterns ------------------------------------------------------------------------------------

local items = {
  "a", "b", "x", ".", "%a", "%d", "%w", "%s", "%A", "%p", "%.", "%%", "[ab]", "[^a]", "[a-x]", "[%d_]", "[]]", "[^]]", "[%a%]]",
  "[a-]", "[-a]", "%z", "%g", "%x", "%c", "%u", "%l", "\0", "é", "%-",
}
local odd = {"(", ")", "()", "%1", "%2", "%b()", "%bxy", "%f[a]", "%f[%w]", "^", "$", "[", "[a", "%", "%b", "%f", "(a", "a)", "*", "-"}

local function pattern()
  local parts = {math.random(4) == 1 and "^" or ""}
  for _ = 1, math.random(5) do
    local part = math.random(4) == 1 and one(odd) or one(items)
    if math.random(3) == 1 then part = "(" .. part .. ")" end
    parts[#parts + 1] = part .. one {"", "", "", "*", "+", "-", "?"}
  end
  if math.random(4) == 1 then parts[#parts + 1] = "$" end
  return table.concat(parts)
end

local function subject()
  local parts = {}
  for i = 1, math.random(0, 12) do parts[i] = one {"a", "b", "x", "y", "1", " ", "(", ")", "é", "\0", "_", "%", ".", "A"} end
  return table.concat(parts)
end

-- In both states: what each function makes of a pattern, as text.
local try = [[
  local function shown(ok, ...)
    if not ok then return "error" end
    local parts = {select("#", ...)}
    for i = 1, select("#", ...) do parts[#parts + 1] = ("%q"):format((select(i, ...))) end
    return table.concat(parts, " ")
  end
  local s, p, r, n = ...
  local function all(...)
    local found = {}
    for a, b in s:gmatch(p, ...) do found[#found + 1] = ("%q %q"):format(a, b) end
    return table.concat(found, ",")
  end
  return table.concat({
    shown(pcall(s.find, s, p)), shown(pcall(s.find, s, p, n)), shown(pcall(s.find, s, p, n, true)),
    shown(pcall(s.match, s, p)), shown(pcall(s.match, s, p, n)), shown(pcall(all)), shown(pcall(all, n)),
    shown(pcall(s.gsub, s, p, r)), shown(pcall(s.gsub, s, p, r, n)), shown(pcall(s.gsub, s, p, {a = 1, b = false})),
    shown(pcall(s.gsub, s, p, function(...) return select("#", ...) end)),
  }, "\n")]]

describe("with seed " .. seed .. ", random patterns", function()
  it("match as Lua's own do", function()
    math.randomseed(seed)
    local box <close> = core.sandbox({memory = 16 << 20, steps = 100 * 1000 * 1000, time_ms = 0}, function() end)
    local outside = assert(load(try))
    local lines
    box:start("run", ("tried = load(%q)"):format(try), "=try")
    local errors = 0
    for _ = 1, runs * 20 do
      local s, p, n = subject(), pattern(), math.random(-5, 8)
      local r = one {"", "r", "%0", "%1", "<%1%2>", "%%", "%", "%9"}
      lines = outside(s, p, r, n)
      if lines:find "error" then errors = errors + 1 end
      local ok, why = pcall(box.start, box, "run", "error {text = tried(...)}", "=t", s, p, r, n)
      assert.is_false(ok)
      assert.equal(lines, type(why) == "table" and why.text or tostring(why),
        ("%q: %q, %q, %d, seed %d"):format(s, p, r, n, seed))
    end
    assert.is_true(errors < runs * 15, errors .. " of " .. runs * 20 .. " are malformed")
  end)
end)
