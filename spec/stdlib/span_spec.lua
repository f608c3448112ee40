-- What a migration asks of a store, as the library has it from the core.
local core_json = require "mortise.core"
local stores = require "spec.support.stores"

local json = {decode = core_json.json_decode, encode = core_json.json}

stores.each("sequence numbers", function(store)
  local client, core, index, target

  before_each(function()
    client = stores.connect(store)
    core = client:_open_core()
    index, target = stores.name "span", stores.name "span-to"
    core:index_create(index, '{"settings":{"number_of_shards":2,"number_of_replicas":0}}')
    core:index_create(target, '{"settings":{"number_of_shards":1,"number_of_replicas":0}}')
    local items = {}
    for i = 1, 100 do
      local routing = i % 4 == 0 and "r" or nil
      items[i] = {kind = "index", id = "d" .. i, routing = routing, body = '{"n":' .. i .. '}'}
    end
    core:bulk(index, items)
    core:refresh(index)
  end)
  after_each(function()
    core:index_drop(index)
    core:index_drop(target)
    client:close()
  end)

  -- fn(page, shard) for each row of numbers of each shard.
  local function each_page(fn, no_source)
    local shards = core:shards(index)
    for k, shard in ipairs(shards) do
      for from = 0, shard.global_checkpoint, 32 do
        local how = {primary = shards.primary, no_source = no_source}
        local page <close> = core:range(index, k - 1, from, from + 32, how)
        fn(page, k - 1)
      end
    end
  end

  it("are counted in rows", function()
    local sum, operations = 0, 0
    for k, shard in ipairs(core:shards(index)) do
      local counts, total = core:intervals(index, k - 1, 0, shard.max_seq_no + 1, {width = 8})
      assert.equal((shard.max_seq_no + 8) // 8, #counts)
      sum, operations = sum + total, operations + shard.max_seq_no + 1
      assert.is_true(shard.term >= 1)
    end
    assert.equal(100, sum)
    assert.equal(100, operations)
  end)

  it("copy what they name, and late copies do nothing", function()
    local copied = 0
    each_page(function(page)
      local done = core:copy(target, page)
      assert.same({}, done.others)
      copied = copied + done.copied
      assert.equal(#page, core:copy(target, page).copied)
    end)
    assert.equal(100, copied)
    core:bulk(target, {{kind = "delete", id = "d1", external_gte = 1 << 62}})
    local conflicts = 0
    each_page(function(page) conflicts = conflicts + core:copy(target, page).conflicts end)
    assert.equal(1, conflicts)
    core:refresh(target)
    assert.equal(99, core:count(target))
    assert.equal("r", core:mget(target, {"d4"}, {"r"})[1]._routing)
  end)

  it("give the keys of a page without a view of each", function()
    local seen = {}
    each_page(function(page)
      local ids, routings, seq_nos, terms = page:keys()
      for i, id in ipairs(ids) do
        seen[#seen + 1] = id
        assert.equal(tonumber(id:sub(2)) % 4 == 0 and "r", routings[i])
        assert.equal(page[i]._seq_no, seq_nos[i])
        assert.equal(page[i]._term, terms[i])
        assert.is_nil(page[i]:_source())
      end
    end, true)
    assert.equal(100, #seen)
  end)

  it("say what stands where a version is refused", function()
    local function write(kind, version)
      local body = kind == "index" and "{}" or nil
      return core:bulk(target, {{kind = kind, id = "a", body = body, external_gte = version}})[1]
    end
    assert.equal(201, write("index", 1 << 41).status)
    assert.equal(200, write("index", 1 << 41).status)
    local refused = write("delete", 7)
    assert.equal("conflict", refused.result)
    assert.equal(1 << 41, refused.standing)
  end)

  -- Where replicas copy segments, they may lag behind a refresh.
  it("are read from the primary where the index says so", function()
    local other = stores.name "span.segments"
    local ok, why = pcall(core.index_create, core, other,
      '{"settings":{"index":{"number_of_replicas":0,"replication":{"type":"SEGMENT"}}}}')
    if not ok then return assert.equal("rejected", why.code) end
    core:bulk(other, {{kind = "index", id = "a", body = "{}"}})
    core:refresh(other)
    local shards = core:shards(other)
    assert.equal(store.name ~= "sqlite", shards.primary)
    assert.equal(1, select(2, core:intervals(other, 0, 0, 10, {primary = shards.primary})))
    assert.equal("a", core:range(other, 0, 0, 10, {primary = shards.primary})[1].id)
    core:index_drop(other)
  end)

  it("are no longer read after their end", function()
    core:range_end(index)
    core:range_end(index)
    assert.has_error(function() core:range(index, 0, 5, 1) end)
    assert.has_error(function() core:intervals(index, -1, 0, 1) end)
    assert.has_error(function() core:shards(stores.name "none") end)
  end)
end)

stores.each("administration of indices", function(store)
  local client, core, one, two, alias

  before_each(function()
    client = stores.connect(store)
    core = client:_open_core()
    one, two, alias = stores.name "admin", stores.name "admin", stores.name "alias"
    for _, index in ipairs {one, two} do
      core:index_create(index, '{"settings":{"number_of_shards":1,"number_of_replicas":0}}')
    end
  end)
  after_each(function()
    core:index_drop(one)
    core:index_drop(two)
    client:close()
  end)

  local function aliases(name) return json.decode(core:aliases(name)) end

  it("moves an alias in one step", function()
    core:alias_move(alias, nil, one)
    assert.is_not_nil(aliases(alias)[one].aliases[alias])
    core:alias_move(alias, one, two)
    assert.is_nil(aliases(alias)[one])
    assert.is_not_nil(aliases(two)[two].aliases[alias])
    local ok, why = pcall(core.alias_move, core, alias .. "-none", one, two)
    assert.is_false(ok)
    assert.equal("not_found", why.code)
  end)

  if store.name ~= "sqlite" then
    it("keeps an alias's filter and routing", function()
      local definition = {filter = {term = {kind = "a"}}, routing = "r", is_write_index = true}
      core:raw("PUT", "/" .. one .. "/_alias/" .. alias, json.encode(definition))
      local before = aliases(alias)[one]
      core:alias_move(alias, one, two)
      assert.same(before, aliases(alias)[two])
      assert.equal("r", before.aliases[alias].index_routing)
    end)
  end

  it("refuses writes while it is blocked", function()
    local function write() return core:bulk(one, {{kind = "index", id = "a", body = "{}"}})[1] end
    core:block(one)
    assert.equal("cluster_block_exception", write().type)
    assert.equal(403, write().status)
    core:unblock(one)
    assert.equal("applied", write().result)
  end)

  it("changes settings", function()
    core:settings(one, '{"index.gc_deletes":"2d"}')
    local settings = json.decode(core:describe(one).json)[one].settings
    assert.equal("2d", settings.index.gc_deletes)
  end)
end)
