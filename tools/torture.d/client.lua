-- client.lua FILE WHO END SEED TASKS INDEX: a client of tools/torture. Until END (microseconds of
-- `truetime`) it takes and gives back locks of every shape in several tasks, writes documents under
-- them, and records all of it in FILE.
--
-- The name of a document says which lock guards it: "a-x-17" is guarded by /a/x. Its `log` has an entry
-- "W:FENCE" for each write, so that the documents show at the end which writes were applied, and in which
-- order. The number changes with the time, so that no log grows without end.
local core = require "mortise.core"
local now = require "truetime"

local file, who, ends, seed, tasks, index = ...
math.randomseed(math.tointeger(tonumber(seed)))
ends, tasks = math.tointeger(tonumber(ends)), math.tointeger(tonumber(tasks))
local recorder = dofile "spec/history/record.lua" (file, who, now)
local client = mortise.connect {}
local random = math.random

local log_us = 10000000 -- for how long a document is written to

-- ---- What to lock --------------------------------------------------------------------------------

local tops, leaves, deep = {"/a", "/b", "/c", "/d"}, {}, {}
for _, a in ipairs(tops) do
  for _, b in ipairs {"/x", "/y", "/z"} do
    leaves[#leaves + 1] = a .. b
    table.move({a .. b, a .. b .. "/1"}, 1, 2, #deep + 1, deep)
  end
end

local function is_inside(path, above)
  return above == "/" or path == above or path:sub(1, #above + 1) == above .. "/"
end

-- The guards that lie wholly below these locks.
local function guards_of(locks, all)
  local list = {}
  for _, guard in ipairs(all) do
    for _, lock in ipairs(locks) do
      if lock[2] == "X" and is_inside(guard, lock[1]) then
        list[#list + 1] = guard
        break
      end
    end
  end
  return list
end

-- Each function returns a request for client:acquire, its locks as {{PATH, MODE}, ...}, and the guards
-- whose documents it may write.
local shapes = {}

local modes = {exclusive = "X", shared = "S", SIX = "SIX"}

local function tree(list)
  local mode = ({"exclusive", "exclusive", "exclusive", "shared", "shared", "SIX"})[random(6)]
  local locks = {}
  for i, path in ipairs(list) do locks[i] = {path, modes[mode]} end
  return {tree = list, mode = mode}, locks, guards_of(locks, leaves)
end

-- The root is locked seldom, because that stops everybody.
local function any_tree()
  local r = random()
  if r < 0.04 then return "/" end
  local list = r < 0.25 and tops or deep
  return list[random(#list)]
end

function shapes.tree() return tree {any_tree()} end

function shapes.paths()
  local list, seen = {}, {}
  for _ = 1, random(2, 3) do
    local path = any_tree()
    if not seen[path] then list[#list + 1], seen[path] = path, true end
  end
  return tree(list)
end

function shapes.documents()
  local ids, locks, guards = {}, {}, {}
  for i = 1, 4 do
    if random(2) == 1 or i == 4 and #ids == 0 then
      ids[#ids + 1] = "d" .. i
      locks[#locks + 1] = {("/_doc/%s/d%d"):format(index, i), "X"}
      guards[#guards + 1] = "/d" .. i
    end
  end
  return {document = index, ids = ids}, locks, guards
end

function shapes.named()
  local name = "n" .. random(2)
  return {named = {"torture", name}}, {{"/_named/torture/" .. name, "X"}}, {"/" .. name}
end

local names = {"tree", "tree", "tree", "tree", "paths", "paths", "documents", "documents", "named"}
local waits = {0, "50ms", "300ms", "1s", "3s", "8s"}

-- ---- Writing -------------------------------------------------------------------------------------

local count = 0

-- Some documents carry the fence of the lock under which they were written last, if this program can do
-- that.
local can_stamp

local function writer_of(lock, guard)
  if can_stamp == false or guard:byte(-1) % 2 == 1 then return lock:bulk(index) end
  local ok, writer = pcall(lock.bulk, lock, index, {strength = "stamp"})
  if ok then
    can_stamp = true
    return writer
  end
  local code = recorder.code_of(writer)
  if can_stamp or code ~= "invalid_argument" and code ~= "unsupported" then error(writer, 0) end
  can_stamp = false
  return lock:bulk(index)
end

local function see_stamp(task, id, view)
  local stamp = view.mortise_stamp
  if stamp then recorder:say(now(), task, "stamp", nil, {doc = id, fence = ("%d"):format(stamp.fence)}) end
end

local function append(hold, guard, id, w)
  local entry = ("%s:%d"):format(w, hold.lock.fence)
  local view = client:get(index, id)
  if view then see_stamp(hold.task, id, view) end
  local writer <close> = writer_of(hold.lock, guard)
  if view and random(2) == 1 then -- it does not say which version it has read
    writer:index(id, {key = id, log = view.log .. " " .. entry})
  elseif view then
    view.log = view.log .. " " .. entry
    writer:save(view)
  else
    writer:create(id, {key = id, log = entry})
  end
  local report = writer:finish {partial = true}
  if report.applied + report.already == 1 then return "ok" end
  return "fail", report.conflict == 1 and "conflict" or "rejected"
end

local function write(hold, guards)
  count = count + 1
  local guard = guards[random(#guards)]
  local id = ("%s-%d"):format(guard:sub(2):gsub("/", "-"), now() // log_us)
  local w = ("%s.w%d"):format(who, count)
  recorder:write(hold, w, id, function() return append(hold, guard, id, w) end)
end

-- ---- Holding -------------------------------------------------------------------------------------

-- The loss of a lock raises an error in whatever code is running.
local function while_held(hold, fn)
  local ok, why = pcall(fn)
  if ok then return end
  local code = recorder.code_of(why)
  if code == "lock_lost" then recorder:lost(hold) elseif code ~= "unavailable" then error(why, 0) end
end

local others = {shared = {"SIX", "exclusive"}, SIX = {"exclusive", "shared"}, exclusive = {"shared", "SIX"}}

local function other_mode(hold, request)
  local from = hold.lock.mode
  local to = others[from][random(2)]
  if not request.tree then return end
  local locks = {} -- the lock does not list a path that lies below another one in X
  for i, path in ipairs(hold.lock.paths) do locks[i] = {path, modes[to]} end
  local down = from == "exclusive" or from == "SIX" and to == "shared"
  if down then
    recorder:convert(hold, "downgrade", {mode = to}, locks)
  else
    recorder:convert(hold, "upgrade", {mode = to, wait = "300ms"}, locks)
  end
end

local take

local function use(hold, request, guards, depth)
  for _ = 1, random(4) do
    local what = random()
    if what < 0.5 and guards[1] and hold.lock.mode == "exclusive" and not hold.nested then
      write(hold, guards)
    elseif what < 0.6 and depth == 0 then
      hold.nested = true -- writes under the inner lock have larger fences
      take(hold.task, depth + 1)
    elseif what < 0.7 and depth == 0 and not hold.nested then
      other_mode(hold, request)
    else
      core.sleep(random(0, 30))
    end
    recorder:sure(hold)
  end
  if random(60) == 1 then core.sleep(random(500, 2500)) end
  recorder:sure(hold)
end

-- These errors are expected. Any other error ends the client.
local passing = {lock_timeout = true, lock_lost = true, unavailable = true, deadlock = true}

function take(task, depth)
  local request, locks, guards = shapes[names[random(#names)]]()
  request.wait = depth > 0 and "300ms" or waits[random(#waits)]
  local hold, code, why = recorder:acquire(task, client, request, locks)
  if not hold then
    if not passing[code] then error(why, 0) end
    if code == "unavailable" then core.sleep(random(50, 300)) end
    return
  end
  while_held(hold, function() use(hold, request, guards, depth) end)
  recorder:release(hold)
end

-- ---- All -----------------------------------------------------------------------------------------

local list = {}
for i = 1, tasks do
  list[i] = mortise.spawn(function()
    while now() < ends do
      -- The loss of a lock may raise an error anywhere in here.
      local ok, why = pcall(take, i, 0)
      if not ok and not passing[recorder.code_of(why)] then error(why, 0) end
      core.sleep(random(0, 20))
    end
  end)
end
for _, task in ipairs(list) do task:join() end
recorder:close()
