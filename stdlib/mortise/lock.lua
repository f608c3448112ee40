-- A lock that is held. `lock.fence` grows with every grant; `lock.paths` are what it was asked for,
-- `lock.modes` the mode of each in the literature's terms, `lock.mode` "exclusive", "shared" or "SIX",
-- `lock.ids` a document lock's ids.
local core = require "mortise.core"
local argument = require "mortise.argument"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local options = require "mortise.options"
local place = require "mortise.place"
local scan = require "mortise.scan"
local warn = require "mortise.warn"
local writer = require "mortise.writer"

local Lock = {__name = "mortise.lock"}
Lock.__index = Lock

local lock = {class = Lock}

-- What a lock may do to those of others, weakest first: each covers those before it.
lock.modes = {"shared", "SIX", "exclusive"}
local strength = {}
for i, mode in ipairs(lock.modes) do strength[mode] = i end

-- Those that stay although nothing refers to them: of a console, where what a line takes is meant to
-- last. nil: none.
local kept

function lock.keep() kept = kept or {} end

-- Them, in the order in which they were taken.
function lock.kept()
  local list = {}
  for each in pairs(kept or {}) do list[#list + 1] = each end
  table.sort(list, function(a, b) return a._number < b._number end)
  return list
end

local made = 0

-- `held` is the core's lock; `request` {mode=, ids=, nothing=} what it was asked with. `nothing`: there
-- was nothing to lock, it only has a place of its own.
function lock.new(client, held, request)
  made = made + 1
  local self = setmetatable({
    _client = client, _held = held, fence = held.fence, paths = held.paths, modes = held.modes,
    mode = request.mode, ids = request.ids, _nothing = request.nothing,
    _writers = {}, _place = place(), _number = made,
  }, Lock)
  client._locks[self] = true
  if kept then kept[self] = true end
  return self
end

-- Raises lock_lost unless it is held for sure. No I/O.
function Lock:check()
  if self._released then errors.raise("lock_lost", "the lock was released: %s", core.tostring(self)) end
  self._held:check()
end

-- Seconds until it would be lost if the store were not heard of again.
function Lock:remaining()
  return self._released and 0.0 or self._held:remaining()
end

-- Nobody has to care for it any more: it was given back, or its client was closed.
function lock.forget(self)
  self._released = true
  self._client._locks[self] = nil
  if kept then kept[self] = nil end
end

local function give_back(self, why)
  if self._released then return end
  local _ <close> = self._held -- whatever is raised below: an interrupt must not keep the lock
  lock.forget(self)
  local failure = writer.end_all(self._writers, why)
  if why == nil and failure ~= nil then error(failure, 0) end
end

-- Finishes its writers and gives it back; again is fine. Raises what finishing raises. What could not
-- be given back ends with the session's lease.
function Lock:release() give_back(self) end

-- Its function runs; it has returned.
function lock.enter(self) self._inside = true end
function lock.leave(self) self._inside = nil end

-- Is this the __close of a coroutine that is closed? That has nothing above it; where an error without a
-- value passes, there is who catches it.
local function is_closed() return debug.getinfo(3, "f") == nil end

-- An error on the way out is not hidden by one of the release; what its writers did not send is told
-- with it.
function Lock:__close(why)
  if why == nil and self._inside and not is_closed() then why = "an error without a value" end
  local ok, failure = pcall(give_back, self, why)
  if not ok and why == nil then error(failure, 0) end
end

local function paths_text(self)
  local shown = table.concat(self.paths, " ", 1, math.min(#self.paths, 3))
  return #self.paths > 3 and ("%s and %d more"):format(shown, #self.paths - 3) or shown
end

-- The core's lock, which goes with it, is given back by its own finalizer.
function Lock:__gc()
  if self._released then return end
  warn("%sthe lock on %s was never released; it was given back by the garbage collector",
    self._place and self._place .. ": " or "", paths_text(self))
end

-- What it is now, also after an error: a lowering takes effect whatever the store says.
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

-- To a stronger mode without letting go: it waits for those whose locks exclude it, and has a new
-- fence. Where that fails, the lock is as it was. One that is as strong already stays so.
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

-- To a weaker mode without letting go of what it keeps; others that it no longer excludes are let in
-- when this returns. One that is as weak already stays so.
function Lock:downgrade(given)
  local o = options.check("downgrade", downgrade_rows, given)
  self:check()
  if strength[o.mode] >= strength[self.mode] then return self end
  writer.flush_all(self._writers) -- what was gathered under the stronger mode is written under it
  return convert(self, o.mode)
end

local function is_inside(path, above)
  return above == "/" or path == above or path:sub(1, #above + 1) == above .. "/"
end

-- Is this (normalised) path, with all below it, locked exclusively?
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

-- Every document that matches, everything acknowledged before it included: a refresh, then the
-- scan, the lock checked before each page. Options as client:scan's.
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
