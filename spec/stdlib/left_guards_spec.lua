-- What sessions of jobs have left that guards nothing, and jobs that stand half-done without their guard.
local core = require "mortise.core"
local fails = require "spec.support.fails"
local guards = require "mortise.guards"
local standing = require "spec.support.standing"
local stores = require "spec.support.stores"

local function document_id(client, id) return client:namespace() .. ":" .. id end

stores.each("the guard of a job", function(store)
  local client, other, index, id

  before_each(function()
    client, other = stores.connect_two(store)
    local documents = {}
    for i = 1, 20 do documents["d" .. i] = {path = "/a/" .. i} end
    index = stores.fill(client, documents)
    id = stores.name "job"
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
    other:close()
  end)

  -- A session of the job that has ended, and holds this.
  local function leave(list)
    local session = other:_open_core():open_session(id)
    session:acquire_paths(list, {wait_ms = 0})
    session:leave()
  end

  local function leave_all() leave {{"/", "IX"}, {"/a", "X"}, {"/b", "X"}} end

  local function record() return client:get_job(id):status() end

  local function job(o)
    local all = {id = id, index = index, rename = {from = "/a", to = "/b"}}
    for name, value in pairs(o or {}) do all[name] = value end
    return client:job(all)
  end

  local function below(path)
    client:refresh(index)
    return client:count(index, {prefix = {path = path .. "/"}})
  end

  local function holders(path)
    local n = 0
    for _, lock in ipairs(client:_read_locks {path}) do n = n + #lock.holders end
    return n
  end

  describe("that was not born", function()
    it("is given back to whoever wants it, and its document can come no more", function()
      leave_all()
      client:acquire({tree = "/a/1", wait = "20s"}):release()
      assert.same({0, 0}, {holders "/a", holders "/b"})
      local jobs = client:_open_core():jobs_index()
      local late = fails("conflict", client.create, client, jobs, document_id(client, id), {kind = "job"})
      assert.equal("conflict", late.code)
      local view = client:get(jobs, document_id(client, id))
      assert.same({"undone", "its process ended before it began"}, {view.state, view.body.reason})
    end)

    it("is in nobody's way by a name of its own either", function()
      leave_all()
      assert.same({"done", 20}, (function(r) return {r.state, r.changed} end)(job():run()))
      assert.same({"done", 2, true}, {record().state, record().attempts, record().guarded == nil})
      assert.equal("/a", record().spec.rename.from)
      client:get_job(id):rollback()
      assert.same({20, 0}, {below "/a", below "/b"})
    end)

    it("is run by a resume of its script, once it was given back", function()
      leave_all()
      client:acquire({tree = "/b", wait = "20s"}):release()
      local never = fails("not_found", client.get_job, client, id)
      assert.matches("never began", never.message)
      assert.equal("done", job():resume().state)
      assert.equal("/b", record().spec.rename.to)
    end)

    it("is given back by a resume and a rollback, which have nothing else to do", function()
      for _, verb in ipairs {"resume", "rollback"} do
        leave_all()
        local new = job()
        fails("not_found", new[verb], new)
        assert.equal(0, holders "/a")
        client:delete(client:_open_core():jobs_index(), document_id(client, id))
      end
    end)

    it("is given back by the next job", function()
      leave {{"/", "IX"}, {"/c", "IX"}}
      client:job({name = "next", index = index, rename = {from = "/a", to = "/b"}}):run()
      assert.same({0, 0}, {holders "/", holders "/c"})
    end)

    it("stays while its process lives, or where it was born after all", function()
      local session = other:_open_core():open_session(id)
      session:acquire_paths({{"/a", "X"}}, {wait_ms = 0})
      fails("lock_timeout", client.acquire, client, {tree = "/a", wait = 0})
      assert.same({}, guards.left(client))
      fails("lock_timeout", guards.clear, client, id, 200)
      session:leave()
      assert.same({{job = id, certain = true}}, guards.left(client))
      standing(client, id, {"/a"})
      assert.same({}, guards.left(client))
      assert.equal(id, fails("orphaned_job", client.acquire, client, {tree = "/a", wait = "20s"}).job)
      fails("conflict", guards.clear, client, id, 20000)
      assert.equal(id, fails("orphaned_job", client.acquire, client, {tree = "/a", wait = "20s"}).job)
    end)
  end)

  it("that is over is given back, whoever holds its paths by now", function()
    job():run()
    leave {{"/", "IX"}, {"/b", "IX"}}
    local left = guards.left(client)
    assert.same({1, id, "done"}, {#left, left[1].job, left[1].record.state})
    local held <close> = other:acquire {tree = "/a/1"}
    client:acquire({tree = "/b", wait = 0}):release()
    held:check()
    assert.same({"done", 0}, {record().state, holders "/b"})
  end)

  describe("that was lost", function()
    local function session_of(path)
      return client:_read_locks({path})[1].holders[1].session
    end

    local function broken(all)
      local state <close> = client:_break_session(session_of "/a", all)
      while state:progress().phase ~= "done" do core.sleep(20) end
    end

    -- It stands half-done.
    local function stop()
      local one = job {
        batch = 1, concurrency = 1, on_batch = function(_, now) return now.done == 0 end,
        rate = 10,
      }
      fails("interrupted", one.run, one)
      assert.is_true(record().stands and below "/b" > 0 and below "/a" > 0)
    end

    local function next_job(o)
      local all = {name = "next", index = index, rename = {from = "/a", to = "/c"}}
      for name, value in pairs(o or {}) do all[name] = value end
      return client:job(all)
    end

    local function is_guarded() return guards.mark(client, {record()})[1].guarded end

    it("was not, by a break without more", function()
      stop()
      broken(false)
      assert.is_true(is_guarded())
      assert.equal(id, fails("orphaned_job", client.acquire, client, {tree = "/a/1"}).job)
      assert.equal("done", client:get_job(id):resume().state)
      assert.same({0, 20}, {below "/a", below "/b"})
    end)

    it("keeps other jobs away all the same, and their plans", function()
      stop()
      broken(true)
      assert.is_false(is_guarded())
      client:acquire({tree = "/a/1"}):release()
      local new = next_job()
      for _, verb in ipairs {"plan", "run"} do
        local why = fails("orphaned_job", new[verb], new)
        assert.equal(id, why.job)
        assert.matches("/a is in the way: job .* stands half%-done: `mortise .*jobs resume ", why.message)
      end
      assert.equal(0, holders "/a")
      local above = next_job {rename = {from = "/b/deep/er", to = "/c"}}
      assert.equal(id, fails("orphaned_job", above.plan, above).job)
      local beside = next_job {rename = {from = "/ab", to = "/c"}, allow_empty = true}
      assert.is_true(pcall(beside.plan, beside))
      assert.equal("done", client:get_job(id):resume().state)
      assert.is_nil(is_guarded())
    end)

    it("is told to others before they lock anything, where it was not", function()
      stop()
      local new = next_job()
      assert.equal(id, fails("orphaned_job", new.plan, new).job)
    end)

    it("is taken anew by who recovers the job in passing", function()
      stop()
      broken(true)
      assert.equal(20, next_job({on_orphan = "rollback"}):run().changed)
      assert.same({"undone", 20}, {record().state, below "/c"})
    end)
  end)
end)
