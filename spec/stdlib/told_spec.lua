-- An error in a function that processes documents says at which document; what mortise returns can be turned
-- into JSON.
local mortise = require "mortise"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

stores.each("an error in a script's function", function(store)
  local client, index

  before_each(function()
    client = stores.connect(store)
    local documents = {}
    for i = 1, 30 do documents[("d%02d"):format(i)] = {path = "/a", n = i} end
    index = stores.fill(client, documents)
  end)
  after_each(function() client:close() end)

  -- The error's text; of text, and of an object, as a task has it.
  local function failing(fn)
    local ok, why = pcall(fn)
    assert.is_false(ok)
    assert.equal("string", type(why))
    local task = mortise.spawn(fn)
    local joined, object = pcall(task.join, task)
    assert.is_false(joined)
    assert.equal("script_error", object.code)
    return {why, object.message}
  end

  local function all_say(texts, ...)
    for _, text in ipairs(texts) do says(text, ...) end
  end

  it("names the document of update, which is as it was", function()
    all_say(failing(function() client:update(index, "d07", function(doc)
      doc.n = 0
      error "no"
    end) end), "no (update of " .. index .. "/d07: nothing was written)")
    assert.equal(7, client:get(index, "d07").n)
  end)

  it("names the document of a scan, and how far it came", function()
    local seen = 0
    local function loop()
      seen = 0
      for doc in client:scan(index, {page = 4, slices = 1}) do
        seen = seen + 1
        if doc._id == "d07" then error "no" end
      end
    end
    local texts = failing(loop)
    all_say(texts, "no (at " .. index .. "/d07, document ", " of 30 of the scan)")
    assert.truthy(texts[2]:find(("document %d of 30"):format(seen), 1, true), texts[2])
    all_say(failing(function()
      local scan <close> = client:scan(index, {page = 4, slices = 1})
      assert(scan:next_page())
      assert(scan:next_page())
      error "no"
    end), "(after 8 of 30 documents of the scan of " .. index)
  end)

  it("names the document of map", function()
    all_say(failing(function()
      mortise.map(client:mget(index, {"d01", "d02"}), function(doc)
        if doc._id == "d02" then error "no" end
      end)
    end), "no (map: at " .. index .. "/d02)")
  end)

  it("says how far the rename came", function()
    all_say(failing(function()
      for _, each in ipairs(client:jobs()) do -- what the one before has written by then stands half-done
        if each.stands then client:get_job(each.job):rollback() end
      end
      client:rename {index = index, from = "/a", to = "/a2", allow_empty = true, merge = true,
        on_progress = function() error "no" end}
    end), "no (on_progress of job rename-", " documents done)")
  end)

  it("is told once for each loop, with mortise's own errors too", function()
    local ok, why = pcall(function()
      for doc in client:scan(index) do client:create(index, doc._id, {n = 1}) end
    end)
    assert.is_false(ok)
    assert.equal("conflict", why.code)
    assert.matches("%(at .*, document 1 of 30 of the scan%)$", why.message)
  end)

  it("stays what it is where it is neither text nor mortise's", function()
    local thrown = {}
    local ok, why = pcall(client.update, client, index, "d01", function() error(thrown) end)
    assert.is_false(ok)
    assert.equal(thrown, why)
    ok, why = pcall(function()
      for _ in client:scan(index) do error(thrown) end
    end)
    assert.is_false(ok)
    assert.equal(thrown, why)
  end)
end)

stores.each("a result", function(store)
  it("can be JSON, whatever it is empty of", function()
    local client <close> = stores.connect(store)
    local index = stores.fill(client, {a = {path = "/a", n = 1}})
    local other <close> = stores.connect(store, {namespace = client:namespace()})
    local json = mortise.json
    assert.equal("[]", json(client:bulk(index, {})))
    assert.equal("[]", json(client:mget(index, {})))
    assert.equal("[false]", json(client:mget(index, {"none"})))
    for _, value in ipairs {
      client:list(), client:list(true), client:stats(), client:init(), client:verify(),
      client:describe(index), client:search(index, {query = {match_none = {}}}), client:search(index),
      client:get(index, "a"), client:bulk(index, {{op = "delete", id = "none"}}),
      client:create(index, "b", {path = "/a"}), client:update(index, "b", {}),
      client:update(index, "b", {n = 2}), client:delete(index, "b"),
      client:rename {index = index, from = "/none", to = "/to", allow_empty = true},
      client:rename {index = index, from = "/a", to = "/b"}, client:scan(index):next_page(),
    } do
      assert.equal("string", type(json(value)))
    end
    client:with_document_locks(index, {query = {match_none = {}}}, function(lock)
      assert.equal("[]", json(lock.ids))
      assert.equal("string", type(json {lock.paths, lock.modes}))
      local w = lock:bulk(index)
      assert.equal("string", type(json(w:report())))
      assert.equal("string", type(json(w:finish())))
    end)
    client:with_document_locks(index, {}, function(lock) assert.equal("[]", json(lock.ids)) end)
    assert.equal("string", type(json(client:session())))
    client:with_tree_lock("/a", function(lock)
      local _, refusal = other:try_lock {tree = "/a"}
      assert.matches('"blockers":%[{', json(refusal))
      local doc = client:get(index, "a")
      client:update(index, "a", {n = 9})
      doc.n = 8
      local w = lock:bulk(index)
      w:save(doc)
      local ok, why = pcall(w.finish, w)
      assert.is_false(ok)
      assert.matches('"conflicts":%["a"%]', json(why))
    end)
    local ok, why = pcall(client.get, client, nil)
    assert.is_false(ok)
    assert.matches('"code":"invalid_argument"', json(why))
  end)
end)
