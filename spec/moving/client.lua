-- client.lua INDEX WHO CLIENTS DOCUMENTS SEED FILE STOP: renames files of its own (each CLIENTS-th document), one
-- at a time, under locks on the old path and the new one, until the file STOP is there. Each rename that was
-- acknowledged is a line of FILE: the document's number, and the name that it has got.
local index, file, stop = ..., select(6, ...)
local who, clients, documents, seed = table.unpack({select(2, ...)}, 1, 4)
for i, name in ipairs {"who", "clients", "documents", "seed"} do
  assert(math.tointeger(({who, clients, documents, seed})[i] + 0), name)
end
who, clients, documents = who + 0, clients + 0, documents + 0
math.randomseed(seed + who)

local out = assert(io.open(file, "w"))
local client = mortise.connect {wait = "200ms"}
local count = 0

local function stopped()
  local handle = io.open(stop)
  return handle and handle:close()
end

local function rename_one(number)
  local id = "d" .. number
  local before = client:get(index, id)
  local folder, name = before.path:match "^(.*/)(.-)$"
  local to = ("%s%s-%d-%d"):format(folder, name:match "^[^-]*", who, count + 1)
  local lock <close> = client:acquire {tree = {before.path, to}}
  local now = client:get(index, id)
  if now.path ~= before.path then return end -- its directory was renamed meanwhile
  now.path = to
  lock:index(index, now)
  count = count + 1
  out:write(number, " ", to:match "[^/]*$", "\n")
  out:flush()
end

while not stopped() do
  local number = who + clients * math.random(0, (documents - who) // clients)
  local good, why = pcall(rename_one, number)
  local waits = not good and why.code
  if waits and waits ~= "lock_timeout" and waits ~= "orphaned_job" and waits ~= "unavailable" and waits ~= "lock_lost" then
    error(why)
  end
  if waits then mortise.sleep(0.05) end
end
