local mortise = require "mortise"
local stores = require "spec.support.stores"

local function code_of(fn, ...)
  local ok, why = pcall(fn, ...)
  assert.is_false(ok)
  return why.code, why
end

stores.each("documents", function(store)
  local client, index
  before_each(function()
    client = stores.connect(store)
    index = stores.fill(client, {a = {path = "/a", n = 1}})
  end)
  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  it("are created, read, changed and removed", function()
    local made = client:create(index, "x/1",
      {path = "/x", big = 1234567890123456789, list = mortise.array {}})
    assert.equal("applied", made.result)
    local view = client:get(index, "x/1")
    assert.equal(1234567890123456789, view.big)
    assert.equal('{"big":1234567890123456789,"list":[],"path":"/x"}', view:_source())
    assert.equal("conflict", (code_of(client.create, client, index, "x/1", {n = 1})))
    client:update(index, "x/1", {path = "/y"})
    client:update(index, "x/1", function(doc) doc.extra = {deep = true} end)
    assert.equal('{"big":1234567890123456789,"list":[],"path":"/y","extra":{"deep":true}}',
      client:get(index, "x/1"):_source())
    assert.equal("noop", client:update(index, "x/1", {path = "/y"}).result)
    client:delete(index, "x/1")
    assert.is_nil(client:get(index, "x/1"))
    assert.equal("not_found", (code_of(client.delete, client, index, "x/1")))
    assert.equal("not_found", (code_of(client.update, client, index, "x/1", {})))
  end)

  it("are all scanned, also where their ids do not fit into memory at once", function()
    local items, n, seen, count = {}, 8000, {}, 0
    for i = 1, n do items[i] = {op = "index", id = ("0"):rep(90) .. i, doc = {n = i}} end
    client:bulk(index, items, {refresh = true})
    for view in client:scan(index, {page = 700}) do
      assert.is_nil(seen[view._id])
      seen[view._id], count = true, count + 1
    end
    assert.equal(n + 1, count)
  end)

  it("are written only at the version that is named", function()
    local view = client:get(index, "a")
    client:index(index, "a", {n = 2}, {if_seq_no = view._seq_no, if_term = view._term})
    assert.equal("conflict", (code_of(client.index, client, index, "a", {n = 3},
      {if_seq_no = view._seq_no, if_term = view._term})))
    assert.equal(2, client:get(index, "a").n)
  end)

  it("are changed by many without a loss", function()
    mortise.map({1, 2, 3, 4, 5, 6}, function()
      for _ = 1, 5 do client:update(index, "a", function(doc) doc.n = doc.n + 1 end, {retries = 100}) end
    end, {limit = 6})
    assert.equal(31, client:get(index, "a").n)
  end)

  it("are read many at a time", function()
    local list = client:mget(index, {"a", "none"})
    assert.equal("/a", list[1].path)
    assert.is_false(list[2])
  end)

  it("are written many at a time, each with its result", function()
    local results = client:bulk(index, {
      {op = "index", id = "b", doc = {path = "/b"}},
      {op = "create", id = "a", doc = {path = "/b"}},
      {op = "delete", id = "none"},
      {op = "update", id = "a", doc = {more = 1}},
    })
    local names = {}
    for i, each in ipairs(results) do names[i] = each.result end
    assert.same({"applied", "conflict", "missing", "applied"}, names)
    assert.same({}, client:bulk(index, {}))
    local _, why = code_of(client.bulk, client, index, {{id = "x", dco = {}}})
    assert.matches("did you mean `doc`", why.message)
  end)

  it("are counted and searched by tables or JSON", function()
    client:index(index, "b", {path = "/b"})
    client:refresh(index)
    assert.equal(2, client:count(index))
    assert.equal(2, client:count(index, {match_all = {}}))
    assert.equal(1, client:count(index, '{"term":{"path":"/b"}}'))
    local answer = client:search(index, {query = {term = {path = "/a"}}, size = 5})
    assert.equal("/a", answer.hits.hits[1]._source.path)
    assert.equal(1, #answer.hits.hits)
  end)

  it("are scanned", function()
    local items = {}
    for i = 1, 250 do items[i] = {op = "index", id = "s" .. i, doc = {path = "/s", n = i}} end
    client:bulk(index, items)
    client:refresh(index)
    local seen, sum = 0, 0
    for doc in client:scan(index, {query = {term = {path = "/s"}}, page = 20}) do
      seen, sum = seen + 1, sum + doc.n
    end
    assert.same({250, 250 * 251 // 2}, {seen, sum})
    do
      local scan <close> = client:scan(index, {source = false})
      assert.equal(251, scan.total)
      assert.is_string(scan:next()._id)
    end
    for doc in client:scan(index, {page = 10}) do
      if doc then break end
    end
    local pages = 0
    local scan <close> = client:scan(index, {page = 50, slices = 1})
    for page in function() return scan:next_page() end do pages = pages + #page end
    assert.equal(251, pages)
    assert.is_nil(scan:next())
    local ids = coroutine.wrap(function()
      for doc in client:scan(index, {query = {term = {path = "/a"}}}) do coroutine.yield(doc._id) end
    end)
    assert.equal("a", ids())
  end)

  it("are views in a scan, also where others delete some meanwhile", function()
    local gone = {}
    for i = 1, 30 do client:create(index, "g" .. i, {path = "/g"}) end
    client:refresh(index)
    local n = 0
    for doc in client:scan(index, {query = {term = {path = "/g"}}, page = 3, slices = 1}) do
      assert.equal("/g", doc.path)
      n = n + 1
      for i = 1, n == 1 and 30 or 0 do
        local id = "g" .. i
        if id ~= doc._id and i % 2 == 0 then
          client:delete(index, id)
          gone[#gone + 1] = id
        end
      end
    end
    assert.is_true(n >= 30 - #gone and n <= 30)
    local scan <close> = client:scan(index, {query = {term = {path = "/g"}}, page = 10, slices = 1})
    local pages = 0
    client:delete(index, scan:next()._id)
    for page in function() return scan:next_page() end do
      for _, doc in ipairs(page) do
        assert.equal("/g", doc.path)
        pages = pages + 1
        pcall(client.delete, client, index, doc._id)
      end
    end
    assert.is_true(pages >= 30 - #gone - 1)
  end)

  it("are not scanned in an index whose name is too long for a request", function()
    assert.is_false((pcall(client.scan, client, ("i"):rep(1 << 17))))
    assert.is_false((pcall(client.scan, client, index .. (","):rep(1 << 16), {slices = 3})))
  end)

  it("refuse what makes no sense", function()
    for _, call in ipairs {
      function() client:create(index, nil, {}) end, function() client:index(index, "", {}) end,
      function() client:index(index, "x", {{}}, {rooting = "r"}) end,
      function() client:bulk(index, {{op = "upsert", id = "x", doc = {a = 1}}}) end,
      function() client:scan(index, {qeury = {}}) end,
    } do
      assert.equal("invalid_argument", (code_of(call)))
    end
    assert.equal("not_found", (code_of(client.count, client, index .. "-not")))
  end)
end)

stores.each("a lock's writer", function(store)
  local client, index
  before_each(function()
    client = stores.connect(store)
    index = stores.fill(client, {a = {n = 1}, b = {n = 2}, c = {n = 3}})
  end)
  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  it("writes what was changed and accounts for every item", function()
    local report = client:with_tree_lock("/w", function(lock)
      local w <close> = lock:bulk(index, {batch = 2})
      for doc in lock:scan(index) do
        if doc.n > 1 then doc.n = doc.n * 10 end
        w:save(doc)
      end
      w:create("d", {n = 4})
      w:add {op = "delete", id = "a"}
      return w:finish()
    end)
    assert.same({4, 1, 0, 0}, {report.applied, report.unchanged, report.conflict, report.rejected})
    assert.equal(20, client:get(index, "b").n)
    assert.equal(4, client:get(index, "d").n)
    assert.is_nil(client:get(index, "a"))
  end)

  it("notices who writes without a lock", function()
    client:with_tree_lock("/w", function(lock)
      local w = lock:bulk(index)
      for doc in lock:scan(index) do
        doc.n = 0
        w:save(doc)
      end
      client:index(index, "b", {n = 99})
      local ok, why = pcall(w.finish, w)
      assert.is_false(ok)
      assert.equal("conflict", why.code)
      assert.same({"b"}, why.report.conflicts)
      assert.equal(2, why.report.applied)
    end)
    assert.equal(99, client:get(index, "b").n)
  end)

  it("sends nothing more when its block is left by an error", function()
    pcall(client.with_tree_lock, client, "/w", function(lock)
      local w <close> = lock:bulk(index)
      w:index("z", {n = 1})
      error "no"
    end)
    assert.is_nil(client:get(index, "z"))
    client:with_tree_lock("/w", function(lock)
      local w <close> = lock:bulk(index)
      w:index("z", {n = 1})
    end)
    assert.equal(1, client:get(index, "z").n)
  end)

  it("stamps, and changes nothing that a later lock has stamped", function()
    client:with_tree_lock("/w", function(earlier)
      client:with_tree_lock("/w", function(later)
        assert.is_true(later.fence > earlier.fence)
        local w = later:bulk(index, {strength = "stamp"})
        for doc in later:scan(index) do
          doc.n = doc.n * 10
          if doc._id ~= "c" then w:save(doc) end
        end
        assert.equal(2, w:finish().applied)
      end)
      local stamp = client:get(index, "a").mortise_stamp
      assert.equal("integer", math.type(stamp.fence))
      assert.equal(client:verify().epoch, stamp.epoch)
      local w = earlier:bulk(index, {strength = "stamp"})
      w:index("a", {n = 0})
      w:delete "b"
      w:add {op = "update", id = "c", doc = {seen = true}}
      w:create("d", {n = 4})
      local ok, why = pcall(w.finish, w)
      assert.is_false(ok)
      assert.equal("conflict", why.code)
      assert.equal("stamped", why.type)
      assert.same({2, 2}, {why.report.applied, why.report.conflict})
      assert.equal("a", why.report.stamped[1].id)
      assert.matches("later lock", why.report.stamped[1].reason)
      assert.equal(earlier.fence, client:get(index, "d").mortise_stamp.fence)
      earlier:bulk(index, {strength = "stamp", stamp_field = "by"}):close()
    end)
    assert.same({10, 20, 3}, {client:get(index, "a").n, client:get(index, "b").n, client:get(index, "c").n})
    client:with_tree_lock("/w", function(lock)
      local w <close> = lock:bulk(index, {strength = "stamp", stamp_field = "meta.by"})
      w:index("e", {n = 5})
      w:finish()
      assert.equal(lock.fence, client:get(index, "e").meta.by.fence)
      assert.has_error(function() lock:bulk(index, {strength = "strong"}) end)
    end)
  end)

  it("stamps what it renames", function()
    client:index(index, "p", {path = "/p/1"})
    client:rename {index = index, from = "/p", to = "/q", strength = "stamp"}
    local doc = client:get(index, "p")
    assert.equal("/q/1", doc.path)
    assert.equal("integer", math.type(doc.mortise_stamp.fence))
  end)

  it("ends with its lock", function()
    local lock = client:acquire {tree = "/w"}
    local w = lock:bulk(index)
    lock:release()
    assert.has_error(function()
      w:index("z", {n = 1})
      w:finish()
    end)
    assert.is_nil(client:get(index, "z"))
  end)
end)
