-- What a sandbox may do with a store is what its rules say.
local core = require "mortise.core"
local fails = require "spec.support.fails"
local mortise = require "mortise"
local sandbox = require "mortise.sandbox"
local stores = require "spec.support.stores"

stores.each("in a sandbox", function(store)
  local client, other, index

  before_each(function()
    client, other = stores.connect_two(store)
    index = stores.fill(client, {
      a1 = {path = "/a/1", n = 1}, a2 = {path = "/a/2", n = 2}, b1 = {path = "/b/1", n = 3},
      both = {path = {"/a/3", "/b/3"}, n = 4}, nowhere = {n = 5},
    })
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
    other:close()
  end)

  -- -> the lines it printed
  local function run(allow, code, also)
    local lines, rules = {}, {}
    for i, rule in ipairs(allow) do rules[i] = rule:gsub("INDEX", index) end
    local given = {
      code = ("local index = %q\n"):format(index) .. code, name = "=script", allow = rules,
      client = function() return client end, print = function(line) lines[#lines + 1] = line end,
    }
    for name, value in pairs(also or {}) do given[name] = value end
    sandbox.run(given)
    return lines
  end

  local function refused(allow, code, text)
    local why = fails("auth", function() run(allow, code) end)
    if text then assert.truthy(why.message:find(text, 1, true), why.message) end
  end

  local everything = {"read INDEX", "write INDEX", "lock /", "lock documents INDEX", "lock name jobs"}

  it("documents are read where it may read them", function()
    assert.same({"/a/1", "nil", "5", "1", "a1,a2,b1,both,nowhere", "/b/1 1"}, run({"read INDEX"}, [[
      print(mortise.get(index, "a1").path)
      print(mortise.get(index, "absent"))
      print(mortise.count(index))
      print(mortise.count(index, {prefix = {path = "/b/1"}}))
      local ids = {}
      for doc in mortise.scan(index, {page = 2}) do ids[#ids + 1] = doc.id end
      table.sort(ids)
      print(table.concat(ids, ","))
      local found = mortise.search(index, {query = {term = {n = 3}}, size = 1})
      print(found.hits.hits[1]._source.path .. " " .. #mortise.mget(index, {"a1"}))]]))
  end)

  it("and nowhere else", function()
    for _, code in ipairs {
      "mortise.get(index, 'a1')", "mortise.mget(index, {'a1'})", "mortise.count(index)",
      "mortise.refresh(index)", "mortise.search(index, {})", "for _ in mortise.scan(index) do end",
    } do
      refused({"read other-*", "write INDEX", "lock /"}, code, "--allow")
    end
  end)

  it("an index is one plain name", function()
    local odd = {
      "*", "a,b", "<a-{now/d}>", "a*", "_all", "-a", ".tasks", "a/_doc/1", "a b", "cluster:a", "a%2cb",
    }
    for _, name in ipairs(odd) do
      local why = fails("invalid_argument", function()
        run({"read *", "write *"}, ("mortise.count(%q)"):format(name))
      end)
      assert.truthy(why.message:find "one plain name", why.message)
    end
    for _, name in ipairs {client._table, client._table .. "-jobs", client:_open_core():jobs_index()} do
      local ok, why = pcall(run, {"read *", "write *"}, ("mortise.count(%q)"):format(name))
      assert.is_false(ok)
      assert.truthy(why.message:find "one plain name" or why.message:find "mortise keeps", why.message)
    end
  end)

  it("no query leaves the index or runs a script, and no search says more than what it finds", function()
    for _, code in ipairs {
      [[mortise.count(index, {script = {script = "1"}})]],
      [[mortise.count(index, {terms = {n = {index = "other", id = "1", path = "n"}}})]],
      [[mortise.count(index, {has_child = {type = "a", query = {match_all = {}}}})]],
      [[mortise.count(index, {bool = {filter = {{more_like_this = {like = "x"}}}}})]],
      [[mortise.search(index, {aggs = {a = {terms = {field = "path"}}}})]],
      [[mortise.search(index, {script_fields = {}})]],
      [[mortise.search(index, {runtime_mappings = {}})]],
      [[mortise.search(index, {sort = {{_script = {type = "number", script = "1"}}}})]],
      [[mortise.search(index, {sort = {{n = {nested = {path = "x"}}}}})]],
      [[mortise.search(index, '{"query":{"match_all":{}},"query":{"script":{"script":"1"}}}')]],
      [[for _ in mortise.scan(index, {query = {script_score = {}}}) do end]],
    } do
      local ok, why = pcall(run, everything, code)
      assert.is_false(ok, code)
      assert.truthy(core.is_error(why) and (why.code == "unsupported" or why.code == "rejected"), code)
    end
  end)

  it("documents are written where it may write them", function()
    run({"write INDEX", "read INDEX"}, [[
      mortise.index(index, "new", {path = "/z"})
      mortise.create(index, "new2", {path = "/z"})
      mortise.update(index, "a1", {n = 10})
      mortise.update(index, "a2", function(doc) doc.n = doc.n + 10 end)
      mortise.delete(index, "b1")
      local results = mortise.bulk(index, {
        {op = "delete", id = "both"}, {op = "create", id = "a1", doc = {n = 0}},
      })
      assert(results[1].result == "applied" and results[2].result == "conflict")]])
    assert.same({10, 12}, {client:get(index, "a1").n, client:get(index, "a2").n})
    assert.is_nil(client:get(index, "b1"))
    assert.is_nil(client:get(index, "both"))
    assert.equal("/z", client:get(index, "new").path)
    for _, code in ipairs {
      "mortise.index(index, 'a1', {n = 1})", "mortise.delete(index, 'a1')",
      "mortise.bulk(index, {{op = 'delete', id = 'a1'}})",
      "mortise.bulk('mine', {{op = 'delete', id = 'a1', index = index}})",
    } do
      refused({"read INDEX", "write mine", "lock /"}, code, "--allow")
    end
    assert.equal(10, client:get(index, "a1").n)
  end)

  it("under a path, only what is there, and stays there", function()
    local rules = {"read INDEX", "write INDEX under /a in path", "lock /"}
    run(rules, [[
      mortise.index(index, "a1", {path = "/a/1", n = 10})
      mortise.create(index, "a9", {path = {"/a/9", "/a/10"}})
      mortise.update(index, "a2", {n = 20})
      mortise.index(index, "a8", {path = "/a"})
      mortise.delete(index, "a8")]])
    assert.equal(10, client:get(index, "a1").n)
    local before = client:get(index, "b1"):_source()
    for _, code in ipairs {
      [[mortise.index(index, "b1", {path = "/a/1"})]],          -- is not there
      [[mortise.index(index, "a1", {path = "/b/1"})]],          -- would go away
      [[mortise.index(index, "a1", {n = 1})]],
      [[mortise.index(index, "new", {path = "/ab"})]],
      [[mortise.index(index, "new", {path = {"/a/1", "/b"}})]],
      [[mortise.index(index, "new", {path = 1})]],
      [[mortise.index(index, "new", '{"path":"/a/1","path":"/b/1"}')]],
      [[mortise.index(index, "new", '{"path":"/a/1","p\\u0061th":"/b/1"}')]],
      [[mortise.delete(index, "both")]],                        -- partly elsewhere
      [[mortise.delete(index, "nowhere")]],
      [[mortise.update(index, "b1", {n = 1})]],
      [[mortise.bulk(index, {{id = "a1", doc = {path = "/a/1"}}, {op = "delete", id = "b1"}})]],
      [[mortise.with_tree_lock("/b", function(lock)
          local w = lock:bulk(index)
          w:delete "b1"
          w:finish()
        end)]],
    } do
      refused(rules, code, "only what is under /a in path")
    end
    local ok, why = pcall(run, rules, [[
      mortise.bulk(index, {{op = "update", id = "a1", doc = {path = "/b"}}})]])
    assert.is_false(ok)
    assert.equal("unsupported", why.code)
    assert.equal(before, client:get(index, "b1"):_source())
    assert.same({"/a/3", "/b/3"}, client:get(index, "both"):_table().path)
    assert.equal(10, client:get(index, "a1").n)
    assert.is_nil(client:get(index, "new"))
  end)

  it("under a path, what another moves away meanwhile is left alone", function()
    function client.mget(...) -- by which it is looked at
      client.mget = nil
      local found = client.mget(...)
      other:index(index, "a1", {path = "/b/moved"})
      return found
    end
    fails("conflict", function()
      run({"write INDEX under /a"}, [[mortise.index(index, "a1", {path = "/a/1", n = 99})]])
    end)
    assert.equal("/b/moved", client:get(index, "a1").path)
  end)

  it("patterns name several", function()
    assert.same({"/a/1"}, run({"read " .. index:sub(1, -2) .. "*"}, [[print(mortise.get(index, "a1").path)]]))
    local rules = {"write INDEX under /*/1", "lock /*/x"}
    run(rules, [[
      mortise.index(index, "a1", {path = "/a/1/deep"})
      mortise.with_tree_lock("/q/x/y", function() end)]])
    refused(rules, [[mortise.index(index, "a2", {path = "/a/b/1"})]])
    refused(rules, [[mortise.with_tree_lock("/q/xx", function() end)]])
    refused(rules, [[mortise.with_tree_lock("/q", function() end)]])
  end)

  it("locks are taken where it may lock, and given back at its end", function()
    run(everything, [[
      local lock = mortise.acquire {tree = "/a"}
      assert(lock.fence > 0 and lock.paths[1] == "/a" and lock:remaining() > 0)
      lock:check()
      local w = lock:bulk(index, {strength = "cas"})
      for doc in lock:scan(index, {query = {prefix = {path = "/a/"}}}) do doc.n = 100 w:save(doc) end
      w:add {op = "create", id = "made", doc = {path = "/a/made"}}
      local report = w:finish()
      assert(report.applied == 4, report.applied)
      lock:downgrade() lock:upgrade()
      lock:release()
      local n = mortise.with_document_locks(index, {"a1", "a2"}, function(own) return #own.ids end)
      assert(n == 2)
      assert(mortise.with_lock("jobs", "nightly", function() return 7 end) == 7)
      mortise.acquire {tree = "/left"}
      local shared = mortise.try_lock {tree = "/right", mode = "shared"}
      assert(shared.mode == "shared")]])
    assert.equal(100, client:get(index, "a2").n)
    other:acquire {tree = "/left", wait = 0}:release()
    for _, code in ipairs {
      "mortise.acquire {tree = '/b'}", "mortise.acquire {tree = {'/a', '/'}}",
      "mortise.acquire {named = {'other', 'x'}}", "mortise.acquire {document = 'other', ids = {'1'}}",
      "mortise.with_tree_lock('/a/../b', function() end)",
    } do
      local ok, why = pcall(run, {"lock /a", "lock name jobs", "lock documents INDEX"}, code)
      assert.is_false(ok, code)
      assert.truthy(why.code == "auth" or why.code == "invalid_argument", code)
    end
    fails("invalid_argument", function() run(everything, "mortise.acquire {global = true}") end)
  end)

  it("what others hold is not told to the script, and is to the one who runs it", function()
    local held = other:acquire {tree = "/a"}
    local lines = run({"lock /a"}, [[
      local ok, why = pcall(mortise.acquire, {tree = "/a", wait = 0})
      print(why.code, why.message, why.blockers, mortise.json(why))]])
    assert.truthy(lines[1]:find "^lock_timeout\tothers hold the lock\tnil")
    local why = fails("lock_timeout", function()
      run({"lock /a"}, "mortise.acquire {tree = '/a', wait = 0}")
    end)
    assert.truthy(why.blockers)
    held:release()
  end)

  it("its time bounds what it waits for", function()
    local held = other:acquire {tree = "/a"}
    local before = core.now_ms()
    local ok, why = pcall(run, {"lock /a"}, "mortise.acquire {tree = '/a', wait = '10m'}", {time = 300})
    assert.is_false(ok)
    assert.truthy(why.code == "lock_timeout" or why.budget == "time", tostring(why))
    ok, why = pcall(run, {}, "mortise.sleep(600)", {time = 100})
    assert.is_false(ok)
    assert.equal("time", why.budget)
    assert.is_true(core.now_ms() - before < 30000)
    held:release()
  end)

  it("a script that fails has its locks given back, and nothing of its writers is hidden", function()
    local why = fails("script_error", function()
      run(everything, [[
        local lock = mortise.acquire {tree = "/a"}
        local w = lock:bulk(index)
        w:index("a1", {path = "/a/1", n = 50})
        error "enough"]])
    end)
    assert.truthy(why.message:find "enough")
    assert.truthy(why.message:find "1 items of its writers were not sent", why.message)
    other:acquire {tree = "/a", wait = 0}:release()
    assert.equal(1, client:get(index, "a1").n)
  end)

  it("a writer that nobody finishes is finished with its lock, or at the end", function()
    run(everything, [[
      mortise.with_tree_lock("/a", function(lock) lock:bulk(index):index("a1", {path = "/a/1", n = 60}) end)
      mortise.acquire {tree = "/a"}:bulk(index):index("a2", {path = "/a/2", n = 61})]])
    assert.same({60, 61}, {client:get(index, "a1").n, client:get(index, "a2").n})
    local ok, why = pcall(run, everything, [[
      mortise.with_tree_lock("/a", function(lock) lock:bulk(index):create("a1", {path = "/a/1"}) end)]])
    assert.is_false(ok)
    assert.equal("conflict", why.code)
    other:acquire {tree = "/a", wait = 0}:release()
  end)

  it("a list is bounded", function()
    for _, code in ipairs {
      "mortise.mget(index, list)", "mortise.acquire {document = index, ids = list}",
      "mortise.acquire {tree = list}", "mortise.bulk(index, items)",
    } do
      fails("unsupported", function()
        run(everything, [[
          local list, items = {}, {}
          for i = 1, 10001 do list[i], items[i] = "/a/" .. i, {op = "delete", id = "x"} end
          ]] .. code)
      end)
    end
  end)

  it("rules that are none are refused, and options that are none", function()
    for _, rule in ipairs {"read", "read a b", "write", "write a under b", "lock", "lock a", "all", ""} do
      fails("invalid_argument", function() run({rule}, "") end)
    end
    for _, code in ipairs {
      "mortise.get(index, 'a1', {pipeline = 'x'})", "mortise.acquire {tree = '/a', orphans = 'resume'}",
      "mortise.bulk(index, {{id = 'a', script = 'x'}})", "mortise.get(index, nil)",
      "mortise.index(index, 'x', 1)",
      "mortise.scan(index, {page = 0})",
    } do
      local ok = pcall(run, everything, code)
      assert.is_false(ok, code)
    end
  end)

  it("a change of a job is made", function()
    local seen = {}
    local job = client:job {
      name = "boxed", index = index, lock = "/a", query = {match_all = {}},
      change = mortise.sandboxed([[
        local n = 0
        return function(doc)
          n = n + 1
          print(doc.id)
          doc.n = doc.n * 10
          doc.deep = {a = {1, mortise.null}, big = 9007199254740993}
        end]], {print = function(line) seen[#seen + 1] = line end}),
    }
    local result = job:run()
    assert.equal(3, result.changed)
    assert.equal(10, client:get(index, "a1").n)
    assert.equal('{"a":[1,null],"big":9007199254740993}', client:get(index, "a1").deep:_source())
    table.sort(seen)
    assert.same({"a1", "a2", "both"}, seen)
    job:rollback()
    assert.equal(1, client:get(index, "a1").n)
  end)

  it("a change that uses up what it may stops its job with its place", function()
    local job = client:job {
      name = "boxed", index = index, lock = "/a", query = {match_all = {}},
      change = mortise.sandboxed "return function(doc) doc.n = 0\nwhile true do end end",
    }
    local ok, why = pcall(job.run, job)
    assert.is_false(ok)
    assert.truthy(why.message:find "change:2: the sandbox is out of instructions", why.message)
    job:rollback()
    assert.equal(1, client:get(index, "a1").n)
  end)
end)

describe("mortise.sandboxed", function()
  local function view(source) return core.view(source or '{"n":1}', {id = "1", index = "i"}) end

  it("takes a function with what it uses", function()
    local factor, list, upper = 3, {1, {2}}, string.upper
    local reject = mortise.reject
    local function helper(n) return n <= 0 and 0 or factor + helper(n - 1) end -- luacheck: ignore
    local function recursive(n) return n <= 0 and 0 or factor + recursive(n - 1) end
    local change = mortise.sandboxed(function(doc)
      if doc.n == 7 then return reject "seven" end
      doc.n = recursive(doc.n) + list[2][1]
      doc.s = upper "x" .. ("y"):rep(2) .. tostring(helper)
      list[2][1] = 100
    end)
    local doc = view()
    local ok, why = pcall(change, doc)
    assert.is_false(ok and why ~= nil)
    assert.equal(5, doc.n)
    assert.equal(2, list[2][1]) -- its copy
    assert.equal("mortise.reject", getmetatable(change(view '{"n":7}')).__name)
  end)

  it("refuses what cannot go in, by name", function()
    local file, co = io.stdout, coroutine.create(print)
    for name, fn in pairs {
      file = function(doc) return file, doc end, co = function(doc) return co, doc end,
      getenv = (function() local getenv = os.getenv return function() return getenv "HOME" end end)(),
    } do
      local why = fails("invalid_argument", function() mortise.sandboxed(fn) end)
      assert.truthy(why.message:find("`" .. name .. "`", 1, true), why.message)
    end
    for _, value in ipairs {1, {}, true} do
      fails("invalid_argument", function() mortise.sandboxed(value) end)
    end
    fails("script_error", function() mortise.sandboxed "return 1" end)
    fails("script_error", function() mortise.sandboxed "return function( " end)
    fails("invalid_argument", function() mortise.sandboxed("return print", {memory = 1}) end)
  end)

  it("gets no globals of its program, and nothing of the store", function()
    for _, code in ipairs {"os.exit()", "io.open('/etc/x')", "mortise.get('a', 'b')", "mortise.sleep(1)"} do
      local change = mortise.sandboxed("return function(doc) " .. code .. " end")
      assert.is_false(pcall(change, view()), code)
    end
    local own = mortise.sandboxed(function() return os.getenv "HOME" end)
    assert.is_false(pcall(own, view()))
  end)

  it("goes on with the next document when one has used up what it may", function()
    local change = mortise.sandboxed([[
      return function(doc)
        if doc.n == 1 then while true do end end
        doc.n = mortise.now() > 0
      end]], {instructions = 100000})
    for _ = 1, 3 do
      local ok, why = pcall(change, view())
      assert.is_false(ok)
      assert.equal("instructions", why.budget)
      local doc = view '{"n":2}'
      change(doc)
      assert.is_true(doc.n)
    end
  end)

  it("returns what a change may", function()
    local change = mortise.sandboxed [[
      return function(doc)
        if doc.n == 1 then return end
        if doc.n == 2 then return mortise.delete end
        if doc.n == 3 then doc.n = nil doc.c = 1 return doc end
        if doc.n == 4 then
          return {{_id = "x", _source = {a = 1.0}}, {_id = "y", _routing = false, _source = doc}}
        end
        if doc.n == 5 then return 5 end
        return {odd = 1}
      end]]
    assert.is_nil(change(view '{"n":1}'))
    assert.equal(require("mortise.documents").delete, change(view '{"n":2}'))
    local doc = view '{"n":3,"m":1.0}'
    assert.is_nil(change(doc))
    assert.equal('{"m":1.0,"c":1}', doc:_source())
    local list = change(view '{"n":4}')
    assert.same({"x", '{"a":1.0}', "y", false, '{"n":4}'},
      {list[1]._id, list[1]._source:_source(), list[2]._id, list[2]._routing, list[2]._source:_source()})
    assert.is_false(pcall(change, view '{"n":5}'))
    assert.is_false(pcall(change, view '{"n":6}'))
  end)
end)
