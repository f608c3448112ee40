-- Lists of more locks than one answer holds.
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP listing: MORTISE_BIN is not set"
  return
end

local many = 25000

stores.each("a list of many locks", function(store)
  local namespace, client, held

  setup(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    local ids = {}
    for i = 1, many do ids[i] = ("%05d"):format(i) end
    held = client:acquire {document = "many", ids = ids}
  end)
  teardown(function()
    held:release()
    client:close()
  end)

  local function run(...)
    return program.run({"--store", store.store, "--namespace", namespace, "locks", ...}, {seconds = 120})
  end

  it("is whole", function()
    local seen, n, entries = {}, 0, 0
    for lock in client:_each {kind = "locks", ns = namespace} do
      n = n + 1
      assert.is_nil(seen[lock.path])
      seen[lock.path] = true
      entries = entries + #lock.holders
    end
    assert.equal(many + 3, n) -- "/", "/_doc" and "/_doc/many" lead there
    assert.equal(many + 3, entries)
    local status, out, err = run()
    assert.equal(0, status, err)
    local _, lines = out:gsub("/_doc/many/%d+ +X", "")
    assert.equal(many, lines)
    assert.truthy(out:find "/_doc/many/25000 +X")
    assert.is_nil(out:find "/_doc/many +IX")
  end)

  it("is left in the middle", function()
    for round = 1, 3 do
      for lock, list in client:_each {kind = "locks", ns = namespace, page = 10} do
        assert.is_string(lock.path)
        if round == 2 then list:close() end
        if round < 3 then break end
        if lock.path:find "00100$" then break end
      end
    end
  end)

  it("is read by path, in parts, each lock once", function()
    local paths = {}
    for i = 1, 2500 do paths[i] = ("/_doc/many/%05d"):format(i) end
    local found = client:_read_locks(paths)
    assert.equal(2500, #found)
    assert.equal(paths[2500], found[2500].path)
    assert.same({}, client:_read_locks {})
  end)

  it("finds the last of them for a break", function()
    local last = client:_read_locks {"/_doc/many/25000"}[1].holders[1]
    local hold = ("%s/%d"):format(last.session:sub(1, 8), last.n)
    local status, _, err = run("break", "/_doc/many/25000", "--hold", hold:gsub("%d+$", "999999999"), "--yes")
    assert.equal(3, status)
    assert.truthy(err:find(hold, 1, true), err) -- held, by this one
    assert.is_nil(err:find("nobody holds it", 1, true), err)
  end)
end)
