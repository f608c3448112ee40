-- `mortise rename` and `mortise job run` as cron runs them: how fast they go, and how they heal themselves.
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP the pace of jobs: MORTISE_BIN is not set"
  return
end

stores.each("a job that nobody watches", function(store)
  local client, namespace, index
  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    local all = {}
    for i = 1, 400 do all["d" .. i] = {path = "/a/" .. i} end
    index = stores.fill(client, all)
  end)
  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  local function mortise(...)
    return program.run {"--store", store.store, "--namespace", namespace, ...}
  end

  local function count_below(path)
    client:refresh(index)
    return client:count(index, {prefix = {path = path}})
  end

  -- A slow rename of /a into /b, killed in the middle.
  local function leave_half()
    local running <close> = process.start(store, namespace, 2000, {"rename", index, "/a", "/b",
      "--rate", "40", "--batch", "10", "--concurrency", "1"})
    process.wait_for("some documents", function() return count_below "/b/" > 20 end,
      function() return running:err() end)
    local shown = select(2, mortise "jobs")
    local id = shown:match "(rename%-%x+)"
    says(select(2, mortise("jobs", "show", id)), "limits   40 documents/s")
    running:kill "KILL"
    running:status()
    assert.is_true(count_below "/b/" < 400)
  end

  it("goes on with what a killed one has left", function()
    leave_half()
    local status, _, err = mortise("rename", index, "/a", "/c", "--wait", "30s")
    assert.equal(6, status)
    says(err, "orphaned_job")
    status, _, err = mortise("rename", index, "/b", "/c", "--wait", "30s", "--on-orphan", "resume", "--yes")
    assert.equal(0, status, err)
    assert.same({0, 0, 400}, {count_below "/a/", count_below "/b/", count_below "/c/"})
  end)

  it("undoes that, where it is a script's job", function()
    leave_half()
    local script = program.write(([[return mortise.job {
      name = "x", index = %q, lock = "/a", change = {{set = {field = "x", value = 1}}}}]]):format(index))
    local status, _, err = mortise("job", "run", script, "--wait", "30s", "--on-orphan", "rollback",
      "--rate", "1000")
    os.remove(script)
    assert.equal(0, status, err)
    assert.same({400, 0}, {count_below "/a/", count_below "/b/"})
    assert.equal(1, client:get(index, "d7").x)
  end)

  it("is refused with what is no pace", function()
    for flag, value in pairs {rate = "0", batch = "x", concurrency = "-1", ["on-orphan"] = "perhaps"} do
      assert.equal(2, (mortise("rename", index, "/a", "/b", "--" .. flag, value)))
    end
    assert.equal(400, count_below "/a/")
  end)
end)
