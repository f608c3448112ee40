local mortise = require "mortise"
local process = require "spec.support.process"
local stores = require "spec.support.stores"

local function code_of(fn, ...)
  local ok, why = pcall(fn, ...)
  assert.is_false(ok)
  return why.code, why
end

stores.each("locks", function(store)
  local one, two

  before_each(function() one, two = stores.connect_two(store) end)
  after_each(function()
    one:close()
    two:close()
  end)

  local function is_free(tree)
    local lock = two:try_lock {tree = tree}
    if lock then lock:release() end
    return lock ~= nil
  end

  it("are held while the function runs, and given back", function()
    local a, b, c = one:with_tree_lock("/a/b", function(lock)
      assert.same({"/a/b"}, lock.paths)
      assert.equal("integer", math.type(lock.fence))
      assert.equal("exclusive", lock.mode)
      assert.is_true(lock:remaining() > 10)
      lock:check()
      assert.is_false(is_free "/a/b")
      assert.is_false(is_free "/a/b/c")
      assert.is_false(is_free "/a")
      assert.is_true(is_free "/a/bc")
      return 1, nil, "three"
    end)
    assert.same({1, nil, "three"}, {a, b, c})
    assert.is_true(is_free "/a/b")
  end)

  it("are given back after an error, which arrives as it was", function()
    local thrown = {}
    local ok, why = pcall(one.with_tree_lock, one, "/e", function() error(thrown) end)
    assert.is_false(ok)
    assert.equal(thrown, why)
    assert.is_true(is_free "/e")
  end)

  it("are given back when a coroutine is closed", function()
    local co = coroutine.create(function()
      one:with_tree_lock("/co", function() coroutine.yield "held" end)
    end)
    assert.same({true, "held"}, {coroutine.resume(co)})
    assert.is_false(is_free "/co")
    assert.is_true(coroutine.close(co))
    assert.is_true(is_free "/co")
  end)

  it("are given back when a task is cancelled", function()
    local held
    local task = mortise.spawn(function()
      one:with_tree_lock("/task", function() held = true mortise.sleep(60) end)
    end)
    process.wait_for("the lock", function() return held end)
    assert.is_false(is_free "/task")
    task:cancel()
    assert.equal("interrupted", (code_of(task.join, task)))
    assert.is_true(is_free "/task")
  end)

  it("say who has them when they are not had", function()
    one:with_tree_lock("/w", function()
      local code, why = code_of(two.with_tree_lock, two, "/w/x", {wait = "200ms"}, function() end)
      assert.equal("lock_timeout", code)
      assert.equal("/w", why.blockers[1].path)
      assert.equal("X", why.blockers[1].mode)
      local lock, refusal = two:try_lock {tree = "/w"}
      assert.is_nil(lock)
      assert.equal("lock_timeout", refusal.code)
    end)
  end)

  it("come in four kinds that exclude one another", function()
    one:with_global_lock(function(lock)
      assert.same({"/"}, lock.paths)
      assert.is_false(is_free "/anything")
      assert.is_nil((two:try_lock {named = {"c", "n"}}))
      assert.is_nil((two:try_lock {document = "i", ids = {"1"}}))
    end)
    one:with_lock("category", "some/name", function()
      assert.is_nil((two:try_lock {named = {"category", "some/name"}}))
      two:acquire({named = {"category", "other"}}):release()
      assert.is_nil((two:try_lock {global = true}))
    end)
    one:with_document_locks("index", {"a", "b/c"}, function(lock)
      assert.same({"a", "b/c"}, lock.ids)
      assert.is_nil((two:try_lock {document = "index", ids = {"b/c"}}))
      two:acquire({document = "index", ids = {"c"}}):release()
      two:acquire({document = "other", ids = {"a"}}):release()
    end)
  end)

  it("can be shared, and upgraded", function()
    one:with_tree_lock("/s", {mode = "shared"}, function(lock)
      two:acquire({tree = "/s", mode = "shared"}):release()
      assert.is_false(is_free "/s")
      assert.is_false(lock:covers "/s")
      lock:upgrade {wait = "2s"}
      assert.equal("exclusive", lock.mode)
      assert.is_true(lock:covers "/s/x")
      assert.is_nil((two:try_lock {tree = "/s", mode = "shared"}))
    end)
    assert.is_true(is_free "/s")
    one:with_tree_lock("/s", {mode = "shared"}, function(lock)
      local other <close> = two:acquire {tree = "/s", mode = "shared"}
      assert.equal("lock_timeout", (code_of(lock.upgrade, lock, {wait = 0})))
      assert.equal("shared", lock.mode)
      assert.is_truthy(other)
      lock:check()
    end)
  end)

  it("change their mode in place, up and down", function()
    local lock <close> = one:acquire {tree = "/m/n", mode = "shared"}
    local w <close> = lock:bulk "none"
    local fence = lock.fence
    assert.same({"S"}, lock.modes)
    assert.equal(lock, lock:upgrade {mode = "SIX"})
    assert.equal("SIX", lock.mode)
    assert.same({"SIX"}, lock.modes)
    assert.is_true(lock.fence > fence)
    two:acquire({tree = "/m/n/o", mode = "shared"}):release()
    assert.is_nil((two:try_lock {tree = "/m/n", mode = "shared"}))
    one:with_tree_lock("/m/n/o", {wait = 0}, function()
      assert.is_nil((two:try_lock {tree = "/m/n/o", mode = "shared"}))
    end)
    fence = lock:upgrade().fence
    assert.equal("exclusive", lock.mode)
    assert.is_nil((two:try_lock {tree = "/m/n/o", mode = "shared"}))
    assert.equal(fence, lock:upgrade({mode = "SIX"}).fence) -- it is stronger already
    assert.equal("exclusive", lock.mode)
    lock:downgrade()
    assert.equal("shared", lock.mode)
    assert.equal(fence, lock.fence)
    assert.equal("shared", lock:downgrade({mode = "SIX"}).mode)
    local beside <close> = two:acquire {tree = "/m/n", mode = "shared"}
    assert.equal("lock_timeout", (code_of(lock.upgrade, lock, {wait = "50ms"})))
    assert.equal("shared", lock.mode)
    assert.same({"S"}, lock.modes)
    lock:check()
    beside:check()
    w:close()
    for _, given in ipairs {{mode = "X"}, {mode = 1}, {wait = "x"}, {mood = "SIX"}} do
      assert.equal("invalid_argument", (code_of(lock.upgrade, lock, given)))
    end
    assert.equal("invalid_argument", (code_of(lock.downgrade, lock, {wait = 1})))
    lock:release()
    assert.equal("lock_lost", (code_of(lock.upgrade, lock)))
    assert.equal("lock_lost", (code_of(lock.downgrade, lock)))
  end)

  it("of whoever waits let a reader in when they are lowered", function()
    one:with_tree_lock("/low", function(lock)
      local reader = mortise.spawn(two.with_tree_lock, two, "/low/er", {mode = "shared"}, function()
        return lock.mode
      end)
      mortise.sleep(0.1)
      lock:downgrade()
      assert.equal("shared", reader:join())
      lock:check()
    end)
  end)

  it("stay as they are when an upgrade is interrupted", function()
    one:with_tree_lock("/int", {mode = "shared"}, function(lock)
      local other <close> = two:acquire {tree = "/int", mode = "shared"}
      local task = mortise.spawn(lock.upgrade, lock)
      mortise.sleep(0.1)
      task:cancel()
      assert.equal("interrupted", (code_of(task.join, task)))
      assert.equal("shared", lock.mode)
      lock:check()
      other:release()
      assert.is_false(is_free "/int")
      two:acquire({tree = "/int", mode = "shared", wait = "2s"}):release()
    end)
    assert.is_true(is_free "/int")
  end)

  it("may be released while they wait for an upgrade", function()
    local lock = one:acquire {tree = "/rel", mode = "shared"}
    local other <close> = two:acquire {tree = "/rel", mode = "shared"}
    local task = mortise.spawn(lock.upgrade, lock)
    mortise.sleep(0.1)
    lock:release()
    assert.is_false((pcall(task.join, task)))
    other:release()
    assert.is_true(is_free "/rel")
  end)

  it("may be released before it is told that they are being upgraded already", function()
    local lock = one:acquire {tree = "/twice", mode = "shared"}
    local other <close> = two:acquire {tree = "/twice", mode = "shared"}
    local first = mortise.spawn(lock.upgrade, lock)
    mortise.sleep(0.1)
    local second = mortise.spawn(lock.upgrade, lock)
    local release = mortise.spawn(lock.release, lock)
    assert.is_false((pcall(first.join, first)))
    assert.is_false((pcall(second.join, second)))
    release:join()
    other:release()
    assert.is_true(is_free "/twice")
  end)

  it("of nothing that was found stay of nothing", function()
    local index = stores.fill(one, {a = {path = "/x"}})
    one:with_document_locks(index, {query = {term = {path = "/none"}}}, {mode = "shared"}, function(lock)
      assert.same({}, lock.ids)
      lock:upgrade()
      assert.equal("exclusive", lock.mode)
      two:acquire({document = index, ids = {"a"}, wait = 0}):release()
    end)
    one:drop_index(index)
  end)

  it("nest in one task", function()
    one:with_tree_lock("/n", function()
      one:with_tree_lock({"/n/a", "/n"}, {wait = 0}, function() end)
      assert.is_false(is_free "/n")
    end)
    assert.is_true(is_free "/n")
  end)

  it("are released once, and used no more", function()
    local lock = one:acquire {tree = {"/r1", "/r2"}}
    lock:release()
    lock:release()
    assert.is_true(lock._released)
    assert.equal("lock_lost", (code_of(lock.check, lock)))
    assert.equal(0, lock:remaining())
    assert.is_false(lock:covers "/r1")
  end)

  it("have fences that grow", function()
    local last = 0
    for i = 1, 5 do
      local lock <close> = (i % 2 == 0 and one or two):acquire {tree = "/f"}
      assert.is_true(lock.fence > last)
      last = lock.fence
    end
  end)

  it("of documents that a query finds", function()
    local index = stores.fill(one, {a = {path = "/x"}, b = {path = "/x"}, c = {path = "/y"}})
    local n = one:with_document_locks(index, {query = {term = {path = "/x"}}}, function(lock)
      table.sort(lock.ids)
      assert.same({"a", "b"}, lock.ids)
      assert.is_nil((two:try_lock {document = index, ids = {"a"}}))
      two:acquire({document = index, ids = {"c"}}):release()
      return #lock.ids
    end)
    assert.equal(2, n)
    one:with_document_locks(index, {query = {term = {path = "/none"}}}, function(lock)
      assert.same({}, lock.ids)
      lock:check()
    end)
    assert.is_true(is_free "/")
    one:drop_index(index)
  end)

  it("of documents include what appears while they are taken", function()
    local index = stores.fill(one, {a = {path = "/x"}})
    local guard = two:acquire {document = index, ids = {"a"}}
    local task = mortise.spawn(function()
      return one:with_document_locks(index, {query = {term = {path = "/x"}}}, function(lock)
        return lock.ids
      end)
    end)
    mortise.sleep(0.3)
    two:index(index, "b", {path = "/x"})
    guard:release()
    local ids = task:join()
    table.sort(ids)
    assert.same({"a", "b"}, ids)
    one:drop_index(index)
  end)

  it("refuse what makes no sense", function()
    for _, given in ipairs {
      {}, {tree = "/a", global = true}, {tree = "a"}, {tree = {}}, {tree = 5}, {document = "i"},
      {document = "i", ids = {1}}, {named = {"x"}}, {tree = "/a", mode = "X"}, {tree = "/a", wait = "x"},
      {ids = {"a"}, tree = "/a"}, {tree = "/a//b"}, {tree = "/a/../b"},
    } do
      assert.equal("invalid_argument", (code_of(one.acquire, one, given)))
    end
    assert.equal("invalid_argument", (code_of(one.with_tree_lock, one, "/a")))
    local _, why = code_of(one.with_tree_lock, one, "/a", {wiat = 1}, print)
    assert.matches("did you mean `wait`", why.message)
  end)

  it("end with their client", function()
    local lock = one:acquire {tree = "/end"}
    one:close()
    assert.is_true(is_free "/end")
    assert.has_error(function() lock:check() end)
    assert.equal("invalid_argument", (code_of(one.acquire, one, {tree = "/x"})))
  end)
end)
