-- Hooks of jobs, which may stop them, and verification at the end.
local fails = require "spec.support.fails"
local stores = require "spec.support.stores"

stores.each("hooks of a job", function(store)
  local client, index
  local documents = 12

  before_each(function()
    client = stores.connect(store)
    local all = {}
    for i = 1, documents do all["d" .. i] = {path = "/a/" .. i, n = i} end
    index = stores.fill(client, all)
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  local function job(given)
    given.name, given.index, given.rename = "hooked", index, {from = "/a", to = "/b"}
    return client:job(given)
  end

  local function moved()
    client:refresh(index)
    return client:count(index, {prefix = {path = "/b/"}})
  end

  it("are called in their order", function()
    local calls = {}
    local moving = job {
      on_start = function(self, counts) calls[#calls + 1] = {"start", self.id, counts.matched, moved()} end,
      on_done = function(self, result) calls[#calls + 1] = {"done", self.id, result.changed, moved()} end,
      on_error = function() calls[#calls + 1] = {"error"} end,
    }
    moving:run()
    assert.same({{"start", moving.id, documents, 0}, {"done", moving.id, documents, documents}}, calls)
  end)

  it("refuse before anything is written", function()
    local seen
    local moving = job {on_start = function() return false end, on_error = function(_, why) seen = why end}
    local why = fails("interrupted", moving.run, moving)
    assert.matches("on_start of job hooked%-%x+ does not let it go on", why.message)
    assert.equal(why, seen)
    assert.same({0, "undone"}, {moved(), moving:status().state})
    client:acquire({tree = "/a", wait = "1s"}):release()
    moving = job {on_start = function() error("not today", 0) end}
    assert.matches("not today", select(2, pcall(moving.run, moving)))
    assert.equal("undone", moving:status().state)
  end)

  it("stop it while it works: it stands", function()
    local told
    local moving = job {
      rate = 1, on_batch = function(_, now)
        told = now
        return false
      end,
    }
    local why = fails("interrupted", moving.run, moving)
    assert.matches("on_batch of job", why.message)
    assert.is_true(told.done > 0 and told.all == documents)
    assert.same({"stopped", true}, {moving:status().state, moving:status().stands})
    assert.is_true(moved() < documents)
    client:get_job(moving.id):throttle {rate = 0}
    client:get_job(moving.id):rollback()
    assert.equal(0, moved())
  end)

  it("verify each document", function()
    local looked = {}
    local result = job({verify = function(view) looked[#looked + 1] = view.path:match "^/b/" end}):run()
    assert.same({documents, documents}, {result.verified, #looked})
    client:get_job(result.job):rollback()
    result = job({verify = function() return true end, verify_sample = 5}):run()
    assert.equal(5, result.verified)
    client:get_job(result.job):rollback()
    local moving = job {verify = function(view)
      if view.n == 3 then error("odd", 0) end
      return view.n ~= 4
    end}
    local why = fails("rejected", moving.run, moving)
    assert.matches("verification failed: 2 of 12 documents", why.message)
    assert.equal(2, #why.unverified)
    assert.same({documents, "done"}, {moved(), why.result.state})
    local record = moving:status()
    assert.equal("done", record.state)
    assert.matches("verification failed", record.reason)
  end)

  it("verify that nothing is left, and that something was looked at", function()
    assert.equal("done", job({verify = true}):run().state)
    local back = client:job {
      name = "back", index = index, rename = {from = "/b", to = "/a"}, verify = function() end,
      verify_query = {term = {path = "/nowhere"}},
    }
    assert.matches("give `verify_query`", fails("rejected", back.run, back).message)
    assert.matches("a function or true", fails("invalid_argument", job, {verify = 5}).message)
  end)
end)
