-- Writing into the lock table what no client of it would write.
local mortise = require "mortise"

local tables = {}

local function hex(text)
  return (text:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

-- A text as SQL, whatever its bytes.
function tables.text(text) return ("cast(x'%s' as text)"):format(hex(text)) end

-- An embedded store's file; nil: it is a server.
local function file_of(store) return store.store:match "^sqlite:(.*)" end

-- Runs SQL on an embedded store's lock table.
function tables.sql(store, statement)
  local command = "sqlite3 -bail -cmd '.timeout 10000' '%s-locks' >/dev/null"
  local pipe = assert(io.popen(command:format(file_of(store)), "w"))
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

-- One lock with these entries (raw JSON, or tables) in the namespace. For an embedded store's holders a table
-- gives the row: {session=, n=, mode=, since=, job=}, with SQL expressions where given; a waiter there
-- precedes all that come later.
function tables.lock(store, client, path, holders, queue)
  local ns = client:namespace()
  if not file_of(store) then
    return tables.put(client, ns .. ":" .. path, ('{"kind":"lock","path":%s,"holders":%s,"queue":%s}'):format(
      mortise.json(path), holders or "[]", queue or "[]"))
  end
  local lines = {("INSERT OR REPLACE INTO locks VALUES('%s', %s, 50);"):format(ns, tables.text(path))}
  for _, e in ipairs(holders or {}) do
    lines[#lines + 1] = ("INSERT INTO holders VALUES('%s', %s, %s, %s, %s, %s, %s);"):format(ns,
      tables.text(path), e.session or tables.text(tables.other), e.n or 1, e.mode or tables.modes.X,
      e.since or 1700000000000, e.job or "''")
  end
  for _, e in ipairs(queue or {}) do
    lines[#lines + 1] = ("INSERT INTO queue VALUES('%s', %s, %s, %s, %s, %s, %s, 0);"):format(ns,
      tables.text(path), e.session or tables.text(tables.other), e.n or 1, e.mode or tables.modes.X,
      e["until"] or 9000000000000, e.job or "''")
  end
  tables.sql(store, table.concat(lines, "\n"))
end

tables.other = ("ab"):rep(16) -- a session that others have made

-- Its document. `given`: of a server, raw JSON of its members; of an embedded store, SQL of its columns.
function tables.session(store, client, given)
  local ns = client:namespace()
  if not file_of(store) then
    local parts = {}
    for name, sound in pairs {kind = '"session"', owner = '{"host":"h","pid":1}', lease_ms = "60000",
      state = '"live"', opened = "1700000000000", beat_at = "1700000000000", waiting = "[]"} do
      parts[#parts + 1] = ('"%s":%s'):format(name, given[name] or sound)
    end
    return tables.put(client, ns .. ":@" .. tables.other, "{" .. table.concat(parts, ",") .. "}")
  end
  local row = "INSERT OR REPLACE INTO sessions VALUES('%s', '%s', %s, %s, %s, %s, %s, %s, 51);"
  tables.sql(store, row:format(ns, tables.other, given.state or 1, given.owner or [['{"host":"h","pid":1}']],
    given.lease_ms or 60000,
    given.opened or 1700000000000, given.beat_at or 1700000000000, given.waiting or "'[]'"))
end

-- A hold of this session on this path.
function tables.hold(store, client, path, session)
  if file_of(store) then
    tables.lock(store, client, path, {{session = tables.text(session)}})
  else
    tables.lock(store, client, path, mortise.json {{session = session, n = 1, mode = "X", since = 1}})
  end
end

return tables
