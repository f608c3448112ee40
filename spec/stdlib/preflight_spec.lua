-- What a job finds out about its index before it takes its lock.
local core = require "mortise.core"
local fails = require "spec.support.fails"
local stores = require "spec.support.stores"

stores.each("before its lock a job", function(store)
  local client, index
  local is_server = not store.store:find "^sqlite:"

  before_each(function()
    client = stores.connect(store)
    index = stores.fill(client, {d1 = {path = "/a/1"}, d2 = {path = "/a/2"}})
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  local function rename(also)
    local given = {name = "moved", index = index, rename = {from = "/a", to = "/b"}}
    for name, value in pairs(also or {}) do given[name] = value end
    return client:job(given)
  end

  -- A plan and a run, which leaves neither a job nor a session.
  local function refused(code, ...)
    for _, verb in ipairs {"plan", "run"} do
      local job = rename(...)
      local e = fails(code, job[verb], job)
      assert.is_nil(job:status())
      assert.is_nil(client:session())
      if verb == "run" then return e.message end
    end
  end

  it("finds that there is no such index", function()
    assert.equal("there is no index nowhere: is this its name?", refused("not_found", {index = "nowhere"}))
    local list = client:job {
      name = "list", index = "nowhere", lock = "/a", change = {{set = {field = "n", value = 1}}},
    }
    local e = fails("not_found", list.run, list)
    assert.matches("there is no index nowhere", e.message)
  end)

  it("finds that no document has the field, and which is meant", function()
    local said = refused("not_found", {rename = {from = "/a", to = "/b", field = "pth"}})
    assert.equal(("no document of %s has a field `pth`: did you mean `path`?"):format(index), said)
    said = refused("not_found", {rename = {from = "/a", to = "/b", field = {"path", "where"}}})
    assert.matches("has a field `where`", said, 1, true)
    local none = rename {rename = {from = "/a", to = "/b", field = "pth"}, allow_empty = true}
    assert.equal(0, none:run().changed)
  end)

  it("finds it for a rename under a lock, too", function()
    client:with_tree_lock({"/a", "/b"}, function(lock)
      local e = fails("not_found", client.rename, client,
        {index = index, from = "/a", to = "/b", field = "pth", lock = lock})
      assert.matches("did you mean `path`?", e.message, 1, true)
    end)
  end)

  it("writes nothing to find out", function()
    rename():plan()
    client:refresh(index)
    assert.equal(2, client:count(index))
    assert.is_nil(client:get(index, "mortise-probe", {routing = "mortise-probe"}))
    local last = client:index(index, "d3", {path = "/c"}).seq_no
    rename():plan()
    assert.equal(last + 1, client:index(index, "d4", {path = "/c"}).seq_no)
    local job = client:job {name = "none", index = index, lock = "/a", change = function() end}
    assert.equal(0, job:plan().changed)
    assert.equal(last + 2, client:index(index, "d5", {path = "/c"}).seq_no)
  end)

  it("waits for a block to be lifted, as long as it is told to", function()
    local store_core = client:_open_core()
    store_core:block(index)
    local began_ms = core.now_ms()
    local e = fails("unavailable", function() rename({wait_for_writes = "300ms"}):run() end)
    assert.matches("takes no writes", e.message, 1, true)
    assert.is_true(core.now_ms() - began_ms >= 300)
    local task = core.spawn(function() return rename({wait_for_writes = "1m"}):run() end)
    core.sleep(200)
    assert.is_false(task:done())
    store_core:unblock(index)
    assert.equal(2, task:join().changed)
  end)

  if not is_server then return end

  local function set(name, setting, value)
    local body = core.json {[setting] = value}
    assert.equal(200, (client:raw("PUT", "/" .. name .. "/_settings", body)))
  end

  it("finds each block of writes, and says how it is lifted", function()
    for _, block in ipairs {"write", "read_only", "read_only_allow_delete"} do
      local setting = "index.blocks." .. block
      set(index, setting, true)
      local said = refused "unavailable"
      set(index, setting, core.null)
      assert.matches(("index %s takes no writes: %s is set: "):format(index, setting), said, 1, true)
      assert.matches(("`PUT /%s/_settings {\"%s\": null}` lifts it"):format(index, setting), said, 1, true)
    end
    assert.equal(2, rename():plan().changed)
  end)

  it("finds blocks of reading", function()
    set(index, "index.blocks.read", true)
    local said = refused "unavailable"
    set(index, "index.blocks.read", core.null)
    assert.matches("cannot be read: index.blocks.read is set", said, 1, true)
    set(index, "index.blocks.metadata", true)
    said = refused "unavailable"
    set(index, "index.blocks.metadata", core.null)
    assert.matches("cluster_block_exception: .*index metadata.*: lift the block", said)
  end)

  it("looks at each index behind an alias", function()
    local alias, other = stores.name "alias", stores.fill(client, {d9 = {path = "/a/9"}})
    for _, name in ipairs {index, other} do
      assert.equal(200, (client:raw("PUT", "/" .. name .. "/_alias/" .. alias)))
    end
    assert.equal(3, rename({index = alias}):plan().changed)
    set(other, "index.blocks.write", true)
    assert.matches("index " .. other .. " takes no writes", refused("unavailable", {index = alias}), 1, true)
    client:drop_index(other)
  end)

  it("finds a closed index", function()
    assert.equal(200, (client:raw("POST", "/" .. index .. "/_close")))
    assert.matches("is closed: `POST /" .. index .. "/_open` opens it", refused "unavailable", 1, true)
  end)

  it("finds fields within objects", function()
    local other = stores.fill(client, {d1 = {o = {path = "/a/1"}}}, {
      o = {type = "object", properties = {path = {type = "keyword"}}},
    })
    local moved = {from = "/a", to = "/b", field = "o.path"}
    assert.equal(1, rename({index = other, rename = moved}):run().changed)
    client:drop_index(other)
  end)
end)
