-- Who makes a job's change: this process, or the store by itself.
local fails = require "spec.support.fails"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

stores.each("a job's strategy", function(store)
  local client, other, index

  local function fill(n, pad)
    local documents = {}
    for i = 1, n do documents["d" .. i] = {path = i % 3 > 0 and "/a/" .. i or "/a", pad = pad} end
    index = stores.fill(client, documents, {path = {type = "keyword"}, pad = {type = "keyword", index = false,
      doc_values = false}, n = {type = "keyword"}})
  end

  before_each(function()
    client, other = stores.connect_two(store)
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
    other:close()
  end)

  local function sources() return stores.sources(client, index) end

  local function moving(strategy, also)
    local given = {name = "move", index = index, rename = {from = "/a", to = "/b"}, strategy = strategy}
    for name, value in pairs(also or {}) do given[name] = value end
    return client:job(given)
  end

  local function count_below(path)
    client:refresh(index)
    return client:count(index, {prefix = {path = path}})
  end

  it("is the client's unless another is asked for", function()
    fill(6)
    local result = moving():run()
    assert.same({"client", "the default"}, {result.strategy, result.strategy_reason})
  end)

  it("lets the server rename a tree and rename it back", function()
    fill(30)
    local before = sources()
    local job = moving("server")
    local result = job:run()
    assert.same({"server", "as asked for"}, {result.strategy, result.strategy_reason})
    assert.same({"done", 30, 30}, {result.state, result.matched, result.changed})
    assert.equal(30, count_below("/b"))
    local record = job:status()
    assert.same({"server", "as asked for"}, {record.strategy, record.strategy_reason})
    assert.equal("undone", other:get_job(job.id):rollback().state)
    assert.same(before, sources())
  end)

  it("is refused where the undo needs a journal, before anything is changed", function()
    fill(6)
    client:index(index, "there", {path = "/b/there", n = "7"}, {refresh = true})
    local before = sources()
    local cases = {
      {rename = {from = "/a", to = "/b"}, merge = true, why = "its undo needs a journal"},
      {rename = {from = "/a", to = "/c"}, query = {term = {path = "/a/1"}}, why = "its undo needs a journal"},
      {change = {{rename_field = {from = "n", to = "m"}}}, lock = "/b", why = "its undo needs a journal"},
      {change = {{cast = {field = "n", to = "integer"}}}, lock = "/b",
        why = "a change that has an exact inverse"},
    }
    for _, also in ipairs(cases) do
      local why = also.why
      also.why, also.name, also.index, also.strategy = nil, "refused", index, "server"
      local job = client:job(also)
      local e = fails("unsupported", job.run, job)
      says(e.message, "strategy \"server\": ", why)
      assert.equal("undone", job:status().state)
      client:acquire({global = true, wait = 0}):release()
    end
    assert.same(before, sources())
  end)

  it("auto is the client where the server must not, and says why", function()
    fill(6)
    client:index(index, "there", {path = "/b/there"}, {refresh = true})
    local result = moving("auto", {merge = true}):run()
    assert.equal("client", result.strategy)
    says(result.strategy_reason, "its undo needs a journal")
    assert.equal(7, count_below("/b"))
  end)

  it("auto goes by the size of the documents, and says it", function()
    fill(6)
    local result = moving("auto"):run()
    assert.equal("client", result.strategy)
    assert.matches("^documents have about %d%d? bytes", result.strategy_reason)
    client:drop_index(index)
    fill(6, ("x"):rep(4000))
    result = moving("auto", {name = "large"}):run()
    assert.equal("server", result.strategy)
    assert.matches("^documents have about 40%d%d bytes", result.strategy_reason)
    assert.same({6, 6}, {result.changed, count_below("/b")})
  end)

  it("is foretold by a plan", function()
    fill(6, ("x"):rep(4000))
    local function foretold(strategy, also)
      local result = moving(strategy, also):plan()
      return result.strategy, result.strategy_reason
    end
    assert.is_nil((foretold()))
    assert.same({"server", "as asked for"}, {foretold "server"})
    local who, why = foretold "auto"
    assert.equal("server", who)
    assert.matches("^documents have about 40%d%d bytes", why)
    who, why = foretold("auto", {query = {term = {path = "/a/1"}}})
    assert.equal("client", who)
    says(why, "its undo needs a journal")
    local ok, refused = pcall(foretold, "server", {query = {term = {path = "/a/1"}}})
    assert.same({false, "unsupported"}, {ok, refused.code})
    says(refused.message, 'strategy "server": its undo needs a journal')
    assert.equal(0, count_below("/b"))
  end)

  it("is kept by whoever resumes the job or rolls it back", function()
    fill(2000)
    local before = sources()
    local function enough(done) return done > 0 and error "enough" end
    local job = moving("server", {on_progress = enough})
    pcall(job.run, job) -- it may be faster than its first progress
    local record = job:status()
    assert.is_true(record.state == "stopped" or record.state == "done", record.state)
    assert.equal("server", record.strategy)
    other:get_job(job.id):resume()
    assert.same({"done", "server", 2000}, {job:status().state, job:status().strategy, count_below("/b")})
    assert.equal("undone", other:get_job(job.id):rollback().state)
    assert.same(before, sources())
  end)

  it("is one of three", function()
    fill(1)
    local why = fails("invalid_argument", moving, "clients")
    says(why.message, "client")
  end)
end)
