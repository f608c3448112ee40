-- Jobs as scripts see them: what they are made of, what they do, how they are gone on with and undone.
local fails = require "spec.support.fails"
local mortise = require "mortise"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

stores.each("a job", function(store)
  local client, other, index

  before_each(function()
    client, other = stores.connect_two(store)
    local documents = {elsewhere = {path = "/z", n = "9"}}
    for i = 1, 40 do documents["d" .. i] = {path = "/a/" .. i, n = tostring(i)} end
    index = stores.fill(client, documents)
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
    other:close()
  end)

  local function sources() return stores.sources(client, index) end

  local function moving(also)
    local given = {name = "move", index = index, rename = {from = "/a", to = "/b"}, batch = 7}
    for name, value in pairs(also or {}) do given[name] = value end
    return client:job(given)
  end

  local function casting(also)
    local given = {
      name = "cast", index = index, change = {{cast = {field = "n", to = "integer"}}}, lock = {"/a", "/z"},
      batch = 7,
    }
    for name, value in pairs(also or {}) do given[name] = value end
    return client:job(given)
  end

  local function is_free(...)
    for _, path in ipairs {...} do other:acquire({tree = path, wait = 0}):release() end
  end

  -- A job that stands half-done, since its on_progress failed.
  local function cut_off(also)
    local given = {on_progress = function(done) if done > 0 then error("enough", 0) end end}
    for name, value in pairs(also or {}) do given[name] = value end
    local job = moving(given)
    local ok, why = pcall(job.run, job)
    return job, ok, why
  end

  it("plans without a lock, and writes nothing", function()
    local before = sources()
    local held <close> = other:acquire {tree = "/"}
    local job = casting()
    local plan = job:plan()
    assert.same({41, 41, 0}, {plan.matched, plan.changed, plan.unchanged})
    assert.equal(40, moving():plan().changed)
    assert.is_nil(job:status())
    assert.same(before, sources())
    held:check()
  end)

  it("renames a tree, and undoes it byte for byte", function()
    local before = sources()
    local job = moving()
    assert.matches("^move%-%x%x%x%x%x%x%x%x$", job.id)
    local result = job:run()
    assert.same({job.id, "done", 40, 40, 0}, {result.job, result.state, result.matched, result.changed,
      result.unchanged})
    is_free("/a", "/b")
    assert.equal("/b/7", client:get(index, "d7").path)
    local record = job:status()
    assert.same({"done", false, false, 40, "/a"}, {record.state, record.stands, record.alive,
      record.counts.changed, record.spec.rename.from})
    assert.equal(40, job:rollback().changed)
    assert.same(before, sources())
    assert.same({"undone", 40}, {job:status().state, job:status().counts.restored})
    is_free("/a", "/b")
    assert.equal(0, job:rollback().changed)
    assert.matches("is undone: it cannot be resumed", fails("conflict", job.resume, job).message)
    is_free("/a", "/b")
  end)

  it("plans what is left of it where it stands", function()
    local job = cut_off {id = stores.name "cut", rate = 1}
    assert.is_true(job:status().stands)
    local left = 40 - job:status().counts.changed
    local again = moving {id = job.id}
    for _, each in ipairs {again, client:get_job(job.id)} do
      local plan = each:plan()
      assert.same({true, left, 40 - left}, {plan.stands, plan.changed, plan.beside})
    end
    client:get_job(job.id):throttle {rate = 0}
    client:get_job(job.id):rollback()
    assert.equal(false, moving():plan().stands)
  end)

  it("plans nothing that its run or its resume would refuse", function()
    local job = moving {id = stores.name "again"}
    job:run()
    local again = moving {id = job.id}
    local function alike(verb, of)
      local why = fails("conflict", of[verb], of).message
      assert.equal(why, fails("conflict", of.plan, of).message)
      return why
    end
    assert.matches("which is done: to run it again, remove that", alike("run", again))
    assert.equal(0, client:get_job(job.id):plan().matched)
    job:rollback()
    assert.matches("which is undone: to run it again, remove that", alike("run", again))
    assert.matches("is undone: it cannot be resumed", alike("resume", client:get_job(job.id)))
  end)

  it("plans nothing of one that is half undone", function()
    local id = stores.name "half"
    moving({id = id}):run()
    local half = client:get_job(id)
    local function undoing(view) view.state = "undoing" end -- its process died at that
    local jobs = client:_open_core():jobs_index()
    client:update(jobs, client:namespace() .. ":" .. id, undoing, {unguarded = true})
    assert.same({"undoing", true}, {half:status().state, half:status().stands})
    assert.matches("is undoing: it cannot be resumed", fails("conflict", half.plan, half).message)
    local again = moving {id = id}
    assert.matches("is half undone", fails("orphaned_job", again.plan, again).message)
    local why = fails("conflict", half.throttle, half, {rate = 1})
    assert.matches("an undoing is not slowed down", why.message)
    assert.equal("undone", half:rollback().state)
  end)

  it("is not said to be applied perhaps where it was cut off before it began", function()
    local began = false
    local job = moving {on_start = function()
      began = true
      mortise.sleep "1h"
    end}
    local task = mortise.spawn(job.run, job)
    while not began do mortise.sleep "5ms" end
    task:cancel()
    local why = fails("interrupted", task.join, task)
    assert.same({false, "undone"}, {why.ambiguous, why.result.state})
    assert.is_nil(tostring(why):find("applied", 1, true))
    assert.equal("undone", job:status().state)
  end)

  it("makes a list of transforms, and proves that nothing is left", function()
    local before = sources()
    local job = casting {query = {prefix = {path = "/a"}}}
    local result = job:run()
    assert.same({"done", 40, 40, 0}, {result.state, result.matched, result.changed, result.rejected})
    assert.same({7, "9"}, {client:get(index, "d7").n, client:get(index, "elsewhere").n})
    local found = client:get_job(job.id)
    local spec = found:status().spec
    assert.same({"cast", "/a", "/z", "/a"}, {next(spec.change[1]), spec.lock.paths[1], spec.lock.paths[2],
      spec.query.prefix.path})
    assert.equal(0, found:resume().changed) -- a second pass of another one writes nothing
    found:rollback()
    assert.same(before, sources())
  end)

  it("tells how far it is", function()
    local last, all
    moving({on_progress = function(done, total) last, all = done, total end}):run()
    assert.same({40, 40}, {last, all})
  end)

  it("is run once where it says so", function()
    local job = casting {name = stores.name "once", once = true}
    assert.equal(41, job:run().changed)
    local again = job:run()
    assert.same({true, "done", 0}, {again.already, again.state, again.changed})
    job:rollback()
    assert.matches("which is undone: to run it again, remove that", fails("conflict", job.run, job).message)
    local taken = casting {id = job.id, name = nil}
    says(fails("conflict", taken.run, taken).message, "there is a job " .. job.id .. " already")
    is_free("/a", "/z")
  end)

  it("gives its lock back where it is refused before anything is changed", function()
    local before = sources()
    client:index(index, "there", {path = "/b/x"}, {refresh = true})
    local job = moving()
    local why = fails("conflict", job.run, job)
    assert.matches("1 document lies below /b already", why.message)
    assert.same({job.id, 0}, {why.job, why.result.changed})
    is_free("/a", "/b")
    assert.same({"undone", false}, {job:status().state, job:status().stands})
    says(job:status().reason, "below /b already")
    fails("conflict", job.resume, job)
    is_free("/a", "/b")
    client:delete(index, "there", {refresh = true})
    assert.same(before, sources())
    local empty = client:job {name = "none", index = index, rename = {from = "/nosuch", to = "/b"}}
    fails("not_found", empty.run, empty)
    is_free("/nosuch", "/b")
  end)

  it("refuses a list that would change a document again each time", function()
    local before = sources()
    local list = {{rename_field = {from = "n", to = "m"}}, {default = {field = "n", value = "0"}}}
    local job = casting {change = list}
    assert.matches("the list would change it again each time", fails("rejected", job.run, job).message)
    assert.same(before, sources())
    is_free("/a")
  end)

  it("that is cut off stands, keeps its paths, and says what to type", function()
    local job, ok, why = cut_off {batch = 1, concurrency = 1}
    if ok or job:status().state == "done" then return end -- it was faster
    says(why, "enough (on_progress of job " .. job.id,
      "`mortise jobs resume " .. job.id .. "` goes on, `mortise jobs rollback")
    local record = job:status()
    assert.same({"stopped", true}, {record.state, record.stands})
    local orphan = fails("orphaned_job", other.acquire, other, {tree = "/a/1", wait = "5s"})
    assert.equal(job.id, orphan.job)
    local result = other:get_job(job.id):resume()
    assert.equal("done", result.state)
    is_free("/a", "/b")
    assert.equal(40, client:count(index, {prefix = {path = "/b/"}}))
  end)

  it("whose change fails half-way is resumed, once what was wrong is mended, or rolled back", function()
    client:index(index, "d13", {path = "/a/13", n = "many"}, {refresh = true})
    local before = sources()
    local job = casting {max_rejected = 0, batch = 100}
    local why = fails("rejected", job.run, job)
    says(why.message, "1 of 41 documents could not be changed, the first is d13",
      "goes on without", "`mortise jobs rollback " .. job.id)
    assert.same({"d13", 40}, {why.result.rejects[1].id, why.result.changed})
    fails("orphaned_job", other.acquire, other, {tree = "/a"})
    fails("rejected", job.resume, job)
    fails("orphaned_job", other.acquire, other, {tree = "/a"})
    local once = casting {name = "n", id = nil}
    fails("orphaned_job", once.run, once)
    client:index(index, "d13", {path = "/a/13", n = "13"}, {refresh = true})
    assert.equal(1, job:resume().changed)
    is_free("/a", "/z")
    client:index(index, "d13", mortise.json {path = "/a/13", n = "many"}, {refresh = true})
    local undone = fails("conflict", job.rollback, job) -- d13 is another's now
    assert.same({40, 1}, {undone.result.changed, undone.result.conflicts})
    says(undone.message, "is undone, but for these: `mortise jobs show " .. job.id
      .. " --conflicts` lists them")
    is_free("/a", "/z")
    local after = sources()
    before.d13, after.d13 = nil, nil
    assert.same(before, after)
    assert.equal("undone", job:status().state)
  end)

  it("lists all that was set aside, however much", function()
    local items, n = {}, 2500
    for i = 1, n do items[i] = {op = "index", id = "bad" .. i, doc = {path = "/a/bad" .. i, n = "many"}} end
    client:bulk(index, items, {refresh = true})
    local job = casting {batch = 400, query = {prefix = {path = "/a"}}}
    local why = fails("rejected", job.run, job)
    assert.same({n, 20}, {why.result.rejected, #why.result.rejects})
    local seen, count = {}, 0
    for found in client:get_job(job.id):rejected() do
      assert.same({index, nil, true}, {found.index, seen[found.id], found.reason ~= ""})
      seen[found.id], count = true, count + 1
    end
    assert.equal(n, count)
    assert.is_nil(job:conflicts()())
    local counts = job:status().counts
    assert.same({n, 40, n + 40}, {counts.rejected, counts.changed, counts.matched})
    client:index(index, "d13", {path = "/a/13", n = "others"}, {refresh = true})
    fails("conflict", job.rollback, job)
    local left = {}
    for found in job:conflicts() do left[#left + 1] = found.id end
    assert.same({"d13"}, left)
    counts = job:status().counts
    assert.same({39, 1}, {counts.restored, counts.kept})
  end)

  it("is listed", function()
    assert.same({}, {table.unpack(client:jobs())})
    local first, second = moving(), casting()
    first:run()
    second:run()
    local list = client:jobs()
    assert.same({2, first.id, second.id}, {#list, list[1].job, list[2].job})
    local elsewhere <close> = stores.connect(store)
    assert.equal(0, #elsewhere:jobs())
    fails("not_found", elsewhere.get_job, elsewhere, first.id)
  end)

  it("needs its index", function()
    local name = stores.name "bare"
    local bare <close> = stores.connect(store, {table = name})
    local embedded = store.store:find "^sqlite:"
    if not embedded then bare:init() end
    pcall(bare.drop_index, bare, name .. "-jobs")
    local job = bare:job {name = "x", index = index, rename = {from = "/a", to = "/b"}}
    if embedded then -- its first job makes it, and until then there is none
      for _, call in ipairs {job.resume, job.rollback} do
        assert.matches("there are no jobs in sqlite:", fails("not_found", call, job).message)
      end
      assert.is_nil(job:status())
      assert.same({}, bare:jobs())
    else
      for _, call in ipairs {job.resume, job.rollback, job.status, job.run} do
        assert.matches("no index luaspec%-bare%-%x+%-%d+%-jobs for jobs in .*: run `mortise .*init`",
          fails("not_found", call, job).message)
      end
      assert.matches("run `mortise .*init`", fails("not_found", bare.jobs, bare).message)
    end
    bare:init()
    assert.is_nil(job:status())
    bare:init()
  end)

  it("can wait for its lock", function()
    local held = other:acquire {tree = "/a"}
    local job = moving {wait = 0}
    fails("lock_timeout", job.run, job)
    assert.is_nil(job:status())
    held:release()
    assert.equal("done", job:run().state)
  end)

  it("whose document others have spoiled is of no use, and in nobody's way", function()
    local name, job = client:_open_core():jobs_index(), casting()
    job:run()
    local ns = client:namespace()
    client:index(name, ns .. ":" .. job.id, {kind = "job", ns = ns, job = "x"})
    assert.matches("is not as this program writes it", fails("corrupt_table", job.status, job).message)
    fails("corrupt_table", client.get_job, client, job.id)
    casting():run()
    local list = client:jobs()
    assert.same({2, "damaged", "done"}, {#list, list[1].state, list[2].state})
  end)

  it("that is not there is not found", function()
    fails("not_found", client.get_job, client, "nosuch")
    local job = moving {id = "never", name = nil}
    fails("not_found", job.resume, job)
    fails("not_found", job.rollback, job)
    is_free("/a", "/b")
  end)
end)

describe("what a job is given", function()
  local client = mortise.connect {store = "sqlite:" .. stores.temporary ".db"}
  local change = {{set = {field = "a", value = 1}}}

  local function refused(text, given)
    assert.matches(text, fails(given.code or "invalid_argument", client.job, client, given.with).message)
  end

  for text, given in pairs {
    ["option `index` is missing"] = {name = "x"},
    ["unknown option `chnge`: did you mean `change`"] = {chnge = change, index = "i"},
    ["option `name` is missing"] = {index = "i", change = change, lock = "/a"},
    ["`once` makes the id from the name"] = {id = "x", once = true, index = "i", change = change},
    ["a job's id has 1 to 128"] = {id = "a b", index = "i", change = change, lock = "/a"},
    ["exactly one of `change` and `rename`"] = {name = "x", index = "i", lock = "/a"},
    ["option `lock` is missing"] = {name = "x", index = "i", change = change},
    ["its lock is exclusive"] = {name = "x", index = "i", change = change,
      lock = {tree = "/a", mode = "SIX"}},
    ["job: lock: unknown option `tre`: did you mean `tree`"] = {name = "x", index = "i", change = change,
      lock = {tre = "/a"}},
    ["job: rename: unknown option `form`: did you mean `from`"] = {name = "x", index = "i",
      rename = {form = "/a", to = "/b"}},
    ["job: `merge` is an option of the job, beside `rename`: {rename = {...}, merge = true}"] = {name = "x",
      index = "i", rename = {from = "/a", to = "/b", merge = true}},
    ["`allow_empty` is an option of the job"] = {name = "x", index = "i",
      rename = {from = "/a", to = "/b", allow_empty = true}},
    ["the lock does not cover /b"] = {name = "x", index = "i", lock = "/a",
      rename = {from = "/a", to = "/b"}},
    ["`merge` and `allow_empty` belong to `rename`"] = {name = "x", index = "i", change = change, lock = "/a",
      merge = true},
    ["transform 1: there is no `sett`: did you mean `set`"] = {name = "x", index = "i", lock = "/a",
      change = {{sett = {field = "a", value = 1}}}},
    ["transform 2"] = {name = "x", index = "i", lock = "/a",
      change = {{remove = {field = "a"}}, {set = {field = "a"}}}},
    ["is one function, or a list"] = {name = "x", index = "i", lock = "/a", change = {print}},
    ["is for a list of transforms"] = {name = "x", index = "i", lock = "/a", change = print,
      yield_every = 1},
    ["would call the function again"] = {name = "x", index = "i", lock = "/a", change = print,
      verify = true},
    ["is a list of transforms"] = {name = "x", index = "i", lock = "/a", change = {set = {field = "a"}}},
    ["`query` is no JSON object"] = {name = "x", index = "i", lock = "/a", change = change, query = "{"},
    ["inside"] = {name = "x", index = "i", rename = {from = "/a", to = "/a/b"}},
  } do
    it("is refused: " .. text, function() refused(text, {with = given}) end)
  end

  it("may be any lock that is exclusive", function()
    for _, lock in ipairs {"/a", {"/a", "/b"}, {tree = "/a", wait = "1s"}, {global = true},
      {document = "i", ids = {"1"}}, {named = {"c", "n"}}} do
      assert.matches("^x%-", client:job({name = "x", index = "i", change = change, lock = lock}).id)
    end
  end)
end)
