-- What killed processes left: `mortise doctor` says it in a line, lists it when asked, and removes it.
local core = require "mortise.core"
local process = require "spec.support.process"
local program = require "spec.support.program"
local standing = require "spec.support.standing"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP the dead: MORTISE_BIN is not set"
  return
end

local lease_ms = 30000

local worker = [[
local lock
if arg[1] == "-" then
  lock = mortise.acquire {tree = arg[2]}
else
  local session = mortise.connect():_open_core():open_session(arg[1])
  lock = session:acquire("tree", nil, {arg[2]}, {wait_ms = 5000})
end
print("held", require "mortise.core".now_ms()) io.stdout:flush()
mortise.sleep(60)
]]

stores.each("what the dead left", function(store)
  local namespace, client, file

  setup(function() file = program.write(worker, ".lua") end)
  teardown(function() os.remove(file) end)
  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace, lease = lease_ms .. "ms"})
  end)
  after_each(function() client:close() end)

  local function killed(job, path)
    local one <close> = process.start(store, namespace, lease_ms, {file, job, path})
    one:said "held"
    one:kill "KILL"
  end

  local function doctor(...)
    local words = {"--store", store.store, "--namespace", namespace, "doctor", ...}
    local status, out, err = program.run(words)
    assert.equal(1, status, out .. err) -- there is a job that stands
    return out
  end

  local function left()
    local n = {guards = 0, others = 0}
    for _, lock in ipairs(client:list().locks) do
      for _, entry in ipairs(lock.holders) do
        local what = entry.job and "guards" or "others"
        n[what] = n[what] + 1
      end
    end
    return n
  end

  it("is said in a line, listed when asked, and removed by --fix, but for what guards a job", function()
    killed("-", "/a/b")
    killed("-", "/a/c")
    killed("job-1", "/j/k")
    standing(client, "job-1", {"/j/k"})
    assert.same({guards = 3, others = 6}, left())

    local out = doctor()
    assert.matches("note  sessions: 2 dead sessions left 6 entries, since %d+%a+ at most", out)
    assert.matches("doctor %-%-fix", out)
    assert.matches("job job%-1 is not finished", out)
    assert.is_nil(out:find("its process is gone", 1, true), out)
    local _, lines = doctor "--verbose":gsub("its process is gone", "")
    assert.equal(2, lines)
    local found
    for _, each in ipairs(core.json_decode(doctor "--json").findings) do
      if each.entries then found = each end
    end
    assert.same({2, 6}, {found.sessions, found.entries})
    assert.same({guards = 3, others = 6}, left())

    out = doctor "--fix"
    assert.matches("ok    sessions: 2 dead sessions left 6 entries: 6 of them were removed", out)
    assert.matches("job job%-1 is not finished", out)
    assert.matches("mortise jobs show job%-1", out)
    assert.same({guards = 3, others = 0}, left())
    assert.is_nil(doctor():find "dead session")
  end)
end)
