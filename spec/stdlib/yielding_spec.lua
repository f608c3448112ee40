-- A job that lets others in between its batches.
local core = require "mortise.core"
local fails = require "spec.support.fails"
local stores = require "spec.support.stores"

local count = 400

stores.each("a job with yield_every", function(store)
  local client, other, index

  before_each(function()
    client, other = stores.connect_two(store)
    local documents = {}
    for i = 1, count do documents["d" .. i] = {path = "/a/" .. i, n = tostring(i)} end
    index = stores.fill(client, documents)
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
    other:close()
  end)

  local function sources() return stores.sources(client, index) end

  local function casting(also)
    local given = {
      name = "cast", index = index, change = {{cast = {field = "n", to = "integer"}}}, lock = "/a",
      wait = "60s", batch = 1, concurrency = 1, yield_every = "50ms",
    }
    for name, value in pairs(also or {}) do given[name] = value end
    return client:job(given)
  end

  it("gives its lock to those who wait, and goes on", function()
    local before, seen, starts = sources(), {}, 0
    -- Slow enough that it is not done before the first of them is heard.
    local job = casting {rate = 200, on_start = function() starts = starts + 1 end}
    local task = core.spawn(job.run, job)
    while not job:status() do core.sleep(5) end
    for i, path in ipairs {"/a/7", "/a", "/"} do
      local lock <close> = other:acquire {tree = path, wait = "60s"}
      lock:check()
      local record = job:status()
      seen[i] = record.state
      assert.is_true(record.state == "done" or record.state == "stopped")
      if record.state == "stopped" then assert.matches("others are let in", record.reason) end
    end
    local result = task:join()
    assert.equal("stopped", seen[1]) -- it was in the middle of it
    assert.same({"done", count, count, 1}, {result.state, result.changed, result.matched, starts})
    assert.is_true(job:status().attempts > 1)
    assert.equal(7, client:get(index, "d7").n)
    client:acquire({global = true, wait = 0}):release()
    job:rollback()
    assert.same(before, sources())
  end)

  it("keeps its lock while nobody waits", function()
    local job = casting()
    assert.equal(count, job:run().changed)
    assert.equal(1, job:status().attempts)
  end)

  it("is no rename", function()
    local why = fails("invalid_argument", client.job, client, {
      name = "x", index = index, rename = {from = "/a", to = "/b"}, yield_every = "1s",
    })
    assert.matches("`yield_every` is for a list", why.message)
  end)
end)
