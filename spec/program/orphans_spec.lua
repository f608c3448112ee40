-- A process that is killed in the middle of a job: its locks stay, who waits for them learns whose they are,
-- the commands show them, another process recovers the job.
local core = require "mortise.core"
local process = require "spec.support.process"
local program = require "spec.support.program"
local standing = require "spec.support.standing"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP orphans: MORTISE_BIN is not set"
  return
end

local lease_ms = 20000

-- Holds a lock for a job until it is killed.
local worker = [[
local core = require "mortise.core"
local client = mortise.connect()
local session = client:_open_core():open_session(arg[1])
local lock = session:acquire("tree", nil, {arg[2]}, {wait_ms = 5000})
print("held", core.now_ms()) io.stdout:flush()
mortise.sleep(60)
]]

local locker = [[
print("begins", require "mortise.core".now_ms()) io.stdout:flush()
mortise.with_tree_lock(arg[1], {wait = "50s"}, function() print "in" end)
]]

stores.each("a job that was killed", function(store)
  local namespace, client, worker_file, locker_file

  setup(function()
    worker_file, locker_file = program.write(worker, ".lua"), program.write(locker, ".lua")
  end)
  teardown(function()
    os.remove(worker_file)
    os.remove(locker_file)
  end)
  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace, lease = lease_ms .. "ms"})
  end)
  after_each(function() client:close() end)

  local function run(...)
    local words = {"--store", store.store, "--namespace", namespace, "--lease", lease_ms .. "ms"}
    for _, word in ipairs {...} do words[#words + 1] = word end
    return program.run(words)
  end

  local function killed()
    standing(client, "job-1", {"/a/b"})
    local one <close> = process.start(store, namespace, lease_ms, {worker_file, "job-1", "/a/b"})
    one:said "held"
    local waiting = process.start(store, namespace, lease_ms, {locker_file, "/a"})
    waiting:said "begins"
    core.sleep(500)
    local at = core.now_ms()
    one:kill "KILL"
    return waiting, at
  end

  it("stops others with a status of its own, long before the lease", function()
    local waiting <close>, at = killed()
    assert.equal(6, waiting:status())
    assert.is_true(core.now_ms() - at < lease_ms / 2)
    assert.matches("for job job%-1, whose session %x+ is dead", waiting:err())
    local status, out = run("locks", "/")
    assert.equal(0, status)
    assert.matches("Guards of jobs, until they are resumed or rolled back:\n", out)
    assert.matches("/a/b +X .* guards job job%-1\n", out)
    assert.is_nil(out:find("for the next who wants it", 1, true), out)
    out = select(2, run("locks", "--who", "/a/b"))
    assert.matches("resume job job%-1, or roll it back", out)
    assert.matches("leave what it changed as it is: mortise locks break /a/b %-%-hold %S+ %-%-abandon\n", out)
    out = select(2, run("locks", "/", "--json"))
    for _, hold in ipairs(core.json_decode(out).holds) do
      assert.same({"job-1", true}, {hold.job, hold.orphaned})
    end
    status, out = run("doctor")
    assert.equal(1, status)
    assert.matches("BAD   jobs: job job%-1 is not finished", out)

    local heir <close> = client:_open_core():open_session "job-1"
    local lock = heir:acquire("tree", nil, {"/a/b"}, {adopts = true, wait_ms = 5000})
    lock:check()
    lock:release()
    assert.equal(0, (run(locker_file, "/a")))
  end)

  it("is given up by hand", function()
    local waiting <close> = killed()
    assert.equal(6, waiting:status())
    local id = client:list().locks[1].holders[1].session
    local status, out, err = run("locks", "break", "--session", id, "--yes")
    assert.equal(6, status, out)
    assert.matches("mortise jobs resume job%-1` goes on.*%-%-abandon leaves what it has changed as it", err)
    status, out = run("jobs")
    assert.equal(0, status)
    assert.matches("job%-1 +stopped ", out)

    status, out, err = run("locks", "break", "--session", id, "--yes", "--abandon")
    assert.equal(0, status, out .. err)
    assert.matches("they guard job job%-1: what that has changed half%-way stays as it is", err)
    assert.same({}, client:list().locks)
    assert.equal(0, (run(locker_file, "/a")))
    status, out, err = run("jobs")
    assert.equal(0, status)
    assert.matches("job%-1 +stopped, no lock ", out)
    assert.matches("without its lock is open to others; mortise jobs show job%-1 says", err)
    out = select(2, run("jobs", "show", "job-1"))
    assert.matches("lock +it has lost it", out)
    assert.is_false(core.json_decode(select(2, run("jobs", "show", "job-1", "--json"))).guarded)
    status, out = run("doctor")
    assert.equal(1, status)
    assert.matches("BAD   jobs: job job%-1 stands half%-done without its lock", out)
    status, out, err = run("rename", "nowhere", "/a", "/c", "--dry-run")
    assert.equal(6, status, out)
    assert.matches("/a/b is in the way: job job%-1 stands half%-done", err)

    status, out = run("doctor", "--fix")
    assert.equal(1, status)
    assert.matches("BAD   jobs: job job%-1 stands half%-done without its lock, which was taken anew", out)
    assert.equal(6, (run(locker_file, "/a")))
    assert.is_true(core.json_decode(select(2, run("jobs", "show", "job-1", "--json"))).guarded)
    out = select(2, run("doctor"))
    assert.matches("BAD   jobs: job job%-1 is not finished", out)
  end)

  it("keeps its guard when its living process loses its locks by hand", function()
    standing(client, "job-1", {"/a/b"})
    local one <close> = process.start(store, namespace, 1000, {worker_file, "job-1", "/a/b"})
    one:said "held"
    local id = client:list().locks[1].holders[1].session
    local status, out, err = run("locks", "break", "--session", id, "--yes")
    assert.equal(0, status, err)
    assert.matches("what stands half%-done keeps its lock until it is resumed or rolled back", err)
    assert.matches("job job%-1 stands half%-done and keeps its lock: mortise jobs show job%-1 says", out)
    status, out = run("locks")
    assert.equal(0, status)
    assert.matches("/a/b +X .* guards job job%-1\n", out)
    assert.equal(6, (run(locker_file, "/a")))
  end)
end)

stores.each("what a job that does not stand has left", function(store)
  local namespace, client

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace, lease = lease_ms .. "ms"})
  end)
  after_each(function() client:close() end)

  local function run(...)
    local words = {"--store", store.store, "--namespace", namespace, "--lease", lease_ms .. "ms"}
    for _, word in ipairs {...} do words[#words + 1] = word end
    return program.run(words)
  end

  local function leave(list)
    local session = client:_open_core():open_session "job-1"
    session:acquire_paths(list, {wait_ms = 0})
    session:leave()
  end

  it("is named as what it is, and given back by doctor --fix", function()
    standing(client, "job-1", {"/a/b"}, "done")
    leave {{"/", "IX"}}
    local status, out = run("locks", "--all")
    assert.equal(0, status)
    assert.matches("Left by the dead, for the next who wants it:\n", out)
    assert.matches("/ +IX .* left by job job%-1, which is done\n", out)
    out = select(2, run("locks", "--who", "/", "--all"))
    assert.matches("state +closed: left by job job%-1, which is done\n +do +nothing: the next", out)
    for _, hold in ipairs(core.json_decode(select(2, run("locks", "--all", "--json"))).holds) do
      if hold.namespace == namespace then
        assert.same({"job-1", nil, true}, {hold.job, hold.orphaned, hold.dead})
      end
    end
    status, out = run("doctor")
    assert.equal(0, status)
    assert.matches("note  jobs: 1 entries were left by job job%-1, which is done\n", out)
    out = select(2, run("doctor", "--fix"))
    assert.matches("ok    jobs: 1 entries were given back, left by job job%-1, which is done\n", out)
    assert.same({}, client:list().locks)
  end)

  it("is told of where the job was not born, and given back by its verbs", function()
    for _, verb in ipairs {"resume", "rollback"} do
      leave {{"/", "IX"}, {"/a", "X"}}
      local status, out, err = run("jobs")
      assert.equal(0, status, out)
      assert.matches("job job%-1 never began, since its process died", err)
      assert.same({"job-1"}, core.json_decode(select(2, run("jobs", "--json"))).unborn)
      out = select(2, run("locks"))
      assert.matches("/a +X .* left by job job%-1, which never began\n", out)
      err = select(3, run("jobs", "show", "job-1"))
      assert.matches("its process died before it began, and left its lock", err)
      assert.equal(0, (run("doctor")))
      status, out, err = run("jobs", verb, "job-1")
      if verb == "resume" then -- what it was to do is not done
        assert.same({1, ""}, {status, out})
        assert.matches("not_found: job job%-1 never began", err)
      else
        assert.same({0, "job job-1 had not begun: its lock was given back\n"}, {status, out})
      end
      assert.same({}, client:list().locks)
      client:delete(client:_open_core():jobs_index(), namespace .. ":job-1")
    end
  end)
end)
