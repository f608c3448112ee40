-- What a task writes while it holds a lock, without a writer: it is the lock's.
local mortise = require "mortise"
local core = require "mortise.core"
local fails = require "spec.support.fails"
local process = require "spec.support.process"
local stores = require "spec.support.stores"

stores.each("a plain write under a lock", function(store)
  local client, two, index

  before_each(function()
    local namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace, lease = "6s"})
    two = stores.connect(store, {namespace = namespace})
    index = stores.fill(client, {a = {n = 1}, b = {n = 2}})
  end)
  after_each(function()
    pcall(client.close, client)
    two:drop_index(index)
    two:close()
  end)

  -- Runs fn in the block of a lock that is lost, in a task of its own.
  local function when_lost(fn)
    mortise.spawn(function()
      local ok, why
      pcall(client.with_tree_lock, client, "/a", function(lock)
        local breaking <close> = two:_break_session(client:session().id)
        local function is_marked() return breaking:progress().marked end
        ok, why = pcall(process.wait_for, "the mark", is_marked)
        while ok and pcall(lock.check, lock) do pcall(core.sleep, 20) end
        pcall(core.sleep, 0)
        if ok then ok, why = pcall(fn, lock) end
      end)
      if not ok then error(why, 0) end
    end):join()
  end

  -- Each way to change the document `id`, which is there with n = 1.
  local calls = {
    index = function(id, o) return client:index(index, id, {n = 9}, o) end,
    update = function(id, o) return client:update(index, id, {n = 9}, o) end,
    delete = function(id, o) return client:delete(index, id, o) end,
    create = function(id, o) return client:create(index, id .. " made", {n = 9}, o) end,
    bulk = function(id, o) return client:bulk(index, {{id = id, doc = {n = 9}}}, o) end,
  }

  it("is refused once that is lost, unless unguarded", function()
    local before = stores.sources(two, index)
    when_lost(function(lock)
      for _, call in pairs(calls) do fails("lock_lost", call, "a") end
      assert.same(before, stores.sources(two, index))
      for _, call in pairs(calls) do
        client:index(index, "a", {n = 1}, {unguarded = true})
        call("a", {unguarded = true})
        assert.not_same(before, stores.sources(two, index))
      end
      fails("lock_lost", lock.check, lock)
    end)
    for _, call in pairs(calls) do call "b" client:index(index, "b", {n = 1}) end
  end)

  it("returns and raises what it does without one", function()
    -- All but versions, which grow, and a server's own words.
    local function shown(ok, result)
      if not ok then return ("%s %s"):format(result.code, result.message) end
      return (mortise.json(result):gsub('"seq_no":%d+,?', '"seq_no":N,'):gsub('"reason":"[^"]*",?', "")
        :gsub('"type":"[^"]*",?', ""):gsub(",}", "}"))
    end
    local function all()
      local said = {}
      local function say(method, ...)
        said[#said + 1] = method .. " " .. shown(pcall(client[method], client, index, ...))
      end
      local function version() return client:get(index, "x") end
      say("create", "x", {n = 1})
      say("create", "x", {n = 1})
      say("index", "x", {n = 2}, {refresh = true})
      say("update", "x", {n = 3}, {refresh = true})
      say("update", "x", {n = 3})
      say("update", "x", function(doc) doc.n = doc.n + 1 end)
      local old = version()
      say("index", "x", {n = 5}, {if_seq_no = old._seq_no, if_term = old._term})
      say("index", "x", {n = 6}, {if_seq_no = old._seq_no, if_term = old._term})
      say("delete", "x", {if_seq_no = old._seq_no, if_term = old._term})
      say("index", "x", {n = 7}, {pipeline = false, routing = "x"})
      say("bulk", {
        {id = "x", doc = {n = 8}}, {id = "y", doc = {n = 1}}, {op = "create", id = "y", doc = {n = 2}},
        {op = "update", id = "y", doc = {m = 3}}, {op = "update", id = "y", doc = {m = 3}},
        {op = "delete", id = "none"}, {op = "update", id = "none", doc = {n = 1}},
        {op = "index", id = "y", doc = {n = 9}, if_seq_no = old._seq_no, if_term = old._term},
        {op = "delete", id = "y", if_seq_no = old._seq_no, if_term = old._term},
        {op = "delete", id = "y"}, {op = "delete", id = "y"}, {op = "create", id = "y", doc = {n = 4}},
      }, {refresh = true})
      say("bulk", {})
      said[#said + 1] = client:count(index)
      for _, id in ipairs {"x", "y"} do
        say("delete", id)
        say("delete", id)
        say("update", id, {n = 1})
      end
      say("delete", "x", {if_seq_no = old._seq_no, if_term = old._term})
      return table.concat(said, "\n")
    end
    local without = all()
    assert.equal(without, client:with_tree_lock("/a", all))
    local lock <close> = client:acquire {tree = "/a"}
    assert.equal(without, all())
    assert.is_true(lock:remaining() > 0)
  end)

  it("makes an index as it does without one", function()
    local name = stores.name "new"
    client:with_tree_lock("/a", function() client:index(name, "1", {n = 1}) end)
    assert.equal(1, client:get(name, "1").n)
    client:drop_index(name)
  end)

  it("is so in a coroutine, and in tasks that were started under it", function()
    when_lost(function()
      fails("lock_lost", coroutine.wrap(calls.index), "a")
      fails("lock_lost", function() mortise.map({"a", "b"}, function(id) calls.index(id) end) end)
      local child = mortise.spawn(function()
        fails("lock_lost", calls.index, "a")
        mortise.spawn(fails, "lock_lost", calls.index, "a"):join()
      end)
      child:join()
    end)
    assert.equal(1, client:get(index, "a").n)
  end)

  it("is not so with another client, and not in other tasks", function()
    local go = false
    local beside = mortise.spawn(function()
      while not go do core.sleep(1) end
      calls.index "a"
    end)
    when_lost(function()
      go = true
      beside:join()
      two:index(index, "b", {n = 9})
    end)
    assert.equal(9, client:get(index, "a").n)
    assert.equal(9, client:get(index, "b").n)
  end)

  it("is the innermost lock's", function()
    when_lost(function()
      -- With a new session, which the first one's loss does not concern.
      client:with_tree_lock("/b", function() calls.index "a" end)
      fails("lock_lost", calls.index, "b")
      local inner = client:acquire {tree = "/b"}
      calls.update "b"
      inner:release()
      fails("lock_lost", calls.delete, "b")
    end)
    assert.equal(9, client:get(index, "a").n)
    assert.equal(9, client:get(index, "b").n)
  end)

  it("is none where mortise itself writes down what it does with jobs", function()
    local id = stores.name "job"
    local change = {{set = {field = "n", value = 5}}}
    client:job({id = id, index = index, lock = {named = {"a", "b"}}, change = change}):run()
    when_lost(function()
      client:get_job(id):rollback()
      require("mortise.purge").one(client, id)
    end)
    fails("not_found", client.get_job, client, id)
    assert.equal(1, client:get(index, "a").n)
  end)

  it("is refused in a task that goes on after the end of the block in which it was started", function()
    local child
    client:with_tree_lock("/a", function()
      child = mortise.spawn(function()
        calls.index "b"
        core.sleep(200)
        local why = fails("lock_lost", calls.index, "a")
        assert.matches("lock on /a %(released%): this task was started under it", why.message)
        assert.matches("unguarded = true", why.message)
        client:with_tree_lock("/c", function() calls.index "b" end)
        fails("lock_lost", calls.bulk, "a")
        calls.index("c", {unguarded = true})
      end)
      core.sleep(100)
    end)
    child:join()
    assert.equal(1, client:get(index, "a").n)
    assert.equal(9, client:get(index, "b").n)
    assert.equal(9, client:get(index, "c").n)
    calls.index "a"
  end)

  it("is not so once a lock is released or collected", function()
    client:acquire({tree = "/a"}):release()
    calls.index "a"
    for _ = 1, 2 do collectgarbage() end
    calls.update "a"
  end)

  it("takes one request more where it names no version", function()
    -- The least of several, since heartbeats are requests, too.
    local function requests(call, o)
      local least = math.huge
      for i = 1, 5 do
        client:index(index, "r" .. i, {n = 1}, {unguarded = true})
        local before = client:stats().requests
        call("r" .. i, o)
        least = math.min(least, client:stats().requests - before)
      end
      return least
    end
    local function counted()
      local all = {unguarded = requests(calls.index, {unguarded = true})}
      for name, call in pairs(calls) do all[name] = requests(call) end
      return all
    end
    client:acquire({tree = "/a"}):release()
    assert.same({create = 1, update = 2, index = 1, unguarded = 1, delete = 1, bulk = 1}, counted())
    two:refresh(index)
    for i = 1, 5 do client:delete(index, ("r%d made"):format(i)) end
    local lock <close> = client:acquire {tree = "/a"}
    lock:check()
    assert.same({create = 1, update = 2, index = 2, unguarded = 1, delete = 2, bulk = 2}, counted())
  end)

  it("of many says what became of each if the lock is released meanwhile", function()
    local items = {}
    for i = 1, 20000 do items[i] = {id = "m" .. i, doc = {n = i}} end
    local lock <close> = client:acquire {tree = "/a"}
    local task = mortise.spawn(client.bulk, client, index, items)
    process.wait_for("the first documents", function()
      two:refresh(index)
      return two:count(index) > 2
    end)
    lock:release()
    local why = fails("lock_lost", task.join, task)
    assert.matches("it was released while this was written", why.message)
    assert.is_true(why.ambiguous)
    assert.equal(20000, #why.results)
    local applied = 0
    for _, each in ipairs(why.results) do applied = applied + (each.result == "applied" and 1 or 0) end
    assert.is_true(applied < 20000)
    client:refresh(index)
    assert.is_true(client:count(index) - 2 >= applied)
  end)
end)
