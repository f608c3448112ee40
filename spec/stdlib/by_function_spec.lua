-- Jobs whose change is a function of a script.
local fails = require "spec.support.fails"
local mortise = require "mortise"
local process = require "spec.support.process"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

-- Appends the id of each document that it is called for to a file, and doubles `n`. Is killed in the middle
-- of the job, if it is the first attempt.
local script = [[
  local index, id, calls, verb = ...
  local pid = io.open("/proc/self/stat"):read "n"
  local log = assert(io.open(calls, "a"))
  log:setvbuf "no"
  local job = mortise.job {
    id = id, index = index, lock = "/a", batch = 5, concurrency = 1,
    rate = verb == "run" and 200 or nil, -- so that there is an in-between
    change = function(doc)
      log:write(doc._id, "\n")
      doc.n = doc.n * 2
    end,
    on_progress = function(done, all)
      if verb == "run" and done > 0 and done < all then os.execute("kill -KILL " .. pid) end
    end,
  }
  job[verb](job)
]]

stores.each("a job's function", function(store)
  local client, other, index, namespace

  local properties = {path = {type = "keyword"}, n = {type = "integer"}}

  local function fill(count)
    local documents = {}
    for i = 1, count do documents["d" .. i] = {path = "/a/" .. i, n = i} end
    index = stores.fill(client, documents, properties)
  end

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace, wait = "60s"})
    other = stores.connect(store, {namespace = namespace, wait = "60s"})
    fill(40)
  end)

  after_each(function()
    other:drop_index(index)
    client:close()
    other:close()
  end)

  local function sources() return stores.sources(other, index) end

  local function making(change, also)
    local given = {name = "made", index = index, lock = "/a", batch = 7, change = change}
    for name, value in pairs(also or {}) do given[name] = value end
    return client:job(given)
  end

  local function is_free() other:acquire({tree = "/a", wait = 0}):release() end

  -- Changes, deletes, refuses, or keeps.
  local function treat(doc)
    if doc.n % 4 == 0 then return mortise.delete end
    if doc.n % 4 == 1 then return mortise.reject("it is " .. doc.n) end
    if doc.n % 4 == 2 then doc.n = doc.n + 0 else doc.n, doc.more = -doc.n, {of = "it"} end
  end

  it("patches, deletes, refuses and keeps documents, and all of that is undone", function()
    local before = sources()
    local job = making(treat)
    local why = fails("rejected", job.run, job)
    assert.same({"done", 40, 10, 10, 10, 10}, {why.result.state, why.result.matched, why.result.changed,
      why.result.deleted, why.result.unchanged, why.result.rejected})
    assert.is_nil(other:get(index, "d4"))
    assert.same({1, 2, -3, "it"}, {other:get(index, "d1").n, other:get(index, "d2").n,
      other:get(index, "d3").n, other:get(index, "d3").more.of})
    local refused = {}
    for each in job:rejected() do refused[each.id] = each.reason end
    assert.equal("it is 5", refused.d5)
    assert.equal("function", job:status().spec.change)
    local elsewhere = other:get_job(job.id) -- which has no function
    elsewhere:rollback()
    assert.same(before, sources())
    is_free()
  end)

  it("is called once for each document, and need not be one that can be repeated", function()
    local calls = {}
    local result = making(function(doc)
      calls[doc.id] = (calls[doc.id] or 0) + 1
      doc.n = doc.n + 1
      return doc
    end):run()
    assert.same({"done", 40, 40}, {result.state, result.matched, result.changed})
    for i = 1, 40 do assert.same({1, i + 1}, {calls["d" .. i], other:get(index, "d" .. i).n}) end
    is_free()
  end)

  it("is called again for a document that others have changed meanwhile, as it then is", function()
    local calls = 0
    local result = making(function(doc)
      if doc.id == "d7" then
        calls = calls + 1
        if calls == 1 then other:update(index, "d7", {n = 700}, {refresh = true}) end
      end
      doc.n = doc.n + 1
    end):run()
    assert.same({"done", 40, 0}, {result.state, result.changed, result.conflicts})
    assert.same({2, 701, 9}, {calls, other:get(index, "d7").n, other:get(index, "d8").n})
  end)

  it("does not count what others delete before it does, nor make that again", function()
    local before = sources()
    local job = making(function(doc)
      if doc.n == 7 then other:delete(index, "d7") end
      if doc.n == 7 or doc.n > 38 then return mortise.delete end
      doc.n = -doc.n
    end)
    local result = job:run()
    assert.same({"done", 40, 37, 2, 1}, {result.state, result.matched, result.changed, result.deleted,
      result.unchanged})
    assert.equal(2, job:status().counts.deleted)
    local undone = other:get_job(job.id):rollback()
    assert.same({"undone", 39, 0}, {undone.state, undone.changed, undone.conflicts})
    before.d7 = nil
    assert.same(before, sources())
  end)

  it("is planned, with samples", function()
    local before = sources()
    local plan = making(treat, {query = {range = {n = {gt = 37}}}}):plan()
    assert.same({3, 1, 1, 1}, {plan.matched, plan.changed, plan.deleted, plan.unchanged})
    local found = {}
    for _, each in ipairs(plan.samples) do found[each.deleted and "deleted" or "changed"] = each end
    assert.equal("n", found.changed.fields[1].field)
    assert.is_truthy(found.deleted.before)
    assert.same(before, sources())
    is_free()
  end)

  it("may wait, and gets its hooks", function()
    local started, verified, done, all = 0, 0, nil, nil
    making(function(doc)
      mortise.sleep "1ms"
      doc.n = other:get(index, doc.id).n * 10
    end, {
      on_start = function() started = started + 1 end,
      verify = function(doc)
        verified = verified + 1
        return doc.n % 10 == 0
      end,
      on_progress = function(...) done, all = ... end,
    }):run()
    assert.same({1, 40, 40, 40}, {started, verified, done, all})
  end)

  -- Adds 1 to `n`; fails in the second page, once the first is written, while it is broken by this table.
  local function adding(state)
    local calls, first = 0, nil
    local function inner()
      if not state.broken or calls <= 7 then return end
      process.wait_for("the first page", function() return other:get(index, first.id).n ~= first.n end)
      error "no such luck"
    end
    return function(doc)
      calls, first = calls + 1, first or {id = doc.id, n = doc.n}
      if state.broken then state.last = doc.id end
      inner()
      doc.n = doc.n + 1
    end
  end

  it("is gone on with as is said where its job's id was made anew", function()
    local state = {broken = true}
    local job = making(adding(state), {name = "made"})
    local why = fails("script_error", job.run, job)
    assert.matches(('goes on, once the script gives it `id = "%s"`'):format(job.id), why.message, 1, true)
    state.broken = false
    local again = making(adding(state), {name = "made", id = job.id})
    assert.equal("done", again:resume().state)
    for i = 1, 40 do assert.equal(i + 1, other:get(index, "d" .. i).n) end
  end)

  it("that fails stops the job, which says where, and is gone on with", function()
    local before, state = sources(), {broken = true}
    local job = making(adding(state), {name = stores.name "broken", once = true})
    local why = fails("script_error", job.run, job)
    assert.matches("no such luck", why.message)
    assert.matches(("at %s/%s)"):format(index, state.last), why.message, 1, true)
    assert.matches("job run FILE --resume", why.message, 1, true)
    assert.matches("inner", why.traceback)
    assert.equal(job.id, why.job)
    local record = other:get_job(job.id):status()
    assert.same({"stopped", true}, {record.state, record.stands})
    assert.matches("no such luck", record.reason)
    local elsewhere = other:get_job(job.id)
    for _, each in ipairs {"resume", "plan"} do
      assert.matches("which only its script has",
        fails("invalid_argument", elsewhere[each], elsewhere).message)
    end
    fails("orphaned_job", job.run, job)
    state.broken = false
    assert.equal("done", job:resume().state)
    for i = 1, 40 do assert.equal(i + 1, other:get(index, "d" .. i).n) end
    elsewhere:rollback()
    assert.same(before, sources())
    is_free()
  end)

  it("is gone on with by the next run of a job that is run once", function()
    local name, state = stores.name "once", {broken = true}
    local first = making(adding(state), {name = name, once = true})
    fails("script_error", first.run, first)
    state.broken = false
    local second = making(adding(state), {name = name, once = true, on_orphan = "resume"})
    assert.is_true(second:run().already)
    for i = 1, 40 do assert.equal(i + 1, other:get(index, "d" .. i).n) end
  end)

  it("that returns something else is told so", function()
    local job = making(function() return "delete" end)
    assert.matches("mortise.reject(reason), not delete",
      fails("invalid_argument", job.run, job).message, 1, true)
    assert.equal("undone", job:status().state) -- nothing was changed
    is_free()
  end)

  it("may keep no view", function()
    local kept
    making(function(doc) kept = kept or doc end):run()
    assert.has_error(function() return kept.n end)
  end)

  it("that closes the client ends the job", function()
    local own = stores.connect(store, {namespace = namespace})
    local job = own:job {
      id = stores.name "closed", index = index, lock = "/a", batch = 7,
      change = function(doc)
        own:close()
        doc.n = 0
      end,
    }
    assert.is_false((pcall(job.run, job)))
    assert.equal(7, other:get(index, "d7").n)
  end)

  it("goes on only with a function's job", function()
    local list = making {{set = {field = "x", value = 1}}}
    list:run()
    local job = client:job {id = list.id, index = index, lock = "/a", change = treat}
    assert.matches("is no function", fails("invalid_argument", job.resume, job).message)
  end)

  it("is called once for each document that was written, though its process was killed", function()
    other:drop_index(index)
    local count = store.store:find "^sqlite:" and 1500 or 300
    fill(count)
    local before, id, calls = sources(), stores.name "killed", os.tmpname()
    local victim <close> = process.start(store, namespace, 60000, {"-e", script, index, id, calls, "run"})
    assert.equal(137, victim:status(), victim:err())
    local written = {}
    for name, source in pairs(sources()) do written[name] = source ~= before[name] or nil end
    assert.is_truthy(next(written))
    local record = other:get_job(id):status()
    assert.same({"running", true}, {record.state, record.stands})
    local second <close> = process.start(store, namespace, 60000, {"-e", script, index, id, calls, "resume"})
    assert.equal(0, second:status(), second:err())
    local times = {}
    for name in io.lines(calls) do times[name] = (times[name] or 0) + 1 end
    os.remove(calls)
    for name in pairs(written) do assert.equal(1, times[name], name) end
    for i = 1, count do assert.equal(2 * i, other:get(index, "d" .. i).n) end
    assert.equal("done", other:get_job(id):status().state)
    other:get_job(id):rollback()
    assert.same(before, sources())
  end)

  it("is run, gone on with and undone by the program", function()
    local id = stores.name "file"
    local file = program.write(([[
      local id, index, calls, first = %q, %q, 0, nil
      return mortise.job {
        id = id, index = index, lock = "/a", batch = 5, concurrency = 1,
        change = function(doc)
          calls, first = calls + 1, first or {id = doc.id, n = doc.n}
          if calls > 5 and arg[1] then
            while mortise.get(index, first.id).n == first.n do mortise.sleep "10ms" end
            error "not yet"
          end
          doc.n = doc.n + 1
        end,
      }]]):format(id, index), ".lua")
    local function run(...)
      return program.run {"--store", store.store, "--namespace", namespace, ...}
    end
    local status, out = run("job", "run", "--dry-run", file)
    assert.same({0, true}, {status, out:find("40", 1, true) ~= nil})
    local _, _, err = run("job", "run", file, "fail")
    assert.matches("not yet", err)
    _, out = run("jobs", "show", id)
    assert.matches("a Lua function", out)
    assert.matches("mortise job run FILE --resume", out, 1, true)
    _, _, err = run("jobs", "resume", id)
    assert.matches("which only its script has", err)
    assert.equal(0, (run("job", "run", "--resume", file)))
    assert.equal(41, other:get(index, "d40").n)
    assert.equal(0, (run("jobs", "rollback", id)))
    assert.equal(40, other:get(index, "d40").n)
    os.remove(file)
  end)
end)
