-- What `print` shows of the things that the module gives.
local mortise = require "mortise"
local stores = require "spec.support.stores"

stores.each("what is printed", function(store)
  local client, index
  before_each(function()
    client = stores.connect(store)
    index = stores.fill(client, {a = {path = "/a", n = 1}})
  end)
  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  local function shows(value, ...)
    local text = tostring(value)
    for _, pattern in ipairs {...} do assert.matches(pattern, text) end
    assert.not_matches("table: 0x", text)
  end

  it("is what documents and answers hold", function()
    shows(client:get(index, "a"), '^document luaspec%-docs.-/a {n = 1, path = "/a"}$')
    shows(client:mget(index, {"a", "none"}), 'path = "/a"', "false")
    local found = client:search(index, {query = {match_all = {}}})
    shows(found, 'path = "/a"', "hits = {")
    shows(found.hits.hits, '_id = "a"')
    shows(client:create(index, "b", {path = "/b"}), 'id = "b"', 'result = "applied"')
    shows(client:update(index, "b", {path = "/b"}), 'result = "noop"')
    shows(client:update(index, "b", {path = "/c"}), 'result = "applied"')
    local results = client:bulk(index, {{op = "create", id = "a", doc = {n = 1}}})
    shows(results, 'result = "conflict"')
    shows(results[1], 'result = "conflict"')
    shows(client:describe(index), "exists = true")
  end)

  it("is what became of a writer's items and of a rename", function()
    client:with_tree_lock("/a", function(lock)
      local w <close> = lock:bulk(index)
      w:index("c", {path = "/a/c"})
      shows(w:finish(), "applied = 1", "conflicts = mortise.array {}")
    end)
    shows(client:rename {index = index, from = "/a", to = "/z"}, "changed = 2")
  end)

  it("is what is known of the client", function()
    local _ <close> = client:acquire {tree = "/shown"}
    shows(client:session(), "id = ", "lost = false")
    shows(client:stats(), "requests = ")
    shows(client:verify(), "epoch = ")
    shows(client:list(), 'path = "/shown"')
    assert.equal('{"a":[1]}', mortise.json(mortise.object {a = mortise.array {1}}))
  end)
end)
