-- A process that is killed in the middle of a job: its locks stay, who waits for them learns whose they are,
-- the commands show them, another process recovers the job.
local core = require "mortise.core"
local process = require "spec.support.process"
local program = require "spec.support.program"
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
    assert.matches("or, to leave what it changed as it is: mortise locks break /a/b %-%-hold ", out)
    out = select(2, run("locks", "/", "--json"))
    for _, hold in ipairs(core.json_decode(out).holds) do
      assert.same({"job-1", true}, {hold.job, hold.orphaned})
    end
    out = select(2, run("doctor"))
    assert.matches("job job%-1 is not finished", out)

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
    local status, _, err = run("locks", "break", "--session", id, "--yes")
    assert.equal(0, status, err)
    assert.matches("they guard job job%-1: what that has changed half%-way stays as it is", err)
    assert.same({}, client:list().locks)
    assert.equal(0, (run(locker_file, "/a")))
  end)
end)
