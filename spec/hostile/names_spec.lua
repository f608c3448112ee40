-- A zero byte ends a name for C code, so a name with one is refused wherever it is given.
local core = require "mortise.core"
local fails = require "spec.support.fails"
local mortise = require "mortise"
local stores = require "spec.support.stores"

local nul = "keep\0-not"

describe("a zero byte in an option of connect", function()
  for _, name in ipairs {"store", "namespace", "table", "job", "user", "password", "ca", "cert", "key"} do
    it("is refused: " .. name, function()
      local given = {store = "http://127.0.0.1:1"}
      given[name] = (given[name] or "keep") .. "\0-not"
      fails("invalid_argument", mortise.connect, given)
    end)
  end

  it("is refused by what stands below it", function()
    for _, name in ipairs {"store", "ns", "table", "job", "user"} do
      local given = {store = "http://127.0.0.1:1"}
      given[name] = (given[name] or "keep") .. "\0-not"
      fails("invalid_argument", core.open, given)
    end
  end)
end)

stores.each("a zero byte", function(store)
  local client, index, lock
  before_each(function()
    client = stores.connect(store)
    index = stores.fill(client, {a = {path = "/a"}})
    lock = client:acquire {tree = "/x"}
  end)
  after_each(function()
    lock:release()
    client:drop_index(index)
    client:close()
  end)

  it("is in no index, id, routing, field, path or name", function()
    local doc = {a = 1}
    local calls = {
      function() client:get(nul, "a") end, function() client:get(index, nul) end,
      function() client:get(index, "a", {routing = nul}) end,
      function() client:index(nul, "a", doc) end, function() client:index(index, nul, doc) end,
      function() client:index(index, "b", doc, {routing = nul}) end,
      function() client:create(index, nul, doc) end, function() client:update(index, nul, doc) end,
      function() client:delete(index, nul) end, function() client:delete(nul, "a") end,
      function() client:bulk(nul, {{op = "index", id = "b", doc = doc}}) end,
      function() client:bulk(index, {{op = "index", id = nul, doc = doc}}) end,
      function() client:bulk(index, {{op = "index", index = nul, id = "b", doc = doc}}) end,
      function() client:bulk(index, {{op = "index", id = "b", routing = nul, doc = doc}}) end,
      function() client:mget(index, {"a", nul}) end, function() client:count(nul) end,
      function() client:refresh(nul) end, function() client:describe(nul) end,
      function() client:create_index(nul) end, function() client:drop_index(index .. "\0x") end,
      function() client:search(nul, {}) end, function() for _ in client:scan(nul) do end end,
      function() client:acquire {tree = "/a\0b"} end, function() client:acquire {named = {nul, "a"}} end,
      function() client:acquire {named = {"a", nul}} end,
      function() client:acquire {document = nul, ids = {"a"}} end,
      function() client:acquire {document = index, ids = {nul}} end,
      function() client:with_document_locks(nul, {"a"}, function() end) end,
      function() client:with_document_locks(index, {nul}, function() end) end,
      function() client:rename {index = nul, from = "/a", to = "/b"} end,
      function() client:rename {index = index, field = nul, from = "/a", to = "/b"} end,
      function() client:rename {index = index, from = "/a\0", to = "/b"} end,
      function() client:_break_session(("a"):rep(32) .. "\0") end,
      function() client:_read_locks {"/a\0b"} end, function() client:_read_locks({"/a"}, nul) end,
      function() client:_read_sessions {nul} end, function() client._core:list({ns = nul}):next() end,
      function() lock:bulk(nul) end, function() lock:scan(nul) end,
      function()
        local w <close> = lock:bulk(index)
        w:index(nul, doc)
      end,
      function()
        local w <close> = lock:bulk(index)
        w:delete(nul)
      end,
      function() lock:bulk(index, {field = nul}) end,
      function() core.open {store = nul} end,
    }
    for i, call in ipairs(calls) do
      local ok, why = pcall(call)
      assert.equal(i .. " invalid_argument", i .. " " .. tostring(not ok and why.code or ok))
    end
    assert.equal(1, client:count(index))
  end)
end)

stores.each("documents below a path with a line break", function(store)
  it("are renamed away under a lock above it", function()
    local client <close> = stores.connect(store)
    local index = stores.fill(client, {a = {path = "/d/x\ny"}, b = {path = "/d/x\ny/z"}, c = {path = "/d/x"}})
    local names = {index = index, from = "/d/x\ny", to = "/d/fine"}
    fails("invalid_argument", client.rename, client, names)
    client:with_tree_lock("/d", function(lock)
      names.lock = lock
      assert.equal(2, client:rename(names).changed)
      names.from, names.to = "/d/fine", "/d/a\nb"
      fails("invalid_argument", client.rename, client, names)
    end)
    assert.equal("/d/fine/z", client:get(index, "b").path)
    client:drop_index(index)
  end)
end)
