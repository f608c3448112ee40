-- migrating.lua ROUNDS SEED: migrations of an index that others write to all the time, through its alias.
-- Their process is killed by SIGKILL at some send, receive or write to a file (spec/deaths/die.c); another
-- goes on, which may be killed as well, or goes back. In the end the index that the alias names has exactly
-- what the writers were told that it has: each document in its last state, none that was deleted. The writers
-- change, delete and create again the same ids, with routing and without, also one id under two routings. On
-- the embedded store (not with MORTISE_TEST_NO_SQLITE) and on each server of MORTISE_TEST_URLS. Prints
-- 'ok - ...' or 'not ok - ...' for each store, and with MORTISE_TEST_VERBOSE a line for each migration.
local mortise = require "mortise"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

local rounds, seed = tonumber(arg[1]), math.tointeger(tonumber(arg[2]))
local library = program.file:match "^(.*)/cli/" .. "/spec/deaths/libdie.so"
math.randomseed(seed)

local WRITERS <const> = 3
local DOCUMENTS <const> = {40, 400, 2500}

-- ---- The writers ---------------------------------------------------------------------------------

-- What is known of each document: the states that it may have; `false`: it is not there.
local Model = {}
Model.__index = Model

local function key(id, routing) return (routing or "") .. "\0" .. id end

function Model:set(id, routing, state)
  self[key(id, routing)] = {id = id, routing = routing, states = {state}}
end

function Model:may(id, routing, state)
  local known = self[key(id, routing)] or {id = id, routing = routing, states = {false}}
  self[key(id, routing)] = known
  table.insert(known.states, state)
end

local function write(scene, writer, n)
  local mine = math.random(scene.documents // WRITERS) * WRITERS + writer
  local id = ("d%d"):format(mine)
  local routing = scene.routings and mine % 3 == 0 and scene.routings[math.random(2)] or nil
  local state = math.random(10) > 3 and ("w%d-%d"):format(writer, n) or false
  local call = state and scene.client.index or scene.client.delete
  local options = {routing = routing}
  local source = state and {path = "/" .. id, state = state}
  local ok, why
  if source then
    ok, why = pcall(call, scene.client, scene.alias, id, source, options)
  else
    ok, why = pcall(call, scene.client, scene.alias, id, options)
  end
  if ok or not state and why.code == "not_found" then
    scene.model:set(id, routing, state)
    scene.acknowledged = scene.acknowledged + 1
  elseif why.ambiguous then
    scene.model:may(id, routing, state)
  else
    scene.refused = scene.refused + 1
    mortise.sleep(0.02)
  end
end

local function start_writers(scene)
  local list = {}
  for writer = 1, WRITERS do
    list[writer] = mortise.spawn(function()
      local n = 0
      while not scene.over do
        n = n + 1
        write(scene, writer, n)
        if not scene.burst then mortise.sleep(math.random() * 0.02) end
      end
    end)
  end
  return list
end

-- ---- The migration's process ---------------------------------------------------------------------

local function read(file)
  local handle = io.open(file, "rb")
  local text = handle and handle:read "a" or ""
  if handle then handle:close() end
  return text
end

-- Runs the program in the background until it ends, killed at that moment. -> its status, what it said
local function run(scene, words, die_at, count_file)
  local out, status = os.tmpname(), os.tmpname()
  local quoted = {}
  for i, word in ipairs(words) do quoted[i] = program.quote(word) end
  local environment = ("env LD_PRELOAD=%s MORTISE_DIE_AT=%d MORTISE_DIE_COUNT=%s HOME=/nonexistent"):format(
    program.quote(library), die_at or 0, count_file or "")
  os.execute(("(%s timeout 120 %s --store %s --namespace %s --lease 1s --wait 30s %s >%s 2>&1 </dev/null; "
    .. "echo $? >%s) &"):format(environment, program.quote(program.file), program.quote(scene.store.store),
    scene.namespace, table.concat(quoted, " "), out, status))
  while not read(status):find "%d" do mortise.sleep(0.01) end
  local text, code = read(out), math.tointeger(tonumber(read(status):match "%d+"))
  os.remove(out)
  os.remove(status)
  return code, text
end

-- ---- A round -------------------------------------------------------------------------------------

local function create(scene, index, shards)
  scene.client:create_index(index, {
    settings = {number_of_shards = shards, number_of_replicas = 0},
    mappings = {properties = {path = {type = "keyword"}}},
  })
end

local function shard_of(scene, index, routing)
  local _, text = scene.client:raw("GET", ("/%s/_search_shards?routing=%s"):format(index, routing))
  return text:match '"shard":(%d+)'
end

-- Two that come to different shards of both indices: in one shard an id is one document.
local function find_routings(scene)
  if scene.store.store:find "^sqlite:" or scene.shards == 1 or scene.new_shards == 1 then return end
  local probe = stores.name "probe"
  create(scene, probe, scene.new_shards)
  local first_old, first_new = shard_of(scene, scene.from, "r1"), shard_of(scene, probe, "r1")
  for i = 2, 50 do
    local other = "r" .. i
    if shard_of(scene, scene.from, other) ~= first_old and shard_of(scene, probe, other) ~= first_new then
      scene.routings = {"r1", other}
      break
    end
  end
  scene.client:drop_index(probe)
end

local function make_scene(store, n)
  local namespace = stores.name "migrating"
  local scene = {
    store = store, namespace = namespace, client = stores.connect(store, {namespace = namespace}),
    documents = DOCUMENTS[n % #DOCUMENTS + 1], from = stores.name "from", to = stores.name "to",
    alias = stores.name "alias", model = setmetatable({}, Model), acknowledged = 0, refused = 0,
    burst = n % 5 == 0, shards = math.random(3), new_shards = math.random(3),
  }
  create(scene, scene.from, scene.shards)
  find_routings(scene)
  scene.client:_open_core():alias_move(scene.alias, nil, scene.from)
  local items = {}
  for i = WRITERS + 1, scene.documents do
    local id = "d" .. i
    if not scene.routings or i % 3 ~= 0 then
      items[#items + 1] = {op = "index", id = id, doc = {path = "/" .. id, state = "first"}}
      scene.model:set(id, nil, "first")
    end
  end
  for _, answer in ipairs(scene.client:bulk(scene.alias, items)) do assert(answer.result == "applied") end
  return scene
end

-- What differs between the model and what the index has; nil: nothing.
local function difference(scene, index)
  local client, seen = scene.client, {}
  client:refresh(index)
  for doc in client:scan(index) do
    local known = scene.model[key(doc._id, doc._routing)]
    local fits = false
    for _, state in ipairs(known and known.states or {}) do fits = fits or state == doc.state end
    if not fits then
      return ("%s (routing %s) has the state %s, but was left as %s"):format(doc._id, doc._routing, doc.state,
        known and mortise.format(known.states) or "nothing")
    end
    seen[key(doc._id, doc._routing)] = true
  end
  for name, known in pairs(scene.model) do
    local may_lack = false
    for _, state in ipairs(known.states) do may_lack = may_lack or state == false end
    if not seen[name] and not may_lack then
      return ("%s (routing %s) is lost: %s"):format(known.id, known.routing, mortise.format(known.states))
    end
  end
end

local function words_of(scene)
  local settings = program.write(('{"number_of_shards":%d}'):format(scene.new_shards), ".json")
  scene.settings = settings
  return {"migrate", scene.from, scene.to, "--alias", scene.alias, "--id", "m", "--settings", settings,
    "--rate", math.random(2) == 1 and "100000" or "2000"}
end

local function alias_names(scene)
  local text = scene.client:_open_core():aliases(scene.alias)
  return text:match '^{"([^"]+)"'
end

-- -> what went wrong, or nil
local function play(scene, die_at)
  local goes_back = math.random(5) == 1
  local status, text = run(scene, words_of(scene), die_at)
  local tries = 0
  while status == 137 and tries < 3 do
    tries = tries + 1
    local again = tries < 3 and math.random(2) == 1 and math.random(300) or 0
    if goes_back then
      status, text = run(scene, {"jobs", "rollback", "m", "--others", "1000000"}, again)
    else
      status, text = run(scene, {"jobs", "resume", "m"}, again)
    end
    if status ~= 137 and (text:find "there is no job" or text:find "never began"
      or text:find "had not begun") then -- it was not born
      status, text = run(scene, words_of(scene))
    end
  end
  scene.said = text
  if status ~= 0 then return ("status %d: %s"):format(status, text) end
end

local function close(scene)
  os.remove(scene.settings)
  for _, index in ipairs {scene.from, scene.to} do pcall(scene.client.drop_index, scene.client, index) end
  scene.client:close()
end

local function round(store, n, moments)
  local scene = make_scene(store, n)
  local writers = start_writers(scene)
  local die_at = moments and math.random(moments) or 0
  local why = play(scene, die_at)
  local index = alias_names(scene)
  if not why then mortise.sleep(0.1) end -- written to afterwards, too
  scene.over = true
  for _, writer in ipairs(writers) do writer:join() end
  why = why or difference(scene, index)
  local about = ("round %d, killed at %d, %d documents, %d writes, %d refused, alias at %s"):format(n, die_at,
    scene.documents, scene.acknowledged, scene.refused, index == scene.to and "the new index"
      or "the old one")
  if os.getenv "MORTISE_TEST_VERBOSE" then print(about, scene.said) end
  close(scene)
  return why and about .. ": " .. why
end

-- How many moments a migration has that nobody kills.
local function count_moments(store)
  local scene = make_scene(store, 1)
  local file = os.tmpname()
  local status, text = run(scene, words_of(scene), 0, file)
  local moments = math.tointeger(tonumber(read(file):match "%d+"))
  os.remove(file)
  close(scene)
  assert(status == 0 and moments, text)
  return moments
end

local status = 0
for i, store in ipairs(stores.all()) do
  if i == 1 and os.getenv "MORTISE_TEST_NO_SQLITE" then goto continue end
  local moments = count_moments(store)
  local failed
  for n = 1, rounds do
    failed = round(store, n, moments)
    if failed then break end
  end
  if failed then
    status = 1
    print(("not ok - migrations on %s: seed %d, %s"):format(store.name, seed, failed))
  else
    print(("ok - %d migrations on %s, each killed at one of %d moments: nothing lost or stale"):format(rounds,
      store.name, moments))
  end
  ::continue::
end
os.exit(status, true)
