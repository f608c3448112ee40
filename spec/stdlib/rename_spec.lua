local core = require "mortise.core"
local stores = require "spec.support.stores"

local function code_of(fn, ...)
  local ok, why = pcall(fn, ...)
  assert.is_false(ok)
  return why.code, why
end

stores.each("a rename", function(store)
  local client, index
  before_each(function()
    client = stores.connect(store)
    index = stores.fill(client, {
      dir = {path = "/clinton", n = 1234567890123456789}, file = {path = "/clinton/a"},
      deep = {path = "/clinton/a/b"}, near = {path = "/clintonville"}, other = {path = "/other/clinton"},
    })
  end)
  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  local function path(id) return client:get(index, id).path end

  it("moves a directory and all below it, and nothing else", function()
    local result = client:rename {index = index, from = "/clinton", to = "/projects/clinton"}
    assert.same({3, 3, 0}, {result.matched, result.changed, result.conflicts})
    assert.is_number(result.seconds)
    assert.same({"/projects/clinton", "/projects/clinton/a", "/projects/clinton/a/b"},
      {path "dir", path "file", path "deep"})
    assert.same({"/clintonville", "/other/clinton"}, {path "near", path "other"})
    assert.equal(1234567890123456789, client:get(index, "dir").n)
  end)

  it("says that there is nothing", function()
    local move = {index = index, from = "/nosuch", to = "/x"}
    local code, why = code_of(client.rename, client, move)
    assert.equal("not_found", code)
    assert.matches("no documents below /nosuch", why.message)
    assert.equal(0, why.result.matched)
    move.allow_empty = true
    assert.equal(0, client:rename(move).changed)
  end)

  it("joins two trees only where it is told to", function()
    local move = {index = index, from = "/clinton", to = "/other"}
    local code, why = code_of(client.rename, client, move)
    assert.equal("conflict", code)
    assert.matches("1 document lies below /other already; `merge`", why.message)
    assert.same({3, 0, 1}, {why.result.matched, why.result.changed, why.result.beside})
    assert.equal("/clinton/a", path "file")
    move.merge = true
    local result = client:rename(move)
    assert.same({3, 1}, {result.changed, result.beside})
    assert.equal(4, client:count(index, {prefix = {path = "/other"}}))
  end)

  it("counts what lies below `to` whatever the query says", function()
    local move = {index = index, from = "/clinton", to = "/other", query = {term = {path = "/clinton/a"}}}
    assert.equal("conflict", (code_of(client.rename, client, move)))
    move.to = "/q"
    assert.equal(1, client:rename(move).changed)
    assert.equal("/clinton", path "dir")
    move.query.term.path = "/clinton/nosuch"
    local code, why = code_of(client.rename, client, move)
    assert.equal("not_found", code)
    assert.equal(1, why.result.beside)
  end)

  it("moves a tree up, whose own documents are not in its way", function()
    assert.equal(1, client:rename({index = index, from = "/clinton/a/b", to = "/z/y"}).changed)
    local result = client:rename {index = index, from = "/z/y", to = "/z"}
    assert.same({1, 0}, {result.changed, result.beside})
    assert.equal("/z", path "deep")
    local code, why = code_of(client.rename, client, {index = index, from = "/z", to = "/"})
    assert.equal("conflict", code)
    assert.equal(4, why.result.beside)
  end)

  it("finishes with `merge` what was cut off", function()
    client:index(index, "moved", {path = "/p/a"})
    client:index(index, "file", {path = "/clinton/b"})
    local move = {index = index, from = "/clinton", to = "/p", merge = true, allow_empty = true}
    assert.equal(3, client:rename(move).changed)
    assert.equal(0, client:rename(move).changed)
  end)

  it("is a job, which is undone and which stands where it was stopped", function()
    local result = client:rename {index = index, from = "/clinton", to = "/p", name = "move"}
    assert.matches("^move%-%x+$", result.job)
    assert.same({"done", 1}, {result.state, result.attempts})
    assert.is_number(result.waited)
    client:get_job(result.job):rollback()
    assert.equal("/clinton/a/b", path "deep")
    local code, why = code_of(client.rename, client, {index = index, from = "/clinton", to = "/other"})
    assert.same({"conflict", "undone"}, {code, client:get_job(why.job):status().state})
    client:try_lock({tree = "/clinton"}):release()
  end)

  it("moves what any of several fields, or elements of arrays, hold", function()
    local wide = stores.fill(client, {
      one = {path = "/a/1", parent = {path = "/a"}, links = {"/x", "/a/2", "/ab", "/a"}},
      two = {path = "/elsewhere", parent = {path = "/a/b"}},
      three = {path = "/elsewhere/3", links = {"/a/1"}},
      four = {path = "/ab", links = {"/elsewhere"}},
      five = {path = "/e", parts = {{link = "/x"}, {link = "/a/5"}}},
    }, {path = {type = "keyword"}, links = {type = "keyword"},
      parent = {properties = {path = {type = "keyword"}}},
      parts = {properties = {link = {type = "keyword"}}}})
    local fields = {"path", "parent.path", "links", "parts.link"}
    local move = {index = wide, from = "/a", to = "/z/a", field = fields}
    local before = {}
    for doc in client:scan(wide) do before[doc._id] = doc:_source() end
    local result = client:rename(move)
    assert.same({4, 4}, {result.matched, result.changed})
    local one, five = client:get(wide, "one"), client:get(wide, "five")
    assert.same({"/z/a/1", "/z/a"}, {one.path, one.parent.path})
    assert.equal('["/x","/z/a/2","/ab","/z/a"]', (core.json(one.links)))
    assert.equal('[{"link":"/x"},{"link":"/z/a/5"}]', (core.json(five.parts)))
    assert.equal("/z/a/b", client:get(wide, "two").parent.path)
    assert.equal("/ab", client:get(wide, "four").path)
    assert.same(fields, client:get_job(result.job):status().spec.rename.field)
    client:get_job(result.job):rollback()
    for id, source in pairs(before) do assert.equal(source, client:get(wide, id):_source()) end

    client:index(wide, "there", {path = "/far", links = {"/z/a/x"}})
    client:refresh(wide)
    local code, why = code_of(client.rename, client, move)
    assert.same({"conflict", 1}, {code, why.result.beside})
    move.field, move.merge = "links", true
    assert.equal(2, client:rename(move).changed)
    assert.equal("/a/1", client:get(wide, "one").path)
    client:drop_index(wide)
  end)

  -- What the store itself counts of what was written to the index, a lock table and its jobs; nil where it
  -- counts nothing.
  local function written(lock_table)
    if store.store:find "^sqlite:" then return nil end
    local _, text = client:raw("GET", "/_all/_stats/indexing?expand_wildcards=all")
    local counts = {}
    for name, each in pairs(core.json_decode(text).indices) do
      local indexing = each.total.indexing
      counts[name] = {indexing.index_total, indexing.delete_total}
    end
    local of = {}
    for i, name in ipairs {index, lock_table .. "-000001", lock_table .. "-jobs"} do
      of[i] = assert(counts[name], name)
    end
    return of
  end

  it("is planned, which shows what it would do, takes no lock and writes nothing", function()
    client:index(index, "large", {path = "/clinton/large", text = ("x"):rep(70000)})
    client:refresh(index)
    local own = {namespace = client:namespace(), table = stores.name "table"} -- others use the common one
    local planner <close> = stores.connect(store, own)
    planner:init()
    local other <close> = stores.connect(store, own)
    local held = other:acquire {tree = "/clinton"} -- a plan waits for nobody
    local before = written(own.table)
    local planned = planner:job {name = "plan", index = index, rename = {from = "/clinton", to = "/p/c"}}
    local result = planned:plan()
    assert.same(before, written(own.table))
    assert.is_nil(planner:session()) -- it never had one
    assert.is_nil(planned:status())
    held:release()

    assert.same({4, 4}, {result.matched, result.changed})
    assert.same({{path = "/", mode = "IX"}, {path = "/clinton", mode = "X"}, {path = "/p", mode = "IX"},
      {path = "/p/c", mode = "X"}}, result.locks)
    assert.is_true(result.bytes > 70000 and result.estimate > 0)
    local shown = {}
    for _, sample in ipairs(result.samples) do shown[sample.id] = sample end
    assert.same({large = true}, {large = shown.large.large, fields = shown.large.fields})
    assert.same({{field = "path", before = '"/clinton/a/b"', after = '"/p/c/a/b"'}}, shown.deep.fields)
    assert.equal(client:get(index, "dir"):_source(), shown.dir.before)
    assert.equal("/p/c", core.view(shown.dir.after).path)
    assert.equal(4, planned:run().changed)
  end)

  it("refuses fields that no search finds", function()
    if store.store:find "^sqlite:" then return end
    local nested = stores.fill(client, {one = {path = "/a", links = {{path = "/a"}}}},
      {path = {type = "keyword"}, links = {type = "nested", properties = {path = {type = "keyword"}}}})
    local code, why = code_of(client.rename, client,
      {index = nested, from = "/a", to = "/b", field = {"path", "links.path"}})
    assert.equal("unsupported", code)
    assert.matches("nested objects", why.message)
    client:drop_index(nested)
  end)

  it("is none under a lock that is given, or where it stamps", function()
    local before = #client:jobs()
    client:with_tree_lock({"/clinton", "/p"}, function(lock)
      assert.is_nil(client:rename({index = index, from = "/clinton", to = "/p", lock = lock}).job)
    end)
    assert.is_nil(client:rename({index = index, from = "/p", to = "/q", strength = "stamp"}).job)
    assert.equal(before, #client:jobs())
  end)

  it("needs the index of jobs, which an embedded store makes itself", function()
    local name = stores.name "bare"
    local bare <close> = stores.connect(store, {table = name})
    bare:init()
    pcall(bare.drop_index, bare, name .. "-jobs")
    if not store.store:find "^sqlite:" then
      local code, why = code_of(bare.rename, bare, {index = index, from = "/clinton", to = "/p"})
      assert.equal("not_found", code)
      assert.matches("there is no index .*%-jobs for jobs in .*: run `mortise .*%-%-table .* init` once",
        why.message)
      assert.equal("/clinton", path "dir")
      bare:init()
    end
    assert.equal(3, bare:rename({index = index, from = "/clinton", to = "/p"}).changed)
  end)

  it("works under a lock that is given", function()
    client:with_tree_lock({"/clinton", "/p"}, function(lock)
      local seen
      local result = lock._client:rename {
        index = index, from = "/clinton/", to = "/p/c", lock = lock,
        on_progress = function(done, total) seen = {done, total} end,
      }
      assert.equal(3, result.changed)
      assert.same({3, 3}, seen)
    end)
    assert.equal("/p/c/a", path "file")
  end)

  it("says that the script itself is in its way", function()
    client:with_tree_lock("/clinton", function()
      local move = {index = index, from = "/clinton", to = "/p", wait = 0}
      local code, why = code_of(client.rename, client, move)
      assert.equal("lock_timeout", code)
      assert.matches("this script holds it itself", why.message)
    end)
  end)

  it("refuses a lock that does not cover both", function()
    client:with_tree_lock("/clinton", function(lock)
      local code, why = code_of(client.rename, client,
        {index = index, from = "/clinton", to = "/p", lock = lock})
      assert.equal("invalid_argument", code)
      assert.matches("does not cover /p", why.message)
    end)
    client:with_tree_lock({"/clinton", "/p"}, {mode = "shared"}, function(lock)
      assert.equal("invalid_argument",
        (code_of(client.rename, client, {index = index, from = "/clinton", to = "/p", lock = lock})))
    end)
  end)

  it("waits for the trees' locks", function()
    local namespace = stores.name "ns"
    local mover <close> = stores.connect(store, {namespace = namespace})
    local other <close> = stores.connect(store, {namespace = namespace})
    local lock = other:acquire {tree = "/clinton/a"}
    local move = {index = index, from = "/clinton", to = "/p", wait = 0}
    assert.equal("lock_timeout", (code_of(mover.rename, mover, move)))
    lock:release()
    assert.equal(3, mover:rename(move).changed)
  end)

  it("ends with an error of on_progress", function()
    local ok, why = pcall(client.rename, client, {
      index = index, from = "/clinton", to = "/p", on_progress = function() error("stop", 0) end,
    })
    assert.is_false(ok)
    assert.matches("^stop %(on_progress of job rename%-%x+: %d of %d documents done%)", why)
    for _, record in ipairs(client:jobs()) do -- it was told while the job was at its last count, or after it
      if record.stands then client:get_job(record.job):resume() end
    end
    assert.is_nil((client:try_lock {tree = "/p"} or error "still locked"):release())
  end)

  it("refuses what makes no sense", function()
    for _, given in ipairs {
      {}, {index = index, from = "/a"}, {index = index, from = "a", to = "/b"},
      {index = index, from = "/a", to = "/a/b"}, {index = index, from = "/a", to = "/a"},
      {index = index, from = "/a", to = "/b", feild = "path"},
      {index = index, from = "/a", to = "/b", lock = {}},
      {index = index, from = "/a", to = "/b", field = {}},
      {index = index, from = "/a", to = "/b", field = {"a", 1}},
      {index = index, from = "/a", to = "/b", field = "a\nb"},
    } do
      assert.equal("invalid_argument", (code_of(client.rename, client, given)))
    end
    assert.equal("not_found",
      (code_of(client.rename, client, {index = index .. "-not", from = "/a", to = "/b"})))
  end)
end)
