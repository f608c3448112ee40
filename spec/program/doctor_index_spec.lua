-- mortise doctor INDEX, and a lock table that is not this program's.
local core = require "mortise.core"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP doctor INDEX: MORTISE_BIN is not set"
  return
end

stores.each("doctor INDEX", function(store)
  local client, index, namespace
  local is_server = not store.store:find "^sqlite:"

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    index = stores.fill(client, {d1 = {path = "/a/1"}, d2 = {path = "/a/2"}})
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  local function doctor(...)
    return program.run {"--store", store.store, "--namespace", namespace, "doctor", ...}
  end

  it("says that its documents can be changed, and writes nothing", function()
    local code, out, err = doctor(index)
    assert.same({0, ""}, {code, err})
    says(out, "ok    index " .. index .. ": 2 documents, whose paths are in `path`; this user may")
    client:refresh(index)
    assert.equal(2, client:count(index))
    local _, json = doctor(index, "--json")
    assert.is_true(core.json_decode(json).good)
  end)

  it("says what is missing", function()
    local code, out = doctor "nowhere"
    assert.equal(1, code)
    says(out, "BAD   index nowhere: there is no index nowhere", "is this its name?")
    code, out = doctor(index, "--field", "pth")
    assert.equal(1, code)
    says(out, ("BAD   index %s: no document of %s has a field `pth`"):format(index, index),
      "did you mean `path`?")
    assert.equal(0, (doctor(index, "--field=path")))
    local status, _, err = doctor("--field", "path")
    assert.equal(2, status)
    says(err, "--field belongs to an INDEX")
  end)

  if not is_server then return end

  it("says which field is searched, and which cannot be", function()
    local text = stores.fill(client, {d1 = {path = "/a/1"}}, {
      path = {type = "text", fields = {raw = {type = "keyword"}}},
    })
    says(select(2, doctor(text)), "`path` (searched as path.raw)")
    client:drop_index(text)
    text = stores.fill(client, {d1 = {path = "/a/1"}}, {path = {type = "text"}})
    local code, out = doctor(text)
    client:drop_index(text)
    assert.equal(1, code)
    says(out, "BAD   index " .. text .. ": field path cannot be searched for exact values")
  end)

  it("says that it is blocked, and all else that is wrong", function()
    client:raw("PUT", "/" .. index .. "/_settings", core.json {["index.blocks.write"] = true})
    local code, out = doctor(index, "--field", "pth")
    client:raw("PUT", "/" .. index .. "/_settings", core.json {["index.blocks.write"] = core.null})
    assert.equal(1, code)
    says(out, "index.blocks.write is set", ("`PUT /%s/_settings"):format(index), "did you mean `path`?")
  end)

  it("says that whole documents must not be written", function()
    local lossy = stores.name "lossy"
    local properties = {path = {type = "keyword"}}
    client:create_index(lossy, {mappings = {_source = {excludes = {"secret"}}, properties = properties}})
    local code, out = doctor(lossy)
    client:drop_index(lossy)
    assert.equal(1, code)
    says(out, "leaves fields out of _source")
  end)
end)

stores.each("doctor of a lock table", function(store)
  if store.store:find "^sqlite:" then return end

  it("is wrong without an index of jobs", function()
    local name = stores.name "table"
    local client <close> = stores.connect(store, {table = name})
    client:init()
    client:drop_index(name .. "-jobs")
    local code, out = program.run {"--store", store.store, "--table", name, "doctor"}
    assert.equal(1, code)
    says(out, "BAD   jobs: their index " .. name .. "-jobs is missing", "init` once more")
    client:init()
    code, out = program.run {"--store", store.store, "--table", name, "doctor"}
    assert.equal(0, code, out)
    client:drop_index(name .. "-000001")
    client:drop_index(name .. "-jobs")
  end)
end)
