-- A document without a source, or with an invalid one, is reported as such, and never read as a document.
local fails = require "spec.support.fails"
local mortise = require "mortise"
local stores = require "spec.support.stores"

stores.each("documents that were read without their source", function(store)
  local client, index
  before_each(function()
    client = stores.connect(store)
    index = stores.fill(client, {a = {path = "/a", n = 1}})
  end)
  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  it("have an id and a version, and refuse everything else", function()
    local n = 0
    for doc in client:scan(index, {source = false}) do
      n = n + 1
      assert.equal("a", doc._id)
      assert.equal("a", doc.id)
      assert.equal("integer", math.type(doc._seq_no))
      assert.is_nil(doc:_source())
      assert.matches("document a", tostring(doc), 1, true)
      local looks = {
        function() return doc.path end, function() return doc:_get "path" end,
        function() return doc:_table() end, function() return mortise.json(doc) end,
        function() for _ in pairs(doc) do error "a field" end end,
        function() doc.path = "/b" end, function() doc:_set("path", "/b") end,
        function() return doc:_changed() end, function() return doc:_changes() end,
        function() client:index(index, "b", doc) end,
      }
      for _, look in ipairs(looks) do
        local why = fails("invalid_argument", look)
        assert.matches("document a was read without its source", why.message, 1, true)
      end
      client:with_tree_lock("/a", function(lock)
        local w <close> = lock:bulk(index)
        fails("invalid_argument", w.save, w, doc)
        w:delete(doc)
      end)
    end
    assert.equal(1, n)
    assert.is_nil(client:get(index, "a"))
  end)
end)

stores.each("text that is no UTF-8", function(store)
  it("is refused, and nothing is written", function()
    local client <close> = stores.connect(store)
    local index = stores.fill(client, {a = {path = "/a"}})
    for _, bytes in ipairs {"\xff", "x\x80", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80"} do
      local result = client:bulk(index, {{id = "b", doc = ('{"name":"%s"}'):format(bytes)}})[1]
      assert.equal("rejected", result.result)
      assert.equal(400, result.status)
      fails("rejected", client.index, client, index, "b", {name = bytes})
      assert.equal("rejected", client:bulk(index, {{id = "b" .. bytes, doc = {a = 1}}})[1].result)
    end
    assert.is_nil(client:get(index, "b"))
    client:drop_index(index)
  end)
end)

describe("an embedded store with texts that are no documents", function()
  local bad = {
    quote = '{"a":"}', bracket = '{"a":["]}', empty = "", text = "x", brace = "{", key = '{"',
    number = '{"a":-', escape = '{"a":"\\', hex = '{"a":"\\u12', array = "[1]", null = "null",
    deep = '{"a":' .. ("["):rep(100000) .. "}", bytes = "\xff\xfe{",
  }

  -- The file's own tables, behind mortise's back.
  local function spoil(file, text)
    local hex = text:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
    local pipe = assert(io.popen(("sqlite3 '%s'"):format(file), "w"))
    pipe:write(("update docs set source = cast(x'%s' as text) where id = 'b';\n"):format(hex))
    assert(pipe:close())
  end

  for name, text in pairs(bad) do
    it("says which: " .. name, function()
      local file = stores.temporary ".db"
      local client <close> = mortise.connect {store = "sqlite:" .. file}
      client:create_index("x", {mappings = {properties = {a = {type = "keyword"}}}})
      for _, id in ipairs {"a", "b"} do client:index("x", id, {a = id}) end
      spoil(file, text)
      local looks = {
        function() client:get("x", "b") end,
        function() client:count("x", {term = {c = "v"}}) end,
        function() client:count("x", {exists = {field = "a.b"}}) end,
        function() client:search("x", {sort = {"a"}}) end,
        function() client:search("x", {_source = {"a"}}) end,
        function() for _ in client:scan "x" do end end,
        function() client:update("x", "b", {n = 1}) end,
        function() client:rename {index = "x", field = "a", from = "/a", to = "/b", allow_empty = true,
          query = {ids = {values = {"b"}}}} end,
      }
      for i, look in ipairs(looks) do
        local ok, why = pcall(look)
        if not ok then
          assert.equal(i .. " corrupt_table", i .. " " .. tostring(mortise.is_error(why) and why.code or why))
          assert.matches("document b is no JSON object", why.message, 1, true)
        else
          assert.is_true(i == 4 or i == 8, "look " .. i .. " went well")
        end
      end
      assert.equal("a", client:get("x", "a").a)
      os.execute(("rm -f -- '%s'*"):format(file))
    end)
  end
end)
