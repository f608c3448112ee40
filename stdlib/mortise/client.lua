-- A client: one store, one session. Made by mortise.connect.
local argument = require "mortise.argument"
local audit = require "mortise.audit"
local core = require "mortise.core"
local documents = require "mortise.documents"
local errors = require "mortise.errors"
local lock = require "mortise.lock"
local locks = require "mortise.locks"
local losses = require "mortise.losses"
local metrics = require "mortise.metrics"
local namespaces = require "mortise.namespaces"
local options = require "mortise.options"
local settings = require "mortise.settings"
local stripes = require "mortise.stripes"
local warn = require "mortise.warn"
local writer = require "mortise.writer"

local records = require("mortise.later") "mortise.records"

local Client = {__name = "mortise.client"}
Client.__index = Client

local client = {class = Client}

for _, methods in ipairs {documents, locks} do
  for name, method in pairs(methods) do Client[name] = method end
end

-- All clients that were opened and are still referenced, for the end of the program.
local all = setmetatable({}, {__mode = "k"})

function metrics.each_client(see)
  for each in pairs(all) do
    local held = {}
    for own in pairs(each._locks) do held[#held + 1] = own end
    if each._core then see(each._core, held) end
  end
end

-- The core's error about an option begins with its member's name; replaces that by what the user wrote.
local function open_core(core_options, written)
  local ok, result = pcall(core.open, core_options)
  if ok then return result end
  if errors.code(result) == "invalid_argument" then
    local member, rest = result.message:match "^([a-z_]+)([ :].*)$"
    if written[member] then errors.bad("%s%s", written[member], rest) end
  end
  error(result, 0)
end

-- `core_options` are for core.open; `written` has, by the same names, where the user set each.
function client.open(core_options, written)
  local self = setmetatable({
    _core = open_core(core_options, written),
    _table = core_options.table or settings.by_name.table.default_value,
    _locks = setmetatable({}, {__mode = "k"}),
  }, Client)
  all[self] = true
  return self
end

-- The client of the bindings; raises an error if it is closed.
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

-- Ends the writers of these clients, releases their locks and closes their sessions. `why`: the error being
-- raised, or nil. -> the error to raise, or nil. What fails to be released ends with its lease.
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
      metrics.ended(own)
      local ok, failure = pcall(own.close, own)
      if not ok then why = losses.join(why, failure) end
    end
  end
  return why
end

local kept

-- Keeps all held locks until end_all, even if nothing refers to them any more.
function client.hold()
  kept = {}
  for each in pairs(all) do
    for own in pairs(each._locks) do kept[#kept + 1] = own end
  end
end

-- At the end of a program: end_all for all known clients.
function client.end_all(why)
  local list = {}
  for each in pairs(all) do list[#list + 1] = each end
  why = end_all(list, why)
  kept = nil
  metrics.write()
  return why
end

-- What is open now, for client.end_since.
function client.mark()
  local mark = {}
  for each in pairs(all) do
    mark[each] = true
    for own in pairs(each._locks) do mark[own] = true end
  end
  return mark
end

-- At the end of a script that is not the program's end: end_all for the clients that were opened since the
-- mark, and gives back the locks that the others have taken since.
function client.end_since(mark, why)
  local list = {}
  for each in pairs(all) do
    if not mark[each] then list[#list + 1] = each end
    for own in pairs(mark[each] and each._locks or {}) do
      local ok, failure = true, nil
      if not mark[own] then ok, failure = pcall(own.release, own) end
      if not ok then why = losses.join(why, failure) end
    end
  end
  return end_all(list, why)
end

-- client.end_all for the end of a host, where an error can only be logged.
function client.end_quietly()
  local why = client.end_all()
  if why ~= nil then warn("%s", core.tostring(why)) end
end

-- Finishes the writers of its locks, releases every lock and closes the session; may be called again. Raises
-- what finishing raises.
function Client:close()
  local why = end_all {self}
  if why ~= nil then error(why, 0) end
end

-- An error of closing does not hide the error that left the block.
function Client:__close(why)
  local _, failure = pcall(end_all, {self}, why)
  if why == nil and failure ~= nil then error(failure, 0) end
end

function Client:url()
  return self:_open_core():url()
end

function Client:_is_embedded() return self:url():find "^sqlite:" ~= nil end

local jobs_text = [[

# The index of jobs and their journals, which it makes too.
PUT /%s
%s
]]

local init_rows = {
  {name = "print", type = "boolean", help = "true: send nothing, give the requests as text"},
  stripes.row,
}
options.register({"init"}, init_rows)

-- Creates the lock tables and the index of jobs where they are missing. -> {epoch, stripes, created, text};
-- with `print` only the text: the requests and the minimal role.
function Client:init(given)
  local wanted = options.check("init", init_rows, given)
  local own = self:_open_core()
  local result = core.object(own:init(wanted))
  if result.created then audit(self, "made the lock tables, with epoch %s", result.epoch) end
  if wanted.print then
    result.text = result.text .. jobs_text:format(own:jobs_index(), core.job_table())
  else
    records.make_index(self)
  end
  return result
end

-- The namespace of its locks.
function Client:namespace()
  return self:_open_core():namespace()
end

-- Iterates over locks or sessions, page by page, with the filter of bindings/lua_list.c: `for lock, list in
-- client:_each {kind = "locks", path = "/a"} do`. The list is closed with the loop.
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

-- The locks of this namespace, or of all, and the sessions that have not ended: {locks = {...}, sessions =
-- {...}}. It keeps all in memory; `_each` only one page at a time.
function Client:list(every_namespace)
  local found = core.object {locks = core.array {}, sessions = core.array {}}
  for kind, into in pairs(found) do
    local ns = not every_namespace and self:namespace() or nil
    for each in self:_each {kind = kind, ns = ns} do into[#into + 1] = each end
  end
  return found
end

-- Iterator over the list in parts of one page each.
local function parts(list)
  local last = 0
  return function()
    if last >= #list then return nil end
    local first = last + 1
    last = math.min(last + core.list_page, #list)
    return table.move(list, first, last, 1, {})
  end
end

-- The names of the places at these paths: of `/` and of what is directly below it there may be several.
function Client:_place_names(paths)
  local names, n = {}, math.max(self:_open_core():verify().stripes, 1)
  for _, path in ipairs(paths) do
    for _, name in ipairs(stripes.names(path, n)) do names[#names + 1] = name end
  end
  return names
end

-- The existing locks at these paths, as they are now: one for each stripe that there is.
function Client:_read_locks(paths, namespace)
  local found = {}
  for part in parts(self:_place_names(paths)) do
    local text = self:_open_core():read_locks(namespace or self:namespace(), part)
    for _, each in ipairs(core.json_decode(text)) do found[#found + 1] = each end
  end
  return found
end

-- {[id] = session} of those that exist, as they are now.
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

-- Has a server delete some documents of sessions that ended more than a week ago. -> how many; may there be
-- more? nil on an embedded store, which does it by itself.
function Client:_purge_sessions() return self:_open_core():purge_sessions() end

-- From now on this client removes at once what sessions left that it can prove dead, but for guards of jobs.
function Client:_clear_the_dead() self:_open_core():clear_the_dead() end

-- Ends a session and its locks without its owner's consent, `guards` of a job too, see bindings/lua_break.c.
-- -> a breaking
function Client:_break_session(id, guards)
  local own = self:_open_core()
  audit(self, "ends session %s and its locks%s", argument.name("_break_session", "id", id),
    guards and ", guards of jobs too" or "")
  return own:break_session(id, guards)
end

-- Removes the damaged entries at a path, see there. -> a breaking
function Client:_clear_damaged(path)
  local own = self:_open_core()
  audit(self, "clears what is damaged at %s", argument.name("_clear_damaged", "path", path))
  return own:clear_damaged(path)
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
