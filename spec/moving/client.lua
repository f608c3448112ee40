-- client.lua FILE STOP INDEX WHO CLIENTS DOCUMENTS SEED: renames files of its own (each CLIENTS-th document),
-- one at a time, under locks on the old path and the new one, until the file STOP is there. FILE gets a line
-- for each rename: `try NUMBER NAME` before it is written, `did NUMBER NAME` once that is acknowledged.
local file, stop, index = ...
local who, clients, documents, seed = table.unpack(table.pack(select(4, ...)))
who, clients = math.tointeger(who), math.tointeger(clients)
documents, seed = math.tointeger(documents), math.tointeger(seed)
math.randomseed(seed + who)

local out = assert(io.open(file, "w"))
local client = mortise.connect {wait = "200ms"}
local count = 0

local function note(word, number, name)
  out:write(word, " ", number, " ", name, "\n")
  out:flush()
end

local function stopped()
  local handle = io.open(stop)
  return handle and handle:close()
end

local function rename_under(lock, number, path, folder, name)
  local doc = client:get(index, "d" .. number)
  if doc.path ~= path then return end -- its directory was renamed meanwhile
  doc.path = folder .. name
  local writer = lock:bulk(index)
  note("try", number, name)
  writer:save(doc)
  if writer:finish({partial = true}).applied == 1 then note("did", number, name) end
end

local function rename_one(number)
  local path = client:get(index, "d" .. number).path
  local folder, name = path:match "^(.*/)([^/-]*)"
  count = count + 1
  name = ("%s-%d-%d"):format(name, who, count)
  local lock <close> = client:acquire {tree = {path, folder .. name}}
  rename_under(lock, number, path, folder, name)
end

local expected = {lock_timeout = true, orphaned_job = true, unavailable = true, lock_lost = true}

while not stopped() do
  local number = who + clients * math.random(0, (documents - who - 1) // clients)
  local good, why = pcall(rename_one, number)
  if not good and not expected[why.code] then error(why) end
  if not good then mortise.sleep(0.05) end
end
