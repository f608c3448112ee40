-- Breaking a lock by hand: who learns of it, who waits, and for how long.
local cjson = require "cjson"
local core = require "mortise.core"
local mortise = require "mortise"
local process = require "spec.support.process"
local program = require "spec.support.program"
local stores = require "spec.support.stores"
local terminal = require "spec.support.terminal"

if not program.file then
  print "SKIP breaking: MORTISE_BIN is not set"
  return
end

local lease_ms = 8000

-- Holds a lock, reports that and when it lost the lock, and keeps running.
local owner = [[
local core = require "mortise.core"
local lock = mortise.acquire {tree = arg[1]}
print("held", core.now_ms()) io.stdout:flush()
local ok, why = pcall(function()
  while true do mortise.sleep(0.02) lock:check() end
end)
print(why.code, core.now_ms()) io.stdout:flush()
if arg[2] == "stay" then mortise.sleep(20) end
error(why, 0)
]]

-- Reports when it got the lock.
local waiter = [[
local core = require "mortise.core"
mortise.with_tree_lock(arg[1], {wait = "50s"}, function() print("in", core.now_ms()) end)
]]

local function start(store, namespace, words, lease)
  return process.start(store, namespace, lease or lease_ms, words)
end

local wait_for = process.wait_for

stores.each("breaking a lock", function(store)
  local namespace, client, owner_file, waiter_file

  setup(function()
    owner_file, waiter_file = program.write(owner, ".lua"), program.write(waiter, ".lua")
  end)
  teardown(function()
    os.remove(owner_file)
    os.remove(waiter_file)
  end)
  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
  end)
  after_each(function()
    client:with_tree_lock("/a", function() end) -- what the killed left
    client:close()
  end)

  local function hold(path, how, lease)
    local holder = start(store, namespace, {owner_file, path, how}, lease)
    holder:said "held"
    return holder
  end

  -- As the list shows it: "3f9a12cd/7".
  local function shown(path)
    for _, lock in ipairs(client:list().locks) do
      if lock.path == path then
        return lock.holders[1].session:sub(1, 8) .. "/" .. lock.holders[1].n
      end
    end
  end

  local function locks(...)
    return start(store, namespace, {"locks", ...})
  end

  local function run(...)
    local words = {"--store", store.store, "--namespace", namespace, "--lease", lease_ms .. "ms", "locks"}
    for _, word in ipairs {...} do words[#words + 1] = word end
    return program.run(words)
  end

  it("tells its owner, and lets others in only after the lease", function()
    local holder <close> = hold("/a", "stay")
    local _, listed = run()
    assert.truthy(listed:find(shown "/a", 1, true), listed)
    local next_one <close> = start(store, namespace, {waiter_file, "/a"})
    mortise.sleep(0.3)
    local breaker <close> = locks("break", "/a", "--hold", shown "/a", "--yes")
    local lost = holder:said "lock_lost"
    local entered = next_one:said "in"
    assert.equal(0, breaker:status(), breaker:err())
    assert.is_true(lost < entered)
    -- A beat is a sixth of the lease; the mark came before it was refused.
    assert.is_true(entered - lost >= lease_ms - lease_ms // 6 - 100, ("%d"):format(entered - lost))
    assert.equal(0, next_one:status())
    assert.matches("owner_?.*pid " .. holder.pid, "owner " .. breaker:err())
    assert.matches("/a  X", breaker:err())
    assert.matches("is over", breaker:out())
    assert.same({}, client:list().locks)
  end)

  it("ends the owner with status 5, by a path of another namespace too", function()
    local holder <close> = hold "/a"
    local breaker <close> = start(store, "default", {
      "locks", "break", namespace .. ":/a", "--hold", shown "/a", "--yes"})
    assert.equal(5, holder:status())
    assert.equal(0, breaker:status(), breaker:err())
    assert.same({}, client:list().locks)
  end)

  it("waits for an owner that was stopped, who finds its locks lost", function()
    local holder <close> = hold "/a"
    holder:kill "STOP"
    local began = core.now_ms()
    local breaker <close> = locks("break", "/a", "--hold", shown "/a", "--yes", "--json")
    assert.equal(0, breaker:status(), breaker:err())
    assert.is_true(core.now_ms() - began >= lease_ms)
    local answer = cjson.decode(breaker:out())
    assert.same({"/a", true}, {answer.holds[1].path, answer.waited})
    assert.same({}, client:list().locks)
    holder:kill "CONT"
    assert.equal(5, holder:status())
  end)

  it("refuses what is not as it was shown", function()
    local holder <close> = hold("/a", "stay")
    local hold_text = shown "/a"
    local other = hold_text:gsub("%d+$", function(n) return tostring(tonumber(n) + 1000) end)
    for _, wrong in ipairs {other, "00000000/" .. hold_text:match "%d+$"} do
      local status, _, err = run("break", "/a", "--hold", wrong, "--yes")
      assert.equal(3, status, err)
      assert.matches("nothing was done", err)
      assert.truthy(err:find(hold_text, 1, true), err)
      assert.matches("pid " .. holder.pid, err)
      assert.equal(1, select(2, err:gsub("/a  X held", ""))) -- whatever its stripes
    end
    local status, _, err = run("break", "/b", "--hold", hold_text, "--yes")
    assert.equal(3, status)
    assert.matches("nobody holds it now", err)
    assert.equal(2, (run("break", "/a", "--hold", hold_text))) -- nobody can be asked
    assert.equal(2, (run("break", "/a", "--yes")))
    assert.equal(2, (run("break", "--session", "abc", "--yes")))
    assert.equal(2, (run("--yes")))
    assert.equal(shown "/a", hold_text)
    assert.is_nil(holder:out():match "lock_lost")
  end)

  it("asks at a terminal, and takes nothing but yes for a yes", function()
    local holder <close> = hold("/a", "stay")
    local hold_text = shown "/a"
    local function answer(text)
      return terminal.answer(text, {"--store", store.store, "--namespace", namespace, "--lease",
        lease_ms .. "ms", "locks", "break", "/a", "--hold", hold_text})
    end
    for text, expected in pairs {[""] = 3, n = 3, ["^C"] = 130, maybe = 3} do
      local status, said = answer(text)
      assert.equal(expected, status, said)
      assert.matches("/a  X.-Break it%? %(y/N%)", said)
      assert.equal(hold_text, shown "/a")
    end
    assert.is_nil(holder:out():match "lock_lost")
    local status, said = answer "y"
    assert.equal(0, status, said)
    assert.same({}, client:list().locks)
  end)

  it("goes on where it was killed, and has nothing to do after that", function()
    local holder <close> = hold "/a"
    holder:kill "STOP"
    local hold_text = shown "/a"
    local first <close> = locks("break", "/a", "--hold", hold_text, "--yes")
    wait_for("the mark", function() return first:err():match "to wait" end)
    first:kill "KILL"
    first:status()
    local _, listed = run()
    assert.matches("marked as broken by %S+@%S+, pid %d+", listed)
    local second <close> = locks("break", "/a", "--hold", hold_text, "--yes")
    wait_for("the mark", function() return second:err():match "to wait" end)
    second:kill "INT"
    assert.equal(130, second:status())
    assert.matches("the same command goes on from here", second:err())
    local third <close> = locks("break", "--session", hold_text:match "^%x+", "--yes")
    assert.equal(0, third:status(), third:err())
    assert.same({}, client:list().locks)
    assert.equal(3, (run("break", "/a", "--hold", hold_text, "--yes")))
    assert.equal(3, (run("break", "--session", hold_text:match "^%x+", "--yes")))
    holder:kill "CONT"
    assert.equal(5, holder:status())
  end)

  it("need not wait where the owner is gone", function()
    local long_ms <const> = 50000
    local holder <close> = hold("/a", nil, long_ms)
    holder:kill "KILL"
    holder:status()
    local began = core.now_ms()
    local status, _, err = run("break", "/a", "--hold", shown "/a", "--yes")
    assert.equal(0, status, err)
    assert.matches("others get in at once", err)
    assert.is_true(core.now_ms() - began < long_ms)
    assert.same({}, client:list().locks)
  end)
end)
