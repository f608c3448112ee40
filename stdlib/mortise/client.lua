-- A client: one store, one session. Made by mortise.connect.
local core = require "mortise.core"
local documents = require "mortise.documents"
local errors = require "mortise.errors"
local locks = require "mortise.locks"
local namespaces = require "mortise.namespaces"

local Client = {__name = "mortise.client"}
Client.__index = Client

local client = {class = Client}

for _, methods in ipairs {documents, locks} do
  for name, method in pairs(methods) do Client[name] = method end
end

-- All that were opened and are still known, for the end of the program.
local all = setmetatable({}, {__mode = "k"})

-- `core_options` are core.open's.
function client.open(core_options)
  local self = setmetatable({
    core = core.open(core_options), _namespace = core_options.ns or "default", _table = core_options.table,
  }, Client)
  all[self] = true
  return self
end

-- Gives back every lock of every client; what fails ends with its lease.
function client.close_all()
  for each in pairs(all) do pcall(each.close, each) end
end

-- What the bindings know it by; raises when it is closed.
function Client:open_core()
  return self.core or errors.bad("the client is closed")
end

-- The same, for taking a lock.
function Client:_lock_core()
  local own = self:open_core()
  if not self._told then
    self._told = true
    namespaces.tell(own, self._namespace, self._table)
  end
  return self:open_core()
end

-- Gives back every lock and closes the session; again is fine.
function Client:close()
  local own = self.core
  self.core = nil
  if own then own:close() end
end

-- An error on the way out is not hidden by one of closing.
function Client:__close(why)
  local ok, failure = pcall(self.close, self)
  if not ok and why == nil then error(failure, 0) end
end

function Client:url()
  return self:open_core():url()
end

-- Creates the lock tables where they are missing. -> {epoch, created, text}; with `print` only the
-- text: the requests and the least role.
function Client:init(print)
  return core.object(self:open_core():init(print or false))
end

-- The locks and sessions of this namespace, or of all: {locks = {...}, sessions = {...}}.
function Client:list(every_namespace)
  return core.json_decode(self:open_core():list(every_namespace or false))
end

-- Ends a session and its locks against its owner's will, see bindings/lua_break.c. -> a breaking
function Client:break_session(id) return self:open_core():break_session(id) end

function Client:verify() return core.object(self:open_core():verify()) end
function Client:stats() return core.object(self:open_core():stats()) end
function Client:session()
  local session = self:open_core():session()
  return session and core.object(session)
end

function Client:__tostring()
  return self.core and "client of " .. self.core:url() or "client (closed)"
end

return client
