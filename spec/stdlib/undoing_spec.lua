-- Undoing a job concerns what the job changed; only a rename that was asked to keep no journal, or that the
-- server made, takes others' documents along, and that is said and asked beforehand.
local core = require "mortise.core"
local fails = require "spec.support.fails"
local program = require "spec.support.program"
local stores = require "spec.support.stores"
local undoing = require "mortise.undoing"

stores.each("undoing a rename", function(store)
  local client, namespace, index

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    local documents = {}
    for i = 1, 12 do documents["d" .. i] = {path = "/a/" .. i} end
    index = stores.fill(client, documents)
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  local function rename(id, also)
    local given = {id = id, index = index, rename = {from = "/a", to = "/b"}}
    for name, value in pairs(also or {}) do given[name] = value end
    local done = client:job(given)
    assert.equal(12, done:run().changed)
    return done
  end

  -- Somebody changes one of its documents, and puts another one there.
  local function others()
    client:update(index, "d3", function(doc) doc.theirs = true end)
    client:create(index, "new", {path = "/b/new"})
    client:refresh(index)
  end

  local function path_of(id) return client:get(index, id).path end

  local function expect_taken_along()
    assert.equal("/a/new", path_of "new")
    assert.equal("/a/3", path_of "d3")
    assert.is_true(client:get(index, "d3").theirs)
  end

  it("leaves what others have changed and created since", function()
    local done = rename "journaled"
    others()
    local seen = done:plan_rollback()
    assert.same({"journal", 11, 1, 0}, {seen.by, seen.changed, seen.kept, seen.others})
    local err = fails("conflict", done.rollback, done)
    assert.same({"undone", 11}, {done:status().state, err.result.changed})
    assert.same({"/b/3", "/b/new", "/a/4"}, {path_of "d3", path_of "new", path_of "d4"})
    local left = {}
    for found in done:conflicts() do left[#left + 1] = found.id end
    assert.same({"d3"}, left)
  end)

  for _, also in ipairs {{journal = false}, {strategy = "server"}} do
    local name = also.strategy or "no journal"

    it("says how many of others' documents go along: " .. name, function()
      local done = rename("back", also)
      assert.equal(0, done:plan_rollback().others)
      others()
      local seen = done:plan_rollback()
      assert.same({"renaming back", 13, 1}, {seen.by, seen.changed, seen.others})
      fails("conflict", done.rollback, done, {others = 0})
      assert.same({"done", "/b/new"}, {done:status().state, path_of "new"})
      client:with_tree_lock("/b", {wait = 0}, function() end) -- its lock was given back
      local result = done:rollback {others = 1}
      assert.same({"undone", 13, 1}, {result.state, result.changed, result.others})
      expect_taken_along()
    end)
  end

  it("takes nothing for others' that a dead process may have changed without counting it", function()
    local done = rename("dead", {journal = false})
    local paths = {index = index, fields = "path", from = "/a", to = "/b", merge = true, allow_empty = true}
    local function others_of(state)
      local record = done:status()
      record.state, record.counts.changed = state, 0
      record.total = state == "undoing" and 0 or record.total -- as the record of one that is undone has it
      return undoing.foresee(client, record, paths).others
    end
    assert.same({0, 0}, {others_of "running", others_of "undoing"})
    others()
    assert.same({1, 1}, {others_of "running", others_of "undoing"})
  end)

  it("has a journal where renaming back could not undo it, whatever was asked", function()
    client:create(index, "there", {path = "/b/there"})
    client:refresh(index)
    local done = rename("merged", {merge = true, journal = false})
    done:rollback()
    assert.equal("/b/there", path_of "there")
  end)

  it("refuses `journal` for another change", function()
    fails("invalid_argument", client.job, client, {
      id = "list", index = index, lock = "/a", journal = false, change = {{set = {field = "x", value = 1}}},
    })
  end)

  if not program.file then return end

  local function mortise(...)
    return program.run {"--store", store.store, "--namespace", namespace, ...}
  end

  it("is asked for on the command line where others' documents would go along", function()
    local status, out, err = mortise("rename", index, "/a", "/b", "--no-journal", "--json")
    assert.equal(0, status, err)
    local id = core.json_decode(out).job
    others()
    status, out = mortise("jobs", "rollback", id, "--dry-run")
    assert.equal(0, status)
    assert.truthy(out:find("all 13 documents that lie there would be renamed back, at least 1", 1, true), out)
    status, out, err = mortise("jobs", "rollback", id)
    assert.same({1, ""}, {status, out})
    assert.truthy(err:find("jobs rollback " .. id .. " --yes", 1, true), err)
    status, out, err = mortise("jobs", "rollback", id, "--others", "0")
    assert.same({1, ""}, {status, out}, err)
    assert.equal("/b/new", path_of "new")
    status, out, err = mortise("jobs", "rollback", id, "--yes")
    assert.equal(0, status, err)
    assert.truthy(out:find("at least 1 of them not the job's", 1, true), out)
    expect_taken_along()
  end)

  it("needs nothing on the command line where it has a journal", function()
    local status, out, err = mortise("rename", index, "/a", "/b", "--json")
    assert.equal(0, status, err)
    local id = core.json_decode(out).job
    client:create(index, "new", {path = "/b/new"})
    client:refresh(index)
    status, out = mortise("jobs", "rollback", id, "--dry-run")
    assert.equal(0, status)
    assert.truthy(out:find("12 documents would become what they were; 0 that others", 1, true), out)
    status, out, err = mortise("jobs", "rollback", id)
    assert.equal(0, status, err)
    assert.truthy(out:find("is undone: 12 documents changed", 1, true), out)
    assert.same({"/a/1", "/b/new"}, {path_of "d1", path_of "new"})
  end)
end)
