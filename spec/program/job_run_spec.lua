-- `mortise job run`, and removing what is over.
local core = require "mortise.core"
local process = require "spec.support.process"
local program = require "spec.support.program"
local purge = require "mortise.purge"
local says = require "spec.support.says"
local stores = require "spec.support.stores"
local terminal = require "spec.support.terminal"

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
    for _, words in ipairs {{"job", "run", file, index, "two", "--dry-run"}, {"jobs", "plan", "two"}} do
      says(select(2, mortise(table.unpack(words))), "job two stands half-done: this is what is left of it")
    end
    assert.equal(0, (mortise("jobs", "throttle", "two", "--rate", "0")))
    code, _, err = mortise("jobs", "purge", "two", "--yes")
    assert.equal(1, code)
    says(err, "stands half-done")
    says(select(2, mortise("job", "run", "--resume", file, index, "two")), "job two is done")
    assert.equal(documents, moved())
    for _, words in ipairs {{"jobs", "resume", "two"}, {"job", "run", file, index, "two", "--resume"}} do
      says(select(2, mortise(table.unpack(words))), "job two was done already")
    end
    mortise("jobs", "rollback", "two")
    for _, words in ipairs {{"jobs", "rollback", "two"}, {"job", "run", file, index, "two", "--rollback"}} do
      says(select(2, mortise(table.unpack(words))), "job two was undone already")
    end
    local _, shown = mortise("jobs", "show", "two")
    says(shown, "state    undone", "counts   ")
    assert.is_nil(shown:find "done  +%d")
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
    local _, out = mortise("jobs", "purge", "--older", "0s", "--json", "--yes")
    assert.same({"three"}, core.json_decode(out).removed)
    assert.equal(0, kept())
    local code, _, err = mortise("jobs", "purge", "three", "--yes")
    assert.equal(1, code)
    says(err, "there is no job three")
    assert.equal(2, (mortise("jobs", "show", "three", "--older", "1d")))
  end)

  local function run_jobs(...)
    for i, id in ipairs {...} do
      local from, to = i % 2 == 1 and "/a" or "/b", i % 2 == 1 and "/b" or "/a"
      client:job {id = id, index = index, rename = {from = from, to = to}}:run()
    end
  end

  local function ids()
    client:refresh(client:_open_core():jobs_index())
    local list = {}
    for i, record in ipairs(client:jobs()) do list[i] = record.job end
    return list
  end

  it("is removed only when somebody has seen what goes, and said yes", function()
    run_jobs("p1", "p2")
    for _, words in ipairs {{"--older", "0s"}, {"p1"}} do
      local code, out = mortise("jobs", "purge", "--dry-run", table.unpack(words))
      assert.equal(0, code)
      says(out, "p1   done   20       " .. index)
    end
    assert.same({7, "there is no job to remove\n", ""}, {mortise("jobs", "purge", "--dry-run", "--older",
      "9d")})
    for _, words in ipairs {{"--older", "0s"}, {"p1"}} do
      local code, out, err = mortise("jobs", "purge", table.unpack(words))
      assert.equal(2, code)
      says(out, "p1   done   20       " .. index)
      says(err, "nobody can be asked", " jobs purge " .. table.concat(words, " ") .. " --yes")
    end
    local code, out = mortise("jobs", "purge", "--older", "0s", "--json")
    local said = core.json_decode(out)
    assert.same({2, 2, "invalid_argument", 0}, {code, #said.jobs, said.error.code, #said.removed})
    local words = {"--store", store.store, "--namespace", namespace, "jobs", "purge", "--older", "0s"}
    for _, answer in ipairs {"", "n", "^C"} do
      local status, text = terminal.answer(answer, words)
      assert.equal(answer == "^C" and 130 or 1, status, text)
      says(text, "p1   done", "p2   done", "Remove these 2 jobs? They can then no longer be undone. (y/N)")
    end
    assert.same({"p1", "p2"}, ids())
    local status, text = terminal.answer("yes", words)
    assert.equal(0, status)
    says(text, "removed job p1, with", "removed job p2, with")
    assert.same({}, ids())
  end)

  it("is removed once, whoever else removes it", function()
    run_jobs("q1", "q2", "q3")
    ids() -- refreshes
    local list = purge.list(client, 0)
    assert.equal(3, #list)
    purge.one(client, "q1")
    assert.is_nil(purge.one(client, "q1", list[1]))
    client:job {id = "q1", index = index, rename = {from = "/b", to = "/a"}}:run() -- it is another now
    local again = list[1].job == "q1" and list[1] or list[2].job == "q1" and list[2] or list[3]
    local ok, why = pcall(purge.one, client, "q1", again)
    assert.is_false(ok)
    says(why.message, "job q1 has changed since it was listed")
    local both, statuses = {}, {}
    for i = 1, 2 do
      both[i] = process.start(store, namespace, lease_ms, {"jobs", "purge", "--older", "0s", "--yes"})
    end
    for i, each in ipairs(both) do statuses[i] = each:status() end
    assert.same({0, 0}, statuses, both[1]:err() .. both[2]:err())
    assert.same({}, ids())
    local said = both[1]:out() .. both[2]:out()
    for _, id in ipairs {"q1", "q2", "q3"} do says(said, "removed job " .. id .. ", with") end
  end)

  it("is removed by the next one once it has been kept for long enough", function()
    client:job {id = "first", index = index, keep = 0, rename = {from = "/a", to = "/b"}}:run()
    client:refresh(client:_open_core():jobs_index())
    client:job {id = "second", index = index, rename = {from = "/b", to = "/a"}}:run()
    local list = client:jobs()
    assert.same({1, "second"}, {#list, list[1].job})
  end)

  it("is not passed over by `run`, which says what to type", function()
    local function run(text, ...)
      local script_file = program.write(text, ".lua")
      local code, out, err = mortise("run", script_file, ...)
      os.remove(script_file)
      return code, out, err, script_file
    end
    local text = ([[local job = mortise.job {id = "r1", index = %q, rename = {from = "/a", to = "/b"}}
      if arg[1] == "run" then job:run() end
      return arg[1] == "found" and mortise.get_job "r1" or job]]):format(index)
    local code, _, err, name = run(text, "x", "--", "-y")
    assert.equal(2, code)
    says(err, "returns a job, which was not run", " job run " .. name .. " -- x -y")
    code, _, err = mortise("run", file, index, "r2")
    assert.equal(2, code)
    says(err, " job run " .. file .. " " .. index .. " r2")
    assert.equal(0, moved())
    assert.equal(0, (run(text, "run")))
    assert.equal(documents, moved())
    assert.equal(0, (run(text, "found")))
    assert.equal(0, (run "return {index = 5}")) -- some module
  end)

  it("is neither resumed nor undone if its id is made anew each time", function()
    local text = [[return {name = "n", index = %q, rename = {from = "/a", to = "/b"}}]]
    local other = program.write(text:format(index), ".lua")
    for _, flag in ipairs {"--resume", "--rollback"} do
      local code, _, err = mortise("job", "run", flag, other)
      assert.equal(2, code)
      says(err, flag, "`id`", "`once`", "mortise jobs")
    end
    assert.equal(0, moved())
    assert.equal(0, (mortise("job", "run", other)))
    os.remove(other)
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

describe("a new embedded store", function()
  local store, file

  before_each(function()
    store = stores.temporary ".db"
    file = program.write(script, ".lua")
  end)

  after_each(function()
    os.execute("rm -f " .. store .. "*")
    os.remove(file)
  end)

  local function mortise(...) return program.run {"--store", "sqlite:" .. store, ...} end

  local function put()
    assert.equal(0, (mortise("-e", [[
      mortise.create_index("fs", {mappings = {properties = {path = {type = "keyword"}}}})
      mortise.create("fs", "1", {path = "/a/1"})]])))
  end

  it("has no jobs, and is not made by a look for them", function()
    local code, _, err = mortise "jobs"
    assert.equal(1, code)
    says(err, "there is no store " .. store)
    assert.is_nil(io.open(store))
    put()
    local before = select(2, mortise("-e", "print(mortise.describe('mortise-locks-jobs').exists)"))
    for words, text in pairs {
      [{"jobs"}] = "there are no jobs", [{"jobs", "purge"}] = "there is no job to remove",
    } do
      local status, out = mortise(table.unpack(words))
      assert.equal(0, status)
      says(out, text)
    end
    for _, verb in ipairs {"show", "resume", "rollback", "plan", "pause", "purge"} do
      local status, _, why = mortise("jobs", verb, "x")
      assert.equal(1, status)
      says(why, "there is no job x")
    end
    assert.equal("false\n", before)
    assert.same({0, before, ""}, {mortise("-e", "print(mortise.describe('mortise-locks-jobs').exists)")})
    mortise("-e", "mortise.acquire {tree = '/a'}")
    says(select(2, mortise "doctor"), "jobs: none yet")
  end)

  it("takes a job with an id, and with --resume", function()
    put()
    says(select(2, mortise("job", "run", file, "fs", "j1", "--dry-run")), "1 of 1 documents")
    says(select(2, mortise("job", "run", file, "fs", "j1", "--resume")), "job j1 is done")
    os.execute("rm -f " .. store .. "*")
    put()
    says(select(2, mortise("job", "run", file, "fs", "j2")), "job j2 is done")
    says(select(2, mortise("jobs", "ls", "--all")), "j2")
  end)
end)
