-- Who is stopped by the guard of a job whose process was killed recovers that job first, if it says so.
local core = require "mortise.core"
local fails = require "spec.support.fails"
local mortise = require "mortise"
local process = require "spec.support.process"
local stores = require "spec.support.stores"

-- Renames /a to /b, by a function if `how` is that, and is killed in the middle of it.
local killed = [[
  local index, id, how = ...
  local once, by_function = how == "once", how == "function"
  local pid = io.open("/proc/self/stat"):read "n"
  mortise.job({
    id = not once and id or nil, name = id, once = once or nil, index = index, lock = {"/a", "/b"},
    rename = not by_function and {from = "/a", to = "/b"} or nil, batch = 1, concurrency = 1,
    change = by_function and function(doc) doc.path = "/b" .. doc.path:sub(3) end or nil,
    on_progress = function(done, all)
      if done > 0 and done < all then os.execute("kill -KILL " .. pid) end
    end,
  }):run()
]]

stores.each("a dead job in the way", function(store)
  local client, other, index, id, namespace
  local count = store.store:find "^sqlite:" and 1500 or 300 -- more than are renamed before it is killed

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace, wait = "60s"})
    other = stores.connect(store, {namespace = namespace, wait = "60s"})
    local documents = {}
    for i = 1, count do documents["d" .. i] = {path = "/a/" .. i} end
    index = stores.fill(client, documents)
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
    other:close()
  end)

  local function below(path)
    client:refresh(index)
    return client:count(index, {prefix = {path = path .. "/"}})
  end

  local function kill_one(how)
    id = stores.name "killed"
    local words = {"-e", killed, index, id, how or ""}
    local victim <close> = process.start(store, namespace, 60000, words)
    assert.equal(137, victim:status(), victim:err())
    local record = client:get_job(id):status()
    assert.same({"running", true}, {record.state, record.stands})
    assert.is_true(below "/b" > 0 and below "/a" > 0)
  end

  local function state() return client:get_job(id):status().state end

  it("is an error unless something else is said", function()
    kill_one()
    assert.equal(id, fails("orphaned_job", client.acquire, client, {tree = "/a/1"}).job)
    local _, why = client:try_lock {tree = "/b", on_orphan = "fail"}
    assert.equal("orphaned_job", why.code)
    assert.equal("running", state())
    client:try_lock({tree = "/b", on_orphan = "rollback"}):release()
    assert.same({"undone", 0, count}, {state(), below "/b", below "/a"})
  end)

  it("is in nobody's way when it is over", function()
    id = stores.name "over"
    local job = client:job {id = id, index = index, rename = {from = "/a", to = "/b"}}
    assert.equal("done", job:run().state)
    pcall(function() -- which is left by an error, so that what it holds stays as the job's guard
      local session <close> = client:_lock_core():open_session(id)
      session:acquire("tree", nil, {"/b"}, {})
      error "enough"
    end)
    other:acquire({tree = "/b/7"}):release()
    assert.same({"done", 0, count}, {state(), below "/a", below "/b"})
  end)

  it("is resumed first", function()
    kill_one()
    client:with_tree_lock("/b/7", {on_orphan = "resume"}, function(lock)
      lock:check()
      assert.same({"done", 0, count}, {state(), below "/a", below "/b"})
      fails("lock_timeout", other.acquire, other, {tree = "/b", wait = 0})
    end)
    assert.equal(2, client:get_job(id):status().attempts)
  end)

  it("is rolled back first, by another job too", function()
    kill_one()
    local job = other:job {
      name = "next", index = index, rename = {from = "/a", to = "/c"}, on_orphan = "rollback",
    }
    assert.equal(count, job:run().changed)
    assert.same({"undone", 0, count}, {state(), below "/b", below "/c"})
  end)

  it("that is run once is gone on with by its next run", function()
    kill_one "once"
    local given = {name = id, once = true, index = index, rename = {from = "/a", to = "/b"}}
    fails("orphaned_job", function() client:job(given):run() end)
    given.on_orphan = "resume"
    assert.same({true, "done"}, (function(r) return {r.already, r.state} end)(client:job(given):run()))
    assert.same({0, count}, {below "/a", below "/b"})
  end)

  it("is recovered by one of many who come at the same time", function()
    kill_one()
    local tasks = {}
    for i = 1, 6 do
      local own = i % 2 == 0 and client or other
      tasks[i] = core.spawn(function()
        local lock <close> = own:acquire {
          tree = "/b/" .. i, on_orphan = i % 3 == 0 and "rollback" or "resume", wait = "60s",
        }
        lock:check()
      end)
    end
    for i = 1, 6 do tasks[i]:join() end
    local record = client:get_job(id):status()
    local all = {done = {0, count}, undone = {count, 0}}
    assert.same(all[record.state], {below "/a", below "/b"})
    assert.is_true(record.attempts <= 2)
    client:acquire({global = true, wait = 0}):release()
  end)

  it("is given back wherever a lock is taken, if it was never born", function()
    local function nothing() end
    for _, call in ipairs {
      function(o) client:with_global_lock(o, nothing) end,
      function(o) client:with_document_locks(index, {"d1"}, o, nothing) end,
      function(o) client:with_document_locks(index, {}, o, nothing) end,
      function(o) client:with_lock("things", "a", o, nothing) end,
    } do
      local session = other:_open_core():open_session "unborn"
      session:acquire("global", nil, {}, {wait_ms = 0})
      session:leave()
      call {wait = "20s"}
    end
  end)

  it("cannot be resumed where its change is a function", function()
    kill_one "function"
    local why = fails("orphaned_job", client.acquire, client, {tree = "/a/1", on_orphan = "resume"})
    assert.equal(id, why.job)
    assert.matches("its change is a Lua function, which only its script has", why.message)
    client:acquire({tree = "/a/1", on_orphan = "rollback"}):release()
    assert.same({0, count}, {below "/b", below "/a"})
  end)

  it("whose documents others have changed is out of the way all the same", function()
    kill_one()
    local moved
    for doc in client:scan(index, {query = {prefix = {path = "/b/"}}}) do moved = moved or doc._id end
    client:update(index, moved, {path = "/elsewhere"})
    client:acquire({tree = "/a", on_orphan = "rollback"}):release()
    assert.same({"undone", 0, count - 1}, {state(), below "/b", below "/a"})
  end)
end)

describe("on_orphan", function()
  it("is one of three words", function()
    local client <close> = mortise.connect {store = "sqlite:" .. stores.temporary ".db"}
    local why = fails("invalid_argument", client.acquire, client, {tree = "/a", on_orphan = "resum"})
    assert.matches("on_orphan", why.message)
  end)
end)
