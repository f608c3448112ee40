-- Several processes with several tasks each: locks exclude them all from one another.
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP exclusion: MORTISE_BIN is not set"
  return
end

-- Reads, waits a little, and writes without compare-and-set: only the lock keeps counts whole.
local worker = [[
local index, tasks, times = arg[1], tonumber(arg[2]), tonumber(arg[3])
local function add(id)
  local n = mortise.get(index, id).n
  mortise.sleep(0.001)
  mortise.index(index, id, {n = n + 1})
end
local list = {}
for i = 1, tasks do list[i] = i end
mortise.map(list, function(i)
  for round = 1, times do
    local kind = (i + round) % 3
    if kind == 0 then
      mortise.with_tree_lock("/a/" .. i % 2, {wait = "60s"}, function() add("leaf" .. i % 2) end)
    elseif kind == 1 then
      mortise.with_tree_lock("/a", {wait = "60s"}, function() add "leaf0" add "leaf1" end)
    else
      mortise.with_lock("counter", "x", {wait = "60s"}, function() add "named" end)
    end
  end
end, {limit = tasks})
]]

local processes, tasks, times = 3, 4, 6

-- The expected counts.
local function expected()
  local n = {leaf0 = 0, leaf1 = 0, named = 0}
  for i = 1, tasks do
    for round = 1, times do
      local kind = (i + round) % 3
      if kind == 0 then
        n["leaf" .. i % 2] = n["leaf" .. i % 2] + processes
      elseif kind == 1 then
        n.leaf0, n.leaf1 = n.leaf0 + processes, n.leaf1 + processes
      else
        n.named = n.named + processes
      end
    end
  end
  return n
end

stores.each("processes and tasks", function(store)
  it("lose no count under locks", function()
    local namespace = stores.name "ns"
    local client <close> = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    local index = stores.fill(client, {leaf0 = {n = 0}, leaf1 = {n = 0}, named = {n = 0}})
    local file = program.write(worker, ".lua")
    local one = ("%s --store %s --namespace %s %s %s %d %d"):format(program.quote(program.file),
      program.quote(store.store), namespace, file, index, tasks, times)
    local all = {}
    for i = 1, processes do all[i] = "env -u LD_PRELOAD timeout 100 " .. one .. " & p" .. i .. "=$!" end
    for i = 1, processes do all[#all + 1] = "wait $p" .. i .. " || echo failed $?" end
    local pipe = io.popen("(" .. table.concat(all, "\n") .. "\n) 2>&1")
    local out = pipe:read "a"
    pipe:close()
    os.remove(file)
    assert.equal("", out)
    local found = {}
    for id in pairs(expected()) do found[id] = client:get(index, id).n end
    assert.same(expected(), found)
    assert.same({}, client:list().locks)
    client:drop_index(index)
  end)
end)
