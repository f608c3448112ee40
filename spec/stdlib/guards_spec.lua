-- What a job's session holds guards the job's paths when the session is over: nobody evicts it, who is
-- stopped by it learns whose it is, and another session of the same job adopts it.
local core = require "mortise.core"
local stores = require "spec.support.stores"

local function failure_of(fn, ...)
  local ok, why = pcall(fn, ...)
  assert(not ok, "it went well")
  return why
end

local function code_of(fn, ...)
  local ok, why = pcall(fn, ...)
  return ok and "none" or why.code
end

local function take(session, path, also)
  local options = {wait_ms = 0}
  for name, value in pairs(also or {}) do options[name] = value end
  return session:acquire("tree", nil, {path}, options)
end

local function adopt(session, path, wait_ms)
  return take(session, path, {adopts = true, wait_ms = wait_ms or 2000})
end

stores.each("a job's guard", function(store)
  local client, other, own

  before_each(function()
    client, other = stores.connect_two(store)
    own = other:_open_core()
  end)

  after_each(function()
    client:close()
    other:close()
  end)

  local function open(job)
    return client:_open_core():open_session(job)
  end

  -- {[path] = {{session=, mode=, job=}, ...}} of all holders.
  local function holders()
    if not store.store:find "^sqlite:" then client:refresh "mortise-locks" end
    local all = {}
    for _, each in ipairs(client:list().locks) do all[each.path] = each.holders end
    return all
  end

  -- What failed is given back in the background.
  local function nothing_left()
    local left
    for _ = 1, 100 do
      left = next(holders())
      if not left then return end
      core.sleep(20)
    end
    error("something is left at " .. left)
  end

  -- A session of the job that has ended, and left its guard. -> its id, and the lock's fence
  local function leave(job, path)
    local session = open(job)
    local lock = take(session, path)
    local id, fence = session:info().id, lock.fence
    session:leave()
    assert.equal("invalid_argument", code_of(lock.check, lock))
    return id, fence
  end

  it("stands when its session is over, and says whose it is", function()
    local id = leave("job-1", "/a/b")
    for _, path in ipairs {"/a/b", "/a/b/c", "/a", "/"} do
      local why = failure_of(take, own, path)
      assert.equal("orphaned_job", why.code, path .. ": " .. tostring(why))
      assert.equal("job-1", why.job)
      assert.equal(id, why.blockers[1].session)
      assert.equal("job-1", why.blockers[1].job)
      assert.is_false(why.retryable)
      assert.matches("for job job%-1, whose session " .. id .. " is dead", why.message)
      assert.equal(6, core.exit_status(why.code))
    end
    assert.equal("orphaned_job", failure_of(take, own, "/a/b", {wait_ms = 20000}).code) -- at once
    take(own, "/a/c"):release()
    assert.equal("orphaned_job", code_of(take, own, "/a", {mode = "shared"}))
  end)

  it("is an ordinary lock while its session lives", function()
    local session <close> = open "job-1"
    local lock <close> = take(session, "/a")
    local why = failure_of(take, own, "/a")
    assert.equal("lock_timeout", why.code)
    assert.is_nil(why.job)
    assert.equal("job-1", why.blockers[1].job)
    why = failure_of(adopt, own, "/a")
    assert.equal("invalid_argument", why.code)
    local heir <close> = other:_open_core():open_session "job-1"
    why = failure_of(adopt, heir, "/a", 300)
    assert.equal("lock_timeout", why.code)
    assert.equal(session:info().id, why.blockers[1].session)
    assert.equal("lock_timeout", failure_of(adopt, heir, "/a", 0).code)
    lock:check()
  end)

  it("is adopted, ancestors too, by a session of the same job alone", function()
    local id, fence = leave("job-1", "/a/b")
    local stranger <close> = open "job-2"
    assert.equal("orphaned_job", code_of(adopt, stranger, "/a/b"))
    local heir <close> = open "job-1"
    assert.equal("orphaned_job", code_of(take, heir, "/a/b")) -- only who says so
    local lock = adopt(heir, "/a/b")
    assert.is_true(lock.fence > fence)
    lock:check()
    for path, mode in pairs {["/"] = "IX", ["/a"] = "IX", ["/a/b"] = "X"} do
      local there = holders()[path]
      assert.equal(1, #there, path)
      assert.same({heir:info().id, mode, "job-1"}, {there[1].session, there[1].mode, there[1].job})
      assert.is_true(there[1].session ~= id)
    end
    assert.equal("lock_timeout", code_of(take, own, "/a/b"))
    lock:release()
    take(own, "/"):release()
  end)

  it("is adopted as far as it stands, and the rest is taken", function()
    local session = open "job-1"
    session:acquire_paths({{"/a", "IX"}}, {wait_ms = 0})
    session:leave()
    local heir <close> = open "job-1"
    local lock = heir:acquire("tree", nil, {"/a/b", "/c"}, {adopts = true, wait_ms = 2000})
    assert.same({"/a/b", "/c"}, lock.paths)
    assert.equal("lock_timeout", code_of(take, own, "/a/b"))
    lock:release()
    nothing_left()
    local nothing <close> = adopt(heir, "/d") -- where nothing was left it is a lock like any other
    nothing:check()
  end)

  it("of several sessions is adopted from all of them", function()
    leave("job-1", "/a/b")
    leave("job-1", "/a/c")
    local heir <close> = open "job-1"
    local lock = heir:acquire("tree", nil, {"/a/b", "/a/c"}, {adopts = true, wait_ms = 2000})
    lock:release()
    nothing_left()
  end)

  it("is not given back by an adoption that fails", function()
    leave("job-1", "/a/b")
    local beside = take(own, "/c")
    local heir = open "job-1"
    local why = failure_of(heir.acquire, heir, "tree", nil, {"/a/b", "/c"}, {adopts = true, wait_ms = 1500})
    assert.equal("lock_timeout", why.code)
    assert.equal("lock_timeout", code_of(take, own, "/a/b"))
    assert.equal(heir:info().id, holders()["/a/b"][1].session)
    local again = adopt(heir, "/a/b") -- the same session may try again
    again:check()
    heir:leave()
    assert.equal("orphaned_job", code_of(take, own, "/a/b", {wait_ms = 20000}))
    beside:release()
    local next_one <close> = open "job-1"
    local lock = next_one:acquire("tree", nil, {"/a/b", "/c"}, {adopts = true, wait_ms = 2000})
    lock:release()
    nothing_left()
  end)

  it("lets its heir in, who waits elsewhere while others wait for it", function()
    local session, heir = open "job-1", open "job-1"
    local beside = take(own, "/0")
    take(session, "/a/b")
    take(heir, "/warm"):release()
    local waiting = core.spawn(take, own, "/a/b", {wait_ms = 20000})
    core.sleep(300)
    session:leave()
    local wants = {"/0", "/a/b"} -- denied at the first, when the guard is its own already
    local task = core.spawn(heir.acquire, heir, "tree", nil, wants, {adopts = true, wait_ms = 10000})
    core.sleep(1000)
    beside:release()
    task:join():release()
    pcall(waiting.join, waiting) -- it had it, or was told of the job
    heir:close()
  end)

  it("has one heir of two who try at once", function()
    for round = 1, 6 do
      leave("job-1", "/a/b")
      local sessions, tasks, locks, codes = {}, {}, {}, {}
      for i, each in ipairs {client, other} do
        sessions[i] = each:_open_core():open_session "job-1"
        tasks[i] = core.spawn(adopt, sessions[i], "/a/b", 1000)
      end
      for i = 1, 2 do
        local ok, result = pcall(tasks[i].join, tasks[i])
        if ok then locks[#locks + 1] = result else codes[#codes + 1] = result.code end
      end
      assert.equal(1, #locks, "round " .. round)
      assert.is_true(codes[1] == "conflict" or codes[1] == "lock_timeout", codes[1])
      locks[1]:check()
      locks[1]:release()
      for i = 1, 2 do sessions[i]:close() end
      nothing_left()
    end
  end)

  it("holds no place in a queue", function()
    local held = take(own, "/a")
    local session = open "job-1"
    local task = core.spawn(take, session, "/a", {wait_ms = 20000})
    core.sleep(100)
    session:leave()
    assert.is_false((pcall(task.join, task)))
    held:release()
    take(own, "/a"):release()
    nothing_left()
  end)

  -- -> of how many documents
  local function break_it(...)
    local breaking <close> = own:break_session(...)
    for _ = 1, 500 do
      if breaking:progress().phase == "done" then break end
      core.sleep(10)
    end
    assert.equal("done", breaking:progress().phase)
    return breaking:progress().evicted
  end

  it("stays when its session is broken by hand, unless more is asked for", function()
    local id = leave("job-1", "/a/b")
    assert.equal(0, break_it(id))
    assert.equal("job-1", failure_of(take, own, "/").job)
    assert.equal(3, break_it(id, true))
    take(own, "/"):release()
    nothing_left()
  end)
end)
