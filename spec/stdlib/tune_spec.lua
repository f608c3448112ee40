-- `tune`: a job's index is not refreshed meanwhile, and has its own refresh_interval again after any end.
local core = require "mortise.core"
local fails = require "spec.support.fails"
local process = require "spec.support.process"
local program = require "spec.support.program"
local proxy = require "spec.support.proxy"
local stores = require "spec.support.stores"

local lease_ms = 60000

local script = [[
local index, id, rate = ...
return {id = id, index = index, rename = {from = "/a", to = "/b"}, rate = math.tointeger(rate), tune = true}
]]

stores.each("a tuned job", function(store)
  local elastic = not store.store:find "^sqlite:"
  local client, namespace, index, file, settings

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    local documents = {}
    for i = 1, 20 do documents["d" .. i] = {path = "/a/" .. i} end
    index = stores.fill(client, documents)
    file = program.write(script, ".lua")
    settings = "/" .. index .. "/_settings"
  end)

  after_each(function()
    os.remove(file)
    client:drop_index(index)
    client:close()
  end)

  -- The refresh_interval; false where none is set.
  local function interval()
    if not elastic then return false end
    local _, text = client:raw("GET", settings .. "?flat_settings=true")
    return core.json_decode(text)[index].settings["index.refresh_interval"] or false
  end

  local function set(value)
    if elastic then client:raw("PUT", settings, {index = {refresh_interval = value}}) end
    return elastic and value
  end

  local function job(id, from, to, also)
    local given = {
      id = id, index = index, rename = {from = from, to = to}, tune = true,
      batch = 5, concurrency = 1, rate = 10,
    }
    for name, value in pairs(also or {}) do given[name] = value end
    return client:job(given)
  end

  local function tuned(id) return client:get_job(id):status().spec.tuned end

  it("has the index untouched while it runs, and as it was afterwards", function()
    for i, before in ipairs {false, "7s"} do
      if before then before = set(before) end
      local found
      local one = job("one" .. i, i == 1 and "/a" or "/b", i == 1 and "/b" or "/a", {
        on_start = function() found = interval() end, -- others see the change only when it is allowed
        on_done = function() assert.equal(before, interval()) end,
        on_batch = function() found = interval() end,
      })
      assert.equal(20, one:run().changed)
      assert.equal(elastic and "-1" or false, found)
      assert.equal(before, interval())
      assert.is_nil(tuned("one" .. i))
    end
  end)

  it("says in its document what was there, before that is changed", function()
    local before, said, seen = set "9s", nil, nil
    job("said", "/a", "/b", {on_start = function(self) said, seen = tuned(self.id), interval() end}):run()
    if elastic then assert.same({{index = index, before = "9s"}}, said) else assert.is_nil(said) end
    assert.equal(before, seen)
  end)

  it("puts it back where it was stopped, goes on and is undone", function()
    local before = set "5s"
    local two = job("two", "/a", "/b",
      {rate = 5, on_batch = function() return false end})
    fails("interrupted", two.run, two)
    assert.equal("stopped", two:status().state)
    assert.equal(before, interval())
    before = set "6s"
    local found
    client:get_job("two", {on_batch = function() found = interval() end}):throttle({rate = 10}):resume()
    assert.equal(elastic and "-1" or false, found)
    assert.equal(before, interval())
    two:rollback()
    assert.equal(before, interval())
    assert.equal(20, client:count(index, {prefix = {path = "/a/"}}))
  end)

  it("leaves alone what others have set meanwhile", function()
    local after
    job("three", "/a", "/b", {on_batch = function() after = after or set "3s" end}):run()
    assert.equal(after, interval())
    after = set "-1"
    job("four", "/b", "/a"):run()
    assert.equal(after, interval())
    assert.is_nil(tuned "four")
  end)

  it("is done beside another on the same index", function()
    local before = set "8s"
    client:index(index, "z1", {path = "/z/1"})
    client:refresh(index)
    local outer = job("outer", "/a", "/b", {rate = 2})
    local task = core.spawn(function() return outer:run() end)
    process.wait_for("the beginning", function()
      local record = outer:status()
      return record and record.counts.changed > 0
    end)
    assert.equal("done", job("inner", "/z", "/y"):run().state)
    assert.equal(elastic and "-1" or false, interval())
    assert.is_nil(tuned "inner")
    outer:throttle {rate = 0}
    assert.equal("done", task:join().state)
    assert.equal(before, interval())
  end)

  it("goes on where it may not set it", function()
    local warned, raw = {}, client.raw
    if not elastic then return end
    client.raw = function(self, method, path, body)
      if path:find "/_settings" and method == "PUT" then return 403, '{"error":"no permissions"}' end
      return raw(self, method, path, body)
    end
    local warn = core.warn
    core.warn = function(text)
      warned[#warned + 1] = text
      return true
    end
    local ok, result = pcall(function() return job("five", "/a", "/b"):run() end)
    core.warn = warn
    assert(ok, result)
    assert.equal("done", result.state)
    assert.truthy(table.concat(warned):find("goes on without `tune`", 1, true))
  end)

  if not program.file then return end

  -- The program is sent a signal while its index is not refreshed.
  local function signal(id, name)
    local running <close> = process.start(store, namespace, lease_ms, {"job", "run", file, index, id, "2"})
    process.wait_for("the first document", function()
      client:refresh(index)
      return client:count(index, {prefix = {path = "/b/"}}) > 0
    end)
    assert.equal(elastic and "-1" or false, interval())
    running:kill(name)
    running:status()
  end

  local function kill(id)
    signal(id, "KILL")
    assert.equal(elastic and "-1" or false, interval())
    if elastic then assert.equal(index, tuned(id)[1].index) end
  end

  local function mortise(...)
    local code, _, err = program.run {"--store", store.store, "--namespace", namespace, ...}
    assert.equal(0, code, err)
  end

  it("is interrupted", function()
    local before = set "3s"
    signal("interrupted", "INT")
    assert.equal(before, interval())
    assert.same({"stopped"}, {client:get_job("interrupted"):status().state, tuned "interrupted"})
  end)

  -- The answer to the request that sets -1 comes so many milliseconds late; the signal comes before it.
  local function signal_early(id, name, late_ms)
    local held = ("method=PUT path=_settings times=1 hold %d"):format(late_ms)
    local between = proxy.start(store.store, 1, {held})
    local running <close> = process.start({store = between.url}, namespace, lease_ms,
      {"job", "run", file, index, id, "2"})
    process.wait_for("what is to be put back", function()
      local ok, said = pcall(tuned, id)
      return ok and said
    end)
    core.sleep(300) -- the request is at the proxy
    running:kill(name)
    running:status()
    return running:err(), between
  end

  it("is interrupted while the index is being tuned", function()
    if not elastic or not proxy.file then return end
    for i, name in ipairs {"TERM", "INT"} do
      local before = set(i .. "s")
      local _, between = signal_early("early" .. i, name, 700)
      core.sleep(2000) -- what nobody waits for has come, too
      between:stop()
      assert.equal(before, interval())
      assert.same({"undone"}, {client:get_job("early" .. i):status().state, tuned("early" .. i)})
    end
  end)

  it("does not forget what may still be set late", function()
    if not elastic or not proxy.file then return end
    local before = set "9s"
    local said, between = signal_early("late", "TERM", 9000) -- longer than an interrupted program waits
    assert.truthy(tuned "late", said)
    assert.truthy(said:find("was not put back; to try it again: mortise jobs rollback late", 1, true), said)
    process.wait_for("the late request", function() return interval() == "-1" end)
    between:stop()
    mortise("jobs", "rollback", "late")
    assert.equal(before, interval())
    assert.is_nil(tuned "late")
  end)

  it("is killed and resumed", function()
    kill "killed"
    mortise("jobs", "throttle", "killed", "--rate", "0")
    mortise("jobs", "resume", "killed")
    assert.equal(20, client:count(index, {prefix = {path = "/b/"}}))
    assert.is_false(interval())
    assert.is_nil(tuned "killed")
  end)

  it("is killed and rolled back", function()
    local before = set "4s"
    kill "back"
    mortise("jobs", "rollback", "back")
    client:refresh(index)
    assert.equal(20, client:count(index, {prefix = {path = "/a/"}}))
    assert.equal(before, interval())
    assert.is_nil(tuned "back")
  end)

  it("is killed when it was done, and purged", function()
    if not elastic then return end
    job("over", "/a", "/b"):run()
    set "-1"
    local jobs = client:_open_core():jobs_index()
    client:update(jobs, namespace .. ":over", function(view)
      view.body.spec.tuned = {{index = index, before = "2s"}}
    end)
    mortise("jobs", "purge", "over", "--yes")
    assert.equal("2s", interval())
  end)
end)
