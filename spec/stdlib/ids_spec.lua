-- Renames of documents whose `_id` is their path, or begins with it.
local fails = require "spec.support.fails"
local stores = require "spec.support.stores"

stores.each("a rename of ids", function(store)
  local client, other, index
  local properties = {path = {type = "keyword"}, also = {type = "keyword"}}

  before_each(function()
    client, other = stores.connect_two(store)
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
    other:close()
  end)

  local function fill(documents) index = stores.fill(client, documents, properties) end

  local function rename(from, to, also)
    local given = {index = index, from = from, to = to, ids = true}
    for name, value in pairs(also or {}) do given[name] = value end
    return client:rename(given)
  end

  local function tree(top)
    return {
      [top] = ('{"path":"%s", "n":1.50}'):format(top),
      [top .. "/x"] = ('{"path":"%s/x","a":[ ]}'):format(top),
      [top .. "/x/y"] = ('{"path":"%s/x/y","also":"%s/z"}'):format(top, top),
      d1 = ('{"path":"%s/w"}'):format(top),
      ["/ab"] = '{"path":"/ab"}',
      ["/abc/d"] = ('{"path":"%s/v"}'):format(top),
    }
  end

  it("changes those that lie below the old path, and no others", function()
    fill(tree "/a")
    local result = rename("/a", "/b/c", {field = {"path", "also"}})
    assert.same({"done", 5, 5, 0}, {result.state, result.matched, result.changed, result.conflicts})
    assert.same(tree "/b/c", stores.sources(client, index))
    other:get_job(result.job):rollback()
    assert.same(tree "/a", stores.sources(client, index))
  end)

  -- What was there was deleted a moment ago, which a server remembers for a minute.
  it("goes there and back as often as wanted", function()
    fill(tree "/a")
    for _ = 1, 3 do
      assert.equal(5, rename("/a", "/b", {field = {"path", "also"}}).changed)
      assert.equal(5, rename("/b", "/a", {field = {"path", "also"}}).changed)
    end
    assert.same(tree "/a", stores.sources(client, index))
    local result = rename("/a", "/b", {field = {"path", "also"}})
    other:get_job(result.job):rollback()
    assert.equal(5, rename("/a", "/b", {field = {"path", "also"}}).changed)
    assert.same(tree "/b", stores.sources(client, index))
  end)

  it("keeps the routing", function()
    fill {}
    client:bulk(index, {{op = "index", id = "/a/1", routing = "r", doc = {path = "/a/1"}}})
    client:refresh(index)
    assert.equal(1, rename("/a", "/b").changed)
    assert.equal("/b/1", client:get(index, "/b/1", {routing = "r"}).path)
  end)

  it("replaces nothing that has the new id", function()
    local theirs = '{"path":"/elsewhere"}'
    local before = {["/a/1"] = '{"path":"/a/1"}', ["/a/2"] = '{"path":"/a/2"}', ["/b/1"] = theirs}
    fill(before)
    local err = fails("rejected", rename, "/a", "/b")
    assert.same({1, 1}, {err.result.changed, err.result.rejected})
    assert.equal("/a/1", err.result.rejects[1].id)
    assert.matches("another document has the id that it would get, /b/1", err.result.rejects[1].reason)
    assert.same({["/a/1"] = '{"path":"/a/1"}', ["/b/2"] = '{"path":"/b/2"}', ["/b/1"] = theirs},
      stores.sources(client, index))
    other:get_job(err.job):rollback()
    assert.same(before, stores.sources(client, index))
  end)

  it("leaves what others have changed since to them, when it is undone", function()
    fill {["/a/1"] = '{"path":"/a/1"}', ["/a/2"] = '{"path":"/a/2"}', ["/a/3"] = '{"path":"/a/3"}'}
    local result = rename("/a", "/b")
    client:bulk(index, {{op = "index", id = "/b/1", doc = '{"path":"/b/1","theirs":1}'},
      {op = "create", id = "/a/2", doc = '{"path":"/a/2","theirs":2}'}})
    local job = other:get_job(result.job)
    fails("conflict", job.rollback, job)
    assert.same({["/b/1"] = '{"path":"/b/1","theirs":1}', ["/a/2"] = '{"path":"/a/2","theirs":2}',
      ["/b/2"] = '{"path":"/b/2"}', ["/a/3"] = '{"path":"/a/3"}'}, stores.sources(client, index))
    local listed = {}
    for found in job:conflicts() do listed[#listed + 1] = found.id end
    table.sort(listed)
    assert.same({"/a/1", "/a/2"}, listed)
  end)

  it("is planned", function()
    fill {["/a/1"] = '{"path":"/a/1"}', d2 = '{"path":"/a/2"}'}
    local plan = client:job({name = "p", index = index, rename = {from = "/a", to = "/b", ids = true}}):plan()
    assert.equal(2, plan.changed)
    local new = {}
    for _, sample in ipairs(plan.samples) do new[sample.id] = sample.new_id or "none" end
    assert.same({["/a/1"] = "/b/1", d2 = "none"}, new)
    assert.same({["/a/1"] = '{"path":"/a/1"}', d2 = '{"path":"/a/2"}'}, stores.sources(client, index))
  end)

  it("sets aside what would get too long an id", function()
    local long = "/a/" .. ("x"):rep(500)
    fill {[long] = '{"path":"/a/x"}', ["/a/2"] = '{"path":"/a/2"}'}
    local err = fails("rejected", rename, "/a", "/" .. ("y"):rep(100))
    assert.same({1, 1, long}, {err.result.changed, err.result.rejected, err.result.rejects[1].id})
    assert.equal("/a/x", client:get(index, long).path)
    assert.equal("undone", client:get_job(err.result.job):rollback().state) -- it was never the job's
    assert.same({[long] = '{"path":"/a/x"}', ["/a/2"] = '{"path":"/a/2"}'}, stores.sources(client, index))
  end)

  it("is the client's", function()
    fill(tree "/a")
    local err = fails("unsupported", rename, "/a", "/b", {strategy = "server"})
    assert.matches("documents get other ids", err.message)
    local result = rename("/a", "/b", {strategy = "auto"})
    assert.equal("client", result.strategy)
    assert.matches("documents get other ids", result.strategy_reason)
  end)

  it("is refused where it could not be undone, or ids would chase one another", function()
    fill(tree "/a")
    fails("unsupported", rename, "/a/x", "/a")
    client:with_tree_lock({"/a", "/b"}, {}, function(lock)
      fails("unsupported", rename, "/a", "/b", {lock = lock})
    end)
    assert.same(tree "/a", stores.sources(client, index))
  end)
end)
