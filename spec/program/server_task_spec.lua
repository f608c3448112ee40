-- A job whose change the server makes by itself, and whose process is killed: what is said of it meanwhile.
local core = require "mortise.core"
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"
local sweeps = require "mortise.sweeps"

if not program.file then
  print "SKIP the server's own task: MORTISE_BIN is not set"
  return
end

local documents, lease_ms = 20000, 30000

local script = [[
local index, id = ...
return {id = id, index = index, rename = {from = "/a", to = "/b"}, strategy = "server"}
]]

stores.each("a server's own task whose process was killed", function(store)
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

  local function mortise(...) return program.run {"--store", store.store, "--namespace", namespace, ...} end

  -- The server may be done before anybody looks: then it says that.
  local function begin(id)
    local job = client:get_job(id)
    return job:status().sweeps and job:status()
  end

  it("is named wherever the job is, and counted when it is resumed", function()
    local killed <close> = process.start(store, namespace, lease_ms, {"job", "run", file, index, "swept"})
    process.wait_for("its task", function()
      local found, status = pcall(begin, "swept")
      return found and status
    end, function() return killed:err() end)
    killed:kill "KILL"
    killed:status()

    local _, shown = mortise("jobs", "show", "swept")
    says(shown, "running, left", "the server's own task ", "at work")
    local status, seen, err = mortise("jobs", "rollback", "swept", "--dry-run")
    assert.same({true, ""}, {status == 0 or status == 7, err})
    local still = seen:find("the server's own task", 1, true)
    assert.is_true(not still or status == 0, seen)
    assert.is_nil(seen:find("at least 0 of which", 1, true), seen)

    local result
    status, result, err = mortise("jobs", "resume", "swept", "--json")
    assert.equal(0, status, err)
    result = core.json_decode(result)
    assert.equal(documents, result.changed + result.by_server)
    client:refresh(index)
    assert.equal(documents, client:count(index, {prefix = {path = "/b/"}}))
  end)
end)

describe("what is said of a server's own task", function()
  -- A client of a server that answers so.
  local function client_of(tasks, states)
    local own = {}
    function own.job_tasks() return tasks or error("not allowed", 0) end
    function own.job_task(_, id) return states[id] end
    return {_open_core = function() return own end, namespace = function() return "ns" end}
  end

  local function look(tasks, states)
    local record = {
      job = "j", stands = true, sweeps = true, task = "n:1", swept = 300,
      not_after = core.wall_ms() / 1000 + 60,
    }
    local found = sweeps.look(client_of(tasks, states), record)
    return sweeps.goes_on(found), sweeps.text(found)
  end

  it("is that it goes on, has ended, or may go on where that cannot be seen", function()
    local goes_on, text = look({"n:1"}, {["n:1"] = {running = true, updated = 700}})
    assert.is_true(goes_on)
    says(text, "is still at work on it, for ", " at most or until somebody resumes or undoes it",
      "at least 700 documents changed")
    goes_on, text = look({}, {["n:1"] = {running = false, lost = false, updated = 800}})
    assert.is_false(goes_on)
    says(text, "is not at work any more: at least 800 documents changed")
    goes_on, text = look(nil, {})
    assert.is_true(goes_on)
    says(text, "may still be at work on it", "at least 300 documents changed")
    goes_on = look({}, {["n:1"] = {running = false, lost = true, updated = 0}})
    assert.is_true(goes_on)
    assert.is_nil(sweeps.look(client_of({}, {}), {stands = false, sweeps = true}))
    assert.is_nil(sweeps.look(client_of({}, {}), {stands = true}))
  end)
end)
