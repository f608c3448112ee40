-- Migrations: what they make of an index, what they refuse, how they are steered and taken back.
local core = require "mortise.core"
local migrations = require "spec.support.migrations"
local mortise = require "mortise"
local stores = require "spec.support.stores"

stores.each("a migration", function(store)
  local client, old, new, alias
  local is_embedded = store.name == "sqlite"

  before_each(function()
    client = stores.connect(store)
    old, new, alias = stores.name "old", stores.name "new", stores.name "alias"
    migrations.fill(client, old, alias)
  end)
  after_each(function()
    for _, index in ipairs {old, new} do pcall(client.drop_index, client, index) end
    client:close()
  end)

  local function migration(also)
    local o = {id = "m", from = old, to = new, alias = alias}
    for name, value in pairs(also or {}) do o[name] = value end
    return client:migrate(o)
  end

  local function await_wait(m, what)
    migrations.wait_for(function()
      local record = m:status()
      return record and record.waits and record.waits:find(what, 1, true)
    end)
  end

  local function named() return client:describe(alias).name end

  local function error_of(fn, ...)
    local ok, why = pcall(fn, ...)
    assert.is_false(ok)
    return why
  end

  it("copies all, moves the alias, and is a job", function()
    local m = migration {mappings = {properties = {n = {type = "keyword"}, more = {type = "text"}}}}
    local result = m:run()
    assert.same({"done", "swapped", 30, 0, 0},
      {result.state, result.phase, result.copied, result.dropped, result.rejected})
    assert.equal(new, named())
    assert.same(stores.sources(client, old), stores.sources(client, new))
    assert.equal("keyword", mortise.json(client:describe(new).json):match '\\"n\\":{\\"type\\":\\"(%a+)')
    local record = client:get_job("m"):status()
    assert.same({"done", 30, 30}, {record.state, record.total, record.counts.changed})
    client:index(alias, "d31", {path = "/a/31"})
    assert.equal("cluster_block_exception", error_of(client.index, client, old, "d32", {path = "/b"}).type)
  end)

  it("takes writes, and what is deleted and created again, along", function()
    local m, over = migration {}, false
    local model = {}
    for i = 1, 30 do model["d" .. i] = i end
    local writer = mortise.spawn(function()
      local i = 0
      while not over do
        i = i + 1
        local id = "d" .. i % 40
        local gone = i % 3 == 0 and model[id]
        local ok
        if gone then
          ok = pcall(client.delete, client, alias, id)
        else
          ok = pcall(client.index, client, alias, id, {path = "/a", n = -i})
        end
        if ok then model[id] = not gone and -i or nil else mortise.sleep(0.01) end
      end
    end)
    local ok, why = pcall(m.run, m)
    over = true
    writer:join()
    assert(ok, why)
    local found = {}
    client:refresh(new)
    for doc in client:scan(new) do found[doc._id] = doc.n end
    assert.same(model, found)
  end)

  it("copies what a function makes of a document", function()
    local m = migration {change = function(doc)
      if doc.n == 3 then return mortise.delete end
      doc.n = doc.n * 2
    end}
    local result = m:run()
    assert.same({29, 1}, {result.copied, result.dropped})
    assert.equal(14, client:get(new, "d7").n)
    assert.is_nil(client:get(new, "d3"))
  end)

  -- Each document is one of another id; those that divide by 3 are two, and by 10 none.
  local function split(doc)
    local n = doc.n
    if n % 10 == 0 then return {} end
    local list = {{_id = "x" .. doc._id, _source = doc}}
    if n % 3 == 0 then list[2] = {_id = "half-" .. doc._id, _source = {half = n / 2}} end
    return list
  end

  -- What the new index is to have of the old one.
  local function split_all()
    local expected = {}
    for id, text in pairs(stores.sources(client, old)) do
      local n = math.tointeger(tonumber(text:match '"n":(%d+)'))
      if n % 10 ~= 0 then expected["x" .. id] = text end
      if n % 10 ~= 0 and n % 3 == 0 then expected["half-" .. id] = mortise.json {half = n / 2} end
    end
    return expected
  end

  it("makes other documents of one", function()
    local m = migration {change = split, verify = "full"}
    local result = m:run()
    assert.same(split_all(), stores.sources(client, new))
    assert.same({27, 3, 36}, {result.copied, result.dropped, result.made})
    assert.equal(new, named())
  end)

  it("follows what is made of documents that change", function()
    local m = migration {change = split, verify = "full", cutover = "manual"}
    local task = migrations.start(m, "in step")
    for i = 1, 30 do client:index(alias, "d" .. i, {path = "/b", n = i + 1}) end
    client:delete(alias, "d6")
    client:index(alias, "d31", {path = "/b", n = 33})
    mortise.sleep(1.5)
    client:delete(alias, "d5")
    client:delete(alias, "d31")
    client:index(alias, "d6", {path = "/b", n = 4})
    m:cutover()
    local ok, result = task:join()
    assert.is_true(ok, result)
    assert.same(split_all(), stores.sources(client, new))
    assert.equal(new, named())
  end)

  it("is gone on with where documents become others", function()
    local m = migration {change = split, verify = "full", cutover = "manual"}
    local task = migrations.start(m, "in step")
    m:cancel()
    task:join()
    for i = 1, 30 do client:index(alias, "d" .. i, {path = "/b", n = i + 1}) end
    client:delete(alias, "d6")
    m:cutover()
    client:get_job("m", {change = split}):resume()
    assert.same(split_all(), stores.sources(client, new))
  end)

  it("names what would be made twice", function()
    local m = migration {change = function(doc)
      return {{_id = doc._id == "d2" and "d1" or doc._id, _source = doc}}
    end}
    local why = error_of(m.run, m)
    assert.same({"conflict", old}, {why.code, named()})
    assert.truthy(why.message:find("d1 (", 1, true), why.message)
    assert.truthy(why.message:find("made of d2", 1, true), why.message)
  end)

  it("sets aside what is no list of documents", function()
    local wrong = {{"x"}, {{_id = ""}}, {{id = "x"}}, {{_id = 1}}, {{_source = 1}}, {{_routing = 5}},
      {{_id = "a"}, {_id = "a"}}, {x = 1}}
    local m = migration {max_rejected = 100, change = function(doc)
      return wrong[doc.n] or nil
    end}
    assert.equal(#wrong, m:run().rejected)
    for each in m:rejected() do
      assert.truthy(each.reason:find "_" or each.reason:find "list", each.reason)
    end
  end)

  it("copies what a list of transforms makes of a document", function()
    local m = migration {change = {
      {cast = {field = "n", to = "string"}}, {rename_field = {from = "n", to = "number"}},
    }}
    assert.equal(30, m:run().copied)
    assert.equal("7", client:get(new, "d7").number)
    assert.is_nil(client:get(new, "d7").n)
    assert.has_error(function() migration {change = {{nothing = {}}}} end)
  end)

  it("sets aside what is refused, and then does not cut over", function()
    local function change(doc)
      if doc.n == 5 then return mortise.reject "it is odd" end
      if doc.n == 6 then error "no" end
    end
    local m = migration {change = change}
    local why = error_of(m.run, m)
    assert.equal("rejected", why.code)
    assert.matches("2 documents were set aside", why.message)
    assert.equal(old, named())
    assert.is_true(m:status().stands)
    local reasons = {}
    for each in m:rejected() do reasons[each.id] = each.reason end
    assert.equal("it is odd", reasons.d5)
    assert.matches(": no ", reasons.d6)
    local again = client:get_job("m", {change = change, max_rejected = 2})
    local result = again:resume()
    assert.same({28, 2}, {result.copied, result.rejected})
    assert.equal(new, named())
  end)

  if not is_embedded then
    it("sets aside what the new mapping refuses", function()
      client:index(alias, "bad", {path = "/a", n = 7, text = "a"})
      local m = migration {mappings = {properties = {text = {type = "integer"}}}, max_rejected = 1}
      assert.equal(1, m:run().rejected)
      assert.equal("bad", m:rejected()().id)
      assert.is_nil(client:get(new, "bad"))
    end)
  end

  it("waits to be told", function()
    local m = migration {cutover = "manual"}
    local task = migrations.start(m, "in step")
    client:index(alias, "late", {path = "/late"})
    assert.equal(old, named())
    client:get_job("m"):cutover()
    local _, result = task:join()
    assert.equal("swapped", result.phase)
    assert.equal("/late", client:get(new, "late").path)
  end)

  it("can be cancelled, and gone on with by another", function()
    local m = migration {cutover = "manual"}
    local task = migrations.start(m, "in step")
    client:get_job("m"):cancel()
    local ok, why = task:join()
    assert.is_false(ok)
    assert.equal("interrupted", why.code)
    assert.equal("stopped", m:status().state)
    client:get_job("m"):cutover()
    assert.equal("swapped", client:get_job("m"):resume().phase)
    assert.equal(new, named())
  end)

  it("goes back, but not over what was written since", function()
    migration():run()
    local m = client:get_job "m"
    assert.same({from = old, to = new, alias = alias, written = 0}, m:plan_rollback())
    client:index(alias, "d1", {path = "/changed"})
    assert.equal(1, m:plan_rollback().written)
    assert.equal("conflict", error_of(m.rollback, m).code)
    assert.same({new, "done", "swapped"}, {named(), m:status().state, migrations.phase(m)})
    client:index(alias, "d2", {path = "/changed"})
    assert.equal("undone", client:get_job("m"):rollback({others = 2}).state)
    assert.equal(old, named())
    assert.is_false(client:describe(new).exists)
    client:index(alias, "d3", {path = "/b"})
    assert.equal("/a/1", client:get(alias, "d1").path)
  end)

  it("may be run again once it was taken back", function()
    migration():run()
    assert.equal("conflict", error_of(function() migration():run() end).code)
    client:get_job("m"):rollback()
    assert.equal("swapped", migration():run().phase)
    assert.equal(new, named())
  end)

  it("waits for locks that others hold, and takes writes meanwhile", function()
    local held = client:acquire {tree = "/a"}
    local m = migration {lock = "/a", wait = 0}
    local task = migrations.start(m, "cutting over")
    await_wait(m, "others hold")
    client:index(alias, "d1", {path = "/a/new"})
    held:release()
    local _, result = task:join()
    assert.equal("swapped", result.phase)
  end)

  it("is finished, after which there is no way back", function()
    local m = migration()
    assert.has_error(function() m:finish() end)
    m:run()
    m:finish {delete = true}
    assert.is_false(client:describe(old).exists)
    assert.equal("finished", m:status().work.phase)
    assert.equal("conflict", error_of(m.rollback, m).code)
    m:finish()
  end)

  for _, how in ipairs {"sample", "full"} do
    it("compares contents before it moves the alias: " .. how, function()
      local m = migration {
        verify = how, change = function(doc)
          if doc._id == "d5" then return mortise.delete end
          doc.n = doc.n + 1
        end,
      }
      local result = m:run()
      assert.equal(new, named())
      if how == "full" then
        assert.equal(30, result.compared)
      else
        assert.is_true(result.compared > 0 and result.compared < 31)
      end
    end)
  end

  it("finds a function that does not depend on the document alone", function()
    local n = 0
    local m = migration {verify = "full", change = function(doc)
      n = n + 1
      doc.n = n
    end}
    local why = error_of(m.run, m)
    assert.same({"conflict", old}, {why.code, named()})
    assert.truthy(why.message:find("it must depend on the document alone", 1, true))
    client:index(alias, "d31", {path = "/takes/writes"})
  end)

  it("finds what others have written to the new index", function()
    local m = migration {cutover = "manual", verify = "full"}
    local task = migrations.start(m, "in step")
    client:index(new, "d7", {path = "/others", n = 0})
    client:get_job("m"):cutover()
    local ok, why = task:join()
    assert.same({false, "conflict", old}, {ok, why.code, named()})
    assert.truthy(why.message:find "document d7 has ", why.message)
  end)

  if not is_embedded then
    it("names documents of one id that would be one", function()
      client:index(alias, "twice", {path = "/x"}, {routing = "r1"})
      for i = 2, 40 do
        client:index(alias, "twice", {path = "/x"}, {routing = "r" .. i})
        client:refresh(old)
        if client:count(old) == 32 then break end
      end
      local m = migration {settings = {number_of_shards = 1}}
      local why = error_of(m.run, m)
      assert.same({"conflict", old}, {why.code, named()})
      assert.truthy(why.message:find("twice (r", 1, true), why.message)
      client:index(alias, "d31", {path = "/takes/writes"})
    end)
  end

  it("gives up a pause that is too long, and tries again", function()
    local now_ms, ahead = core.now_ms, 0
    finally(function() core.now_ms = now_ms end)
    core.now_ms = function() -- on which every pause is too long: the embedded store needs but a millisecond
      ahead = ahead + 5
      return now_ms() + ahead
    end
    local m = migration {max_pause = 0.001}
    local task = mortise.spawn(function() return pcall(m.run, m) end)
    await_wait(m, "would have been refused")
    client:index(alias, "d1", {path = "/still"}) -- it takes writes
    assert.equal(old, named())
    client:get_job("m"):cancel()
    task:join()
    client:get_job("m"):rollback()
    assert.equal("/still", client:get(alias, "d1").path)
  end)

  it("fills an index that was made by hand", function()
    client:create_index(new, {settings = {number_of_replicas = 0, refresh_interval = "7s"}})
    local m = migration {given = true}
    assert.equal(30, m:run().copied)
    assert.matches('7s', client:describe(new).json)
  end)

  it("locks what it is told to while writes are refused", function()
    local held = client:acquire {tree = "/a"}
    local m = migration {lock = "/a"}
    local task = migrations.start(m, "cutting over")
    client:index(alias, "d1", {path = "/a/new"}) -- it is not blocked before it has the lock
    held:release()
    local _, result = task:join()
    assert.equal("swapped", result.phase)
    assert.equal("/a/new", client:get(new, "d1").path)
    assert.is_not_nil(client:try_lock {tree = "/a", wait = 0})
  end)

  if not is_embedded then
    it("leaves nothing where the new index cannot be made", function()
      local m = migration {mappings = {properties = {n = {type = "no-such-type"}}}}
      assert.has_error(function() m:run() end)
      assert.equal("undone", m:status().state)
      assert.equal(old, named())
      assert.equal("swapped", migration():run().phase)
    end)

    it("refuses what a template would add to the new index", function()
      local body = {index_patterns = {new .. "*"}, mappings = {properties = {x = {type = "keyword"}}}}
      client:raw("PUT", "/_template/" .. new, body)
      local plan = migration():plan()
      client:raw("DELETE", "/_template/" .. new)
      assert.equal("unsupported", plan.refusals[1].code)
      assert.matches("index template .* would add mappings to", plan.refusals[1].message)
      assert.same({}, migration():plan().refusals)
      assert.is_true(plan.disk.free > plan.disk.needed)
    end)
  end

  it("refuses, before it writes, what it cannot do", function()
    local function refused(also)
      local why = error_of(function() migration(also):run() end)
      return why.code, why.message
    end
    assert.same("not_found", (refused {from = stores.name "none"}))
    assert.same("not_found", (refused {alias = stores.name "none"}))
    client:create_index(new)
    local code, message = refused()
    assert.equal("conflict", code)
    assert.matches(new, message, 1, true)
    assert.equal("invalid_argument", (refused {to = old}))
    assert.equal("invalid_argument", (refused {lock = 7}))
    client:_open_core():alias_move(alias .. "-2", nil, old)
    local plan = migration():plan()
    assert.same({alias .. "-2"}, plan.aliases_left)
    assert.equal("conflict", plan.refusals[1].code)
    assert.is_nil(migration():status())
  end)
end)
