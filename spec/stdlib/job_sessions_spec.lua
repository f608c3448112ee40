-- A client has several sessions: each with a lease of its own, so that the loss or the end of one leaves
-- the others as they are.
local core = require "mortise.core"
local stores = require "spec.support.stores"

local function code_of(fn, ...)
  local ok, why = pcall(fn, ...)
  return ok and "none" or why.code
end

local function take(session, path, wait_ms)
  return session:acquire("tree", nil, {path}, {wait_ms = wait_ms or 0})
end

-- The session as the store has it.
local function stored(client, session)
  return client:_read_sessions({session:info().id})[session:info().id]
end

-- Waits until fn() is true, for 10 s at most.
local function until_so(what, fn)
  for _ = 1, 1000 do
    if fn() then return end
    core.sleep(10)
  end
  error("never: " .. what)
end

stores.each("a job's session", function(store)
  local client, own

  local function open(also)
    client = stores.connect(store, also)
    own = client:_open_core()
  end

  after_each(function() client:close() end)

  it("holds its locks by itself, and says whose job it is", function()
    open()
    local session <close> = own:open_session "job-1"
    assert.is_nil(session:info())
    local lock <close> = take(session, "/a")
    assert.equal("/a", lock.paths[1])
    assert.equal("job-1", stored(client, session).owner.job)
    assert.equal("live", stored(client, session).state)
    assert.equal("lock_timeout", code_of(take, own, "/a/b"))
    local beside <close> = take(own, "/b")
    assert.is_true(own:session().id ~= session:info().id)
    assert.is_nil(stored(client, {info = function() return own:session() end}).owner.job)
    beside:check()
    assert.equal("lock_timeout", code_of(take, session, "/b"))
    lock:release()
    take(own, "/a/b"):release()
  end)

  it("ends by itself", function()
    open()
    local first, kept = own:open_session "first", {session = own:open_session "second"}
    local lock, third = take(first, "/a"), take(own, "/c")
    kept.lock = take(kept.session, "/b")
    local id = first:info().id
    first:close()
    first:close()
    assert.equal("invalid_argument", code_of(take, first, "/a"))
    assert.equal("invalid_argument", code_of(lock.check, lock))
    assert.equal("closed", client:_read_sessions({id})[id].state)
    kept.lock:check()
    third:check()
    take(own, "/a"):release() -- given back
    assert.equal("live", stored(client, kept.session).state)
    assert.equal("lock_timeout", code_of(take, own, "/b"))
    kept.session, kept.lock = nil, nil -- it also ends when collected, and leaves what it holds
    collectgarbage()
    collectgarbage()
    until_so("ended", function() return code_of(take, own, "/b") == "orphaned_job" end)
  end)

  it("ends with its client", function()
    local namespace = stores.name "ns"
    open {namespace = namespace}
    local session, waiting = own:open_session "job-1", own:open_session "job-2"
    local lock = take(session, "/a")
    local task = core.spawn(take, waiting, "/a", 20000)
    core.sleep(50)
    local id = session:info().id
    client:close()
    assert.is_false((pcall(task.join, task)))
    assert.equal("invalid_argument", code_of(lock.check, lock))
    assert.equal("invalid_argument", code_of(take, session, "/a"))
    session:close()
    open {namespace = namespace}
    assert.equal("closed", client:_read_sessions({id})[id].state)
    local why = select(2, pcall(take, own, "/a")) -- it leaves what it held
    assert.same({"orphaned_job", "job-1"}, {why.code, why.job})
  end)

  it("is lost by itself", function()
    open {lease = "1s"}
    local session <close> = own:open_session "job-1"
    local lock, beside = take(session, "/a"), take(own, "/b")
    local breaking <close> = own:break_session(session:info().id, true)
    local ok, why = pcall(core.sleep, 5000) -- raised into what the task that holds it does
    assert.is_false(ok)
    assert.equal("lock_lost", why.code)
    assert.matches("lock on /a is lost: its session was broken by hand", why.message)
    assert.equal("lock_lost", code_of(lock.check, lock))
    beside:check()
    until_so("broken", function() return breaking:progress().phase == "done" end)
    assert.is_true(beside:remaining() > 0)
    take(session, "/a"):release() -- in a session anew
    beside:release()
  end)

  it("may be in a deadlock with the client's own", function()
    open()
    local session <close> = own:open_session "job-1"
    local function both(from, one, other)
      local _ <close> = take(from, one)
      core.sleep(300)
      local ok, why = pcall(take, from, other, 15000)
      return ok and "had" or why.code
    end
    local tasks = {core.spawn(both, session, "/a", "/b"), core.spawn(both, own, "/b", "/a")}
    local ends = {tasks[1]:join(), tasks[2]:join()}
    table.sort(ends)
    assert.same({"deadlock", "had"}, ends)
  end)

  it("beats by itself", function()
    open {lease = "1s"}
    local sessions = {own:open_session "a", own:open_session "b", own:open_session "c"}
    local locks = {}
    for i, session in ipairs(sessions) do locks[i] = take(session, "/" .. i) end
    core.sleep(2000)
    for i, session in ipairs(sessions) do
      locks[i]:check()
      assert.is_true(session:info().beats > 3)
    end
  end)
end)
