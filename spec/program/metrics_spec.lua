-- Counts for Prometheus: mortise.metrics() and --metrics-file.
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP metrics: MORTISE_BIN is not set"
  return
end

-- {[sample] = value}; each line is one, or belongs to the head of one.
local function samples(text)
  local found, typed = {}, {}
  assert.equal("\n", text:sub(-1))
  for line in text:gmatch "[^\n]+" do
    local name = line:match "^# TYPE ([a-z_]+) [a-z]+$"
    if name then
      assert.is_nil(typed[name], name)
      typed[name] = true
    elseif not line:find "^# HELP [a-z_]+ [^\n]+$" then
      local sample, value = line:match "^([a-z_]+[^ ]*) ([0-9.]+)$"
      if not sample then sample, value = line:match '^([a-z_]+{[a-z]+="[^"]*"}) ([0-9.]+)$' end
      assert.is_truthy(sample, line)
      local base = sample:match "^[a-z_]+"
      assert.is_true(typed[base] or typed[(base:gsub("_[a-z]+$", ""))], line)
      assert.is_nil(found[sample], sample)
      found[sample] = tonumber(value)
    end
  end
  return found
end

local read = program.read

stores.each("metrics", function(store)
  local namespace, client, file

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    file = os.tmpname()
    os.remove(file)
  end)
  after_each(function()
    client:close()
    os.remove(file)
  end)

  local function run(code)
    return program.run {"--store", store.store, "--namespace", namespace, "--metrics-file", file, "-e", code}
  end

  it("count locks, waits and failures", function()
    local held <close> = client:acquire {tree = "/held"} -- luacheck: ignore
    local status, out, err = run [[
      mortise.with_tree_lock("/a", function() print(mortise.metrics()) end)
      mortise.with_tree_lock("/a", function() end)
      assert(not mortise.try_lock {tree = "/held"})]]
    assert.same({0, ""}, {status, err})
    local within, at_end = samples(out:sub(1, -2)), samples(read(file))
    assert.equal(1, within.mortise_locks_held)
    assert.is_true(within.mortise_lease_remaining_seconds > 0)
    assert.equal(0, at_end.mortise_locks_held)
    assert.equal(2, at_end.mortise_lock_wait_seconds_count)
    assert.equal(2, at_end['mortise_lock_wait_seconds_bucket{le="+Inf"}'])
    assert.equal(1, at_end['mortise_lock_failures_total{code="lock_timeout"}'])
    assert.is_true(at_end.mortise_lock_denials_total >= 1)
    assert.is_true(at_end.mortise_lock_items_total >= at_end.mortise_lock_batches_total)
    assert.is_true(at_end.mortise_requests_total >= at_end.mortise_lock_batches_total)
  end)

  it("count documents, of writers and of jobs", function()
    local index = stores.fill(client, {a = {path = "/a/1"}, b = {path = "/a/2"}})
    local status, _, err = run(([[
      mortise.with_tree_lock("/w", function(lock)
        local writer = lock:bulk(%q)
        writer:create("a", {path = "/w"})
        writer:create("c", {path = "/w"})
        writer:finish {partial = true}
      end)
      mortise.job({index = %q, name = "counted", rename = {from = "/a", to = "/b"}}):run()]]):format(index,
        index))
    assert.same({0, ""}, {status, err})
    local found = samples(read(file))
    assert.equal(1, found['mortise_documents_total{outcome="applied"}'])
    assert.equal(1, found['mortise_documents_total{outcome="conflict"}'])
    assert.equal(2, found['mortise_job_documents_total{outcome="changed"}'])
    assert.equal(1, found['mortise_jobs_total{attempt="run, well"}'])
  end)

  it("that cannot be written change nothing else", function()
    file = "/no/such/folder/mortise.prom"
    local status, out, err = run [[mortise.with_tree_lock("/a", function() print "done" end)]]
    assert.same({0, "done\n"}, {status, out})
    says(err, "warning", "the metrics cannot be written", "/no/such/folder")
  end)
end)
