-- A lock that is held. `lock.fence` grows with every grant; `lock.paths` are what it was asked for,
-- `lock.mode` "exclusive" or "shared", `lock.ids` a document lock's ids.
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local options = require "mortise.options"
local scan = require "mortise.scan"
local writer = require "mortise.writer"

local Lock = {__name = "mortise.lock"}
Lock.__index = Lock

local lock = {class = Lock}

-- `held` is the core's lock; `request` {kind=, index=, paths=, shared=} what it was asked with.
function lock.new(client, held, request)
  return setmetatable({
    client = client, held = {held}, request = request, fence = held.fence, paths = held.paths,
    mode = request.shared and "shared" or "exclusive", ids = request.ids,
  }, Lock)
end

-- Raises lock_lost unless it is held for sure. No I/O.
function Lock:check()
  if self.released then errors.raise("lock_lost", "the lock was released: %s", tostring(self)) end
  for _, held in ipairs(self.held) do held:check() end
end

-- Seconds until it would be lost if the store were not heard of again.
function Lock:remaining()
  if self.released then return 0.0 end
  local least = math.huge
  for _, held in ipairs(self.held) do least = math.min(least, held:remaining()) end
  return least
end

-- Gives it back; again is fine. A failure is raised after all was tried; what could not be given
-- back ends with the session's lease.
function Lock:release()
  if self.released then return end
  self.released = true
  local failed, first
  for i = #self.held, 1, -1 do
    local ok, why = pcall(self.held[i].release, self.held[i])
    if not ok and not failed then failed, first = true, why end
  end
  if failed then error(first, 0) end
end

-- An error on the way out is not hidden by one of the release.
function Lock:__close(why)
  local ok, failure = pcall(self.release, self)
  if not ok and why == nil then error(failure, 0) end
end

local upgrade_rows = {
  {name = "wait", type = "duration", help = "how long to wait; the client's default"},
}

-- From shared to exclusive, without letting go: it waits for the other readers. Two that upgrade
-- the same path wait for each other until their `wait` is over; who gets lock_timeout still has its
-- shared lock.
function Lock:upgrade(given)
  local o = options.check("upgrade", upgrade_rows, given)
  self:check()
  if self.mode == "exclusive" then return self end
  local r = self.request
  local held = self.client:open_core():acquire(r.kind, r.index, r.paths, {wait_ms = o.wait})
  table.insert(self.held, held)
  self.fence, self.mode = held.fence, "exclusive"
  return self
end

local function is_inside(path, above)
  return above == "/" or path == above or path:sub(1, #above + 1) == above .. "/"
end

-- Is this (normalised) path, with all below it, locked exclusively?
function Lock:covers(path)
  if self.mode ~= "exclusive" or self.released then return false end
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
  local state = self.released and "released" or "held, " .. duration.text(self:remaining() * 1000) .. " left"
  local shown = table.concat(self.paths, " ", 1, math.min(#self.paths, 3))
  if #self.paths > 3 then shown = ("%s and %d more"):format(shown, #self.paths - 3) end
  return ("%s lock on %s (%s)"):format(self.mode, shown, state)
end

return lock
