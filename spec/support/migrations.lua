-- What specs of migrations share: an index, and a migration that runs beside them.
local mortise = require "mortise"

local migrations = {}

-- Makes an index of two shards with 30 documents, and this alias where one is given.
function migrations.fill(client, index, alias)
  client:create_index(index, {
    settings = {number_of_shards = 2, number_of_replicas = 0},
    mappings = {properties = {path = {type = "keyword"}, n = {type = "long"}}},
    aliases = alias and {[alias] = {}} or nil,
  })
  for i = 1, 30 do client:index(index, "d" .. i, {path = "/a/" .. i, n = i}) end
end

function migrations.wait_for(what)
  for _ = 1, 400 do
    if what() then return end
    mortise.sleep(0.05)
  end
  error("it did not come to that", 2)
end

function migrations.phase(m)
  local record = m:status()
  return record and record.work and record.work.phase
end

-- Runs it in a task until it is in this phase. -> the task, which returns whether it ended well, and its
-- result
function migrations.start(m, phase)
  local ended
  local task = mortise.spawn(function()
    local ok, result = pcall(m.run, m)
    ended = {ok, result}
    return ok, result
  end)
  migrations.wait_for(function() return ended or migrations.phase(m) == phase end)
  assert(not ended, ended and tostring(ended[2]))
  return task
end

return migrations
