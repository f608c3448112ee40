-- A call that is cut off says whether it may have been applied: `ambiguous` is false only where nothing
-- of it was, or ever will be.
local mortise = require "mortise"
local core = require "mortise.core"
local stores = require "spec.support.stores"

local rounds = 60

-- What each does to one document; `before`: it exists with n = 0. Afterwards it is different.
local calls = {
  {name = "index", before = true, run = function(client, index, id) client:index(index, id, {n = 1}) end},
  {name = "create", run = function(client, index, id) client:create(index, id, {n = 1}) end},
  {name = "update", before = true, run = function(client, index, id) client:update(index, id, {n = 1}) end},
  {name = "delete", before = true, run = function(client, index, id) client:delete(index, id) end},
  {name = "bulk", before = true, run = function(client, index, id)
    client:bulk(index, {{id = id, doc = {n = 1}}})
  end},
  {name = "raw", before = true, server = true, run = function(client, index, id)
    local status = client:raw("PUT", ("/%s/_doc/%s"):format(index, id), '{"n":1}')
    assert(status < 300)
  end},
  {name = "index under a lock", before = true, locked = true, run = function(client, index, id)
    client:index(index, id, {n = 1})
  end},
  {name = "bulk under a lock", before = true, locked = true, run = function(client, index, id)
    client:bulk(index, {{id = id, doc = {n = 1}}})
  end},
  {name = "writer", before = true, locked = true, run = function(_, index, id, lock)
    local w <close> = lock:bulk(index)
    w:index(id, {n = 1})
    w:finish()
  end},
  {name = "blind writer", before = true, locked = true, run = function(_, index, id, lock)
    local w <close> = lock:bulk(index, {strength = "none"})
    w:index(id, {n = 1})
    w:finish()
  end},
}

local function state_of(client, index, id)
  local doc = client:get(index, id)
  return doc and doc.n
end

-- Cuts each call off, and collects its result.
local function cut(store, client, index, end_it)
  math.randomseed(20261122)
  local list, cut_off, sure = {}, 0, 0
  for round = 1, rounds do
    for _, call in ipairs(calls) do
      if not call.server or store.name ~= "sqlite" then
        local each = {id = ("%s %d"):format(call.name, round):gsub(" ", "-"), call = call}
        if call.before then client:index(index, each.id, {n = 0}) end
        each.before = call.before and 0 or nil
        local lock <close> = call.locked and client:acquire {tree = "/" .. round}
        local task = mortise.spawn(call.run, client, index, each.id, lock)
        local step = math.random(0, 4)
        if step > 1 then core.sleep(step - 1) elseif step == 1 then core.sleep(0) end
        end_it(task)
        each.ok, each.why = pcall(task.join, task)
        if not each.ok then
          assert.equal("interrupted", each.why.code, tostring(each.why))
          cut_off = cut_off + 1
          if not each.why.ambiguous then sure = sure + 1 end
          local says = tostring(each.why):find("may have been applied", 1, true) ~= nil
          assert.equal(each.why.ambiguous, says)
        end
        list[#list + 1] = each
      end
    end
  end
  return list, cut_off, sure
end

local function check(client, index, list)
  for _, each in ipairs(list) do
    local now, name = state_of(client, index, each.id), each.id
    if each.ok then
      assert.is_true(now ~= each.before, name .. " returned, and was not applied")
    elseif not each.why.ambiguous then
      assert.equal(each.before, now, name .. " was applied: " .. tostring(each.why))
    end
  end
end

stores.each("a call that is cut off", function(store)
  it("is not ambiguous only where nothing of it is applied", function()
    local client <close> = stores.connect(store)
    local index = stores.name "cut"
    client:create_index(index)
    local list, cut_off, sure = cut(store, client, index, function(task) task:cancel() end)
    check(client, index, list)
    core.sleep(700)
    check(client, index, list)
    assert.is_true(cut_off > rounds / 2, cut_off .. " were cut off")
    assert.is_true(sure > 0 and sure < cut_off, ("%d of %d were sure"):format(sure, cut_off))
    client:drop_index(index)
  end)

  it("counts what a writer had sent", function()
    local client <close> = stores.connect(store)
    local index = stores.name "cut"
    client:create_index(index)
    local seen = 0
    for round = 1, 20 do
      local lock <close> = client:acquire {tree = "/many"}
      local w = lock:bulk(index, {strength = "none"})
      for i = 1, 3000 do w:index(("%d-%d"):format(round, i), {round = round}) end
      local task = mortise.spawn(function() w:flush() end)
      core.sleep(round)
      task:cancel()
      local ok, why = pcall(task.join, task)
      if not ok then
        local report = why.report
        w:close()
        core.sleep(100)
        client:refresh(index)
        local there = client:count(index, {term = {round = round}})
        if report then
          assert.is_true(there >= report.applied and there <= report.applied + #report.unanswered)
          assert.equal(3000, report.applied + #report.unanswered + report.unsent)
          assert.equal(why.ambiguous, report.applied + #report.unanswered > 0)
        else
          assert.is_true(why.ambiguous or there == 0)
        end
        seen = seen + 1
      end
    end
    assert.is_true(seen > 0)
    client:drop_index(index)
  end)

  it("says nothing of a reading", function()
    local client <close> = stores.connect(store)
    local index = stores.fill(client, {a = {n = 1}})
    for ms = 0, 20 do
      local task = mortise.spawn(function() while true do client:get(index, "a") client:count(index) end end)
      core.sleep(ms % 5)
      task:cancel()
      local ok, why = pcall(task.join, task)
      assert.is_false(ok)
      assert.equal("interrupted", why.code)
      assert.is_false(why.ambiguous)
    end
    client:drop_index(index)
  end)
end)
