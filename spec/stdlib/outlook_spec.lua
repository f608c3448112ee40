-- What undoing a job would do, as job:plan_rollback() says beforehand, is what the rollback then does.
local fails = require "spec.support.fails"
local mortise = require "mortise"
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

local documents = 40

local function stamp(doc) doc.stamp = (doc.n or 0) * 2 end

local function thin(doc)
  if doc.n % 4 == 0 then return mortise.delete end
  stamp(doc)
end

local kinds = {
  ["a rename"] = {rename = {from = "/a", to = "/b"}},
  ["a rename with ids"] = {rename = {from = "/a", to = "/b", ids = true}},
  ["a list that cannot"] = {lock = "/a", change = {{set = {field = "n", value = 0}}}},
  ["a function"] = {lock = "/a", change = stamp},
  ["a function that deletes"] = {lock = "/a", change = thin},
}

stores.each("the outlook on undoing", function(store)
  local client, index, namespace

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    local all = {}
    for i = 1, documents do all["/a/" .. i] = {path = "/a/" .. i, n = i} end
    index = stores.fill(client, all, {path = {type = "keyword"}, n = {type = "integer"}})
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  local function new_job(given)
    local all = {id = "job", index = index, batch = 3}
    for name, value in pairs(given) do all[name] = value end
    return client:job(all)
  end

  local function id_of(i, given)
    return given.rename and given.rename.ids and "/b/" .. i or "/a/" .. i
  end

  -- Somebody changes two of its documents, and a third one to and fro; deletes two, and puts back one that it
  -- has deleted.
  local function others(given)
    for _, i in ipairs {1, 2, 3} do
      client:update(index, id_of(i, given), function(doc) doc.theirs = i end)
    end
    client:update(index, id_of(3, given), function(doc) doc.theirs = nil end)
    for _, i in ipairs {5, 6} do client:delete(index, id_of(i, given)) end
    if given.change == thin then client:create(index, "/a/8", {path = "/a/8", n = 88}) end
    client:create(index, "/b/new", {path = "/b/new", n = 0})
    client:refresh(index)
  end

  local function seen_by(job)
    local seen = job:plan_rollback()
    assert.same({"journal", 0}, {seen.by, seen.others})
    return {seen.changed, seen.kept}
  end

  local function expect_so(job, seen)
    if seen[2] == 0 then
      assert.same({seen[1], 0}, {job:rollback().changed, seen[2]})
    else
      local result = fails("conflict", job.rollback, job).result
      assert.same(seen, {result.changed, result.conflicts})
    end
    assert.same({0, nil}, {job:plan_rollback().changed, nil})
  end

  for name, given in pairs(kinds) do
    it("says what comes of " .. name, function()
      local job = new_job(given)
      job:run()
      assert.same({documents, 0}, seen_by(job))
      others(given)
      local seen = seen_by(job)
      assert.same({documents, given.change == thin and 5 or 4}, {seen[1] + seen[2], seen[2]})
      assert.same(seen, seen_by(job)) -- it has written nothing
      expect_so(job, seen)
    end)

    it("says it of one that stopped half-way: " .. name, function()
      local job = new_job {
        on_batch = function(_, now) return now.done < 6 end, rate = 20, batch = 1, concurrency = 1,
        rename = given.rename, lock = given.lock, change = given.change,
      }
      fails("interrupted", job.run, job)
      assert.is_true(job:status().stands)
      local seen = seen_by(job)
      assert.is_true(seen[1] >= 6 and seen[1] < documents and seen[2] == 0)
      expect_so(job, seen)
    end)
  end

  it("is one of what is left, where an undoing was cut off", function()
    local items = {}
    for i = documents + 1, 10 * documents do
      items[#items + 1] = {op = "index", id = "/a/" .. i, doc = {path = "/a/" .. i, n = i}}
    end
    client:bulk(index, items)
    client:refresh(index)
    local job = new_job {lock = "/a", change = {{set = {field = "n", value = 0}}}, batch = 1}
    job:run()
    local task = mortise.spawn(function() return pcall(job.rollback, job) end)
    while job:status().state ~= "undoing" do mortise.sleep(0.01) end
    mortise.sleep(0.1)
    task:cancel()
    assert.is_false((task:join()))
    local now = job:status()
    assert.same({"undoing", true}, {now.state, now.stands})
    local seen = seen_by(job)
    assert.same({10 * documents - now.counts.restored, 0}, seen)
    expect_so(job, seen)
  end)

  it("is not one of a job that there is not", function()
    local job = client:job {id = "none", index = index, lock = "/a", change = stamp}
    fails("not_found", job.plan_rollback, job)
  end)

  if not program.file then return end

  local slow = [[
    local index = ...
    mortise.job {id = "job", index = index, rename = {from = "/a", to = "/b"}, batch = 1, rate = 20}:run()
  ]]

  it("knows what a process has changed that was killed at it", function()
    local killed <close> = process.start(store, namespace, 60000, {"-e", slow, index})
    process.wait_for("some documents", function()
      client:refresh(index)
      return client:count(index, {prefix = {path = "/b/"}}) > 8
    end, function() return killed:err() end)
    killed:kill "KILL"
    killed:status()
    local job = client:get_job("job", {wait = "20s"})
    assert.equal("running", job:status().state)
    local seen = seen_by(job)
    assert.is_true(seen[1] > 8 and seen[2] == 0)
    expect_so(job, seen)
  end)

  it("is what --dry-run prints", function()
    local job = new_job(kinds["a rename"])
    job:run()
    others {}
    local words = {"--store", store.store, "--namespace", namespace}
    for _, word in ipairs {"jobs", "rollback", "job", "--dry-run"} do words[#words + 1] = word end
    local status, out = program.run(words)
    assert.equal(0, status)
    says(out, "job job: 36 documents would become what they were; 4 that others have changed or deleted "
      .. "since would stay as they are, and so would what others have created")
    words[#words + 1] = "--json"
    status, out = program.run(words)
    assert.equal(0, status)
    says(out, '"changed":36', '"kept":4')
  end)
end)
