-- What an operator sees of locks, waits and sessions: `mortise locks tree`, `mortise sessions`, `mortise
-- watch`.
local cjson = require "cjson"
local core = require "mortise.core"
local mortise = require "mortise"
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"
local terminal = require "spec.support.terminal"

if not program.file then
  print "SKIP seen: MORTISE_BIN is not set"
  return
end

local wait_for = process.wait_for

stores.each("what is seen", function(store)
  local namespace, holder, waiter, held, task
  local own = stores.name "table" -- what others hold in the common one would be seen too

  before_each(function()
    namespace = stores.name "ns"
    holder = stores.connect(store, {table = own, namespace = namespace, script = "holder.lua"})
    waiter = stores.connect(store, {table = own, namespace = namespace, script = "waiter.lua"})
    holder:init()
  end)
  after_each(function()
    if held then held:release() end
    if task then task:join() end
    held, task = nil, nil
    holder:close()
    waiter:close()
  end)

  local function run(...)
    return program.run {"--store", store.store, "--table", own, "--namespace", namespace, ...}
  end

  local function ok(...)
    local status, out, err = run(...)
    assert.equal(0, status, err)
    return out, err
  end

  -- A lock on /held, and one who waits for /held/below.
  local function contend()
    held = holder:acquire {tree = {"/held", "/other/one", "/other/two"}}
    task = mortise.spawn(function() waiter:with_tree_lock("/held/below", {wait = "60s"}, function() end) end)
    wait_for("the waiter", function() return (ok("locks", "--waiting", "/held")):find "/held/below" end)
  end

  it("is a tree, with who waits for whom", function()
    contend()
    local out = ok("locks", "tree")
    says(out, "├─ held", "└─ below", "└─ other", "├─ one", "└─ two", "waits at /held", "left  ",
      "Who waits for whom:", "holder.lua", ": holds /held (X), for ", "└─ waiter.lua",
      ": waits for /held/below (X)")
    assert.is_nil((ok("locks", "tree", "/other")):find("held", 1, true))
    local answer = cjson.decode((ok("locks", "tree", "/held", "--json")))
    local wait
    for _, each in ipairs(answer.waits) do
      if each.namespace == namespace then wait = each end
    end
    assert.same({"/held/below", "/held", "X", holder:session().id}, {wait.path, wait.at, wait.mode,
      wait.blockers[1].session})
    assert.equal(2, (run("locks", "tree", "--who", "/held")))
    assert.matches("nothing is held", (ok("locks", "tree", "/nothing")))
  end)

  it("is cut by counting, but not where somebody waits", function()
    contend()
    local paths = {}
    for i = 1, 40 do paths[i] = ("/many/%02d/x"):format(i) end
    local more <close> = holder:acquire {tree = paths} -- luacheck: ignore
    local out = ok("locks", "tree", "--limit", "12")
    says(out, "many/...", "40 locks of 1 session", "└─ below")
    says(ok("locks", "tree", "/many"), "01/x", "20 more paths: 20 locks of 1 session")
    says(ok("locks", "tree", "/many/33"), "33/x", "1 lock of 1 session")
  end)

  it("are sessions, and all about one", function()
    contend()
    local id, other = holder:session().id, waiter:session().id
    local out = ok "sessions"
    says(out, id:sub(1, 8), other:sub(1, 8), "holder.lua", "live")
    local found = {}
    for _, each in ipairs(cjson.decode((ok("sessions", "--json"))).sessions) do found[each.session] = each end
    assert.same({3, 0, 0, 1, "live"}, {found[id].holds, found[id].waits, found[other].holds,
      found[other].waits, found[id].state})
    assert.is_true(found[id].lease_left_ms > 0 and found[id].lease_left_ms <= found[id].lease_ms)
    says(ok("sessions", "show", id:sub(1, 8)), id, "holds   /held (X)", "awaited waiter.lua", "sessions end")
    says(ok("sessions", "show", other), "waits   /held/below (X); in the way: holder.lua")
    local one = cjson.decode((ok("sessions", "show", id, "--json")))
    assert.same({"/held", other}, {one.locks[1].path, one.waited_for_by[1].session})
  end)

  it("say so where there is no such session, and refuse what belongs elsewhere", function()
    contend()
    local status, _, err = run("sessions", "show", "00000000")
    assert.equal(1, status)
    says(err, "there is no session 00000000")
    for _, words in ipairs {
      {"show"}, {"show", "xyz"}, {"show", "123"}, {"ls", "12345678"}, {"shwo", "12345678"},
      {"show", "12345678", "--mine"}, {"ls", "--yes"}, {"end", "12345678", "--limit", "3"},
    } do
      assert.equal(2, (run("sessions", table.unpack(words))), table.concat(words, " "))
    end
  end)

  it("can be ended by their id", function()
    local code = "mortise.acquire {tree = '/ended'} print('held', 1) io.stdout:flush() mortise.sleep(60)"
    local owner <close> = process.start(store, namespace, 2000, {"--table", own, "-e", code})
    owner:said "held"
    local hold = cjson.decode((ok("locks", "/ended", "--json"))).holds[1]
    says(ok("sessions", "end", hold.session:sub(1, 8), "--yes"), "is over")
    assert.equal(5, owner:status())
    assert.matches("nothing is held", (ok("locks", "/ended")))
  end)

  it("are watched, a line for each look", function()
    contend()
    local out = ok("watch", "--count", "2")
    says(out, "wait; ", "holder.lua", "└─ waiter.lua")
    local looks = {}
    for line in (ok("watch", "--count", "2", "--json")):gmatch "[^\n]+" do
      looks[#looks + 1] = cjson.decode(line)
    end
    assert.equal(2, #looks)
    assert.is_true(looks[2].locks >= 3 and looks[2].waiting >= 1 and looks[2].sessions >= 2)
    assert.equal(2, (run("watch", "--interval", "100ms")))
  end)

  it("show jobs with how far they are", function()
    local index = stores.fill(holder, {a = {path = "/a/1"}, b = {path = "/a/2"}})
    local job = holder:job {id = stores.name "job", index = index, rename = {from = "/a", to = "/b"}}
    pcall(job.run, job, {on_progress = function() error "stop" end})
    local look = cjson.decode((ok("watch", "--count", "1", "--json")))
    assert.equal(look.running + look.standing, #look.jobs)
  end)

  it("end with one clear error where the store is away", function()
    local status, _, err = program.run {"--store", "http://127.0.0.1:1", "watch", "--count", "1"}
    assert.equal(4, status)
    says(err, "127.0.0.1:1")
  end)

  if terminal.is_there() then
    it("is watched on a terminal, by keys", function()
      contend()
      local pipe = io.popen(("env -u LD_PRELOAD HOME=/dev/null/home MORTISE_STORE=%s MORTISE_TABLE=%s "
        .. "MORTISE_NAMESPACE=%s expect spec/support/watch.exp %s watch 2>&1"):format(
        program.quote(store.store), own, program.quote(namespace), program.quote(program.file)))
      local said = pipe:read "a"
      pipe:close()
      assert.equal("passed\n", said)
    end)
  else
    print "SKIP watch on a terminal: expect is not installed"
  end
end)

describe("a forest of waits", function()
  local blocking = require "mortise.cli.blocking"
  local now = core.wall_ms()

  local function entry(session, path, mode, waits)
    return {
      namespace = "ns", session = session, n = 1, path = path, mode = mode, waits = waits or false,
      queued_at = waits and path or nil, queued_mode = waits and mode or nil, since = now - 1000,
      record = {owner = {script = session}}, verdict = {state = "live", dead = false},
    }
  end

  local function lines(...) return blocking.lines(blocking.waits {...}, now, 20) end

  it("shows readers who wait for a writer, and who waits for them", function()
    assert.same({
      "a: holds /x (X), for 1s",
      "├─ b: waits for /x (S)",
      "│  └─ c: waits for /y (X)",
      "└─ d: waits for /x (S)",
    }, lines(entry("a", "/x", "X"), entry("b", "/y", "S"), entry("b", "/x", "S", true),
      entry("c", "/y", "X", true), entry("d", "/x", "S", true)))
  end)

  it("names a circle", function()
    assert.same({
      "a: holds /x (X), for 1s (a circle: each waits for another)",
      "└─ b: waits for /x (X)",
      "   └─ a: waits for /y (X)",
      "      └─ (as above)",
    }, lines(entry("a", "/x", "X"), entry("b", "/y", "X"), entry("b", "/x", "X", true),
      entry("a", "/y", "X", true)))
  end)

  it("lets nobody wait for what it fits beside", function()
    local found = blocking.waits {
      entry("a", "/x", "S"), entry("w", "/x", "X", true), entry("b", "/x", "S", true),
    }
    assert.equal(1, #found[1].blockers)
    assert.same({"w"}, {found[2].blockers[1].session})
    assert.equal(1, #found[2].blockers)
  end)
end)
