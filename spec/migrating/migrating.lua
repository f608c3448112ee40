-- migrating.lua ROUNDS SEED: migrations of an index that others write to all the time, through its alias.
-- Their process is killed by SIGKILL at some send, receive or write to a file (spec/deaths/die.c); another
-- goes on, which may be killed as well, or goes back. One in three keeps the old index in step: it is
-- cancelled or killed while it follows, gone on with, and ends by going back, at which it may be killed as
-- well, or by being finished. In one in three a function makes two documents of some. In the end the index
-- that the alias names has exactly what the writers were told that it has: each document in its last state,
-- none that was deleted, and the second documents that belong to them. The writers change, delete and create
-- again the same ids, with routing and without, also one id under two routings. On a server, one in eight
-- (with MORTISE_TEST_FAULTS all) goes over a proxy (tools/faultproxy) that delays requests, also past the
-- death of their process, sends them twice, and loses them or their answers. On the embedded store (not with
-- MORTISE_TEST_NO_SQLITE) and on each server of MORTISE_TEST_URLS. Prints 'ok - ...' or 'not ok - ...' for
-- each store, and with MORTISE_TEST_VERBOSE a line for each migration.
local mortise = require "mortise"
local program = require "spec.support.program"
local proxy = require "spec.support.proxy"
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
  local environment = ("env LD_PRELOAD=%s MORTISE_DIE_AT=%d MORTISE_DIE_COUNT=%s HOME=/dev/null/home"):format(
    program.quote(library), die_at or 0, count_file or "")
  os.execute(("(%s timeout 120 %s --store %s --namespace %s --lease 1s --wait 30s %s >%s 2>&1 </dev/null; "
    .. "echo $? >%s) &"):format(environment, program.quote(program.file),
    program.quote(scene.proxy and scene.proxy.url or scene.store.store), scene.namespace,
    table.concat(quoted, " "), out, status))
  while not read(status):find "%d" do mortise.sleep(0.01) end
  local text, code = read(out), math.tointeger(tonumber(read(status):match "%d+"))
  os.remove(out)
  os.remove(status)
  return code, text
end

-- What goes wrong on the way, by chance: so many requests in a thousand.
local FAULTS <const> = {
  "rate=8 hold 300", "rate=5 hold 1500", "rate=8 duplicate 400", "rate=4 drop-request", "rate=4 drop-answer",
  "rate=3 reset-answer", "rate=3 late-status 503", "rate=3 status 429", "path=_bulk rate=10 hold 2500",
}

local function begin_faults(scene, n)
  local wanted = n % 8 == 2 or os.getenv "MORTISE_TEST_FAULTS"
  if not wanted or not proxy.file or scene.store.store:find "^sqlite:" then return end
  scene.proxy = proxy.start(scene.store.store, seed * 1000 + n, FAULTS)
end

-- From now on nothing goes wrong on the way; what was held back comes first.
local function end_faults(scene)
  if not scene.proxy then return end
  mortise.sleep(2.6)
  scene.faults = (scene.faults or 0)
  for _, hits in pairs(scene.proxy:stop()) do scene.faults = scene.faults + hits end
  scene.proxy = nil
end

-- Was it killed, or was it so slow that its lease of a second ran out? Where requests are lost it may also
-- give up: the server is away for it, or others seem to have done what it has done itself.
local function has_died(status, scene)
  return status == 137 or status == 5 or scene.faulty and (status == 4 or status == 1 or status == 3)
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
    burst = n % 5 == 0, follows = n % 3 == 0, splits = n % 3 == 1, shards = math.random(3),
    new_shards = math.random(3),
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

-- The second documents that the index must have: of the old one's, which nobody can write to since.
local function made_of(scene, index)
  local wanted = {}
  if not scene.splits or index ~= scene.to then return wanted end
  scene.client:refresh(scene.from)
  for doc in scene.client:scan(scene.from) do
    if doc.state:find "[02468]$" then wanted[key(doc._id, doc._routing)] = doc.state end
  end
  return wanted
end

-- What differs between the model and what the index has; nil: nothing.
local function difference(scene, index)
  local client, seen = scene.client, {}
  client:refresh(index)
  local copies, wanted = {}, made_of(scene, index)
  for doc in client:scan(index) do
    local of = doc._id:match "^copy%-(.*)$"
    if of then
      copies[key(of, doc._routing)] = doc.of
      goto continue
    end
    local known = scene.model[key(doc._id, doc._routing)]
    local fits = false
    for _, state in ipairs(known and known.states or {}) do fits = fits or state == doc.state end
    if not fits then
      return ("%s (routing %s) has the state %s, but was left as %s"):format(doc._id, doc._routing, doc.state,
        known and mortise.format(known.states) or "nothing")
    end
    seen[key(doc._id, doc._routing)] = true
    ::continue::
  end
  for name, state in pairs(wanted) do
    if copies[name] ~= state then return ("of %s %s was made, not %s"):format(name, copies[name], state) end
  end
  for name, state in pairs(copies) do
    if not wanted[name] then return ("what was made of %s is left over: %s"):format(name, state) end
  end
  for name, known in pairs(scene.model) do
    local may_lack = false
    for _, state in ipairs(known.states) do may_lack = may_lack or state == false end
    if not seen[name] and not may_lack then
      return ("%s (routing %s) is lost: %s"):format(known.id, known.routing, mortise.format(known.states))
    end
  end
end

-- Documents whose state ends with an even digit are two in the new index.
local split = [[
  return function(doc)
    if not doc.state:find "[02468]$" then return end
    return {{_id = doc._id, _source = doc}, {_id = "copy-" .. doc._id, _source = {of = doc.state}}}
  end]]

local function words_of(scene)
  local settings = program.write(('{"number_of_shards":%d}'):format(scene.new_shards), ".json")
  if scene.settings then os.remove(scene.settings) end
  scene.settings = settings
  local words = {"migrate", scene.from, scene.to, "--alias", scene.alias, "--id", "m", "--settings", settings,
    "--rate", math.random(2) == 1 and "100000" or "2000"}
  if scene.follows then words[#words + 1] = "--keep-old-in-step" end
  if scene.splits then
    scene.change = scene.change or program.write(split, ".lua")
    table.move({"--change", scene.change, "--resume"}, 1, 3, #words + 1, words)
  end
  return words
end

local function alias_names(scene)
  local text = scene.client:_open_core():aliases(scene.alias)
  return text:match '^{"([^"]+)"'
end

local function find(scene)
  local found, m = pcall(scene.client.get_job, scene.client, "m")
  return found and m or nil
end

-- Begins one that keeps the old index in step, or goes on with it, and ends its following after a while, by
-- the death that it was given or a cancel. -> status, text, and did it follow?
local function follow_once(scene, words, die_at)
  local over, status, text = false, nil, nil
  local task = mortise.spawn(function()
    status, text = run(scene, words, die_at)
    over = true
  end)
  local function phase()
    local m = find(scene)
    local record = m and m:status()
    return record and record.work and record.work.phase
  end
  while not over and phase() ~= "following" do mortise.sleep(0.02) end
  if not over then
    mortise.sleep(math.random() * 1.5)
    pcall(function() find(scene):cancel() end)
  end
  task:join()
  return status, text, phase() == "following"
end

local function is_unborn(text)
  return text:find "there is no job" or text:find "never began" or text:find "had not begun"
end

-- -> what went wrong, or nil
local function play_following(scene, die_at)
  local words, follows, status, text = words_of(scene), false, nil, nil
  for n = 1, 20 do
    status, text, follows = follow_once(scene, words, n <= 3 and die_at or 0)
    if follows and math.random(3) > 1 then break end
    if n == 4 then end_faults(scene) end
    if not follows and not has_died(status, scene) and not is_unborn(text) then
      return ("status %d: %s"):format(status, text)
    end
    words = (is_unborn(text) or not find(scene)) and words_of(scene) or {"jobs", "resume", "m"}
    die_at = math.random(2) == 1 and math.random(600) or 0
  end
  if not follows then return "it never followed: " .. text end
  local last = math.random(4) > 1 and {"jobs", "rollback", "m"} or {"jobs", "finish", "m"}
  for n = 1, 4 do
    status, text = run(scene, last, n <= 3 and math.random(2) == 1 and math.random(400) or 0)
    if not has_died(status, scene) then break end
    if n == 2 then end_faults(scene) end
  end
  scene.said = text
  if status ~= 0 then return ("%s: status %d: %s"):format(last[2], status, text) end
end

-- -> what went wrong, or nil
local function play(scene, die_at)
  local goes_back = math.random(5) == 1
  local status, text = run(scene, words_of(scene), die_at)
  local tries = 0
  while has_died(status, scene) and tries < 8 do
    tries = tries + 1
    if tries == 4 then end_faults(scene) end
    local again = tries < 3 and math.random(2) == 1 and math.random(300) or 0
    if goes_back then
      status, text = run(scene, {"jobs", "rollback", "m", "--others", "1000000"}, again)
    else
      status, text = run(scene, scene.splits and words_of(scene) or {"jobs", "resume", "m"}, again)
    end
    if is_unborn(text) then -- it was not born
      status, text = run(scene, words_of(scene))
    end
  end
  scene.said = text
  if status ~= 0 then return ("status %d: %s"):format(status, text) end
end

local function close(scene)
  os.remove(scene.settings)
  if scene.change then os.remove(scene.change) end
  for _, index in ipairs {scene.from, scene.to} do pcall(scene.client.drop_index, scene.client, index) end
  scene.client:close()
end

local function round(store, n, moments)
  local scene = make_scene(store, n)
  local writers = start_writers(scene)
  begin_faults(scene, n)
  scene.faulty = scene.proxy ~= nil
  local die_at = moments and math.random(moments) or 0
  local why = (scene.follows and play_following or play)(scene, die_at)
  end_faults(scene)
  local index = alias_names(scene)
  if not why then mortise.sleep(0.1) end -- written to afterwards, too
  scene.over = true
  for _, writer in ipairs(writers) do writer:join() end
  why = why or difference(scene, index)
  local about = ("round %d, killed at %d, %d documents, %d writes, %d refused, alias at %s"):format(n, die_at,
    scene.documents, scene.acknowledged, scene.refused, (index == scene.to and "the new index"
      or "the old one") .. (scene.follows and ", kept in step" or scene.splits and ", some split" or "")
      .. (scene.faulty and (", %d faults on the way"):format(scene.faults) or ""))
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
