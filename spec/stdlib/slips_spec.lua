-- Common slips that mean something other than intended are reported.
local fails = require "spec.support.fails"
local stores = require "spec.support.stores"

stores.each("slips", function(store)
  local client, index
  before_each(function()
    client = stores.connect(store)
    index = stores.fill(client, {a = {path = "/a", n = 1}})
  end)
  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  it("an error without a value is one: what its block gathered is not written", function()
    for _, nothing in ipairs {function() error() end, function() error(nil) end} do
      local helpers = {
        function(fn) client:with_tree_lock("/a", fn) end, function(fn) client:with_global_lock(fn) end,
        function(fn) client:with_lock("a", "b", fn) end,
        function(fn) client:with_document_locks(index, {"x"}, fn) end,
      }
      for _, helper in ipairs(helpers) do
        local ok, why = pcall(helper, function(lock)
          lock:bulk(index):index("x", {n = 1})
          nothing()
        end)
        assert.is_false(ok)
        assert.is_nil(why)
        assert.is_nil(client:get(index, "x"))
      end
    end
    assert.equal(7, client:with_tree_lock("/a", function(lock)
      lock:bulk(index):index("x", {n = 1})
      return 7
    end))
    assert.equal(1, client:get(index, "x").n)
  end)

  it("a scan is no list", function()
    local scan <close> = client:scan(index)
    for _, look in ipairs {
      function() for _ in ipairs(scan) do error "a document" end end,
      function() for _ in pairs(scan) do error "a field" end end,
      function() return #scan end, function() return scan[1] end,
    } do
      assert.matches("a scan is no list", fails("invalid_argument", look).message)
    end
    assert.equal(1, scan.total)
    assert.equal("a", scan:next()._id)
  end)

  it("what a function for update returns is not what is written", function()
    for _, result in ipairs {{n = 2}, "x", false} do
      local why = fails("invalid_argument", client.update, client, index, "a", function() return result end)
      assert.matches("changes the view", why.message)
    end
    client:update(index, "a", function(doc) doc.n = 3 return doc end)
    assert.equal(3, client:get(index, "a").n)
  end)
end)
