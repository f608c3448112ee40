-- A job of a function is killed while the request that writes its documents is under way, and lost; others
-- write some of them before anyone goes on with it.
local fails = require "spec.support.fails"
local process = require "spec.support.process"
local program = require "spec.support.program"
local proxy = require "spec.support.proxy"
local stores = require "spec.support.stores"

if not proxy.file then
  print "SKIP lost batches: MORTISE_BIN is not set, or has no faultproxy beside it"
  return
end

local script = [[
  local index, id = ...
  mortise.job {
    id = id, index = index, lock = "/a",
    change = function(doc) doc.made = (doc.made or 0) + 1 end,
  }:run()
]]

local function listed(job)
  local ids = {}
  for each in job:conflicts() do ids[#ids + 1] = each.id end
  return ids
end

local function on(store)
  it("is finished as far as can be told, and the rest stays listed", function()
    local client = stores.connect(store, {wait = "60s"})
    local id, documents, calls = stores.name "lost", {}, {}
    for i = 1, 10 do documents["d" .. i] = {path = "/a/" .. i} end
    local index = stores.fill(client, documents, {path = {type = "keyword"}})
    local between = proxy.start(store.store, 1, {'path=_bulk body=\'"made"\' times=0 hold 600000'})
    local victim <close> = process.start({store = between.url}, client:namespace(), 60000,
      {"-e", script, index, id})
    process.wait_for("the batch in the journal", function()
      local there, batch = pcall(client.get, client, client:_open_core():jobs_index(),
        ("%s:%s:1:0"):format(client:namespace(), id))
      return there and batch
    end, function() return victim:err() end)
    victim:kill "KILL"
    assert.equal(137, victim:status())
    between:stop()

    client:index(index, "d1", {path = "/a/1", by = "theirs"})
    for n = 1, 2 do client:index(index, "d2", {path = "/a/2", by = "theirs", n = n}) end
    local job = client:job {
      id = id, index = index, lock = "/a",
      change = function(doc)
        calls[doc._id] = (calls[doc._id] or 0) + 1
        doc.made = (doc.made or 0) + 1
      end,
    }
    for n = 1, 3 do
      if n == 1 then
        assert.equal(1, fails("conflict", job.resume, job).result.conflicts)
      else
        assert.equal("done", job:resume().state) -- it is over: nothing is written
      end
      local counts = job:status().counts
      assert.same({10, 9, 1}, {counts.matched, counts.changed, counts.conflicts})
      assert.same({"d2"}, listed(job))
    end
    for i = 1, 10 do assert.equal(i ~= 2 and 1 or nil, calls["d" .. i]) end
    assert.same({"theirs", 1}, {client:get(index, "d1").by, client:get(index, "d1").made})
    assert.is_nil(client:get(index, "d2").made)
    local _, out = program.run {"--store", store.store, "--namespace", client:namespace(),
      "jobs", "show", id, "--conflicts"}
    assert.matches("d2", out)

    fails("conflict", job.rollback, job)
    assert.same({"d2"}, listed(job))
    for i = 1, 10 do assert.is_nil(client:get(index, "d" .. i).made) end
    assert.equal("theirs", client:get(index, "d1").by)
    client:drop_index(index)
    client:close()
  end)
end

for _, store in ipairs(stores.all()) do
  if not store.store:find "^sqlite:" then
    describe("a batch that is lost with its sender, on " .. store.name, function() on(store) end)
  end
end
