-- Writing into the lock table what no client of it would write.
local mortise = require "mortise"

local tables = {}

local function hex(text)
  return (text:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

-- A text as SQL, whatever its bytes.
function tables.text(text) return ("cast(x'%s' as text)"):format(hex(text)) end

local function file_of(store) return store.store:match "^sqlite:(.*)" end

-- Runs SQL on an embedded store's lock table.
function tables.sql(store, statement)
  local pipe = assert(io.popen(("sqlite3 -bail '%s-locks'"):format(file_of(store)), "w"))
  pipe:write(statement, "\n")
  assert(pipe:close(), statement)
end

-- Writes the document with this id, as JSON, into a server's lock table.
function tables.put(client, id, json)
  local path = id:gsub("[^%w]", function(c) return ("%%%02X"):format(c:byte()) end)
  local status, answer = client:raw("PUT", "/mortise-locks/_doc/" .. path .. "?refresh=true", json)
  assert(status < 300, answer)
end

tables.modes = {IS = 1, IX = 2, S = 3, SIX = 4, X = 5}

-- A hold of this session on this path, with all that goes with it.
function tables.hold(store, client, path, session, mode)
  local ns = client:namespace()
  if file_of(store) then
    tables.sql(store, ("INSERT OR REPLACE INTO locks VALUES('%s', %s, 50);"):format(ns, tables.text(path))
      .. ("INSERT INTO holders VALUES('%s', %s, %s, 1, %d, 1700000000000, '');"):format(ns,
        tables.text(path), tables.text(session), tables.modes[mode or "X"]))
  else
    tables.put(client, ns .. ":" .. path, mortise.json {
      kind = "lock", path = path, queue = mortise.array {}, sessions = {session},
      holders = {{session = session, n = 1, mode = mode or "X", since = 1700000000000}},
    })
  end
end

return tables
