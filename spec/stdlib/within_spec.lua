-- A job changes what its lock names, unless it says otherwise.
local fails = require "spec.support.fails"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

stores.each("under its lock, a job", function(store)
  local client, other, index

  before_each(function()
    client, other = stores.connect_two(store)
    local documents = {
      exact = {path = "/a"}, beside = {path = "/ab/1"}, nowhere = {n = "0"},
      both = {path = {"/a/both", "/z/both"}, n = "1"},
      long = {path = "/a/" .. ("x"):rep(400), n = "1"}, far = {path = "/z/" .. ("x"):rep(400), n = "1"},
    }
    for i = 1, 20 do
      documents["a" .. i] = {path = "/a/" .. i, n = tostring(i), where = "/z"}
      documents["z" .. i] = {path = "/z/" .. i, n = tostring(i), where = "/a"}
    end
    index = stores.fill(client, documents)
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
    other:close()
  end)

  local function marking(also)
    local given = {name = "mark", index = index, lock = "/a", change = {{set = {field = "m", value = true}}}}
    for name, value in pairs(also or {}) do given[name] = value or nil end
    if also and also.field == false then given.field = false end
    return client:job(given)
  end

  local function by_function(doc) doc.m = true end

  local function marked()
    client:refresh(index)
    local ids = {}
    for doc in client:scan(index, {query = {term = {m = true}}}) do ids[#ids + 1] = doc._id end
    table.sort(ids)
    return ids
  end

  local function below_a(...)
    local ids = {"both", "exact", "long", ...}
    for i = 1, 20 do ids[#ids + 1] = "a" .. i end
    table.sort(ids)
    return ids
  end

  for name, change in pairs {list = {{set = {field = "m", value = true}}}, ["function"] = by_function} do
    it("by a " .. name .. " changes the documents at or below the locked paths", function()
      local job = marking {change = change}
      assert.same({23, 23}, {job:plan().matched, job:plan().changed})
      assert.equal(23, job:run().changed)
      assert.same(below_a(), marked())
      job:rollback()
      assert.same({}, marked())
    end)

    it("by a " .. name .. " takes none of them out of the locked trees", function()
      local before = stores.sources(client, index)
      local moves = type(change) == "table"
        and {{replace_prefix = {field = "path", from = "/a/1", to = "/q/1"}}}
        or function(doc) if doc.path == "/a/1" then doc.path = "/q/1" else doc.path = doc.path end end
      local job = marking {change = moves}
      local why = fails("rejected", job.run, job)
      assert.same({"undone", 1, "a1", "outside_lock"}, {why.result.state, why.result.rejected,
        why.result.rejects[1].id, why.result.rejects[1].type})
      assert.same(before, stores.sources(client, index))
      for found in job:rejected() do assert.equal("outside_lock", found.type) end
    end)
  end

  it("is narrowed by a query", function()
    assert.equal(1, marking({query = {term = {n = "7"}}}):run().changed)
    assert.same({"a7"}, marked())
  end)

  it("changes others where it says so, and its plan says how many", function()
    local job = marking {field = false, query = {match_all = {}}}
    local plan = job:plan()
    assert.same({46, 23}, {plan.matched, plan.outside})
    assert.equal(46, job:run().changed)
    assert.equal(46, #marked())
    says(fails("invalid_argument", marking, {field = false}).message, "`field = false` needs a `query`")
  end)

  it("has its paths in another field", function()
    assert.equal(20, marking({field = "where"}):run().changed)
    assert.equal(20, client:count(index, {prefix = {path = "/z/"}}) - 2)
    for _, id in ipairs(marked()) do assert.matches("^z", id) end
  end)

  it("needs the field, before its lock", function()
    local held = other:acquire {tree = "/a"}
    local job = marking {field = "pth", wait = 0}
    says(fails("not_found", job.run, job).message, "no document of " .. index .. " has a field `pth`")
    fails("not_found", job.plan, job)
    assert.is_nil(job:status())
    held:release()
  end)

  it("on documents changes these", function()
    local ids = {"a1", "z1", "missing"}
    local job = marking {lock = {document = index, ids = ids}, change = by_function}
    assert.equal(2, job:run().changed)
    assert.same({"a1", "z1"}, marked())
    says(fails("invalid_argument", marking, {lock = {document = "other", ids = ids}}).message,
      "its lock is on documents of other")
    local all = marking {lock = {document = index, ids = ids}, field = false, query = {match_all = {}}}
    assert.equal(44, all:run().changed) -- two have it already
  end)

  it("that names no documents changes what its query finds", function()
    assert.equal(46, marking({lock = {global = true}}):run().changed)
    assert.equal(1, marking({lock = {named = {"task", "mark"}}, query = {term = {n = "0"}}}):plan().matched)
  end)

  it("whose spec is of a version that did not limit it goes on as it was begun", function()
    local job = marking {
      batch = 5, concurrency = 1, rate = 20, field = false, query = {match_all = {}},
      on_progress = function(done) if done > 0 then error("enough", 0) end end,
    }
    pcall(job.run, job)
    local jobs = client:_open_core():jobs_index()
    client:update(jobs, client:namespace() .. ":" .. job.id, function(view) view.body.spec.field = nil end)
    assert.is_nil(job:status().spec.field)
    assert.equal("done", other:get_job(job.id):resume().state)
    assert.equal(46, #marked())
  end)

  it("goes on within them", function()
    local job = marking {
      batch = 5, concurrency = 1, rate = 20,
      on_progress = function(done) if done > 0 then error("enough", 0) end end,
    }
    pcall(job.run, job)
    assert.equal("path", job:status().spec.field)
    assert.equal("done", other:get_job(job.id):resume().state)
    assert.same(below_a(), marked())
  end)

  it("verifies what it concerns", function()
    local seen = 0
    marking({verify = function(doc)
      seen = seen + 1
      return doc.m
    end}):run()
    assert.equal(23, seen)
  end)

  it("refuses a field where there are no paths", function()
    for text, also in pairs {
      ["`field` belongs to a lock on paths"] = {lock = {global = true}, field = "x"},
      ["option `field` is a name"] = {field = 7},
      ["`field` belongs into `rename`"] = {rename = {from = "/a", to = "/b"}, change = false, field = "x"},
    } do
      says(fails("invalid_argument", marking, also).message, text)
    end
  end)
end)
