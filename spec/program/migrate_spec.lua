-- `mortise migrate`, and what `mortise jobs` and `mortise job run` do with migrations.
local core = require "mortise.core"
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP migrations: MORTISE_BIN is not set"
  return
end

local lease_ms = 60000

stores.each("mortise migrate", function(store)
  local client, namespace, old, new, alias

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    old, new, alias = stores.name "old", stores.name "new", stores.name "alias"
    client:create_index(old, {
      settings = {number_of_shards = 1, number_of_replicas = 0},
      mappings = {properties = {path = {type = "keyword"}, n = {type = "long"}}}, aliases = {[alias] = {}},
    })
    for i = 1, 20 do client:index(alias, "d" .. i, {path = "/a/" .. i, n = i}) end
  end)
  after_each(function()
    for _, index in ipairs {old, new} do pcall(client.drop_index, client, index) end
    client:close()
  end)

  local function mortise(...)
    return program.run {"--store", store.store, "--namespace", namespace, ...}
  end

  local function named() return client:describe(alias).name end

  local function phase()
    local record = client:get_job("m"):status()
    return record and record.work and record.work.phase
  end

  it("plans, migrates, shows, takes back and finishes", function()
    local file = program.write('{"properties": {"n": {"type": "keyword"}}}', ".json")
    local words = {"migrate", old, new, "--alias", alias, "--mappings", file, "--id", "m"}
    local function migrate(...)
      return mortise(table.unpack(table.move({...}, 1, select("#", ...), #words + 1, {table.unpack(words)})))
    end
    local code, out, err, _ = migrate "--dry-run"
    assert.equal(0, code, err)
    says(out, old .. ": 20 documents in 1 shards would be copied into " .. new, "field n: ",
      "nothing was written")
    assert.is_false(client:describe(new).exists)
    code, out, err = migrate()
    assert.equal(0, code, err)
    says(out, old .. ": 20 documents are in " .. new .. " now; writes were refused for ",
      "to end it: mortise jobs finish m", "to go back: mortise jobs rollback m")
    says(select(2, mortise("jobs", "show", "m")), "state    done, swapped", "copied into " .. new,
      "mortise jobs finish m", "mortise jobs rollback m")
    code, _, err = mortise("jobs", "purge", "m", "--yes")
    assert.equal(1, code)
    says(err, "migration m is not finished")
    says(select(2, mortise("jobs", "rollback", "m", "--dry-run")), "the alias " .. alias .. " would name "
      .. old)
    client:index(alias, "more", {path = "/b"})
    code, _, err = mortise("jobs", "rollback", "m")
    assert.equal(1, code)
    says(err, "has had 1 operations since", "--others 1")
    code, out, err = mortise("jobs", "rollback", "m", "--others", "1")
    assert.equal(0, code, err)
    says(out, "migration m is undone")
    assert.equal(old, named())
    code, out, err = migrate "--json"
    assert.equal(0, code, err)
    assert.equal("swapped", core.json_decode(out).phase)
    code, out, err = mortise("jobs", "finish", "m", "--delete")
    assert.equal(0, code, err)
    says(out, "migration m is finished, and " .. old .. " is deleted")
    assert.is_false(client:describe(old).exists)
    says(select(2, mortise("jobs", "show", "m")), "state    done, finished")
    code, _, err = mortise("jobs", "rollback", "m")
    assert.equal(1, code)
    says(err, "there is no way back")
    assert.equal(0, (mortise("jobs", "purge", "m", "--yes")))
    os.remove(file)
  end)

  it("says before it begins what it cannot do", function()
    local code, out = mortise("migrate", old, new, "--alias", "no-such-alias", "--dry-run")
    assert.equal(1, code)
    says(out, "refused: index " .. old .. " has no alias no-such-alias")
    for _, words in ipairs {
      {"migrate", old}, {"migrate", old, new, "--mappings", "/none"}, {"migrate", old, new, "--cutover",
        "soon"},
      {"jobs", "cutover"}, {"jobs", "show", "m", "--delete"}, {"migrate", old, new, "--change", "/none.lua"},
    } do
      assert.equal(2, (mortise(table.unpack(words))), table.concat(words, " "))
    end
    local err, _
    code, _, err = mortise("migrate", "no-such-index", new, "--alias", alias)
    assert.equal(1, code)
    says(err, "there is no index no-such-index")
    client:job({id = "other", index = old, lock = "/a", change = {{set = {field = "x", value = 1}}}}):run()
    code, _, err = mortise("jobs", "cutover", "other")
    assert.equal(2, code)
    says(err, "job other is no migration")
  end)

  it("is killed, and gone on with from another terminal", function()
    do
      local running <close> = process.start(store, namespace, lease_ms, {
        "migrate", old, new, "--alias", alias, "--id", "m", "--cutover", "manual",
      })
      process.wait_for("the phase", function() return pcall(phase) and phase() == "in step" end,
        function() return running:err() end)
      says(select(2, mortise("jobs", "show", "m")), "state    running, in step")
      assert.equal(0, (mortise("jobs", "pause", "m")))
      assert.equal(0, (mortise("jobs", "resume", "m")))
      running:kill "KILL"
      running:status()
    end
    client:index(alias, "late", {path = "/late"})
    says(select(2, mortise("jobs", "show", "m")), "mortise jobs resume m", "mortise jobs rollback m")
    assert.equal(0, (mortise("jobs", "cutover", "m")))
    local code, out, err = mortise("jobs", "resume", "m")
    assert.equal(0, code, err)
    says(out, "21 documents are in " .. new)
    assert.equal(new, named())
  end)

  it("keeps the old index in step, from terminal to terminal", function()
    local running = process.start(store, namespace, lease_ms, {"migrate", old, new, "--alias", alias,
      "--id", "m", "--keep-old-in-step"})
    local until_ms = core.now_ms() + 20000
    while not pcall(phase) or phase() ~= "following" do
      assert.is_true(core.now_ms() < until_ms)
      core.sleep(50)
    end
    client:index(alias, "d1", {path = "/a/1", n = 100})
    local status, out = mortise("jobs", "show", "m")
    assert.equal(0, status)
    says(out, "running, following", old .. " follows " .. new .. " until `", " jobs finish m`")
    status, out = mortise("jobs", "rollback", "m", "--dry-run")
    assert.equal(0, status)
    says(out, alias .. " would name " .. old, "none be lost")
    status, out = mortise("jobs", "rollback", "m")
    assert.equal(0, status, out)
    assert.equal(130, running:status()) -- it was cancelled
    assert.equal(old, named())
    assert.equal(100, client:get(old, "d1").n)
    assert.equal(2, (mortise("migrate", old, new, "--keep-old-in-step")))
  end)

  it("is named by doctor until it is finished", function()
    assert.equal(0, (mortise("migrate", old, new, "--alias", alias, "--id", "m", "--verify", "full")))
    local _, out = mortise "doctor"
    says(out, "migration m was cut over and is not finished: index " .. old .. " takes no writes",
      " jobs finish m` ends it")
    assert.equal(0, (mortise("jobs", "finish", "m")))
    assert.not_matches("migration m", select(2, mortise "doctor"))
  end)

  it("is what a script returns", function()
    local text = ('return mortise.migrate {id = "m", from = %q, to = %q, alias = %q}'):format(old, new, alias)
    local script = program.write(text, ".lua")
    local code, _, err = mortise("run", script)
    assert.equal(2, code)
    says(err, "which was not run; to run it: mortise job run ")
    local out
    code, out, err = mortise("job", "run", script, "--dry-run")
    assert.equal(0, code, err)
    says(out, "20 documents in 1 shards would be copied")
    code, out, err = mortise("job", "run", script)
    assert.equal(0, code, err)
    says(out, "20 documents are in " .. new)
    assert.equal(0, (mortise("job", "run", script, "--rollback")))
    assert.equal(old, named())
    os.remove(script)
  end)

  it("is a versioned script, too", function()
    local folder = stores.temporary ".d"
    os.execute("mkdir " .. folder)
    local handle = io.open(folder .. "/V1__copy.lua", "w")
    handle:write(('return mortise.migrate {from = %q, to = %q, alias = %q}'):format(old, new, alias))
    handle:close()
    local code, out, err = mortise("up", folder)
    assert.equal(0, code, err)
    says(out, "V1__copy.lua ran in", "job V1__copy, 20 documents changed")
    assert.equal(new, named())
    assert.equal(0, (mortise("up", folder)))
    os.execute("rm -rf " .. folder)
  end)
end)
