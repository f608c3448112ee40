-- A store that takes no writes for a while, in the middle of a job.
local core = require "mortise.core"
local fails = require "spec.support.fails"
local process = require "spec.support.process"
local stores = require "spec.support.stores"

stores.each("a job whose index is blocked meanwhile", function(store)
  if store.store:find "^sqlite:" then return end

  local client, index
  local n = 60

  before_each(function()
    client = stores.connect(store)
    local all = {}
    for i = 1, n do all["d" .. i] = {path = "/a/" .. i} end
    index = stores.fill(client, all)
    client:raw("PUT", "/" .. index .. "/_settings", {index = {number_of_replicas = 0}})
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  local function set(setting, value)
    assert.equal(200, (client:raw("PUT", "/" .. index .. "/_settings", core.json {[setting] = value})))
  end

  local blocks = {
    ["index.blocks.write"] = "index write",
    ["index.blocks.read_only_allow_delete"] = "read%-only%-allow%-delete",
  }

  local changes = {
    ["a rename"] = {rename = {from = "/a", to = "/b"}},
    ["a list"] = {lock = "/a", change = {{set = {field = "n", value = 1}}}},
    ["a function"] = {lock = "/a", change = function(doc) doc.n = (doc.n or 0) + 1 end},
  }

  -- A job that sets the block after its first documents. It is slow, lest it be over before that.
  local function make(what, setting, also)
    local given = {name = "blocked", index = index, batch = 10, concurrency = 1, rate = 15}
    for name, value in pairs(what) do given[name] = value end
    for name, value in pairs(also or {}) do given[name] = value end
    local seen = {}
    given.on_progress = function(done, _, more)
      seen.waits = more.waits or seen.waits
      if done > 0 and not seen.set then set(setting, true) end
      seen.set = seen.set or done > 0
    end
    return client:job(given), seen
  end

  for name, what in pairs(changes) do
    for setting, said in pairs(blocks) do
      it("waits it out: " .. name .. ", " .. setting, function()
        local job, seen = make(what, setting)
        local task = core.spawn(function() return job:run() end)
        local record = process.wait_for("the reason", function()
          local record = job:status()
          return record and record.waits and record
        end)
        assert.matches("^waits for the store: the store takes no writes: .*" .. said, record.waits)
        set(setting, core.null)
        local result = task:join()
        assert.equal("done", result.state)
        assert.equal(n, result.changed)
        assert.matches("^waits for the store: ", seen.waits)
        assert.is_nil(job:status().waits)
        assert.equal(n, client:count(index, {bool = {must_not = {{prefix = {path = "/c"}}}}}))
      end)
    end
  end

  it("ends when it has waited long enough, and stands", function()
    local job = make(changes["a list"], "index.blocks.write", {wait_for_writes = "2s"})
    local e = fails("unavailable", job.run, job)
    assert.matches("given up after %d s: the store takes no writes: .*index write", e.message)
    assert.matches("stands half%-done", core.tostring(e))
    assert.equal("stopped", job:status().state)
    set("index.blocks.write", core.null)
    job:resume()
    assert.equal("done", job:status().state)
    client:refresh(index)
    assert.equal(n, client:count(index, {term = {n = 1}}))
    job:rollback()
  end)

  it("can be interrupted while it waits", function()
    local job = make(changes["a rename"], "index.blocks.write")
    local task = core.spawn(function() return job:run() end)
    process.wait_for("the reason", function()
      local record = job:status()
      return record and record.waits
    end)
    job:cancel()
    fails("interrupted", task.join, task)
    set("index.blocks.write", core.null)
    job:rollback()
    client:refresh(index)
    assert.equal(n, client:count(index, {prefix = {path = "/a/"}}))
  end)

  it("waits while it is undone, too", function()
    local job = client:job {
      name = "undone", index = index, lock = "/a", change = {{set = {field = "n", value = 1}}},
    }
    job:run()
    set("index.blocks.write", true)
    local task = core.spawn(function() return client:get_job(job.id):rollback() end)
    process.wait_for("the reason", function() return job:status().waits end)
    set("index.blocks.write", core.null)
    assert.equal(n, task:join().changed)
  end)

  -- A shard of the only node that is cancelled comes back at once, unless a scroll keeps the old one open.
  local function send_away()
    local _, found = client:raw("POST", "/" .. index .. "/_search?scroll=5m&size=1")
    local _, nodes = client:raw("GET", "/_cat/nodes?format=json&h=name")
    local cancel = {index = index, shard = 0, node = core.json_decode(nodes)[1].name, allow_primary = true}
    assert.equal(200, (client:raw("POST", "/_cluster/reroute", {commands = {{cancel = cancel}}})))
    return core.json_decode(found)._scroll_id
  end

  it("waits for a shard that is away", function()
    local slow = stores.connect(store, {namespace = client:namespace(), timeout = "2s"})
    local scroll
    local job = slow:job {
      name = "away", index = index, lock = "/a", rate = 20, change = {{set = {field = "n", value = 1}}},
      on_progress = function(done)
        if not scroll and done > 0 then scroll = send_away() end
      end,
    }
    local task = core.spawn(function() return job:run() end)
    process.wait_for("the reason", function()
      local record = job:status()
      return record and record.waits
    end)
    client:raw("DELETE", "/_search/scroll", {scroll_id = scroll})
    process.wait_for("the shard", function()
      client:raw("POST", "/_cluster/reroute?retry_failed")
      return client:raw("GET", "/_cluster/health/" .. index .. "?wait_for_status=yellow&timeout=1s") == 200
    end)
    assert.equal("done", task:join().state)
    client:refresh(index)
    assert.equal(n, client:count(index, {term = {n = 1}}))
    slow:close()
  end)
end)
