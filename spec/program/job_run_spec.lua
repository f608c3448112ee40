-- `mortise job run`, and removing what is over.
local core = require "mortise.core"
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP job run of the program: MORTISE_BIN is not set"
  return
end

local documents, lease_ms = 20, 60000

local script = [[
local index, id, rate = ...
return {id = id, index = index, rename = {from = "/a", to = "/b"}, rate = rate and math.tointeger(rate)}
]]

stores.each("a job that a script returns", function(store)
  local client, index, namespace, file

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    local all = {}
    for i = 1, documents do all["d" .. i] = {path = "/a/" .. i} end
    index = stores.fill(client, all)
    file = program.write(script, ".lua")
  end)

  after_each(function()
    os.remove(file)
    client:drop_index(index)
    client:close()
  end)

  local function mortise(...)
    return program.run {"--store", store.store, "--namespace", namespace, ...}
  end

  local function moved()
    client:refresh(index)
    return client:count(index, {prefix = {path = "/b/"}})
  end

  it("is planned, run and undone", function()
    says(select(2, mortise("job", "run", "--dry-run", file, index, "one")), "20 of 20 documents")
    assert.equal(0, moved())
    says(select(2, mortise("job", "run", file, index, "one")), "job one is done: 20 documents changed")
    assert.equal(documents, moved())
    local code, _, err = mortise("job", "run", file, index, "one")
    assert.equal(1, code)
    says(err, "there is a job one already")
    local _, out = mortise("job", "run", "--rollback", "--json", file, index, "one")
    local result = core.json_decode(out)
    assert.same({"one", "undone", 0}, {result.job, result.state, moved()})
  end)

  it("knows its options behind the script's name, too", function()
    says(select(2, mortise("job", "run", file, index, "--dry-run", "back")), "20 of 20 documents")
    assert.equal(0, moved())
    says(select(2, mortise("job", "run", file, index, "back", "--resume")), "job back is done")
    says(select(2, mortise("--rollback", "job", "run", file, index, "back")), "job back is undone")
    assert.equal(0, moved())
    local code, _, err = mortise("job", "run", file, index, "--undo")
    assert.equal(2, code)
    says(err, "unknown option `--undo`", "comes after `--`")
    assert.equal(0, moved())
    says(select(2, mortise("job", "run", file, index, "--", "--dry-run")), "job --dry-run is done")
    assert.equal(documents, moved())
  end)

  it("goes on where it stands", function()
    local running <close> = process.start(store, namespace, lease_ms, {"job", "run", file, index, "two", "1"})
    process.wait_for("the first document", function() return moved() > 0 end)
    running:kill "KILL"
    running:status()
    local code, _, err = mortise("job", "run", file, index, "two")
    assert.equal(6, code)
    says(err, "job two stands half-done", "--resume", "--rollback")
    assert.equal(0, (mortise("jobs", "throttle", "two", "--rate", "0")))
    code, _, err = mortise("jobs", "purge", "two")
    assert.equal(1, code)
    says(err, "stands half-done")
    says(select(2, mortise("job", "run", "--resume", file, index, "two")), "job two is done")
    assert.equal(documents, moved())
  end)

  it("is removed with its journal when it is over", function()
    local jobs_index = client:_open_core():jobs_index()
    local function kept()
      client:refresh(jobs_index)
      return client:count(jobs_index, {term = {ns = namespace}})
    end
    mortise("job", "run", file, index, "three")
    assert.is_true(kept() > 0)
    says(select(2, mortise("jobs", "purge")), "there is no job to remove")
    local _, out = mortise("jobs", "purge", "--older", "0s", "--json")
    assert.same({"three"}, core.json_decode(out).removed)
    assert.equal(0, kept())
    local code, _, err = mortise("jobs", "purge", "three")
    assert.equal(1, code)
    says(err, "there is no job three")
    assert.equal(2, (mortise("jobs", "show", "three", "--older", "1d")))
  end)

  it("is removed by the next one once it has been kept for long enough", function()
    client:job {id = "first", index = index, keep = 0, rename = {from = "/a", to = "/b"}}:run()
    client:refresh(client:_open_core():jobs_index())
    client:job {id = "second", index = index, rename = {from = "/b", to = "/a"}}:run()
    local list = client:jobs()
    assert.same({1, "second"}, {#list, list[1].job})
  end)

  it("is no other script", function()
    local other = program.write("return 5", ".lua")
    local code, _, err = mortise("job", "run", other)
    os.remove(other)
    assert.equal(2, code)
    says(err, "returns no job")
    assert.equal(2, (mortise("job", file)))
    assert.equal(2, (mortise("job", "run", "--resume", "--rollback", file)))
  end)
end)
