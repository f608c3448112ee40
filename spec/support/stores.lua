-- The stores that the specs run against: always an embedded one in a temporary file, and each server
-- that MORTISE_TEST_URLS names.
local mortise = require "mortise"

local stores = {}

-- Not by math.random, which specs seed.
local function random_hex()
  local handle = assert(io.open("/dev/urandom", "rb"))
  local bytes = handle:read(4)
  handle:close()
  return ("%08x"):format(string.unpack("<I4", bytes))
end

local run_id = random_hex()
local made = 0

-- A name that nobody else uses, valid for an index and a namespace.
function stores.name(what)
  made = made + 1
  return ("luaspec-%s-%s-%d"):format(what, run_id, made)
end

-- In TMPDIR: Lua knows /tmp alone.
function stores.temporary(suffix)
  local file, folder = os.tmpname(), os.getenv "TMPDIR"
  os.remove(file)
  if folder then file = folder .. "/" .. file:match "[^/]+$" end
  return file .. (suffix or "")
end

local function servers()
  local list, urls = {}, os.getenv "MORTISE_TEST_URLS"
  if not urls or urls == "" then
    print "SKIP servers: MORTISE_TEST_URLS is not set"
    return list
  end
  for url in urls:gmatch "[^,%s]+" do list[#list + 1] = {name = url, store = url} end
  return list
end

local known

-- {name=, store=} of each.
function stores.all()
  if not known then
    known = servers()
    table.insert(known, 1, {name = "sqlite", store = "sqlite:" .. stores.temporary ".db"})
  end
  return known
end

-- MORTISE_TEST_STRIPES: how many stripes its lock table gets.
local stripes = math.tointeger(tonumber(os.getenv "MORTISE_TEST_STRIPES" or ""))

-- A client with locks of its own (a fresh namespace unless one is given).
function stores.connect(store, also)
  local options = {store = store.store, namespace = stores.name "ns", wait = "5s"}
  for name, value in pairs(also or {}) do options[name] = value end
  local client = mortise.connect(options)
  if not store.ready then client:init {stripes = stripes} end
  store.ready = true
  return client
end

-- Two clients of one namespace of their own.
function stores.connect_two(store)
  local also = {namespace = stores.name "ns"}
  return stores.connect(store, also), stores.connect(store, also)
end

local function remove_files()
  for _, store in ipairs(known or {}) do
    local file = store.store:match "^sqlite:(.*)"
    if file then os.execute(("rm -f -- '%s'*"):format(file)) end
  end
end

stores.at_exit = setmetatable({}, {__gc = remove_files})

-- Takes a lock, so that the client's namespace is not a new one, of which the program warns.
function stores.use(store, client)
  client:acquire({tree = "/used"}):release()
  if not store.store:find "^sqlite:" then client:refresh "mortise-locks" end
end

-- describe(), once for each store.
function stores.each(what, fn)
  local describe = require("busted").describe
  for _, store in ipairs(stores.all()) do
    describe(what .. " on " .. store.name, function() fn(store) end)
  end
end

-- The documents {id = source, ...} in a new index with a keyword field `path`, or with these fields.
function stores.fill(client, documents, properties)
  local index = stores.name "docs"
  client:create_index(index, {mappings = {properties = properties or {path = {type = "keyword"}}}})
  local items = {}
  for id, source in pairs(documents) do items[#items + 1] = {op = "index", id = id, doc = source} end
  for _, answer in ipairs(client:bulk(index, items)) do assert(answer.result == "applied") end
  client:refresh(index)
  return index
end

-- All documents of an index: {id = source, ...}, the sources as text.
function stores.sources(client, index)
  local documents = {}
  client:refresh(index)
  for doc in client:scan(index) do documents[doc._id] = doc:_source() end
  return documents
end

return stores
