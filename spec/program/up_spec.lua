-- `mortise up`: versioned scripts, run in order, each once.
local core = require "mortise.core"
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP versioned scripts: MORTISE_BIN is not set"
  return
end

local documents, lease_ms = 20, 60000

stores.each("mortise up", function(store)
  local client, index, namespace, folder

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    local all = {}
    for i = 1, documents do all["d" .. i] = {path = "/a/" .. i, n = i} end
    index = stores.fill(client, all)
    folder = stores.temporary ".d"
    os.execute("mkdir " .. folder)
  end)

  after_each(function()
    os.execute("rm -rf " .. folder)
    client:drop_index(index)
    client:close()
  end)

  -- %INDEX% in the text is the index.
  local function write(name, text)
    local handle = assert(io.open(folder .. "/" .. name, "wb"))
    handle:write((text:gsub("%%INDEX%%", index)))
    handle:close()
  end

  local function remove(name) os.remove(folder .. "/" .. name) end

  -- A script that says in a document of its own how often it was called.
  local function counting(id, more)
    return ([[
mortise.update("%%INDEX%%", "%s", function(doc) doc.calls = doc.calls + 1 end)
%s]]):format(id, more or "")
  end

  local function counters(...)
    for _, id in ipairs {...} do client:create(index, id, {path = "/counters", calls = 0}) end
  end

  local function calls(id) return client:get(index, id).calls end

  local function mortise(...)
    return program.run {"--store", store.store, "--namespace", namespace, ...}
  end

  local function up(...) return mortise("up", folder, ...) end

  local function start(...)
    return process.start(store, namespace, lease_ms, {"up", folder, ...})
  end

  -- {[version] = row} of --status
  local function status()
    local code, out = up("--status", "--json")
    local found, rows = core.json_decode(out), {}
    for _, row in ipairs(found.versions) do rows[row.version] = row end
    return rows, code, found
  end

  local function moved()
    client:refresh(index)
    return client:count(index, {prefix = {path = "/b/"}})
  end

  local set_owner = [[
return {name = "any", index = "%INDEX%", lock = "/", change = {{set = {field = "owner", value = "x"}}}}]]

  local rename = [[
return {
  name = "any", index = "%INDEX%", rename = {from = "/a", to = "/b"}, batch = 1, concurrency = 1, %MORE%
}]]

  local function renaming(more) return (rename:gsub("%%MORE%%", more or "")) end

  it("runs each once, in the order of their versions", function()
    counters("one", "two", "ten")
    write("V10__ten.lua", counting("ten", "assert(mortise.get('%INDEX%', 'two').calls == 1)"))
    write("V2__two.lua", counting("two", "assert(mortise.get('%INDEX%', 'one').calls == 1)"))
    write("V001__one.lua", counting("one", "assert(#arg == 0 and arg[0]:find 'V001__one.lua$') leaked = 1"))
    write("V011__rename.lua", "assert(leaked == nil)\n" .. renaming())
    write("README.md", "no script")
    local code, out = up("--dry-run")
    assert.equal(0, code)
    says(out, "would run " .. folder .. "/V001__one.lua\n", "V011__rename.lua")
    assert.same({0, 0}, {calls "one", moved()})
    code, out = up()
    assert.same({0, documents}, {code, moved()})
    says(out, "V001__one.lua ran in ", "V011__rename.lua ran in ", "job V011__rename, 20 documents changed")
    assert.same({1, 1, 1}, {calls "one", calls "two", calls "ten"})
    code, out = up()
    assert.equal(0, code)
    says(out, "nothing to run")
    assert.equal(7, (up("--dry-run")))
    assert.same({1, 1, 1}, {calls "one", calls "two", calls "ten"})
    local rows
    rows, code = status()
    assert.equal(0, code)
    assert.same({"done", "rename", "V011__rename", documents},
      {rows[11].state, rows[11].name, rows[11].job, rows[11].changed})
    assert.is_truthy(rows[10].by.pid and rows[10].checksum and rows[10].began and rows[10].seconds)
    -- What is known of them does not go with the jobs.
    assert.equal(0, (mortise("jobs", "purge", "--older", "0s", "--yes")))
    assert.equal(7, (up("--dry-run")))
  end)

  it("runs none above a version that is given", function()
    counters("one", "two", "three")
    for i, id in ipairs {"one", "two", "three"} do write(("V00%d__%s.lua"):format(i, id), counting(id)) end
    assert.equal(0, (up("--to", "2")))
    assert.same({1, 1, 0}, {calls "one", calls "two", calls "three"})
    assert.equal(7, (up("--to", "2", "--dry-run")))
    says(select(2, up("--to", "2")), "up to version 2 has been run")
    local code, out = up("--json")
    assert.equal(0, code)
    local result = core.json_decode(out)
    assert.same({1, 3, "three", "done"}, {#result.ran, result.ran[1].version, result.ran[1].name,
      result.ran[1].state})
    assert.same({1, 1, 1}, {calls "one", calls "two", calls "three"})
  end)

  it("goes on where a script failed, and not beyond it", function()
    counters("one", "two", "three")
    write("V1__one.lua", counting "one")
    write("V2__two.lua", counting("two", "error 'no'"))
    write("V3__three.lua", counting "three")
    local code, out, err = up("--json")
    assert.equal(1, code)
    says(err, "V2__two.lua:2: no")
    local result = core.json_decode(out)
    assert.same({1, "script_error"}, {#result.ran, result.error.code})
    local rows
    rows, code = status()
    assert.equal(1, code)
    assert.same({"done", "failed", "pending"}, {rows[1].state, rows[2].state, rows[3].state})
    says(rows[2].reason, "V2__two.lua:2: no")
    says(select(2, up("--dry-run")), "V2__two.lua (failed)", "V3__three.lua")
    write("V2__two.lua", counting "two")
    assert.equal(0, (up()))
    assert.same({1, 2, 1}, {calls "one", calls "two", calls "three"})
    assert.is_nil(status()[2].reason)
  end)

  it("takes any error for one, whatever its value is", function()
    for raised, said in pairs {["nil"] = "a nil value", ["{}"] = "a table value", ["'\\xff'"] = "\\xff"} do
      write("V1__one.lua", ("error(%s)"):format(raised))
      local code, _, err = up()
      assert.equal(1, code)
      says(err, said)
      assert.equal("failed", status()[1].state)
    end
  end)

  it("runs nothing while a script cannot be compiled, or is badly named", function()
    counters "one"
    write("V1__one.lua", counting "one")
    write("V2__bad.lua", "return (")
    local code, _, err = up()
    assert.same({1, 0}, {code, calls "one"})
    says(err, "V2__bad.lua:1:")
    remove "V2__bad.lua"
    for _, name in ipairs {"V2_two.lua", "two.lua", "Vx__two.lua", "V2__.lua", "V2__a b.lua"} do
      write(name, "")
      code, _, err = up()
      assert.same({2, 0}, {code, calls "one"})
      says(err, name, "V001__name.lua", "rename it")
      remove(name)
    end
    write("V001__again.lua", "")
    code, _, err = up()
    assert.same({2, 0}, {code, calls "one"})
    says(err, "version 1 is there twice", "V1__one.lua", "V001__again.lua")
  end)

  it("says what is wrong with the folder or the words", function()
    local code, out, err = mortise("up", folder .. "/none")
    assert.equal("", out)
    assert.equal(2, code)
    says(err, "cannot read the folder", "No such file or directory")
    assert.equal(2, (mortise "up"))
    for _, words in ipairs {"--status --dry-run", "--repair --baseline 1", "--status --to 1", "--to one",
      "--to -1"} do
      local list = {}
      for word in words:gmatch "%S+" do list[#list + 1] = word end
      assert.equal(2, (up(table.unpack(list))), words)
    end
    code, out = mortise("up", folder .. "/none", "--json")
    assert.same({2, "invalid_argument"}, {code, core.json_decode(out).error.code})
  end)

  it("refuses a changed script until that is accepted", function()
    counters("one", "two")
    write("V1__one.lua", counting "one")
    assert.equal(0, (up()))
    write("V1__one.lua", counting("one"):gsub("\n", "\r\n") .. "") -- line ends are no change
    write("V2__two.lua", counting "two")
    write("V1__one.lua", counting("one", "-- a comment"))
    local code, out, err = up("--json")
    assert.same({1, 0}, {code, calls "two"})
    says(err, "V1, " .. folder .. "/V1__one.lua, was changed", "--repair")
    assert.equal("conflict", core.json_decode(out).error.code)
    assert.same({1, 1}, {(up("--dry-run")), (up("--status"))})
    assert.equal("changed", status()[1].problem)
    code, out = up("--repair", "--json")
    assert.equal(0, code)
    assert.same({{repaired = "changed", version = 1}}, core.json_decode(out).repaired)
    assert.equal(0, (up()))
    assert.same({1, 1}, {calls "one", calls "two"})
    says(select(2, up("--repair")), "nothing to repair")
    os.rename(folder .. "/V1__one.lua", folder .. "/V1__uno.lua")
    says(select(3, up()), "was run as one and is called uno now")
  end)

  it("knows line ends of Windows for the same script", function()
    write("V1__one.lua", "-- one\nlocal a = 1\nreturn nil, a\n")
    assert.equal(0, (up()))
    write("V1__one.lua", "-- one\r\nlocal a = 1\r\nreturn nil, a\r\n")
    assert.equal(7, (up("--dry-run")))
  end)

  it("refuses a missing script, and one below what was run", function()
    counters("one", "two", "three")
    write("V1__one.lua", counting "one")
    write("V3__three.lua", counting "three")
    assert.equal(0, (up()))
    remove "V1__one.lua"
    write("V2__two.lua", counting "two")
    local code, _, err = up()
    assert.same({1, 0}, {code, calls "two"})
    says(err, "V1__one.lua is missing", "V2, ", "was not run, and V3 was run", "--out-of-order")
    local rows = status()
    assert.same({"missing", "gap"}, {rows[1].problem, rows[2].problem})
    says(select(2, up("--repair")), "V1: that its file is missing is accepted")
    assert.equal("removed", status()[1].state)
    assert.equal(1, (up()))
    assert.equal(0, (up("--out-of-order")))
    assert.same({1, 1, 1}, {calls "one", calls "two", calls "three"})
    assert.equal(0, (up()))
  end)

  it("begins with a system that is there already", function()
    counters("one", "two", "three")
    for i, id in ipairs {"one", "two", "three"} do write(("V00%d__%s.lua"):format(i, id), counting(id)) end
    says(select(2, up("--baseline", "2")), "V001__one.lua is noted as run", "V002__two.lua is noted as run")
    assert.equal("baseline", status()[2].state)
    local code, _, err = up("--baseline", "3")
    assert.equal(1, code)
    says(err, "begins with V1 already")
    assert.equal(0, (up()))
    assert.same({0, 0, 1}, {calls "one", calls "two", calls "three"})
    write("V002__two.lua", "-- another")
    assert.equal(1, (up()))
  end)

  it("refuses to end the process, or what is no job", function()
    write("V1__exit.lua", "os.exit(0)")
    local code, _, err = up()
    assert.equal(2, code)
    says(err, "os.exit: a versioned script ends by returning")
    for _, text in ipairs {"return true", "return {}", "return 'job'"} do
      write("V1__exit.lua", text)
      code, _, err = up()
      assert.equal(2, code)
      says(err, "a versioned script returns a job, a migration, or nothing", "V1__exit.lua")
    end
    write("V1__exit.lua", renaming():gsub("return ", "local job = mortise.job ") .. " job:run() return job")
    code, _, err = up()
    assert.equal(2, code)
    says(err, "which it has run itself")
  end)

  it("ends what a script leaves behind", function()
    write("V1__left.lua", [[
left = mortise.acquire {tree = "/left"}
other = mortise.connect {}
another = other:acquire {tree = "/other"}]])
    write("V2__wants.lua", [[
assert(left == nil)
mortise.connect({}):acquire({tree = {"/left", "/other"}, wait = "1s"}):release()]])
    local code, _, err = up()
    assert.equal(0, code, err)
  end)

  it("lets a script lock all of its namespace", function()
    write("V1__all.lua", [[
mortise.with_global_lock({wait = "1s"}, function(lock) lock:check() end)
mortise.close()]])
    write("V2__job.lua", set_owner)
    local code, _, err = up()
    assert.equal(0, code, err)
    assert.equal("x", client:get(index, "d7").owner)
  end)

  it("stops at a job that sets documents aside, until that is decided", function()
    counters "two"
    write("V1__cast.lua", [[
mortise.update("%INDEX%", "d1", {count = "many"})
mortise.refresh "%INDEX%"
return {name = "any", index = "%INDEX%", lock = "/a",
  change = {{cast = {field = "count", to = "integer"}}, {set = {field = "seen", value = true}}}}]])
    write("V2__two.lua", counting "two")
    local code, _, err = up()
    assert.same({1, 0}, {code, calls "two"})
    says(err, "rejected", "V1__cast.lua")
    assert.equal("failed", status()[1].state)
    code, _, err = up()
    assert.same({1, 0}, {code, calls "two"})
    says(err, "1 documents were set aside", "mortise jobs show V1__cast --rejected", "--repair",
      "mortise jobs rollback V1__cast")
    code, _, err = up "--dry-run"
    assert.equal(1, code)
    says(err, "1 documents were set aside")
    assert.equal("rejected", status()[1].problem)
    -- Undone, it is run anew, as the script is now.
    assert.equal(0, (mortise("jobs", "rollback", "V1__cast")))
    code, _, err = up()
    assert.same({1, 0}, {code, calls "two"})
    says(err, "rejected")
    says(select(2, up("--repair")), "V1: it is done")
    assert.equal(0, (up()))
    assert.same({1, "done"}, {calls "two", status()[1].state})
    assert.is_nil(select(2, up "--status"):find "rollback")
  end)

  it("refuses a folder without any", function()
    write("notes.txt", "")
    for _, option in ipairs {"--dry-run", "--status", "--repair"} do
      local code, _, err = up(option)
      assert.equal(2, code)
      says(err, "there is no versioned script", "notes.txt")
    end
    assert.equal(2, (up()))
  end)

  it("names a file that is missing as it was called", function()
    write("V0001__one.lua", "")
    assert.equal(0, (up()))
    remove "V0001__one.lua"
    write("V2__two.lua", "")
    local code, _, err = up()
    assert.equal(1, code)
    says(err, "V1: V0001__one.lua is missing")
  end)

  it("lets what was undone be given a later version", function()
    write("V1__rename.lua", renaming())
    write("V2__two.lua", "")
    assert.equal(0, (up()))
    assert.equal(0, (mortise("jobs", "rollback", "V1__rename")))
    remove "V1__rename.lua"
    write("V3__rename.lua", renaming())
    local code, _, err = up()
    assert.equal(0, code, err)
    assert.equal(documents, moved())
    local rows
    rows, code = status()
    assert.same({"undone", "done", 0}, {rows[1].state, rows[3].state, code})
  end)

  it("does not take for done what is half undone", function()
    write("V1__rename.lua", renaming())
    assert.equal(0, (up()))
    local jobs = require("mortise.records").index(client)
    client:update(jobs, namespace .. ":V1__rename", function(view) view.state = "undoing" end)
    for _, option in ipairs {"--dry-run", "--to=1"} do
      local code, _, err = up(option)
      assert.equal(6, code)
      says(err, "job V1__rename is half undone", "jobs rollback V1__rename")
    end
    assert.same("undoing", status()[1].state)
  end)

  it("runs one anew whose job was rolled back after it was done", function()
    counters "two"
    write("V1__rename.lua", renaming())
    assert.same({0, documents}, {(up()), moved()})
    assert.equal(0, (mortise("jobs", "rollback", "V1__rename")))
    local rows, code, found = status()
    assert.same({"undone", "undone", 1}, {rows[1].state, rows[1].problem, code})
    says(found.problems[1].message, "V1: its job V1__rename was rolled back", "runs the script anew")
    assert.same({0, 0, documents}, {(up("--dry-run")), (up()), moved()})
    write("V2__two.lua", counting "two")
    assert.equal(0, (up()))
    assert.equal(0, (mortise("jobs", "rollback", "V1__rename")))
    local _, err
    code, _, err = up()
    assert.same({1, 0}, {code, moved()})
    says(err, "V1__rename.lua, was undone, and V2 was run", "--out-of-order")
    assert.same({0, documents}, {(up "--out-of-order"), moved()})
    assert.same({1, "done"}, {calls "two", status()[1].state})
  end)

  it("knows the job of another from its own", function()
    assert.equal("done", client:job({id = "theirs", index = index, lock = "/a",
      change = {{set = {field = "seen", value = true}}}}):run().state)
    write("V1__mine.lua", [[
return {id = "theirs", index = "%INDEX%", lock = "/a", change = {{set = {field = "mine", value = true}}}}]])
    for _ = 1, 2 do
      local code, _, err = up()
      assert.equal(1, code)
      says(err, "there is a job theirs already")
    end
  end)

  -- ---- Killed --------------------------------------------------------------------------------------

  it("goes on with a job whose process was killed", function()
    counters("one", "two")
    write("V1__rename.lua", counting("one", renaming "rate = 5"))
    write("V2__two.lua", counting "two")
    do
      local running <close> = start()
      process.wait_for("the first document", function() return moved() > 0 end)
      assert.equal("running", status()[1].state)
      running:kill "KILL"
      running:status()
    end
    local rows, code = status()
    assert.same({"cut off", "V1__rename", 1}, {rows[1].state, rows[1].job, code})
    says(select(2, up("--dry-run")), "V1__rename.lua (cut off, job V1__rename)")
    -- It goes on only as it was begun.
    write("V1__rename.lua", counting("one", renaming "rate = 6"))
    local _, err
    code, _, err = up()
    assert.equal(6, code)
    says(err, "was changed since its job V1__rename was begun", "mortise jobs rollback V1__rename")
    code, _, err = up "--dry-run"
    assert.equal(6, code)
    says(err, "was changed since its job V1__rename was begun")
    local found
    rows, code, found = status()
    assert.same({"orphaned_job", 1}, {rows[1].problem, code})
    says(found.problems[1].message, "was changed since its job V1__rename was begun")
    write("V1__rename.lua", counting("one", renaming "rate = 5"))
    mortise("jobs", "throttle", "V1__rename", "--rate", "0")
    code, _, err = up()
    assert.equal(0, code, err)
    assert.same({documents, 2, 1}, {moved(), calls "one", calls "two"})
    assert.equal("done", client:get_job("V1__rename"):status().state)
  end)

  it("refuses another job than the one that stands", function()
    counters "one"
    write("V1__rename.lua", counting("one", [[
if mortise.get("%INDEX%", "one").calls > 1 then return nil end
]] .. renaming "rate = 5"))
    do
      local running <close> = start()
      process.wait_for("the first document", function() return moved() > 0 end)
      running:kill "KILL"
      running:status()
    end
    local code, _, err = up()
    assert.equal(6, code)
    says(err, "it returned job V1__rename before, which stands half-done, and now none")
    assert.equal(0, (mortise("jobs", "rollback", "V1__rename")))
    assert.same({0, 0}, {(up()), moved()})
  end)

  it("knows a job that was finished or undone by hand", function()
    write("V1__rename.lua", renaming "rate = 5")
    local function kill()
      local running <close> = start()
      process.wait_for("the first document", function() return moved() > 0 end)
      running:kill "KILL"
      running:status()
    end
    kill()
    assert.equal(0, (mortise("jobs", "rollback", "V1__rename")))
    assert.equal(0, moved())
    kill()
    mortise("jobs", "throttle", "V1__rename", "--rate", "0")
    assert.equal(0, (mortise("jobs", "resume", "V1__rename")))
    local code, out = up()
    assert.same({0, documents}, {code, moved()})
    says(out, "job V1__rename, 20 documents changed")
  end)

  it("runs a script without a job again only if it never finished", function()
    counters("one", "two", "three")
    write("V1__one.lua", counting "one")
    write("V2__two.lua", counting("two", [[
if mortise.get("%INDEX%", "two").calls == 1 then mortise.sleep "1h" end]]))
    write("V3__three.lua", counting "three")
    do
      local running <close> = start()
      process.wait_for("the second script", function() return calls "two" == 1 end)
      running:kill "KILL"
      running:status()
    end
    assert.equal("cut off", status()[2].state)
    assert.equal(0, (up()))
    assert.same({1, 2, 1}, {calls "one", calls "two", calls "three"})
  end)

  it("comes to the same end whenever it is killed", function()
    counters("one", "two")
    write("V1__one.lua", counting "one")
    write("V2__rename.lua", renaming())
    write("V3__owner.lua", set_owner:gsub("lock = \"/\"", "lock = \"/b\""))
    write("V4__two.lua", counting "two")
    for round = 0, 7 do
      do
        local running <close> = start()
        core.sleep(round * 40)
        running:kill "KILL"
        running:status()
      end
    end
    local code, _, err = up()
    assert.equal(0, code, err)
    client:refresh(index)
    assert.equal(documents, moved())
    for doc in client:scan(index, {query = {prefix = {path = "/b/"}}}) do assert.equal("x", doc.owner) end
    assert.is_true(calls "one" >= 1 and calls "two" >= 1)
    for _, row in pairs((status())) do assert.equal("done", row.state) end
  end)

  -- ---- Several at once -----------------------------------------------------------------------------

  it("lets one run them while the others wait", function()
    counters("one", "two")
    write("V1__one.lua", counting("one", "mortise.sleep(1)"))
    write("V2__two.lua", counting "two")
    local first <close> = start()
    process.wait_for("the first script", function() return calls "one" == 1 end)
    local second <close> = start("--wait", "30s")
    local code, _, err = up("--wait", "100ms")
    assert.equal(3, code)
    says(err, "lock_timeout", "/_named/up/" .. namespace)
    assert.same({0, 0}, {first:status(), second:status()})
    says(second:out(), "nothing to run")
    assert.same({1, 1}, {calls "one", calls "two"})
  end)

  it("stops when its lock is lost, and writes nothing down", function()
    counters("one", "two")
    write("V1__one.lua", counting("one", [[
if mortise.get("%INDEX%", "one").calls == 1 then mortise.sleep "1h" end]]))
    write("V2__two.lua", counting "two")
    local running <close> = process.start(store, namespace, 2000, {"up", folder})
    process.wait_for("the script", function() return calls "one" == 1 end)
    local path = "/_named/up/" .. namespace
    local function locks(...)
      return program.run {"--store", store.store, "--namespace", "mortise-up", "locks", ...}
    end
    local hold = core.json_decode(select(2, locks(path, "--json"))).holds[1].hold
    locks("break", path, "--hold", hold, "--yes")
    assert.equal(5, running:status())
    says(running:err(), "lock_lost")
    assert.equal("cut off", status()[1].state)
    assert.equal(0, (up()))
    assert.same({2, 1}, {calls "one", calls "two"})
  end)

  it("is a function of scripts, too", function()
    counters("one", "two")
    write("V1__one.lua", counting "one")
    write("V2__two.lua", counting "two")
    local file = program.write([[
local dir = ...
assert(#mortise.up({dir = dir, dry_run = true}).pending == 2)
local held = mortise.acquire {tree = "/held"}
local result = mortise.up {dir = dir, to = 1, wait = "5s"}
assert(#result.ran == 1 and result.ran[1].state == "done")
held:check()
local found = mortise.up {dir = dir, status = true}
assert(found.versions[1].state == "done" and found.versions[2].state == "pending" and #found.problems == 0)
local ok, why = pcall(mortise.up, {dir = dir, to = "2"})
assert(not ok and why.code == "invalid_argument")
assert(#mortise.up({dir = dir}).ran == 1)]], ".lua")
    local code, _, err = mortise("run", file, folder)
    os.remove(file)
    assert.equal(0, code, err)
    assert.same({1, 1}, {calls "one", calls "two"})
  end)

  it("is interrupted, and goes on", function()
    counters "one"
    write("V1__one.lua", counting("one", [[
if mortise.get("%INDEX%", "one").calls == 1 then mortise.sleep "1h" end]]))
    local running <close> = start()
    process.wait_for("the script", function() return calls "one" == 1 end)
    running:kill "INT"
    assert.equal(130, running:status())
    assert.equal("cut off", status()[1].state)
    assert.equal(0, (up()))
    assert.equal(2, calls "one")
  end)
end)
