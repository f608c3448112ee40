-- A lock that is held. `lock.fence` grows with every grant; `lock.paths` are what it was asked for,
-- `lock.modes` the mode of each in the literature's terms, `lock.mode` "exclusive", "shared" or "SIX",
-- `lock.ids` a document lock's ids.
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local options = require "mortise.options"
local scan = require "mortise.scan"
local writer = require "mortise.writer"

local Lock = {__name = "mortise.lock"}
Lock.__index = Lock

local lock = {class = Lock}

-- What a lock may do to those of others, weakest first: each covers those before it.
lock.modes = {"shared", "SIX", "exclusive"}
local strength = {}
for i, mode in ipairs(lock.modes) do strength[mode] = i end

-- `held` is the core's lock; `request` {mode=, ids=, nothing=} what it was asked with. `nothing`: there
-- was nothing to lock, it only has a place of its own.
function lock.new(client, held, request)
  return setmetatable({
    client = client, held = held, fence = held.fence, paths = held.paths, modes = held.modes,
    mode = request.mode, ids = request.ids, nothing = request.nothing,
  }, Lock)
end

-- Raises lock_lost unless it is held for sure. No I/O.
function Lock:check()
  if self.released then errors.raise("lock_lost", "the lock was released: %s", core.tostring(self)) end
  self.held:check()
end

-- Seconds until it would be lost if the store were not heard of again.
function Lock:remaining()
  return self.released and 0.0 or self.held:remaining()
end

-- Gives it back; again is fine. What could not be given back ends with the session's lease.
function Lock:release()
  if self.released then return end
  self.released = true
  self.held:release()
end

-- An error on the way out is not hidden by one of the release.
function Lock:__close(why)
  local ok, failure = pcall(self.release, self)
  if not ok and why == nil then error(failure, 0) end
end

-- What it is now, also after an error: a lowering takes effect whatever the store says.
local function convert(self, mode, wait)
  local ok, failure = true, nil
  if not self.nothing then
    ok, failure = pcall(self.held.convert, self.held, mode, {wait_ms = wait})
  end
  self.fence, self.paths, self.modes = self.held.fence, self.held.paths, self.held.modes
  if ok or strength[mode] < strength[self.mode] then self.mode = mode end
  if not ok then error(failure, 0) end
  return self
end

local upgrade_rows = {
  {name = "mode", type = "string", default = "exclusive", values = lock.modes, help = "SIX, or exclusive"},
  {name = "wait", type = "duration", help = "how long to wait; the client's default; 0: try once"},
}

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

-- To a weaker mode without letting go of what it keeps; others that it no longer excludes are let in
-- when this returns. One that is as weak already stays so.
function Lock:downgrade(given)
  local o = options.check("downgrade", downgrade_rows, given)
  self:check()
  if strength[o.mode] >= strength[self.mode] then return self end
  return convert(self, o.mode)
end

local function is_inside(path, above)
  return above == "/" or path == above or path:sub(1, #above + 1) == above .. "/"
end

-- Is this (normalised) path, with all below it, locked exclusively?
function Lock:covers(path)
  if self.mode ~= "exclusive" or self.nothing or self.released then return false end
  for _, own in ipairs(self.paths) do
    if is_inside(path, own) then return true end
  end
  return false
end

-- The writer bound to the lock; see mortise.writer.
function Lock:bulk(index, given)
  self:check()
  return writer.open(self, index, given)
end

-- Every document that matches, everything acknowledged before it included: a refresh, then the
-- scan, the lock checked before each page. Options as client:scan's.
function Lock:scan(index, given)
  self:check()
  self.client:refresh(index)
  return scan.open(self.client, index, given, function() self:check() end)
end

function Lock:__tostring()
  local left = self:remaining()
  local state = self.released and "released" or left <= 0 and "lost"
    or "held, " .. duration.text(left * 1000) .. " left"
  local shown = table.concat(self.paths, " ", 1, math.min(#self.paths, 3))
  if #self.paths > 3 then shown = ("%s and %d more"):format(shown, #self.paths - 3) end
  return ("%s lock on %s (%s)"):format(self.mode, shown, state)
end

return lock
