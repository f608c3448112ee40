-- Migrations that keep the old index in step: what is written to the new one comes into the old one, and
-- going back loses nothing.
local migrations = require "spec.support.migrations"
local mortise = require "mortise"
local stores = require "spec.support.stores"

stores.each("a migration that keeps the old index in step", function(store)
  local client, other, old, new, alias

  before_each(function()
    client = stores.connect(store)
    other = stores.connect(store, {namespace = client:namespace()})
    old, new, alias = stores.name "old", stores.name "new", stores.name "alias"
    migrations.fill(client, old, alias)
  end)
  after_each(function()
    for _, index in ipairs {old, new} do pcall(client.drop_index, client, index) end
    client:close()
    other:close()
  end)

  local function migration(also)
    local o = {id = "m", from = old, to = new, alias = alias, keep_old_in_step = true}
    for name, value in pairs(also or {}) do o[name] = value end
    return client:migrate(o)
  end

  local function named() return client:describe(alias).name end

  local function follow(m) return migrations.start(m, "following") end

  local function write_some()
    client:index(alias, "d31", {path = "/a/31", n = 31})
    client:index(alias, "d1", {path = "/a/1", n = 100})
    client:index(alias, "d1", {path = "/a/1", n = 101})
    client:delete(alias, "d2")
    client:delete(alias, "d3")
    client:index(alias, "d3", {path = "/a/3", n = 303})
    client:index(alias, "r", {path = "/r"}, {routing = "x"})
  end

  it("follows the new index, and goes back with all that was written", function()
    local task = follow(migration())
    assert.equal(new, named())
    write_some()
    local expected = stores.sources(client, new)
    migrations.wait_for(function()
      client:refresh(old)
      return mortise.json(stores.sources(client, old)) == mortise.json(expected)
    end)
    client:index(alias, "late", {path = "/late"})
    expected = stores.sources(client, new)
    local back = other:get_job "m"
    assert.equal(alias, back:plan_rollback().alias)
    local result = back:rollback()
    assert.same({"undone", "undone"}, {result.state, result.phase})
    local ok, why = task:join()
    assert.is_false(ok)
    assert.truthy(tostring(why):find "cancelled", why)
    assert.equal(old, named())
    assert.same(expected, stores.sources(client, old))
    assert.is_false(client:describe(new).exists)
    client:index(alias, "d40", {path = "/a/40"})
  end)

  it("is finished, after which the old index takes no writes", function()
    local task = follow(migration())
    write_some()
    other:get_job("m"):finish()
    local ok, result = task:join()
    assert.is_true(ok, result)
    assert.same({"done", "finished"}, {result.state, result.phase})
    assert.is_false((pcall(client.index, client, old, "x", {path = "/x"})))
    assert.equal(new, named())
  end)

  it("is gone on with by another process, and finished by one where nobody follows", function()
    local m = migration()
    local task = follow(m)
    m:cancel()
    assert.is_false((task:join()))
    write_some()
    local again = other:get_job "m"
    local resumed = mortise.spawn(function() return pcall(again.resume, again) end)
    local expected = stores.sources(client, new)
    migrations.wait_for(function()
      client:refresh(old)
      return mortise.json(stores.sources(client, old)) == mortise.json(expected)
    end)
    again:cancel()
    assert.is_false((resumed:join()))
    client:delete(alias, "d5")
    other:get_job("m"):finish {delete = true}
    assert.is_false(client:describe(old).exists)
    client:refresh(new)
    assert.equal(29 + 1, client:count(new))
  end)

  it("has changes both ways", function()
    local m = migration {
      change = function(doc)
        if doc._id == "d9" then return mortise.delete end
        doc.n = doc.n and doc.n * 10
      end,
      change_back = function(doc) doc.n = doc.n and doc.n // 10 end,
    }
    local task = follow(m)
    assert.same(10, client:get(alias, "d1").n)
    client:index(alias, "d1", {path = "/a/1", n = 70})
    client:delete(alias, "d4")
    m:cancel()
    task:join()
    m:rollback()
    assert.equal(old, named())
    assert.same({7, 2, nil, 9}, {client:get(old, "d1").n, client:get(old, "d2").n, client:get(old, "d4"),
      client:get(old, "d9").n})
    assert.equal(29, client:count(old))
  end)

  it("names what others write to the old index, and writes over it when told to", function()
    local m = migration()
    local task = follow(m)
    client:index(old, "d1", {path = "/stranger", n = 0})
    client:index(old, "d1", {path = "/stranger", n = 1})
    client:index(old, "new", {path = "/stranger"})
    client:index(alias, "d7", {path = "/a/7", n = 77})
    migrations.wait_for(function()
      local back = m:status().work.back
      return back.strangers and back.strangers.n == 2
    end)
    m:cancel()
    task:join()
    local ok, why = pcall(m.rollback, m)
    assert.is_false(ok)
    assert.same({"conflict", true}, {why.code, why.message:find "2 documents" ~= nil})
    assert.equal(new, named())
    local expected = stores.sources(client, new)
    m:rollback {others = 2}
    assert.equal(old, named())
    assert.same(expected, stores.sources(client, old))
  end)

  it("can be done again and again between the same indices", function()
    for n = 1, 2 do
      local m = migration {id = "m" .. n}
      local task = follow(m)
      client:index(alias, "d2", {path = "/a/2", n = n})
      write_some()
      client:index(alias, "d10", {path = "/a/10", n = n})
      local expected = stores.sources(client, new)
      m:cancel()
      task:join()
      m:rollback()
      assert.same(expected, stores.sources(client, old))
    end
  end)

  it("is refused without a way back", function()
    for text, also in pairs {
      ["alias"] = {alias = false}, ["`change` and `change_back`"] = {change = function() end},
      ["`change_back` is of one with"] = {keep_old_in_step = false, change_back = function() end},
    } do
      if also.alias == false then
        local given = {id = "m", from = old, to = new, keep_old_in_step = true}
        local ok, why = pcall(client.migrate, client, given)
        assert.is_true(not ok and why.message:find(text, 1, true) ~= nil, why)
      else
        local ok, why = pcall(migration, also)
        assert.is_true(not ok and why.message:find(text, 1, true) ~= nil, why)
      end
    end
  end)
end)
