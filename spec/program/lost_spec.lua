-- When a session is broken, or its lease runs out, its tasks stop waiting at once.
local mortise = require "mortise"
local process = require "spec.support.process"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP lost locks: MORTISE_BIN is not set"
  return
end

local lease_ms = 3000
local beat_ms = lease_ms // 6

-- What a task that holds a lock waits for, each for much longer than the test's patience.
local waits = {
  sleep = [[mortise.sleep "600s"]],
  join = [[mortise.spawn(function() mortise.sleep "600s" end):join()]],
  coroutine = [[coroutine.wrap(function() mortise.sleep "600s" end)()]],
  ["another lock"] = [[mortise.acquire {tree = "/taken", wait = "600s"}]],
  ["a request"] = [[mortise.connect {store = arg[1], timeout = "600s"}:get("x", "1")]],
}

local script = [[
local core = require "mortise.core"
local lock = mortise.acquire {tree = "/held"}
print("held", core.now_ms()) io.stdout:flush()
local ok, why = pcall(function() %s end)
print(why.code, core.now_ms())
print(tostring(lock), why.message) io.stdout:flush()
]]

-- A child waits under the lock of its parent, which computes: both get the error.
local family = [[
local core = require "mortise.core"
local lock = mortise.acquire {tree = "/held"}
local child = mortise.spawn(function()
  local ok, why = pcall(mortise.sleep, "600s")
  print("child " .. why.code, core.now_ms()) io.stdout:flush()
end)
mortise.sleep(0.01)
print("held", core.now_ms()) io.stdout:flush()
local ok, why = pcall(function() while true do end end)
print(why.code, core.now_ms()) io.stdout:flush()
child:join()
]]

-- A server that takes requests and never answers.
local function deaf_server()
  local pipe = io.popen([[exec python3 -c '
import os, socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(8)
print(os.getpid(), s.getsockname()[1], flush=True)
time.sleep(120)']])
  local pid, port = pipe:read("l"):match "(%d+) (%d+)"
  return setmetatable({url = "http://127.0.0.1:" .. port}, {__close = function()
    os.execute("kill " .. pid)
    pipe:close()
  end})
end

stores.each("a lost session", function(store)
  local namespace, client

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
  end)
  after_each(function() client:close() end)

  local function start(text, ...)
    local file = program.write(text, ".lua")
    local holder = process.start(store, namespace, lease_ms, {file, ...})
    holder:said "held"
    os.remove(file)
    return holder
  end

  -- Only marks the session: the owner must react without waiting for the rest.
  local function mark(holder)
    local id
    for _, lock in ipairs(client:list().locks) do
      if lock.path == "/held" then id = lock.holders[1].session end
    end
    assert(id, "nobody holds it: " .. holder:out() .. holder:err())
    local breaking = client:_break_session(id)
    process.wait_for("the mark", function() return breaking:progress().marked end)
    breaking:close()
  end

  for what, code in pairs(waits) do
    it("is told at its next heartbeat, out of " .. what, function()
      local deaf <close> = deaf_server()
      local taken <close> = client:acquire {tree = "/taken"}
      local holder <close> = start(script:format(code), deaf.url)
      mark(holder)
      local marked = require "mortise.core".now_ms()
      local lost = holder:said "lock_lost"
      assert.is_true(lost - marked < beat_ms + 1500, ("%d ms"):format(lost - marked))
      -- A child that nobody joined in the end fails the script.
      assert.equal(what == "join" and 5 or 0, holder:status(), holder:err())
      assert.matches("%(lost%)", holder:out())
      assert.matches("lost: its session was broken by hand, by %S+@%S+, pid %d+", holder:out())
      assert.is_false(taken._released == true)
    end)
  end

  it("is told in a child that waits, and in its parent that computes", function()
    local holder <close> = start(family)
    mark(holder)
    holder:said "child lock_lost"
    holder:said "lock_lost"
    assert.equal(0, holder:status(), holder:err())
  end)

  it("is told when its process goes on after a stop longer than its lease", function()
    local holder <close> = start(script:format(waits.sleep))
    holder:kill "STOP"
    mortise.sleep((lease_ms + 500) / 1000)
    local began = require "mortise.core".now_ms()
    holder:kill "CONT"
    assert.is_true(holder:said "lock_lost" - began < 1500)
    assert.equal(0, holder:status(), holder:err())
    assert.matches("is lost: its lease %(3000 ms%) ran out", holder:out())
  end)
end)
