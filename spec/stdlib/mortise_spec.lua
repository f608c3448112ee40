local config = require "mortise.config"
local json = require "mortise.json"
local mortise = require "mortise"
local stores = require "spec.support.stores"

describe("the module", function()
  it("opens a default client at first use, and again after a failure", function()
    local getenv, command_line = config.getenv, config.command_line
    config.getenv = function() return nil end
    config.command_line = {}
    local ok, why = pcall(mortise.acquire, {tree = "/a"})
    assert.is_false(ok)
    assert.matches("no store is named", why.message)
    config.command_line = {store = stores.all()[1].store, wait = 1000}
    assert.is_nil(mortise._opened_session())
    stores.connect(stores.all()[1]):close()
    local lock = mortise.acquire {named = {"spec", stores.name "default"}}
    assert.is_string(mortise._opened_session().id)
    lock:release()
    mortise.close()
    mortise.close()
    assert.is_nil(mortise._opened_session())
    config.getenv, config.command_line = getenv, command_line
  end)

  it("checks what connect is given", function()
    for given, pattern in pairs {
      [{stroe = "x"}] = "did you mean `store`", [{store = 5}] = "`store` is a string",
      [{store = "gopher:x"}] = "sqlite:FILE",
      [{store = "sqlite:/tmp/x", lease = "1ms"}] = 'option `lease` is a time from 1s to 1h, not "1ms"',
    } do
      local ok, why = pcall(mortise.connect, given)
      assert.is_false(ok)
      assert.equal("invalid_argument", why.code)
      assert.matches(pattern, why.message)
    end
  end)

  it("encodes queries", function()
    assert.equal('{"match_all":{}}', json.body {match_all = {}})
    assert.equal('{"ids":{"values":["1"]},"n":1234567890123456789}',
      json.body {ids = {values = {"1"}}, n = 1234567890123456789})
    assert.equal('{"terms":{"a":[]}}', json.body {terms = {a = mortise.array {}}})
    assert.equal("text", json.body "text")
    assert.is_nil(json.body(nil))
    local loop = {}
    loop.loop = loop
    assert.has_error(function() json.body(loop) end)
    assert.has_error(function() json.source {} end)
  end)
end)
