-- A script, or the program that embeds it, may set any locale: numbers and letters in documents, in settings
-- and in output do not depend on it. tools/locales makes the locales, LOCPATH says where.
local config = require "mortise.config"
local core = require "mortise.core"
local duration = require "mortise.duration"
local mortise = require "mortise"
local options = require "mortise.options"
local stores = require "spec.support.stores"

local names = {"de_DE.UTF-8", "de_DE.ISO-8859-1", "tr_TR.UTF-8", "tr_TR.ISO-8859-9"}

local function each_locale(fn)
  for _, name in ipairs(names) do
    describe("under " .. name, function()
      before_each(function()
        assert(os.setlocale(name), "there is no locale " .. name .. " in LOCPATH (tools/locales)")
      end)
      after_each(function() os.setlocale "C" end)
      fn(name)
    end)
  end
end

local function message_of(fn, ...)
  local ok, why = pcall(fn, ...)
  assert.is_false(ok)
  return core.is_error(why) and why.message or why
end

each_locale(function(name)
  it("Lua's own text changes, else nothing here is tested", function()
    assert.equal("1,5", tostring(1.5))
    if name == "tr_TR.ISO-8859-9" then assert.not_equal("i", ("I"):lower()) end
    if name == "de_DE.ISO-8859-1" then assert.matches("^%a$", "\xe4") end
  end)

  it("JSON has points", function()
    assert.equal('{"v":[1.5,2.25]}', mortise.json {v = {1.5, 2.25}})
    assert.equal('[5.0,-0.0,1e+300,5e-324,0.1,0.30000000000000004,12]',
      mortise.json {5.0, -0.0, 1e300, 5e-324, 1 / 10, 1 / 10 + 1 / 5, 12})
    assert.same({1.5, -2.5e-3, 1e22, 7}, setmetatable(core.json_decode "[1.5, -2.5E-3, 1e22, 7]", nil))
    assert.equal(1.5, mortise.view('{"a":{"b":1.5}}').a.b)
  end)

  it("doubles survive JSON and the printer", function()
    math.randomseed(7)
    for _ = 1, 300 do
      local value = (math.random() - 0.5) * 10.0 ^ math.random(-300, 300)
      assert.equal(value, core.json_decode(core.json(value)))
      local text = mortise.format(value)
      assert.matches("^%-?%d[%d.e+-]*$", text)
      os.setlocale "C"
      assert.equal(value, load("return " .. text)())
      os.setlocale(name)
    end
  end)

  it("what is printed is Lua, in the order of bytes", function()
    assert.equal('{1.5, [2.5] = "x", I = 1, i = 2, z = "Ä\\x85", ["ä"] = 4, ["\\xe4"] = 3.0}',
      (mortise.format({1.5, [2.5] = "x", i = 2, I = 1, ["\xe4"] = 3.0, ["ä"] = 4, z = "Ä\x85"})
        :gsub('"\\xc3\\x84', '"Ä')))
  end)

  it("durations and sizes have points", function()
    assert.equal(1500, duration.parse "1.5s")
    assert.equal(1500, duration.parse "1.5")
    assert.equal(90500, duration.parse "1.5m500ms")
    assert.is_nil(duration.parse "1,5s")
    assert.is_nil(duration.parse "1,5")
    assert.equal("1.5s", duration.text(1500))
    assert.equal("2s", duration.text(1950))
    assert.equal(1.5, mortise.seconds "1.5s")
    assert.equal(64 << 20, options.parse_size "64MiB")
    assert.equal(64 << 20, options.parse_size "64mib")
    assert.matches("not %-1.5", message_of(duration.ms, -1.5, "it"))
    assert.matches("not 1.5", message_of(mortise.connect, {store = "sqlite:/x", answer_max = 1.5}))
  end)

  it("settings have points", function()
    local getenv = config.getenv
    local function resolved(text)
      config.getenv = function(variable)
        return ({MORTISE_WAIT = text, MORTISE_STORE = "sqlite:x"})[variable]
      end
      local ok, result = pcall(config.resolve)
      config.getenv = getenv
      return ok and result.found.wait.value or result.message
    end
    assert.equal(1500, resolved "1.5")
    assert.equal(1500, resolved "1.5s")
    assert.matches("MORTISE_WAIT", (resolved "1,5"))
  end)

  it("errors show points", function()
    assert.equal("2.5 and 1.5", ("%s and %s"):format(core.tostring(2.5), core.tostring(1.5)))
    assert.equal("script_error: x1.5", core.error {code = "script_error", message = "x"} .. 1.5)
  end)

  it("a float is no name of anything", function()
    assert.matches("string expected", message_of(core.path_segment, 1.5))
    assert.equal("15", core.path_segment(15))
  end)
end)

stores.each("documents", function(store)
  each_locale(function()
    local client, index
    before_each(function()
      client = stores.connect(store)
      index = stores.fill(client, {a = {path = "/a", n = 1.5}})
    end)
    after_each(function()
      client:drop_index(index)
      client:close()
    end)

    it("are stored and found with points", function()
      client:index(index, "v", {v = {1.5, 2.25}})
      assert.equal('{"v":[1.5,2.25]}', client:get(index, "v"):_source())
      client:update(index, "a", function(doc) doc.n = doc.n + 0.25 doc.m = {0.1} end)
      client:update(index, "a", {k = 1e-7})
      assert.equal('{"n":1.75,"path":"/a","m":[0.1],"k":1e-07}', client:get(index, "a"):_source())
      client:bulk(index, {{op = "index", id = "b", doc = {path = "/b", n = 1.25}}})
      client:refresh(index)
      assert.equal(1, client:count(index, {range = {n = {gte = 1.5, lt = 1.8}}}))
      assert.equal(1, client:count(index, {term = {n = 1.25}}))
    end)

    it("are written and scanned under a lock", function()
      client:with_tree_lock("/a", {wait = "1.5s"}, function(lock)
        local writer = lock:bulk(index)
        for doc in lock:scan(index, {query = {term = {path = "/a"}}}) do
          doc.n = doc.n * 3
          writer:save(doc)
        end
        writer:finish()
        assert.matches("%(held, [%dms .]+ left%)", tostring(lock))
      end)
      assert.equal('{"n":4.5,"path":"/a"}', client:get(index, "a"):_source())
    end)
  end)
end)

describe("numbers of JSON", function()
  it("beyond the doubles are infinite, not zero", function()
    assert.same({math.huge, -math.huge}, setmetatable(core.json_decode "[1e999, -1e999]", nil))
    assert.equal(math.huge, mortise.view('{"a":1e999}').a)
    assert.equal('{"a":1e999}', mortise.json(mortise.view '{"a":1e999}'))
  end)
end)

stores.each("numbers of documents", function(store)
  it("with an exponent are found by their value", function()
    local client = stores.connect(store)
    local index = stores.fill(client, {a = '{"path":"/a","n":1.1e0}', b = '{"path":"/b","n":2.5E+1}'})
    assert.equal(1, client:count(index, {term = {n = 1.1}}))
    assert.equal(1, client:count(index, {term = {n = 25}}))
    client:drop_index(index)
    client:close()
  end)
end)
