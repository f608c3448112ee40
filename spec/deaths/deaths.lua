-- deaths.lua POINTS SEED [full KIND]: jobs killed by SIGKILL at each of their sends, receives and writes to
-- a file (die.c), or at so many of them, then resumed or rolled back by another process, which may be killed
-- as well; at times somebody else wants its paths before that. In the end all is new, or every source is byte
-- for byte what it was (value for value where the server has changed it by itself); a second resume writes
-- nothing; one that was not born is in nobody's way and may be run again. On the embedded store and on each
-- server of MORTISE_TEST_URLS. With `full` nobody is killed, but the disk below the embedded store is full
-- from that moment on, until others go on. Prints 'ok - ...' or 'not ok - ...' for each kind of
-- job and store.
local core = require "mortise.core"
local program = require "spec.support.program"
local records = require "mortise.records"
local stores = require "spec.support.stores"

local points, seed, full = tonumber(arg[1]), math.tointeger(tonumber(arg[2])), arg[3] == "full"
local documents = 40
local library = program.file:match "^(.*)/cli/" .. "/spec/deaths/libdie.so"
math.randomseed(seed)

-- What each makes of a source; nil: it deletes it.
local kinds = {
  rename = function(source) return (source:gsub('"/a/', '"/b/')) end,
  server = function(source) return (source:gsub('"/a/', '"/b/')) end, -- by the server itself
  join = function(source) return (source:gsub('"/a/', '"/b/')) end, -- something lies there already
  list = function(source) return (source:gsub('"n" : (%d+)', '"number" : "%1"')) end,
  ["function"] = function(source)
    local n = math.tointeger(tonumber(source:match '"n" : (%d+)'))
    return n % 8 ~= 0 and source:gsub('"n" : %d+', '"n" : ' .. n + 1000) or nil
  end,
}

local function source_of(i)
  return ('{"n" : %d , "path":"/a/%d", "e":[ ] }'):format(i, i)
end

local scene = {}
scene.__index = scene

function scene:mortise(words, die_at, count_file)
  local all = {"--store", self.store.store, "--namespace", self.namespace}
  table.move(words, 1, #words, #all + 1, all)
  return program.run(all, {env = {
    LD_PRELOAD = library, MORTISE_DIE_COUNT = count_file,
    [full and "MORTISE_FULL_AT" or "MORTISE_DIE_AT"] = tostring(die_at or 0),
  }})
end

function scene:run_job(id, die_at, count_file)
  return self:mortise({"spec/deaths/job.lua", self.kind, self.index, id}, die_at, count_file)
end

function scene:go_on(verb, id, die_at)
  local words = {"jobs", verb, id}
  if verb == "resume" and self.kind == "function" then -- which only its script has
    words = {"spec/deaths/job.lua", self.kind, self.index, id, "resume"}
  end
  return self:mortise(words, die_at)
end

-- Did a process with this status and these words end as it was meant to, or well in spite of that?
local function ended_so(status, err)
  if full and (err:find("no space is left", 1, true) or err:find("lock_timeout", 1, true)) then
    return status < 126 -- neither crashed nor cut off
  end
  return status == 0 or not full and status == 137
end

-- As they were at the beginning, to the byte.
function scene:reset()
  local items = {}
  for i = 1, documents do items[i] = {op = "index", id = "d" .. i, doc = source_of(i)} end
  if self.kind == "join" then items[#items + 1] = {op = "index", id = "there", doc = {path = "/b/there"}} end
  for _, answer in ipairs(self.client:bulk(self.index, items)) do assert(answer.result == "applied") end
  self.client:refresh(self.index)
end

function scene:look()
  local found = {}
  self.client:refresh(self.index)
  for doc in self.client:scan(self.index) do
    found[doc._id] = {source = doc:_source(), version = doc._seq_no}
  end
  return found
end

-- A server writes what it changes anew: with the same values, but not the same white space.
function scene:as_compared(source)
  if not source or self.kind ~= "server" then return source end
  local doc = core.json_decode(source)
  return ("%s %d %s %d"):format(math.type(doc.n), doc.n, doc.path, #doc.e)
end

-- What is wrong with the documents: nil, or the first that is not as `want` says.
function scene:wrong(want)
  local found = self:look()
  for i = 1, documents do
    local doc, source = found["d" .. i], want(source_of(i))
    if self:as_compared(doc and doc.source) ~= self:as_compared(source) then
      return ("d%d is %s, not %s"):format(i, doc and doc.source or "gone", source or "deleted")
    end
  end
end

local function same_versions(before, after)
  for id, doc in pairs(before) do
    if after[id].version ~= doc.version then return false end
  end
  return true
end

-- Has nothing of it begun: there is no document of it, or one that says so?
function scene:is_unborn(id)
  local record = records.get(self.client, id)
  return not record or record.spec.unborn == true
end

-- Somebody else wants its paths, and may be killed. Where it was not born, they are had, and it is run again.
-- -> nil: it goes on as it stands; how it ended; or false and why not
function scene:meet(id, die_at)
  local lock = "mortise.with_tree_lock('/', {wait = '30s'}, function() end)"
  local status, _, err = self:mortise({"-e", lock}, die_at)
  if status == 137 then status, _, err = self:mortise {"-e", lock} end
  if status ~= 0 and status ~= 6 then return false, "somebody else: " .. err end
  if not self:is_unborn(id) then return nil end
  if status == 6 then return false, "it was not born, and is in the way: " .. err end
  status, _, err = self:run_job(id)
  return status == 0 and "resume", "run again: " .. err
end

-- Goes on with it until one is not killed. -> how it ended, or nil and why not
function scene:recover(id, moments)
  local undoing = false
  if not full and math.random(2) == 1 then
    local ended, why = self:meet(id, math.random(2) == 1 and math.random(1, moments) or 0)
    if ended ~= nil then return ended or nil, why end
  end
  for deaths = math.random(0, full and 1 or 2), 0, -1 do
    local verb = (undoing or math.random() < 0.5) and "rollback" or "resume"
    local die_at = deaths > 0 and math.random(1, moments) or 0
    local status, out, err = self:go_on(verb, id, die_at)
    local unborn = out:find("had not begun", 1, true) or err:find("there is no job", 1, true)
      or err:find("never began", 1, true)
    if unborn then return self:is_unborn(id) and "nothing" or nil, "it was born after all" end
    if status == 0 then return verb end
    if not ended_so(status, err) and not err:find("cannot be resumed", 1, true) then
      return nil, verb .. ": " .. err
    end
    undoing = undoing or verb == "rollback"
  end
  local status, _, err = self:go_on(undoing and "rollback" or "resume", id)
  if err:find("never began", 1, true) then return "nothing" end
  if status == 0 then return undoing and "rollback" or "resume" end
  return nil, err
end

function scene:one_death(die_at, moments)
  self.lives = (self.lives or 0) + 1
  local id = ("%s-%d"):format(self.kind, self.lives)
  self:reset()
  local status, _, err = self:run_job(id, die_at)
  if not ended_so(status, err) then return "it ended otherwise: " .. err end
  local ended, why = self:recover(id, moments)
  if not ended then return why end
  local done = ended == "resume"
  why = self:wrong(done and kinds[self.kind] or function(source) return source end)
  if why or not done then return why and ended .. ": " .. why end
  local before = self:look()
  status, _, err = self:go_on("resume", id)
  if status ~= 0 then return "resumed again: " .. err end
  return not same_versions(before, self:look()) and "a second resume wrote something" or nil
end

-- How many moments a whole run has in which it may be killed.
function scene:count()
  local file = os.tmpname()
  self:reset()
  local status, _, err = self:run_job("whole", 0, file)
  assert(status == 0, err)
  local handle = io.open(file)
  local moments = handle:read "n"
  handle:close()
  os.remove(file)
  return math.tointeger(moments)
end

-- All of them, or so many, spread over all.
local function chosen(moments)
  local n, list = math.min(points, moments), {}
  for i = 1, n do
    local first, last = (i - 1) * moments // n + 1, i * moments // n
    list[i] = math.random(first, last)
  end
  return list
end

local function each_point(self)
  local moments = self:count()
  local list = chosen(moments)
  for _, die_at in ipairs(list) do
    local why = self:one_death(die_at, moments)
    local how = full and "full from" or "killed at"
    if why then return ("%s moment %d of %d: %s"):format(how, die_at, moments, why) end
  end
  return nil, ("%d of %d moments"):format(#list, moments)
end

local bad = false
for _, store in ipairs(full and {stores.all()[1]} or stores.all()) do
  for _, kind in ipairs(full and {arg[4]} or {"rename", "server", "join", "list", "function"}) do
    local self = setmetatable({store = store, kind = kind, namespace = stores.name "ns"}, scene)
    self.client = stores.connect(store, {namespace = self.namespace})
    self.index = stores.name "deaths"
    self.client:create_index(self.index, {mappings = {properties = {path = {type = "keyword"}}}})
    stores.use(store, self.client)
    local began = os.time()
    local ok, why, how = pcall(each_point, self)
    if not ok then how, why = nil, tostring(why) end
    bad = bad or why
    print(("%s - a %s %s, on %s: %s (%d s)"):format(why and "not ok" or "ok", kind,
      full and "whose disk is full" or "that is killed", store.name,
      why and ("%s (seed %d)"):format(why, seed) or how, os.time() - began))
    io.stdout:flush()
    self.client:drop_index(self.index)
    self.client:close()
  end
end
os.exit(not bad, true)
