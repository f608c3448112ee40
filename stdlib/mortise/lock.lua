-- A held lock. `lock.fence` grows with every grant, within one `lock.epoch` of the lock table; `lock.paths`
-- are the requested paths, `lock.modes` the mode of each in the literature's terms, `lock.mode` is
-- "exclusive", "shared" or "SIX", and `lock.ids` are a document lock's ids.
local core = require "mortise.core"
local argument = require "mortise.argument"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local options = require "mortise.options"
local place = require "mortise.place"
local protect = require "mortise.protect"
local scan = require "mortise.scan"
local visible = require "mortise.visible"
local warn = require "mortise.warn"
local writer = require "mortise.writer"

local Lock = {__name = "mortise.lock"}
Lock.__index = Lock

local lock = {class = Lock}

-- The modes, weakest first: each covers those before it.
lock.modes = {"shared", "SIX", "exclusive"}
local strength = {}
for i, mode in ipairs(lock.modes) do strength[mode] = i end

-- At a prompt, locks that are kept although nothing refers to them, since a lock taken in one line is meant
-- to last. nil: locks are not kept.
local kept

function lock.keep() kept = kept or {} end
function lock.keeps() return kept ~= nil end

-- The kept locks in the order in which they were taken.
function lock.kept()
  local list = {}
  for each in pairs(kept or {}) do list[#list + 1] = each end
  table.sort(list, function(a, b) return a._number < b._number end)
  return list
end

local made = 0

-- `held` is the core's lock; `request` is {mode=, ids=, nothing=}. `nothing`: there was nothing to lock, so
-- it only has a fence and a lease.
function lock.new(client, held, request)
  made = made + 1
  local self = setmetatable({
    _client = client, _held = held, fence = held.fence, epoch = held.epoch, paths = held.paths,
    modes = held.modes,
    mode = request.mode, ids = request.ids, _nothing = request.nothing,
    _writers = {}, _place = place(), _number = made,
  }, Lock)
  client._locks[self] = true
  protect.took(self)
  if kept then kept[self] = true end
  return self
end

-- Raises lock_lost unless it is certainly held. No I/O.
function Lock:check()
  if self._released then errors.raise("lock_lost", "the lock was released: %s", core.tostring(self)) end
  self._held:check()
end

-- Seconds until it is lost if the store stops answering now.
function Lock:remaining()
  return self._released and 0.0 or self._held:remaining()
end

-- Unregisters a lock that was released or whose client was closed.
function lock.forget(self)
  self._released = true
  self._client._locks[self] = nil
  if kept then kept[self] = nil end
end

local function give_back(self, why)
  if self._released then return end
  local _ <close> = self._held -- released whatever is raised below, so that an interrupt cannot keep the lock
  lock.forget(self)
  local failure = writer.end_all(self._writers, why)
  if why == nil and failure ~= nil then error(failure, 0) end
end

-- Finishes its writers and releases it; may be called again. Raises what finishing raises. What could not be
-- released ends with the session's lease.
function Lock:release() give_back(self) end

-- Its function starts; its function has returned.
function lock.enter(self) self._inside = true end
function lock.leave(self) self._inside = nil end

-- Is this the __close of a coroutine being closed? Then there is no frame above it; if an error without a
-- value passes through, there is one, which catches it.
local function is_closed() return debug.getinfo(3, "f") == nil end

-- An error of the release does not hide the error that left the block; what the writers did not send is added
-- to it.
function Lock:__close(why)
  if why == nil and self._inside and not is_closed() then why = "an error without a value" end
  local ok, failure = pcall(give_back, self, why)
  if not ok and why == nil then error(failure, 0) end
end

local function paths_text(self)
  local shown = {}
  for i = 1, math.min(#self.paths, 3) do shown[i] = visible(self.paths[i]) end
  local text = table.concat(shown, " ")
  return #self.paths > 3 and ("%s and %d more"):format(text, #self.paths - 3) or text
end

-- The core's lock is collected with it and released by its own finalizer.
function Lock:__gc()
  if self._released then return end
  warn("%sthe lock on %s was never released; it was given back by the garbage collector",
    self._place and self._place .. ": " or "", paths_text(self))
end

-- Updates the fields even after an error, since a downgrade takes effect whatever the store answers.
local function convert(self, mode, wait)
  local ok, failure = true, nil
  if not self._nothing then
    ok, failure = pcall(self._held.convert, self._held, mode, {wait_ms = wait})
  end
  self.fence, self.paths, self.modes = self._held.fence, self._held.paths, self._held.modes
  if ok or strength[mode] < strength[self.mode] then self.mode = mode end
  if not ok then error(failure, 0) end
  return self
end

local upgrade_rows = {
  {name = "mode", type = "string", default = "exclusive", values = lock.modes, help = "SIX, or exclusive"},
  {name = "wait", type = "duration", help = "how long to wait; the client's default; 0: try once"},
}

options.register({"lock:upgrade"}, upgrade_rows)

-- Converts to a stronger mode without letting go: waits for conflicting locks and gets a new fence. If that
-- fails, the lock stays as it was. Does nothing if the lock is already that strong.
function Lock:upgrade(given)
  local o = options.check("upgrade", upgrade_rows, given)
  self:check()
  if strength[o.mode] <= strength[self.mode] then return self end
  return convert(self, o.mode, o.wait)
end

local downgrade_rows = {
  {name = "mode", type = "string", default = "shared", values = lock.modes, help = "shared, or SIX"},
}

options.register({"lock:downgrade"}, downgrade_rows)

-- Converts to a weaker mode without letting go of what that covers; locks that it no longer excludes can be
-- granted when this returns. Does nothing if the lock is already that weak.
function Lock:downgrade(given)
  local o = options.check("downgrade", downgrade_rows, given)
  self:check()
  if strength[o.mode] >= strength[self.mode] then return self end
  writer.flush_all(self._writers) -- items gathered under the stronger mode are written under it
  return convert(self, o.mode)
end

local function is_inside(path, above)
  return above == "/" or path == above or path:sub(1, #above + 1) == above .. "/"
end

-- Is this (normalised) path, with everything below it, locked exclusively?
function Lock:covers(path)
  if self.mode ~= "exclusive" or self._nothing or self._released then return false end
  for _, own in ipairs(self.paths) do
    if is_inside(path, own) then return true end
  end
  return false
end

-- The writer bound to the lock; see mortise.writer.
function Lock:bulk(index, given)
  argument.name("bulk", "index", index)
  self:check()
  return writer.open(self, index, given)
end

-- Scans every matching document, including all that was acknowledged before: refreshes, then scans, and
-- checks the lock before each page. Options as for client:scan.
function Lock:scan(index, given)
  argument.name("scan", "index", index)
  self:check()
  self._client:refresh(index)
  return scan.open(self._client, index, given, function() self:check() end)
end

function Lock:__tostring()
  local left = self:remaining()
  local state = self._released and "released" or left <= 0 and "lost"
    or "held, " .. duration.text(left * 1000) .. " left"
  return ("%s lock on %s (%s)"):format(self.mode, paths_text(self), state)
end

return lock
