-- What befalls a job that nobody kills: each document is accounted for, and the job goes on afterwards.
local fails = require "spec.support.fails"
local stores = require "spec.support.stores"

stores.each("a job that meets", function(store)
  local client, other, index
  local elastic = not store.store:find "^sqlite:"

  before_each(function() client, other = stores.connect_two(store) end)

  after_each(function()
    client:drop_index(index)
    client:close()
    other:close()
  end)

  local function fill(n, also)
    local documents = also or {}
    for i = 1, n do documents["d" .. i] = {path = "/a/" .. i, n = tostring(i)} end
    index = stores.fill(client, documents)
  end

  local function sources() return stores.sources(client, index) end

  local function moving(at_first, wait_for_writes)
    local done
    return client:job {
      name = "move", index = index, rename = {from = "/a", to = "/b"}, batch = 5, concurrency = 1,
      wait_for_writes = wait_for_writes,
      rate = at_first and 60, -- so that there is an in-between
      on_progress = at_first and function()
        if not done then done = at_first() or true end
      end,
    }
  end

  -- Where they changed it once the job had written it, that is a conflict of the undoing.
  local function undo(job)
    local ok, why = pcall(job.rollback, job)
    assert.is_true(ok or why.code == "conflict" and why.result.conflicts == 1, not ok and why or nil)
    assert.equal("undone", job:status().state)
  end

  local function balances(counts)
    assert.equal(counts.matched, counts.changed + (counts.deleted or 0) + counts.unchanged + counts.conflicts
      + counts.rejected)
  end

  it("a document that its change does not fit sets it aside, and goes on when it does", function()
    fill(20, {odd = {path = "/a/odd", n = "none"}})
    local before = sources()
    local job = client:job {
      name = "cast", index = index, change = {{cast = {field = "n", to = "integer"}}}, lock = "/a",
      max_rejected = 0,
    }
    local why = fails("rejected", job.run, job)
    assert.same({20, 1, "odd"}, {why.result.changed, why.result.rejected, why.result.rejects[1].id})
    balances(why.result)
    local record = job:status()
    assert.same({"stopped", true, 20, 1}, {record.state, record.stands, record.counts.changed,
      record.counts.rejected})
    balances(record.counts)
    other:index(index, "odd", {path = "/a/odd", n = "21"})
    assert.equal("done", job:resume().state)
    assert.same({21, 0}, {job:status().counts.changed, job:status().counts.rejected})
    job:rollback()
    before.odd = client:get(index, "odd"):_source()
    assert.equal("21", client:get(index, "odd").n)
    assert.same(before, sources())
  end)

  it("pages that become large lists each document that it sets aside once", function()
    local odd, large = {}, ("x"):rep(20000)
    for i = 1, 1500 do odd["a" .. i] = {path = "/a/" .. i, n = "none"} end
    for i = 1, 200 do odd["z" .. i] = {path = "/a/z" .. i, n = "1", text = large} end
    fill(0, odd)
    local job = client:job {
      name = "large", index = index, change = {{cast = {field = "n", to = "integer"}}}, lock = "/a",
      concurrency = 1,
    }
    local why = fails("rejected", job.run, job)
    assert.same({200, 1500}, {why.result.changed, why.result.rejected})
    local listed, n = {}, 0
    for found in job:rejected() do listed[found.id], n = true, n + 1 end
    for i = 1, 1500 do assert.is_true(listed["a" .. i]) end
    assert.equal(1500, n)
  end)

  it("a document that somebody changes without a lock changes that", function()
    fill(30)
    local job = moving(function() other:index(index, "d30", {path = "/a/30", n = "theirs"}) end)
    local result = job:run()
    assert.equal("done", result.state)
    balances(result)
    assert.same({"/b/30", "theirs"}, {client:get(index, "d30").path, client:get(index, "d30").n})
    undo(job)
    assert.same({"/a/30", "theirs"}, {client:get(index, "d30").path, client:get(index, "d30").n})
  end)

  it("a document that is deleted in between counts it", function()
    fill(30)
    local job = moving(function() other:delete(index, "d30") end)
    local result = job:run()
    assert.equal("done", result.state)
    balances(result)
    balances(job:status().counts)
    undo(job)
    client:refresh(index)
    assert.same({29, 29}, {client:count(index), client:count(index, {prefix = {path = "/a/"}})})
  end)

  it("10,000 documents that cannot be changed changes the others", function()
    local odd = {}
    for i = 1, 10000 do odd["odd" .. i] = {path = "/a/odd/" .. i, n = "none"} end
    fill(0)
    local items = {}
    for id, doc in pairs(odd) do items[#items + 1] = {op = "index", id = id, doc = doc} end
    for first = 1, #items, 2000 do
      client:bulk(index, table.move(items, first, math.min(first + 1999, #items), 1, {}))
    end
    client:index(index, "good", {path = "/a/good", n = "1"})
    local job = client:job {
      name = "cast", index = index, change = {{cast = {field = "n", to = "integer"}}}, lock = "/a",
    }
    local why = fails("rejected", job.run, job)
    assert.same({1, 10000}, {why.result.changed, why.result.rejected})
    balances(why.result)
    assert.equal(1, client:get(index, "good").n)
    assert.equal("undone", job:rollback().state)
    assert.equal("1", client:get(index, "good").n)
  end)

  it("a source of 20 MB changes and restores it", function()
    fill(3, {large = {path = "/a/large", text = ("x\u{e9}\n"):rep(5 << 20)}})
    local before = sources()
    local job = moving()
    assert.equal(4, job:run().changed)
    assert.equal("/b/large", client:get(index, "large").path)
    assert.equal("undone", job:rollback().state)
    assert.is_true(before.large == sources().large)
  end)

  if elastic then
    it("a document that the mapping rejects sets it aside", function()
      fill(20, {odd = {path = "/a/odd", n = "x"}})
      client:raw("PUT", "/" .. index .. "/_mapping", {properties = {number = {type = "integer"}}})
      local job = client:job {
        name = "move-n", index = index, change = {{rename_field = {from = "n", to = "number"}}}, lock = "/a",
        query = {prefix = {path = "/a/"}}, batch = 5,
      }
      local why = fails("rejected", job.run, job)
      assert.same({20, 1, "odd"}, {why.result.changed, why.result.rejected, why.result.rejects[1].id})
      balances(why.result)
      assert.equal("done", job:status().state)
      assert.equal("undone", job:rollback().state)
      assert.same({"x", "7"}, {client:get(index, "odd").n, client:get(index, "d7").n})
    end)

    it("an index that turns read-only stands, and goes on when that is over", function()
      fill(40)
      local before = sources()
      local function block(value)
        other:raw("PUT", "/" .. index .. "/_settings", {["index.blocks.read_only_allow_delete"] = value})
      end
      local job = moving(function() block(true) end, "2s")
      assert.is_false((pcall(job.run, job)))
      local record = job:status()
      assert.is_true(record.stands)
      balances(record.counts)
      block(false)
      assert.equal("done", job:resume().state)
      assert.same({40, 40}, {job:status().counts.matched, job:status().counts.changed})
      assert.equal("undone", job:rollback().state)
      assert.same(before, sources())
    end)
  end
end)
