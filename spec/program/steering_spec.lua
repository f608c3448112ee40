-- Jobs that are paused, slowed down and cancelled from other processes.
local core = require "mortise.core"
local fails = require "spec.support.fails"
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP steering of the program: MORTISE_BIN is not set"
  return
end

local documents, lease_ms = 60, 60000

-- One document a second, unless it is told otherwise.
local script = [[
local index, id = ...
local job = mortise.job {id = id, index = index, rename = {from = "/a", to = "/b"}, rate = 1}
print("begun\t" .. math.floor(mortise.now())) io.stdout:flush()
print(job:run().state)
]]

stores.each("steering a job", function(store)
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

  local function jobs(...)
    return program.run {"--store", store.store, "--namespace", namespace, "jobs", ...}
  end

  local function run(...)
    local code, out, err = jobs(...)
    assert.equal(0, code, err)
    return out
  end

  local function start(id)
    local running = process.start(store, namespace, lease_ms, {file, index, id})
    running:said "begun"
    process.wait_for("the first document", function()
      client:refresh(index)
      return client:count(index, {prefix = {path = "/b/"}}) > 0
    end, function() return running:err() end)
    return running
  end

  it("is paused and goes on", function()
    local running <close> = start "one"
    says(run("show", "one"), "limits", "1 documents/s", "mortise jobs pause|throttle|cancel one")
    says(run("pause", "one"), "job one is paused")
    says(run "ls", "running, paused")
    says(run("show", "one"), "waits", "paused by ", "mortise jobs resume one  (lets it go on)")
    says(run("throttle", "one", "--rate", "0", "--batch", "7"), "slowed down: batches of 7")
    local record = core.json_decode(run("show", "one", "--json"))
    assert.same({7, true, "mortise jobs resume one"},
      {record.limits.batch, record.alive, record.next[1].command})
    says(record.waits, "paused by ")
    local still = client:count(index, {prefix = {path = "/b/"}})
    assert.is_true(still < documents)
    says(run("resume", "one"), "job one is no longer paused")
    assert.equal(0, running:status())
    assert.equal("done", client:get_job "one":status().state)
  end)

  it("is cancelled, stands, and is resumed by another without its pause", function()
    local running <close> = start "two"
    local steered = client:get_job "two"
    assert.equal(steered, steered:pause())
    assert.equal(steered, steered:cancel())
    assert.equal(130, running:status())
    says(running:err(), "cancelled by ", "mortise jobs resume two")
    local record = steered:status()
    assert.same({"stopped", true}, {record.state, record.stands})
    says(record.reason, "cancelled by ")
    says(run("throttle", "two", "--rate", "0"), "no longer slowed down, once somebody resumes it")
    says(run("resume", "two"), "job two is done")
    says(fails("conflict", steered.pause, steered).message, "is done already")
    assert.equal(1, (jobs("cancel", "two")))
  end)

  it("tells how far it is, as JSON and as lines", function()
    local function rename(how, from, to)
      local code, _, err = program.run {"--store", store.store, "--namespace", namespace, "--progress", how,
        "rename", index, from, to}
      assert.equal(0, code, err)
      return err
    end
    local err = rename("json", "/a", "/c")
    local last
    for text in err:gmatch "[^\n]+" do last = core.json_decode(text).progress end
    assert.same({documents, documents, 0, 0}, {last.done, last.all, last.conflicts, last.rejected})
    says(last.job, "rename-")
    says(rename("plain", "/c", "/a"), "mortise: ", ("of %d documents"):format(documents))
  end)

  it("says what it cannot do", function()
    local code, _, err = jobs("pause", "none")
    assert.same({1, true}, {code, err:find("there is no job none", 1, true) ~= nil})
    assert.equal(2, (jobs("throttle", "none")))
    assert.equal(2, (jobs("pause", "none", "--rate", "5")))
    assert.equal(2, (jobs("throttle", "none", "--rate", "-1")))
  end)
end)
