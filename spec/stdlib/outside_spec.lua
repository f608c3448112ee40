-- Jobs whose work is done in Lua (bindings/lua_outside.c).
local core = require "mortise.core"
local mortise = require "mortise"
local records = require "mortise.records"
local stores = require "spec.support.stores"

stores.each("a job whose work is done in Lua", function(store)
  local client, other, id

  before_each(function()
    client, other = stores.connect_two(store)
    records.make_index(client)
    id = stores.name "job"
  end)
  after_each(function()
    client:close()
    other:close()
  end)

  local spec = core.json {
    index = "x", lock = {kind = "named", index = "c", paths = {"n"}}, migrate = {from = "x", to = "y"},
  }

  -- Its lock and the job, made one's own.
  local function begin(by, verb, adopts)
    local session = by:_lock_core():open_session(id)
    local held = session:acquire("named", "c", {"n"}, {adopts = adopts, wait_ms = 5000})
    local work = held:outside_job {verb = verb, id = id, spec = verb == "run" and spec or nil}
    return work, work:run(), session
  end

  it("keeps what its caller notes, and ends as it says", function()
    local work, result, session = begin(client, "run")
    assert.is_nil(result)
    assert.same({"running", 1, nil}, {work:told().state, work:told().attempts, work:told().work})
    work:note('{"phase":"one"}', {total = 9, matched = 5, changed = 4})
    work:checkpoint()
    local record = records.get(client, id)
    assert.same({"running", "one", 9, 4}, {record.state, record.work.phase, record.total,
      record.counts.changed})
    assert.is_true(record.alive)
    work:finish "done"
    assert.equal("done", work:run().state)
    session:close()
    assert.equal("done", records.get(client, id).state)
  end)

  it("ends with the error that its caller gives, and is gone on with from what was noted", function()
    local work, _, session = begin(client, "run")
    work:note('{"phase":"two"}', {})
    work:finish("stopped", core.error {code = "rejected", message = "no more"})
    local ok, why = pcall(work.run, work)
    assert.is_false(ok)
    assert.same({"rejected", "no more"}, {why.code, why.message})
    session:leave()
    assert.is_true(records.get(client, id).stands)
    local again = begin(other, "resume", true)
    assert.same({'{"phase":"two"}', 2}, {again:told().work, again:told().attempts})
    again:finish "done"
    again:run()
  end)

  it("is told that it was cancelled, and to pause, by anyone", function()
    local work = begin(client, "run")
    work:note("{}", {})
    local orders = require "mortise.orders"
    work:checkpoint()
    orders.pause(other, id)
    repeat mortise.sleep(0.05) until work:told().paused
    orders.go_on(other, id)
    repeat mortise.sleep(0.05) until not work:told().paused
    orders.throttle(other, id, {rate = 7})
    repeat mortise.sleep(0.05) until work:told().rate == 7
    orders.cancel(other, id)
    repeat mortise.sleep(0.05) until work:told().stop
    assert.equal("interrupted", work:told().stop.code)
    assert.equal("interrupted", select(2, pcall(work.checkpoint, work)).code)
    work:finish("stopped", work:told().stop)
    assert.is_false((pcall(work.run, work)))
    assert.equal("stopped", records.get(client, id).state)
  end)

  it("is undone, and cannot be taken by two", function()
    local work, _, session = begin(client, "run")
    work:note('{"phase":"a"}', {})
    work:finish "done"
    work:run()
    session:close()
    local undo, _, by = begin(other, "undo")
    assert.equal("undoing", undo:told().state)
    undo:finish "undone"
    assert.equal("undone", undo:run().state)
    by:close()
    local none, result = begin(client, "undo")
    assert.equal("undone", result.state)
    assert.has_no_error(function() none:settle() end)
  end)

  it("writes nothing once its lock is given back", function()
    local session = client:_lock_core():open_session(id)
    local held = session:acquire("named", "c", {"n"}, {})
    local work = held:outside_job {verb = "run", id = id, spec = spec}
    work:run()
    held:release()
    assert.equal("interrupted", work:told().stop.code)
    assert.has_error(function() work:checkpoint() end)
    work:finish "done"
    assert.has_error(function() work:run() end)
    assert.equal("running", records.get(other, id).state)
    session:close()
  end)

  it("is told that another has taken it over", function()
    local work = begin(client, "run")
    work:note("{}", {})
    work:checkpoint()
    local index = records.index(other)
    other:update(index, records.document_id(other, id), function(view) view.body.reason = "mine" end,
      {unguarded = true})
    work:note('{"late":true}', {})
    assert.equal("lock_lost", select(2, pcall(work.checkpoint, work)).code)
    work:finish "done"
    assert.equal("lock_lost", select(2, pcall(work.run, work)).code)
    assert.is_nil(records.get(other, id).work.late)
  end)
end)
