-- Two processes come at once to what a dead one has left: one takes it over, and the other comes after it.
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP two heirs: MORTISE_BIN is not set"
  return
end

local lease_ms, documents, rounds = 60000, 20, 4

local slow = [[
local index, id = ...
mortise.job {id = id, index = index, rename = {from = "/a", to = "/b"}, rate = 5}:run()
]]

stores.each("two who come at once", function(store)
  local client, index, namespace

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    local all = {}
    for i = 1, documents do all["d" .. i] = {path = "/a/" .. i} end
    index = stores.fill(client, all)
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  local function below(path)
    client:refresh(index)
    return client:count(index, {prefix = {path = path .. "/"}})
  end

  -- The same words in two processes. -> {status, what it said}, {status, ...}
  local function both(...)
    local one <close> = process.start(store, namespace, lease_ms, {...})
    local two <close> = process.start(store, namespace, lease_ms, {...})
    local function result(each) return {each:status(), each:out() .. each:err()} end
    return result(one), result(two)
  end

  local function leave_unborn(id)
    local session = client:_open_core():open_session(id)
    session:acquire_paths({{"/", "IX"}, {"/a", "X"}, {"/b", "X"}}, {wait_ms = 0})
    session:leave()
  end

  it("to a job that was not born, give it back", function()
    for round = 1, rounds do
      local id, undoes = "unborn-" .. round, round % 2 == 0
      leave_unborn(id)
      for _, result in ipairs {both("--wait", "30s", "jobs", undoes and "rollback" or "resume", id)} do
        local gave_back = undoes and result[1] == 0
        assert.equal(gave_back and 0 or 1, result[1], result[2])
        says(result[2], gave_back and id .. " had not begun: its lock was given back" or id .. " never began")
      end
      assert.same({}, client:list().locks)
    end
  end)

  it("to a job that was not born, both get the lock that they want", function()
    for round = 1, rounds do
      leave_unborn("unborn-" .. round)
      for _, result in ipairs {both("--wait", "30s", "-e", "mortise.acquire {tree = '/a'}:release()")} do
        assert.equal(0, result[1], result[2])
      end
      assert.same({}, client:list().locks)
    end
  end)

  it("to one that stands half-done, end it once", function()
    for round = 1, rounds do
      local id = "killed-" .. round
      local killed <close> = process.start(store, namespace, lease_ms, {"-e", slow, index, id})
      process.wait_for("its first documents", function() return below "/b" > 0 end,
        function() return killed:err() end)
      killed:kill "KILL"
      killed:status()
      assert.equal(0, (program.run {"--store", store.store, "--namespace", namespace, "jobs", "throttle", id,
        "--rate", "0"}))
      local back = round % 2 == 0
      for _, result in ipairs {both("--wait", "30s", "jobs", back and "rollback" or "resume", id)} do
        assert.equal(0, result[1], result[2])
        says(result[2], "job " .. id)
      end
      assert.same(back and {documents, 0} or {0, documents}, {below "/a", below "/b"})
      if not back then client:get_job(id):rollback() end
      assert.same({}, client:list().locks)
    end
  end)
end)
