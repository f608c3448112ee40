-- What happens to the items of a writer that the script itself did not finish.
local mortise = require "mortise"
local stores = require "spec.support.stores"

stores.each("a writer that was not finished", function(store)
  local client, two, index

  before_each(function()
    client, two = stores.connect_two(store)
    index = stores.fill(client, {a = {path = "/a", n = 1}, b = {path = "/b", n = 2}})
  end)
  after_each(function()
    pcall(client.close, client)
    two:close()
  end)

  local function put(w, name, n)
    for i = 1, n do w:index(name .. i, {n = i}) end
  end

  local function stored()
    two:refresh(index)
    return two:count(index) - 2
  end

  -- fn(lock) fails under the lock. -> its error
  local function failing(fn)
    local ok, why = pcall(client.with_tree_lock, client, "/w", fn)
    assert.is_false(ok)
    assert(two:acquire {tree = "/w", wait = 0}):release()
    return why
  end

  it("is finished at the end of its lock's block", function()
    client:with_tree_lock("/w", function(lock) put(lock:bulk(index, {batch = 40}), "x", 99) end)
    assert.equal(99, stored())
  end)

  it("is finished by release, and by the end of the lock's scope", function()
    local lock = client:acquire {tree = "/w"}
    put(lock:bulk(index), "x", 3)
    lock:release()
    assert.equal(3, stored())
    do
      local scoped <close> = client:acquire {tree = "/w"}
      put(scoped:bulk(index), "y", 4)
    end
    assert.equal(7, stored())
  end)

  it("is finished by its client's end", function()
    put(client:acquire({tree = "/w"}):bulk(index), "x", 3)
    client:close()
    assert.equal(3, stored())
    assert(two:acquire {tree = "/w", wait = 0}):release()
    client:close()
  end)

  it("is one of several, and each is finished", function()
    local other = stores.fill(two, {a = {path = "/a"}})
    client:with_tree_lock("/w", function(lock)
      put(lock:bulk(index), "x", 3)
      put(lock:bulk(other), "x", 4)
      put(lock:bulk(index), "y", 5)
      lock:bulk(index):finish()
    end)
    assert.equal(8, stored())
    two:refresh(other)
    assert.equal(5, two:count(other))
  end)

  it("raises at the end of the block what finishing raises", function()
    local why = failing(function(lock)
      local doc = client:get(index, "a")
      client:update(index, "a", {n = 99})
      doc.n = 3
      lock:bulk(index):save(doc)
      put(lock:bulk(index), "x", 3)
      doc = client:get(index, "b")
      client:update(index, "b", {n = 99})
      doc.n = 3
      lock:bulk(index):save(doc)
    end)
    assert.equal("conflict", why.code)
    assert.same({"b"}, why.report.conflicts) -- of the newest
    assert.matches("; also conflict: ", why.message)
    assert.same({"a"}, why.others[1].report.conflicts)
    assert.equal(3, stored())
  end)

  it("tells in the error that leaves the block what it did not send", function()
    local why = failing(function(lock)
      put(lock:bulk(index), "x", 15)
      put(lock:bulk(index), "y", 1)
      client:create(index, "a", {n = 1})
    end)
    assert.equal("conflict", why.code)
    assert.matches("%(writer on " .. index:gsub("%p", "%%%0") .. ": 15 items not sent%)", why.message)
    assert.matches(": 1 item not sent%)", why.message)
    assert.equal(2, #why.unsent)
    assert.equal(16, why.unsent[1].items + why.unsent[2].items)
    assert.equal(index, why.unsent[1].index)
    assert.matches("writers_spec.lua:%d+$", why.unsent[1].place)
    assert.equal(0, stored())
  end)

  it("leaves a script's own error as it is", function()
    for _, thrown in ipairs {{}, "text", 42} do
      assert.equal(thrown, failing(function(lock)
        put(lock:bulk(index), "x", 1)
        error(thrown, 0)
      end))
    end
    assert.equal(0, stored())
  end)

  it("tells it in an error that leaves a task, also a cancelled one", function()
    local task = mortise.spawn(client.with_tree_lock, client, "/w", function(lock)
      put(lock:bulk(index), "x", 15)
      error "no"
    end)
    local ok, why = pcall(task.join, task)
    assert.is_false(ok)
    assert.equal("script_error", why.code)
    assert.matches("no %(writer on .*: 15 items not sent%)", why.message)

    task = mortise.spawn(client.with_tree_lock, client, "/w", function(lock)
      put(lock:bulk(index), "x", 15)
      mortise.sleep "1h"
    end)
    mortise.sleep(0.1)
    task:cancel()
    ok, why = pcall(task.join, task)
    assert.is_false(ok)
    assert.equal("interrupted", why.code)
    assert.equal(15, why.unsent[1].items)
    assert.equal(0, stored())
  end)

  it("is left by an error of its own block only once", function()
    local why = failing(function(lock)
      local w <close> = lock:bulk(index)
      put(w, "x", 2)
      client:create(index, "a", {n = 1})
    end)
    assert.equal(1, #why.unsent)
    assert.equal(0, stored())
  end)

  it("is refused after its lock's end, with the reason", function()
    local w
    client:with_tree_lock("/w", function(lock) w = lock:bulk(index) end)
    for _, use in ipairs {
      function() w:index("x", {n = 1}) end, function() w:flush() end, function() w:finish() end,
      function() w:delete "a" end,
    } do
      local ok, why = pcall(use)
      assert.is_false(ok)
      assert.equal("invalid_argument", why.code)
      assert.matches("the writer on .* is closed: its lock was released", why.message)
    end
    w:close()
    assert.matches("%(closed%)", tostring(w))
  end)

  it("keeps what could not be sent, for another try", function()
    local lock = client:acquire {tree = "/w"}
    local w = lock:bulk(index, {batch = 4})
    put(w, "x", 3)
    local real = w._writer
    w._writer = {
      write = function(_, items)
        local answers = {}
        for i in ipairs(items) do answers[i] = {outcome = "none", dirty = i == 2} end
        answers[1].outcome = "applied"
        return answers, require("mortise.core").error {code = "unavailable"}
      end,
      close = function() end,
    }
    local ok, why = pcall(w.index, w, "x4", {n = 4})
    assert.is_false(ok)
    assert.equal("unavailable", why.code)
    local report = w:report()
    assert.same({1, 2, {"x2"}}, {report.applied, report.unsent, report.unanswered})
    w._writer = real
    put(w, "y", 1)
    ok, why = pcall(lock.release, lock)
    assert.is_false(ok)
    assert.equal("unavailable", why.code)
    assert.is_true(why.ambiguous)
    assert.same({"x2"}, why.report.unanswered)
    assert.same({0, 1}, {why.unsent[1].items, why.unsent[1].unanswered})
    assert.equal(3, stored()) -- x3, x4, y1
  end)

  it("sends what was gathered before its lock is lowered, and stays", function()
    client:with_tree_lock("/w", function(lock)
      local w = lock:bulk(index)
      put(w, "x", 3)
      lock:downgrade()
      assert.equal(3, stored())
      lock:upgrade()
      put(w, "y", 2)
    end)
    assert.equal(5, stored())
  end)

  it("belongs to the innermost lock that it was made with", function()
    client:with_tree_lock("/w", function(outer)
      local w = outer:bulk(index)
      client:with_tree_lock("/w", function(inner)
        put(inner:bulk(index), "x", 3)
        put(w, "y", 2)
      end)
      assert.equal(3, stored())
      put(w, "z", 1)
    end)
    assert.equal(6, stored())
  end)

  it("is finished where a coroutine is closed", function()
    local co = coroutine.create(function()
      client:with_tree_lock("/w", function(lock)
        put(lock:bulk(index), "x", 3)
        coroutine.yield()
      end)
    end)
    coroutine.resume(co)
    assert.is_true(coroutine.close(co))
    assert.equal(3, stored())
  end)

  it("says that another task still sends by it", function()
    local why = failing(function(lock)
      local w = lock:bulk(index)
      put(w, "x", 3)
      mortise.spawn(pcall, w.flush, w)
      mortise.sleep(0)
      w.sending = 3 -- on every store, however fast
    end)
    assert.equal("invalid_argument", why.code)
    assert.matches("3 items of the writer on .* are still being sent by another task", why.message)
  end)

  it("makes no report that JSON refuses", function()
    local lock <close> = client:acquire {tree = "/w"}
    local w = lock:bulk(index)
    assert.matches('"conflicts":%[%]', mortise.json(w:report()))
    put(w, "x", 1)
    assert.matches('"applied":1', mortise.json(w:finish()))
  end)
end)
