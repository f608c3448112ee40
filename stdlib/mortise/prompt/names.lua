-- The names of what there is in the store, for completion: indices, jobs, locked paths. They are asked for
-- when they are needed, by a client that waits for no answer longer than a moment, and kept for a while;
-- those that were typed are known besides. Nothing is raised here: who cannot be asked has no names.
local core = require "mortise.core"

local names = {}

local answer_ms, kept_ms = 200, 5000
local most = 1000
local typed, known = {}, {} -- {[kind] = {[name] = true}}; {[kind] = {at=, list=}}

-- The client that asks; no other's time-outs, waits and locks are touched by it.
local function connect()
  return require("mortise").connect {
    timeout = answer_ms / 1000, connect_timeout = answer_ms / 1000, wait = 0,
  }
end

local read = {}

function read.index(client, add)
  if client:_is_embedded() then return end
  local status, text = client:raw("GET", "/_cat/indices?h=index&s=index&expand_wildcards=open")
  if status == 200 then
    for name in text:gmatch "[^ \n]+" do add(name) end
  end
  status, text = client:raw("GET", "/_cat/aliases?h=alias&s=alias")
  if status ~= 200 then return end
  for name in text:gmatch "[^ \n]+" do add(name) end
end

function read.job(client, add)
  local index = client:_open_core():jobs_index()
  client:refresh(index)
  local query = {bool = {filter = {{term = {kind = "job"}}, {term = {ns = client:namespace()}}}}}
  for view in client:scan(index, {query = query, page = most}) do
    if not add(view._id:sub(#client:namespace() + 2)) then return end
  end
end

function read.path(client, add)
  local list <close> = client:_open_core():list {
    kind = "locks", ns = client:namespace(), unsorted = true, page = most,
  }
  for _, each in ipairs(core.json_decode(list:next() or "[]")) do
    if each.path ~= "/" then add(each.path) end
  end
end

function read.session(client, add)
  local list <close> = client:_open_core():list {
    kind = "sessions", ns = client:namespace(), unsorted = true, page = most,
  }
  for _, each in ipairs(core.json_decode(list:next() or "[]")) do
    if type(each.session) == "string" then add(each.session:sub(1, 8)) end
  end
end

-- Adds what a first question has found before a second one fails.
local function ask(kind)
  local list, seen, until_ms = {}, {}, core.now_ms() + answer_ms
  pcall(function()
    local client <close> = connect()
    read[kind](client, function(name)
      if type(name) == "string" and not seen[name] then list[#list + 1] = name end
      seen[name] = true
      return #list < most and core.now_ms() < until_ms
    end)
  end)
  return list
end

function names.is_kind(kind) return read[kind] ~= nil end

-- Those of a list that begin so, in its order.
function names.starting(list, beginning)
  local found = {}
  for _, name in ipairs(list) do
    if name:sub(1, #beginning) == beginning then found[#found + 1] = name end
  end
  return found
end

-- Those of a kind ("index", "job", "path", "session") that begin with `beginning`, sorted.
function names.beginning(kind, beginning)
  local have = known[kind]
  if not have or core.now_ms() - have.at > kept_ms then
    have = {list = ask(kind)} -- none where no store is named
    have.at = core.now_ms()
    known[kind] = have
  end
  local list, seen = {}, {}
  local function see(name)
    if not seen[name] and name:sub(1, #beginning) == beginning then list[#list + 1] = name end
    seen[name] = true
  end
  for _, name in ipairs(have.list) do see(name) end
  for name in pairs(typed[kind] or {}) do see(name) end
  table.sort(list, core.before)
  return list
end

-- Learns from a statement that was run: the names of indices in it.
function names.learn(statement)
  typed.index = typed.index or {}
  for name in statement:gmatch "[.:][a-z_]+[ \t]*%(?[ \t]*[\"']([0-9a-z_.-]+)[\"'][ \t]*[,)]" do
    typed.index[name] = true
  end
  for name in statement:gmatch "index[ \t]*=[ \t]*[\"']([0-9a-z_.-]+)[\"']" do typed.index[name] = true end
end

-- What was asked before is not believed any longer.
function names.forget() known = {} end

return names
