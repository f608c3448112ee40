local mortise = require "mortise"
local printer = require "mortise.printer"

local function back(text)
  return assert(load("return " .. text, "=text", "t", {mortise = mortise, math = math}), text)()
end

describe("printed values", function()
  it("can be read back", function()
    for _, value in ipairs {
      1, -7, math.maxinteger, math.mininteger, 1.0, 0.1, 1e300, -2.5e-10, 3.141592653589793, math.huge,
      -math.huge, "", "plain", 'quo"te', "new\nline", "\0\1\127\255", "\\", "]]", "grüße",
      "a\0001", true, false,
    } do
      local text = printer.format(value)
      assert.equal(value, back(text))
      assert.equal(math.type(value), math.type(back(text)))
    end
    assert.equal(mortise.null, back(printer.format(mortise.null)))
    local nan = back(printer.format(0 / 0))
    assert.not_equal(nan, nan)
  end)

  it("keep tables", function()
    for _, value in ipairs {
      {}, {1, 2, 3}, {x = 1, ["end"] = 2, ["a b"] = 3}, {[1.5] = "f", [true] = 1, [-3] = 2},
      {1, 2, nil, 4}, {{{}}, a = {b = {c = {}}}},
    } do
      assert.same(value, back(printer.format(value)))
    end
  end)

  it("keep random tables", function()
    math.randomseed(42)
    local function random(depth)
      local kind = math.random(depth > 0 and 6 or 4)
      if kind == 1 then return math.random(math.mininteger, math.maxinteger) end
      if kind == 2 then return (math.random() - 0.5) * 10.0 ^ math.random(-30, 30) end
      if kind == 3 then return math.random(2) == 1 end
      if kind == 4 then
        local bytes = {}
        for i = 1, math.random(0, 20) do bytes[i] = string.char(math.random(0, 255)) end
        return table.concat(bytes)
      end
      local t = {}
      for _ = 1, math.random(0, 6) do
        t[kind == 5 and #t + 1 or random(0)] = random(depth - 1)
      end
      return t
    end
    for _ = 1, 300 do
      local value = random(4)
      assert.same(value, back(printer.format(value)))
    end
  end)

  it("are sorted, in lines of a bearable width", function()
    assert.equal('{a = 1, b = 2, c = 3}', printer.format {c = 3, a = 1, b = 2})
    for line in printer.format(mortise.map({}, print)):gmatch "[^\n]+" do assert.is_true(#line <= 100) end
    local wide = {}
    for i = 1, 30 do wide["key" .. i] = ("v"):rep(10) end
    for line in printer.format(wide):gmatch "[^\n]+" do assert.is_true(#line <= 100) end
  end)

  it("mark what cannot be written", function()
    local loop = {1}
    loop.me = loop
    assert.same({1}, back(printer.format(loop)))
    assert.matches("the table itself", printer.format(loop))
    assert.same({}, back(printer.format {f = print}))
    assert.matches("^nil %-%-%[%[function", printer.format(print))
    local deep = {}
    for _ = 1, 50 do deep = {deep} end
    assert.matches("too deep", printer.format(deep))
    local many = {}
    for i = 1, 5000 do many[i] = i end
    assert.matches("and 4000 more", printer.format(many))
    assert.equal("--[[" .. tostring(print) .. "]]", printer.list({print}, 1))
  end)

  it("show views as tables", function()
    local view = mortise.view '{"a":1234567890123456789,"e":[],"o":{},"n":null,"f":1.5,"s":"x"}'
    local text = printer.format(view)
    assert.matches("a = 1234567890123456789", text, 1, true)
    local copy = back(text)
    assert.equal('{"a":1234567890123456789,"e":[],"f":1.5,"n":null,"o":{},"s":"x"}', mortise.json(copy))
  end)

  it("list several", function()
    assert.equal('1, nil, "x"', printer.list({1, nil, "x"}, 3))
  end)
end)

describe("tostring", function()
  it("shows what a document holds, and what was left out", function()
    local doc = mortise.view '{"path":"/a","o":{"p":[{"q":1}]},"id":7}'
    assert.equal('document {id = 7, o = {p = {{q = 1}}}, path = "/a"}', tostring(doc))
    assert.equal("{p = {{q = 1}}}", tostring(doc.o))
    assert.equal("{{q = 1}}", tostring(doc.o.p))
    doc.path = nil
    assert.equal("document {id = 7, o = {p = {{q = 1}}}}", tostring(doc))
    local long = tostring(mortise.view('{"s":"' .. ("ü"):rep(5000) .. '"}'))
    assert.is_true(#long < 500)
    assert.truthy(utf8.len(long))
    assert.matches("and 9700 bytes more", long)
    local numbers = {}
    for i = 1, 5000 do numbers[i] = i end
    local many = tostring(mortise.view(mortise.json {n = numbers}))
    assert.is_true(#many < 700)
    assert.matches("and 4950 more", many)
    local rows = {}
    for i = 1, 100 do rows[i] = numbers end
    assert.is_true(#tostring(mortise.view(mortise.json {rows = rows})) < 8000)
  end)

  it("shows what is marked as an array or an object", function()
    assert.equal("{1, 2}", tostring(mortise.array {1, 2}))
    assert.equal("mortise.object {}", tostring(mortise.object {}))
    assert.equal("{hits = {1}}", tostring(mortise.object {hits = {1}}))
    assert.equal("{a = {1}}", printer.format {a = mortise.array {1}})
  end)
end)
