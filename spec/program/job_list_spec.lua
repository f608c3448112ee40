-- What another terminal says of jobs: which there are, how far each is, who is at it and how it ended.
local core = require "mortise.core"
local fails = require "spec.support.fails"
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP lists of jobs: MORTISE_BIN is not set"
  return
end

local documents, lease_ms = 200, 60000

local script = [[
local index, id, rate = ...
local job = mortise.job {
  id = id, index = index, rename = {from = "/a", to = "/b"}, rate = tonumber(rate), batch = 5,
}
print("begun\t" .. math.floor(mortise.now())) io.stdout:flush()
print(job:run().state)
]]

stores.each("a list of jobs", function(store)
  local client, index, namespace, file

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    local all = {}
    for i = 1, documents do all["d" .. i] = {path = "/a/" .. i, n = i} end
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

  local function decoded(...)
    local code, out, err = mortise(...)
    assert.equal(0, code, err)
    return core.json_decode(out)
  end

  local function ids(...)
    local found = {}
    for i, record in ipairs(decoded("jobs", "--json", ...).jobs) do found[i] = record.job end
    return found
  end

  local function renamed(id, from, to)
    client:job({id = id, index = index, rename = {from = from, to = to}}):run()
  end

  local function start(id, rate)
    local running = process.start(store, namespace, lease_ms, {file, index, id, rate})
    running:said "begun"
    process.wait_for("a checkpoint", function()
      local there, found = pcall(client.get_job, client, id)
      local record = there and found:status()
      return record and record.counts.changed > 0 and record.rate
    end, function() return running:err() end)
    return running
  end

  it("says how far one is, how fast, and when it will end", function()
    local running <close> = start("moving", "5") -- 40 s, for a machine that is busy
    local shown = decoded("jobs", "show", "moving", "--json")
    assert.equal(documents, shown.total)
    assert.equal(shown.total, shown.done + shown.left)
    assert.is_true(shown.done > 0 and shown.left > 0 and shown.percent < 100)
    assert.is_true(shown.rate > 0 and shown.rate <= 60)
    assert.equal((shown.left + shown.rate - 1) // shown.rate, shown.seconds_left)
    says(select(2, mortise("jobs", "show", "moving")), "so far", " of 200 documents, ", "/s, ", " left",
      "5 documents/s", "   [#", "-]\n")
    says(select(2, mortise "jobs"), "RATE", "%", "/s")
    client:get_job("moving"):pause()
    process.wait_for("the pause", function() return client:get_job("moving"):status().waits end)
    says(select(2, mortise("jobs", "show", "moving")), "paused by ", "steered  by ", "told to pause, ")
    assert.equal("to pause", decoded("jobs", "show", "moving", "--json").steered.what)
    assert.is_nil(decoded("jobs", "show", "moving", "--json").seconds_left)
    client:get_job("moving"):throttle {rate = 0}
    client:get_job("moving"):go_on()
    assert.equal(0, running:status())
    local ended = decoded("jobs", "show", "moving", "--json")
    assert.same({documents, documents, 0, 100}, {ended.total, ended.done, ended.left, ended.percent})
  end)

  it("says of one that ended who ran it, when, for how long and with what", function()
    local code, out, err = mortise("rename", index, "/a", "/b")
    assert.equal(0, code, err)
    local id = out:match "mortise .*jobs rollback (rename%-%x+)"
    says(out, "to undo it: mortise jobs rollback " .. id)
    local ended = decoded("jobs", "show", id, "--json")
    local me = core.json_decode(core.identity())
    assert.same({me.user, me.host, ("rename %s /a /b"):format(index)},
      {ended.by.user, ended.by.host, ended.by.script})
    assert.matches("^20%d%d%-%d%d%-%d%dT", ended.ended)
    assert.is_true(ended.seconds >= 0)
    says(select(2, mortise("jobs", "show", id)), ("rename %s /a /b, %s@%s"):format(index, me.user, me.host),
      "ended", "after it was begun")
  end)

  it("begins with what stands, then what runs, then the latest", function()
    renamed("first", "/a/1", "/x")
    renamed("second", "/a/2", "/y")
    local running <close> = start("stops", "20")
    running:kill "KILL"
    running:status()
    assert.same({"stops", "second", "first"}, ids())
    assert.same({"stops"}, ids("--state", "stands"))
    local shown = select(2, mortise("jobs", "show", "stops"))
    says(shown, "so far   at least, as of ", "counts   at least, as of ")
    assert.is_true(decoded("jobs", "show", "stops", "--json").at_least)
    assert.is_nil(decoded("jobs", "show", "first", "--json").at_least)
    assert.same({"second", "first"}, ids("--state", "done"))
    local code, _, err = mortise("jobs", "--state", "dnoe")
    assert.same({2, true}, {code, err:find("done", 1, true) ~= nil})
    assert.equal(0, (mortise("jobs", "rollback", "stops")))
  end)

  it("leaves out what was refused and what is old, unless all are asked for", function()
    fails("conflict", renamed, "refused", "/a/1", "/a/2")
    for i = 1, 22 do renamed(("r%02d"):format(i), "/a/" .. i, "/c/" .. i) end
    local shown = ids()
    assert.same({20, "r22", "r03"}, {#shown, shown[1], shown[20]})
    assert.equal(23, #ids "--all")
    says(select(3, mortise "jobs"), "3 more are not shown (--all)")
    assert.same({"refused"}, ids("--state", "undone"))
    says(select(3, mortise("jobs", "--state", "done")), "2 more are not shown (--all)")
    local _, out, err = mortise("jobs", "--state", "stands", "--all")
    assert.same({"there are no such jobs\n", ""}, {out, err})
  end)

  it("waits for one until nobody is at it", function()
    local running <close> = start("awaited", "20")
    assert.equal(3, (mortise("jobs", "wait", "awaited", "--for", "100ms")))
    client:get_job("awaited"):throttle {rate = 0}
    local code, out, err = mortise("jobs", "wait", "awaited", "--for", "60s")
    assert.equal(0, code, err)
    says(out, "job awaited is done: 200 documents changed")
    assert.equal(0, running:status())
    assert.equal(1, (mortise("jobs", "wait", "nosuch")))
  end)

  it("is waited for and stands", function()
    local running <close> = start("killed", "20")
    running:kill "KILL"
    running:status()
    local code, out = mortise("jobs", "wait", "killed")
    assert.equal(6, code, out)
    assert.equal(0, (mortise("jobs", "rollback", "killed")))
    code, out = mortise("jobs", "wait", "killed")
    assert.equal(0, code, out)
    says(out, "job killed is undone", "restored")
  end)

  it("is watched, a line for each change, with all about it at the end", function()
    local running <close> = start("watched", "20") -- luacheck: ignore
    local code, out, err = mortise("jobs", "watch", "watched", "--for", "4s")
    assert.equal(3, code, err)
    assert.matches("Z  job watched is running: %d+%%.*Z  job watched is running: %d+%%", out)
    says(out, "watched\n  state    running")
    client:get_job("watched"):throttle {rate = 0}
    code, out = mortise("jobs", "watch", "watched", "--json")
    assert.equal(0, code)
    local last
    for line in out:gmatch "[^\n]+" do last = core.json_decode(line) end
    assert.equal("done", last.state)
    says(last.steered.what, "how fast it may go")
  end)

  it("is cut to an index, to a time, to those of this user", function()
    renamed("one", "/a", "/b")
    assert.same({"one"}, ids("--index", index))
    assert.same({}, ids("--index", index .. "-other"))
    assert.same({"one"}, ids("--since", "1h", "--mine"))
    core.sleep(1100)
    assert.same({}, ids("--since", "1s"))
    assert.equal(2, (mortise("jobs", "show", "one", "--mine")))
  end)

  it("says how one can be run again that was undone", function()
    renamed("once-more", "/a", "/b")
    client:get_job("once-more"):rollback()
    says(select(2, mortise("jobs", "show", "once-more")), "mortise jobs purge once-more")
    local why = fails("conflict", renamed, "once-more", "/a", "/b")
    says(why.message, "which is undone", "`mortise jobs purge once-more`")
    assert.is_nil(client:job({name = "other", index = index, rename = {from = "/a", to = "/b"}}):status())
  end)

  it("offers to steer a job that holds a lock, before its process is to be killed", function()
    local running <close> = start("holds", "20")
    local _, out = mortise("locks", "--who", "/a")
    says(out, "mortise jobs pause holds", "mortise jobs cancel holds")
    assert.is_true(out:find("jobs pause", 1, true) < out:find("kill ", 1, true))
    client:get_job("holds"):throttle {rate = 0}
    assert.equal(0, running:status())
  end)
end)
