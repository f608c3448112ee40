-- Jobs of the program: killed at any moment, finished or undone by another process, met by others meanwhile.
local core = require "mortise.core"
local fails = require "spec.support.fails"
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP jobs of the program: MORTISE_BIN is not set"
  return
end

local lease_ms, documents = 60000, 150
local seed = math.tointeger(tonumber(os.getenv "MORTISE_TEST_SEED" or os.time()))
math.randomseed(seed)

local script = [[
local index, id, rate = ...
local job = mortise.job {
  id = id, index = index, rename = {from = "/a", to = "/b"}, batch = 2, concurrency = 1,
  rate = tonumber(rate),
  on_progress = function(done) print("done " .. done) io.stdout:flush() end,
}
print("begun\t" .. math.floor(mortise.now())) io.stdout:flush()
print(job:run().state)
]]

stores.each("a job of the program", function(store)
  local client, index, namespace, before, file

  local function sources() return stores.sources(client, index) end

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    local all = {beside = {path = "/c"}}
    for i = 1, documents do all["d" .. i] = {path = "/a/" .. i, n = i} end
    index = stores.fill(client, all)
    before = sources()
    file = program.write(script, ".lua")
  end)

  after_each(function()
    os.remove(file)
    client:drop_index(index)
    client:close()
  end)

  local function jobs(...)
    return program.run {"--store", store.store, "--namespace", namespace, "jobs", ...}
  end

  local function start(id, rate)
    local running = process.start(store, namespace, lease_ms, {file, index, id, rate})
    running:said "begun"
    return running
  end

  local function moved()
    client:refresh(index)
    return client:count(index, {prefix = {path = "/b/"}})
  end

  -- How long one takes that is not disturbed.
  local function whole_ms()
    local began = core.now_ms()
    local running <close> = start "whole"
    assert.equal(0, running:status())
    local took = core.now_ms() - began
    assert.same({0, documents}, {(jobs("rollback", "whole")), documents - moved()})
    return took
  end

  -- One is killed after this time, and then finished or undone.
  local function one_death(id, after_ms, verb)
    local running <close> = start(id)
    core.sleep(after_ms)
    running:kill "KILL"
    running:status()
    local status, record = pcall(function() return client:get_job(id):status() end)
    local ended = status and record.state == "done"
    if status and not ended then
      assert.same({"running", true, false}, {record.state, record.stands, record.alive})
      local why = fails("orphaned_job", client.acquire, client, {tree = "/a/7", wait = "10s"})
      assert.equal(id, why.job)
      local code, _, err = program.run {"--store", store.store, "--namespace", namespace, "-e",
        "mortise.acquire {tree = '/b'}"}
      assert.equal(6, code, err)
      says(err, "orphaned_job", "mortise jobs show " .. id)
      says(select(2, program.run {"--store", store.store, "--namespace", namespace, "locks", "--who", "/a"}),
        "guards job " .. id, "mortise jobs show " .. id)
      says(select(2, program.run {"--store", store.store, "--namespace", namespace, "doctor"}),
        "job " .. id .. " is not finished")
      says(select(2, jobs("show", id)), "running, left", "its process is gone", "mortise jobs resume " .. id,
        "mortise jobs rollback " .. id)
    end
    local code, out, err = jobs(verb, id)
    if status then
      assert.equal(0, code, err)
      local said = verb == "rollback" and "is undone" or ended and "was done already" or "is done"
      says(out, ("job %s %s"):format(id, said))
    else -- it died before its document was there; its last request may still be applied, until that is there
      local never = err:find("there is no job " .. id, 1, true) or err:find("never began", 1, true)
      assert.is_true(code == 0 or never ~= nil, err)
      if verb == "resume" and code == 0 then assert.equal(0, (jobs("rollback", id))) end
    end
    client:acquire({tree = "/", wait = "10s", on_orphan = not status and "rollback" or nil}):release()
    if status and verb == "resume" then
      assert.equal(documents, moved())
      assert.same({0, 0}, {(jobs("resume", id)), client:get_job(id):resume().changed})
      assert.equal(0, (jobs("rollback", id)))
    end
    assert.same(before, sources())
  end

  it("is killed at any moment, and finished or undone by another process", function()
    local ok, why = pcall(function()
      local most = whole_ms()
      one_death("at-once", 0, "rollback")
      for i = 1, 4 do
        one_death("dies-" .. i, math.random(0, most), i % 2 == 0 and "resume" or "rollback")
      end
    end)
    assert(ok, ("MORTISE_TEST_SEED=%d: %s"):format(seed, tostring(why)))
  end)

  it("says how to go on when it is interrupted", function()
    local running <close> = start("stopped", "50") -- so that it is not done meanwhile
    process.wait_for("the first documents", function() return moved() > 2 end)
    running:kill "INT"
    assert.equal(130, running:status())
    says(running:err(), "job stopped stands half-done", "mortise jobs resume stopped",
      "mortise jobs rollback stopped")
    local record = client:get_job("stopped"):status()
    assert.same({"stopped", true}, {record.state, record.stands})
    assert.equal(record.counts.changed, moved())
    says(select(2, jobs("show", "stopped")), "stopped: ", "interrupted")
    assert.equal("orphaned_job", select(2, pcall(client.acquire, client, {tree = "/a"})).code)
    assert.equal(0, (jobs("resume", "stopped")))
    assert.equal(documents, moved())
    assert.equal(0, (jobs("rollback", "stopped")))
    assert.same(before, sources())
  end)

  it("is listed and shown", function()
    assert.same({0, "there are no jobs\n"}, {(jobs()), (select(2, jobs "ls"))})
    local running <close> = start "one"
    assert.equal(0, running:status())
    says(select(2, jobs "ls"), "JOB", "one", "done", tostring(documents), index, "/a /b")
    local list = core.json_decode(select(2, jobs("--json"))).jobs
    assert.same({1, "one", "done", false}, {#list, list[1].job, list[1].state, list[1].stands})
    local one = core.json_decode(select(2, jobs("show", "one", "--json")))
    assert.same({"one", documents, "/a", "rollback"}, {one.job, one.counts.changed, one.spec.rename.from,
      one.next[1].verb})
    assert.matches("^20%d%d%-%d%d%-%d%dT", one.created)
    says(select(2, jobs("show", "one")), "path: /a becomes /b", "mortise jobs rollback one")
    local undone = core.json_decode(select(2, jobs("rollback", "one", "--json")))
    assert.same({"undone", documents}, {undone.state, undone.changed})
    says(select(2, jobs("show", "one")), "undone", "mortise jobs purge one")
  end)

  it("is refused where the words are wrong", function()
    for _, each in ipairs {
      {{"shwo", "x"}, 2, "did you mean `show`"}, {{"show"}, 2, "usage: mortise jobs"},
      {{"ls", "x"}, 2, "usage: mortise jobs"}, {{"show", "a b"}, 2, "a job's id"},
      {{"show", "nosuch"}, 1, "there is no job nosuch"}, {{"resume", "nosuch"}, 1, "there is no job nosuch"},
      {{"rollback", "nosuch"}, 1, "there is no job nosuch"},
    } do
      local status, _, err = jobs(table.unpack(each[1]))
      assert.equal(each[2], status, err)
      says(err, each[3])
    end
  end)

  it("keeps its lock from another who would go on with it while it is alive", function()
    local running <close> = start "alive"
    process.wait_for("the first documents", function() return moved() > 2 end)
    running:kill "STOP"
    local status, _, err = jobs("resume", "alive", "--wait", "1s")
    says(select(2, jobs("show", "alive")), "running", "nothing, or mortise jobs pause|throttle|cancel alive")
    running:kill "CONT"
    assert.equal(3, status, err)
    assert.equal(0, running:status())
    assert.equal(documents, moved())
  end)
end)
