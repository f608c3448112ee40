-- What a holder has sent is held back by a proxy until the holder is dead and its successor has written.
-- spec/core/late_test.c proves that such a test can detect a late write; here a slow machine might have sent
-- nothing.
local program = require "spec.support.program"
local stores = require "spec.support.stores"

local proxy = program.file and program.file:gsub("cli/mortise$", "tools/faultproxy/faultproxy")
local there = proxy and io.open(proxy)
if not there then
  print "SKIP late writes: MORTISE_BIN is not set, or has no faultproxy beside it"
  return
end
there:close()

-- What each holder sends under its lock: 20 documents, by a writer, or by plain writes of tasks that it
-- starts. Each is read first; then all their bulks are held back.
local holders = {
  ["bulk of a writer"] = [[
local index = arg[1]
mortise.with_tree_lock("/late", function(lock)
  local w = lock:bulk(index, {})
  for i = 1, 20 do w:index("d" .. i, {by = "late"}) end
  w:finish()
end)
]],
  ["plain writes in its block"] = [[
local index, ids = arg[1], {}
for i = 1, 20 do ids[i] = "d" .. i end
mortise.with_tree_lock("/late", function()
  mortise.map(ids, function(id) mortise.index(index, id, {by = "late"}) end, {limit = 20})
end)
]],
  ["bulk in its block"] = [[
local index, items = arg[1], {}
for i = 1, 20 do items[i] = {id = "d" .. i, doc = {by = "late"}} end
local lock <close> = mortise.acquire {tree = "/late"}
mortise.bulk(index, items)
]],
}

-- How many documents the holder changed when what it had sent came.
local function late(client, store, namespace, index, holder)
  for i = 1, 20 do client:index(index, "d" .. i, {by = "before"}) end
  local file = program.write(holder, ".lua")
  local upstream = store.store:match "^http://([^/]+)"
  local run = ([[
    exec 3>&1
    %s --upstream %s "path=_bulk body='\"by\":\"late\"' hold 5000" </dev/null >%s.port &
    proxy=$!
    for i in $(seq 50); do
      port=$(grep -o '[0-9]*' %s.port | tail -1); [ -n "$port" ] && break; sleep 0.1
    done
    env -u LD_PRELOAD %s --store http://127.0.0.1:$port --namespace %s --lease 2s %s %s >/dev/null 2>&1 &
    holder=$!
    sleep 1.2
    kill -9 $holder
    wait $holder 2>/dev/null
    echo $proxy
  ]]):format(proxy, upstream, file, file, program.quote(program.file), namespace, file, index)
  local pipe = io.popen("bash -c " .. program.quote(run))
  local pid = pipe:read "l"
  client:with_tree_lock("/late", {wait = "20s"}, function(lock)
    local w <close> = lock:bulk(index)
    for i = 1, 20 do w:index("d" .. i, {by = "successor"}) end
  end)
  require("mortise.core").sleep(6000)
  os.execute("kill " .. pid)
  pipe:close()
  os.remove(file)
  os.remove(file .. ".port")
  local changed = 0
  for i = 1, 20 do changed = changed + (client:get(index, "d" .. i).by == "late" and 1 or 0) end
  return changed
end

stores.each("what comes late from a holder", function(store)
  if not store.store:match "^http:" then return end
  for what, holder in pairs(holders) do
    it("changes nothing that its successor has written: " .. what, function()
      local namespace = stores.name "ns"
      local client <close> = stores.connect(store, {namespace = namespace})
      local index = stores.name "late"
      client:create_index(index)
      assert.equal(0, late(client, store, namespace, index, holder))
      client:drop_index(index)
    end)
  end
end)
