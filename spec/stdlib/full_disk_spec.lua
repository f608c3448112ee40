-- A server's lock table that takes no more writes, as when its disk passes the flood stage.
local fails = require "spec.support.fails"
local stores = require "spec.support.stores"

stores.each("a full disk", function(store)
  if store.store:find "^sqlite:" then return end -- an embedded store's is in spec/hostile

  local client, name

  local function read_only(value)
    local settings = {["index.blocks.read_only_allow_delete"] = value}
    assert.equal(200, (client:raw("PUT", "/" .. name .. "-000001/_settings", settings)))
  end

  before_each(function()
    name = stores.name "table"
    client = stores.connect(store, {table = name})
    client:init()
  end)

  after_each(function()
    client:close()
    stores.connect(store):drop_index(name .. "-000001")
  end)

  it("is told to whoever has a session and wants a lock", function()
    client:with_tree_lock("/held", function()
      read_only(true)
      for _, wait in ipairs {"0", "500ms"} do
        local e = fails("unavailable", client.with_tree_lock, client, "/a/b", {wait = wait}, error)
        assert.matches("status 429: cluster_block_exception: .*read%-only", e.message)
        assert.matches(name, e.message, 1, true)
      end
      read_only(false)
    end)
    assert.equal("in", client:with_tree_lock("/a/b", function() return "in" end))
  end)
end)
