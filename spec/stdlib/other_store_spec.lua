-- Migrations into another store: from the embedded one to each server, back, and between two of a kind.
local migrations = require "spec.support.migrations"
local mortise = require "mortise"
local stores = require "spec.support.stores"

stores.each("a migration into another store", function(store)
  local client, file, other, old, new
  before_each(function()
    client = stores.connect(store)
    file = os.tmpname()
    other = mortise.connect {store = "sqlite:" .. file .. ".db"}
    old, new = stores.name "old", stores.name "new"
  end)
  after_each(function()
    for _, each in ipairs {client, other} do
      for _, index in ipairs {old, new} do pcall(each.drop_index, each, index) end
      each:close()
    end
    os.execute("rm -f " .. file .. "*")
  end)

  local function is_same(from, to)
    from:refresh(old)
    to:refresh(new)
    return mortise.json(stores.sources(from, old)) == mortise.json(stores.sources(to, new))
  end

  local function begin(m) return migrations.start(m, "in step") end

  for name, turned in pairs {["there"] = false, ["back"] = true} do
    it("follows, and is finished: " .. name, function()
      local from, to = client, other
      if turned then from, to = other, client end
      migrations.fill(from, old)
      local m = from:migrate {id = "m", from = old, to = new, to_store = to}
      assert.equal(30, m:plan().documents)
      local task = begin(m)
      from:index(old, "d31", {path = "/b"})
      from:delete(old, "d1")
      migrations.wait_for(function() return is_same(from, to) end)
      from:delete(old, "d2")
      from:get_job("m", {to_store = to}):finish()
      local ok, result = task:join()
      assert.is_true(ok, result)
      assert.same({"done", "finished"}, {result.state, result.phase})
      assert.is_true(is_same(from, to))
      from:index(old, "d32", {path = "/goes/on"})
    end)
  end

  it("is cut over: the old index takes no writes any more", function()
    migrations.fill(client, old)
    local m = client:migrate {id = "m", from = old, to = new, to_store = other}
    local task = begin(m)
    client:delete(old, "d3")
    client:get_job("m"):cutover()
    local ok, result = task:join()
    assert.is_true(ok, result)
    assert.same({"done", "swapped", 1}, {result.state, result.phase, result.deleted})
    assert.is_true(is_same(client, other))
    assert.is_false((pcall(client.index, client, old, "x", {path = "/x"})))
    client:get_job("m", {to_store = other}):rollback()
    client:index(old, "x", {path = "/x"})
    assert.is_false(other:describe(new).exists)
  end)

  it("is gone on with by its URL, and into no third store", function()
    migrations.fill(client, old)
    local m = client:migrate {id = "m", from = old, to = new, to_store = "sqlite:" .. file .. ".db"}
    local task = begin(m)
    m:cancel()
    task:join()
    client:delete(old, "d4")
    local ok, why = pcall(function() client:get_job("m", {to_store = client}):resume() end)
    assert.is_true(not ok and why.code == "invalid_argument", why)
    client:get_job("m"):finish()
    assert.same("finished", migrations.phase(m))
    assert.is_true(is_same(client, other))
  end)

  it("moves no alias", function()
    migrations.fill(client, old)
    local given = {id = "m", from = old, to = new, to_store = other, alias = "a"}
    local ok, why = pcall(client.migrate, client, given)
    assert.is_true(not ok and why.code == "invalid_argument")
    ok, why = pcall(client.migrate, client, {id = "m", from = old, to = new, to_store = "nowhere"})
    assert.is_true(not ok and why.message:find "profile `nowhere`" ~= nil, why)
  end)
end)
