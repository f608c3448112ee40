-- A job that pauses by itself while its store is under load.
local core = require "mortise.core"
local fails = require "spec.support.fails"
local overload = require "mortise.overload"
local process = require "spec.support.process"
local stores = require "spec.support.stores"

-- A client whose server answers like this, by the beginning of the path.
local function answering(answers)
  return {raw = function(_, _, path)
    for start, answer in pairs(answers) do
      if path:find(start, 1, true) == 1 then return answer[1], answer[2] end
    end
    error("no answer", 0)
  end}
end

describe("what a job finds exceeded", function()
  local function excess(o, answers, refused) return overload.excess(answering(answers), o, refused or 0) end

  it("is the cluster's status", function()
    for status, found in pairs {green = false, yellow = false, red = "the cluster is red"} do
      local answers = {["/_cluster/health"] = {200, core.json {status = status}}}
      assert.equal(found or nil, excess({status = "red"}, answers))
    end
    local answers = {["/_cluster/health"] = {200, '{"status":"yellow"}'}}
    assert.equal("the cluster is yellow", excess({status = "yellow"}, answers))
  end)

  it("is the fullest disk", function()
    local function nodes(free)
      return {["/_nodes/stats/fs"] = {200, core.json {nodes = {
        a = {name = "n1", fs = {total = {total_in_bytes = 1000, available_in_bytes = 900}}},
        b = {name = "n2", fs = {total = {total_in_bytes = 1000, available_in_bytes = free}}},
        c = {name = "n3"},
      }}}}
    end
    assert.is_nil(excess({disk = 90}, nodes(100)))
    assert.equal("the disk of n2 is full to 90 percent", excess({disk = 90}, nodes(99)))
  end)

  it("is what was refused", function()
    assert.is_nil(excess({refused = 3}, {}, 2))
    assert.equal("the store refused 3 requests", excess({refused = 3}, {}, 3))
  end)

  it("is nothing where nothing is known, and an error where that is forbidden", function()
    assert.is_nil(excess({status = "red", disk = 1}, {}))
    assert.is_nil(excess({status = "red"}, {["/_cluster/health"] = {503, "busy"}}))
    fails("auth", excess, {status = "red"}, {["/_cluster/health"] = {403, "{}"}})
  end)
end)

stores.each("max_load", function(store)
  local client, index

  before_each(function()
    client = stores.connect(store)
    index = stores.fill(client, {d1 = {path = "/a/1"}, d2 = {path = "/a/2"}})
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  it("is checked", function()
    for _, bad in ipairs {{}, {status = "green"}, {disk = 101}, {load = 5}} do
      fails("invalid_argument", client.job, client,
        {name = "x", index = index, rename = {from = "/a", to = "/b"}, max_load = bad})
    end
  end)

  it("pauses a job, which goes on", function()
    if store.name == "sqlite" then return end
    client:raw("PUT", "/" .. index .. "/_settings", {index = {number_of_replicas = 0}})
    local _, health = client:raw("GET", "/_cluster/health?wait_for_status=green&timeout=20s")
    if core.json_decode(health).status ~= "green" then
      print "SKIP max_load: the cluster is not green"
      return
    end
    local missing = stores.name "replica" -- one node has no room for a replica
    client:create_index(missing, {settings = {number_of_shards = 1, number_of_replicas = 1}})
    local moving = client:job {
      name = "held", index = index, rename = {from = "/a", to = "/b"},
      max_load = {status = "yellow", every = "50ms"}, rate = 1,
    }
    local task = core.spawn(function() return moving:run() end)
    process.wait_for("the pause", function()
      local record = moving:status()
      return record and record.waits == "waits until it is better: the cluster is yellow"
    end)
    client:drop_index(missing)
    assert.equal("done", task:join().state)
  end)
end)
