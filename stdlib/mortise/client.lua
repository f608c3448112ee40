-- A client: one store, one session. Made by mortise.connect.
local argument = require "mortise.argument"
local core = require "mortise.core"
local documents = require "mortise.documents"
local errors = require "mortise.errors"
local lock = require "mortise.lock"
local locks = require "mortise.locks"
local losses = require "mortise.losses"
local namespaces = require "mortise.namespaces"
local settings = require "mortise.settings"
local warn = require "mortise.warn"
local writer = require "mortise.writer"

local Client = {__name = "mortise.client"}
Client.__index = Client

local client = {class = Client}

for _, methods in ipairs {documents, locks} do
  for name, method in pairs(methods) do Client[name] = method end
end

-- All that were opened and are still known, for the end of the program.
local all = setmetatable({}, {__mode = "k"})

-- What is wrong with an option begins with its name in the core; here that becomes what somebody wrote.
local function open_core(core_options, written)
  local ok, result = pcall(core.open, core_options)
  if ok then return result end
  if errors.code(result) == "invalid_argument" then
    local member, rest = result.message:match "^([a-z_]+)([ :].*)$"
    if written[member] then errors.bad("%s%s", written[member], rest) end
  end
  error(result, 0)
end

-- `core_options` are core.open's, `written` what somebody wrote for each that is there, by the same names.
function client.open(core_options, written)
  local self = setmetatable({
    _core = open_core(core_options, written),
    _table = core_options.table or settings.by_name.table.default_value,
    _locks = setmetatable({}, {__mode = "k"}),
  }, Client)
  all[self] = true
  return self
end

-- What the bindings know it by; raises when it is closed.
function Client:_open_core()
  return self._core or errors.bad("the client is closed")
end

-- The same, for taking a lock.
function Client:_lock_core()
  local own = self:_open_core()
  if not self._told then
    self._told = true
    namespaces.tell(own, self._table)
  end
  return self:_open_core()
end

-- Ends the writers of these clients, gives back their locks and closes their sessions. `why`: the
-- error on the way, or nil. -> the error that comes of it, or nil. What fails ends with its lease.
local function end_all(clients, why)
  local writers, held = {}, {}
  for _, each in ipairs(clients) do
    for own in pairs(each._locks) do
      held[#held + 1] = own
      for w in pairs(own._writers) do writers[w] = true end
    end
  end
  why = writer.end_all(writers, why)
  for _, own in ipairs(held) do lock.forget(own) end
  for _, each in ipairs(clients) do
    local own = each._core
    each._core, all[each] = nil, nil
    if own then
      local ok, failure = pcall(own.close, own)
      if not ok then why = losses.join(why, failure) end
    end
  end
  return why
end

local kept

-- The locks that are held stay until end_all, also where nothing refers to them any more.
function client.hold()
  kept = {}
  for each in pairs(all) do
    for own in pairs(each._locks) do kept[#kept + 1] = own end
  end
end

-- What a program's end does: all clients that are known. As end_all.
function client.end_all(why)
  local list = {}
  for each in pairs(all) do list[#list + 1] = each end
  why = end_all(list, why)
  kept = nil
  return why
end

-- The same where nobody is left to whom it could be raised: the end of a host.
function client.end_quietly()
  local why = client.end_all()
  if why ~= nil then warn("%s", core.tostring(why)) end
end

-- Finishes the writers of its locks, gives back every lock and closes the session; again is fine.
-- Raises what finishing raises.
function Client:close()
  local why = end_all {self}
  if why ~= nil then error(why, 0) end
end

-- An error on the way out is not hidden by one of closing.
function Client:__close(why)
  local _, failure = pcall(end_all, {self}, why)
  if why == nil and failure ~= nil then error(failure, 0) end
end

function Client:url()
  return self:_open_core():url()
end

-- Creates the lock tables where they are missing. -> {epoch, created, text}; with `print` only the
-- text: the requests and the least role.
function Client:init(print)
  return core.object(self:_open_core():init(print or false))
end

-- The namespace of its locks.
function Client:namespace()
  return self:_open_core():namespace()
end

-- Goes through locks or sessions, page by page, as bindings/lua_list.c says: `for lock, list in
-- client:_each {kind = "locks", path = "/a"} do`. The list is ended with the loop.
function Client:_each(filter)
  local list = self:_open_core():list(filter)
  local page, at = {}, 0
  local function next_one()
    at = at + 1
    while not page[at] do
      local text = list:next()
      if not text then return nil end
      page, at = core.json_decode(text), 1
    end
    return page[at], list
  end
  return next_one, nil, nil, list
end

-- The locks of this namespace, or of all, and the sessions that stand: {locks = {...}, sessions =
-- {...}}. For few; `_each` holds one page at a time.
function Client:list(every_namespace)
  local found = core.object {locks = core.array {}, sessions = core.array {}}
  for kind, into in pairs(found) do
    local ns = not every_namespace and self:namespace() or nil
    for each in self:_each {kind = kind, ns = ns} do into[#into + 1] = each end
  end
  return found
end

-- For `for`: the list in parts, as many at a time as a page has.
local function parts(list)
  local last = 0
  return function()
    if last >= #list then return nil end
    local first = last + 1
    last = math.min(last + core.list_page, #list)
    return table.move(list, first, last, 1, {})
  end
end

-- The locks at these paths, those that are there, as they are at this moment.
function Client:_read_locks(paths, namespace)
  local found = {}
  for part in parts(paths) do
    local text = self:_open_core():read_locks(namespace or self:namespace(), part)
    for _, each in ipairs(core.json_decode(text)) do found[#found + 1] = each end
  end
  return found
end

-- {[id] = session} of those that are there, as they are at this moment.
function Client:_read_sessions(ids, namespace)
  local found = {}
  for part in parts(ids) do
    for _, each in ipairs(self:_open_core():read_sessions(namespace or self:namespace(), part)) do
      each.owner = each.owner and core.json_decode(each.owner)
      each.waiting = each.waiting and core.json_decode(each.waiting)
      found[each.session] = each
    end
  end
  return found
end

-- Ends a session and its locks against its owner's will, see bindings/lua_break.c. -> a breaking
function Client:_break_session(id)
  return self:_open_core():break_session(argument.name("_break_session", "id", id))
end

-- Removes what is damaged at a path, see there. -> a breaking
function Client:_clear_damaged(path)
  return self:_open_core():clear_damaged(argument.name("_clear_damaged", "path", path))
end

function Client:verify() return core.object(self:_open_core():verify()) end
function Client:stats() return core.object(self:_open_core():stats()) end
function Client:session()
  local session = self:_open_core():session()
  return session and core.object(session)
end

function Client:__tostring()
  return self._core and "client of " .. self._core:url() or "client (closed)"
end

return client
