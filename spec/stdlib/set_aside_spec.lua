-- Documents that a job cannot change: when it is over nevertheless, when it stands, and how that ends.
local fails = require "spec.support.fails"
local mortise = require "mortise"
local records = require "mortise.records"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

stores.each("what a job sets aside", function(store)
  local client, other, index

  before_each(function() client, other = stores.connect_two(store) end)

  after_each(function()
    client:drop_index(index)
    client:close()
    other:close()
  end)

  -- d1 to dN, of which every `bad`-th does not fit.
  local function fill(n, bad)
    local documents = {}
    for i = 1, n do documents["d" .. i] = {path = "/a/" .. i, n = i % bad == 0 and "odd" or tostring(i)} end
    index = stores.fill(client, documents)
  end

  local function job_of(also)
    local given = {
      name = "cast", index = index, change = {{cast = {field = "n", to = "integer"}}}, lock = "/a", batch = 5,
      concurrency = 1, slices = 1,
    }
    for name, value in pairs(also or {}) do given[name] = value end
    return client:job(given)
  end

  local function rejecting(doc)
    if doc.n == "odd" then return mortise.reject "it is odd" end
    doc.n = math.tointeger(tonumber(doc.n))
  end

  local function is_free() other:acquire({tree = "/a", wait = 0}):release() end
  local function is_guarded() fails("orphaned_job", other.acquire, other, {tree = "/a"}) end

  local function listed(job)
    local ids = {}
    for found in job:rejected() do ids[#ids + 1] = found.id end
    table.sort(ids)
    return ids
  end

  local function counts_of(job)
    local counts = job:status().counts
    assert.equal(counts.matched, counts.changed + counts.deleted + counts.unchanged + counts.conflicts
      + counts.rejected)
    return {job:status().state, counts.changed, counts.rejected}
  end

  for name, change in pairs {list = {{cast = {field = "n", to = "integer"}}}, ["function"] = rejecting} do
    it("does not keep the job from its end, of a " .. name, function()
      fill(40, 20)
      local before = stores.sources(client, index)
      local job = job_of {change = change}
      local why = fails("rejected", job.run, job)
      says(why.message, "2 of 40 documents could not be changed", ("job %s is done: `mortise jobs show %s "
        .. "--rejected` lists what was set aside"):format(job.id, job.id))
      assert.same({"done", 38, 2}, {why.result.state, why.result.changed, why.result.rejected})
      is_free()
      assert.same({"done", 38, 2}, counts_of(job))
      assert.same({"d20", "d40"}, listed(job))
      assert.equal("done", job:resume().state) -- which writes nothing
      assert.same({"done", 38, 2}, counts_of(job))
      assert.equal("undone", job:rollback().state)
      assert.same(before, stores.sources(client, index))
    end)

    it("makes it stop early, of a " .. name .. ", where there is more of it than may be", function()
      fill(200, 2)
      local job = job_of {change = change, max_rejected = 3}
      local why = fails("rejected", job.run, job)
      says(why.message, "documents could not be changed so far", "more than its `max_rejected` allows",
        ("`mortise jobs accept %s` ends it as it is"):format(job.id))
      assert.is_true(why.result.rejected > 3 and why.result.rejected < 100)
      assert.same({"stopped", true, "short"}, {job:status().state, job:status().stands, job:status().halted})
      is_guarded()
      local rejected = #listed(job)
      local accepted = other:get_job(job.id):accept()
      assert.same({"done", rejected}, {accepted.state, accepted.rejected})
      is_free()
      says(job:status().reason, "accepted by ")
      assert.equal(rejected, #listed(job))
      assert.equal("done", job:accept().state) -- again
      job:rollback()
      client:refresh(index)
      assert.equal(200, client:count(index, {prefix = {path = "/a/"}}))
    end)
  end

  for bound, state in pairs {[10] = "done", ["25%"] = "done", ["24.9%"] = "stopped", [9] = "stopped"} do
    it(("may be %s: a bound"):format(bound), function()
      fill(40, 4)
      local job = job_of {max_rejected = bound}
      fails("rejected", job.run, job)
      assert.equal(state, job:status().state)
      if state == "done" then return end
      local again = client:get_job(job.id, {max_rejected = "100%"})
      assert.equal("done", fails("rejected", again.resume, again).result.state)
      assert.same({"done", 30, 10}, counts_of(job))
    end)
  end

  it("has a bound that is understood", function()
    fill(1, 2)
    for _, bad in ipairs {"", "x", "1.5", "%", "101%", "-1", -1, 1.5, "1 %", "1%%", "99999999999999"} do
      local why = fails("invalid_argument", job_of, {max_rejected = bad})
      says(why.message, "max_rejected")
    end
    for _, good in ipairs {0, "0", "1", "0%", "0.125%", "100%"} do job_of {max_rejected = good} end
    fails("invalid_argument", job_of, {max_rejected = true})
  end)

  it("makes a rename stand, unless it may", function()
    fill(10, 20)
    client:index(index, "/a/1", {path = "/a/one"})
    client:index(index, "/b/1", {path = "/elsewhere"}, {refresh = true}) -- the id that it would get
    local function renaming(also)
      local given = {name = "move", index = index, rename = {from = "/a", to = "/b", ids = true}}
      for name, value in pairs(also) do given[name] = value end
      return client:job(given)
    end
    local job = renaming {}
    local why = fails("rejected", job.run, job)
    assert.same({"stopped", 10, 1}, {why.result.state, why.result.changed, why.result.rejected})
    is_guarded()
    local steps = {}
    for _, step in ipairs(records.next_steps(client, job:status())) do steps[step.verb] = true end
    assert.same({resume = true, accept = true, rollback = true}, steps)
    fails("rejected", job.resume, job)
    assert.equal("done", job:accept().state)
    is_free()
    assert.same({"/a/1"}, listed(job))
    job:rollback()
    client:refresh(index)
    assert.equal(11, client:count(index, {prefix = {path = "/a/"}}))
    local may = renaming {max_rejected = 1}
    assert.equal("done", fails("rejected", may.run, may).result.state)
    is_free()
  end)

  it("is what alone is accepted", function()
    fill(20, 100)
    local job = job_of {on_progress = function(done) if done > 0 then error("enough", 0) end end, rate = 20}
    pcall(job.run, job)
    assert.equal("stopped", job:status().state)
    says(fails("conflict", job.accept, job).message, "cannot be accepted as it is")
    is_guarded()
    assert.equal("done", client:get_job(job.id):resume().state)
    is_free()
  end)

  it("leaves nothing done where nothing could be changed", function()
    fill(3, 1)
    local job = job_of {id = "none"}
    assert.equal("undone", fails("rejected", job.run, job).result.state)
    is_free()
  end)

  it("is told where the job is in the way", function()
    fill(10, 5)
    local job = job_of {max_rejected = 0}
    fails("rejected", job.run, job)
    local why = fails("orphaned_job", other.acquire, other, {tree = "/a/1", wait = "5s"})
    assert.equal(job.id, why.job)
    fails("rejected", other.acquire, other, {tree = "/a/1", wait = "5s", on_orphan = "resume"})
    is_guarded()
    job:accept()
    is_free()
  end)

  it("is counted once more by a second run of one that is done", function()
    fill(10, 5)
    local job = job_of {name = "once", once = true}
    fails("rejected", job.run, job)
    local again = job:run()
    assert.same({true, 2, 0}, {again.already, again.rejected, again.conflicts})
  end)
end)
