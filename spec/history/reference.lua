-- Random correct histories, made with the simplest possible lock: a list of who holds what, in one process. A
-- history is a list of events (described in check.lua), by time.
local modes = require "spec.history.modes"

local reference = {}

local paths = {"/", "/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/1", "/a/x/2", "/b/x/1"}
local kinds = {"X", "X", "X", "S", "S", "IX", "SIX", "IS"}

local World = {}
World.__index = World

function World:say(event)
  self.now = self.now + self.random(1, 20)
  event.t = self.now
  self.events[#self.events + 1] = event
  return event
end

function World:event(task, op, is, more)
  local event = {who = task.who, task = task.number, op = op, is = is}
  for key, value in pairs(more) do event[key] = value end
  return self:say(event)
end

local function fits(world, task, wanted)
  for _, hold in pairs(world.held) do
    for path, mode in pairs(wanted) do
      local there = hold.task ~= task and hold.paths[path]
      if there and not modes.fits[there][mode] then return false end
    end
  end
  return true
end

function World:take(task)
  local locks = {{paths[self.random(#paths)], kinds[self.random(#kinds)]}}
  if self.random(4) == 1 then locks[2] = {paths[self.random(#paths)], locks[1][2]} end
  self.ids = self.ids + 1
  local hold = {id = "h" .. self.ids, task = task, paths = modes.expand(locks), locks = locks}
  self:event(task, "acquire", "invoke", {id = hold.id, locks = locks})
  if self.random(12) == 1 then return self:event(task, "acquire", "unknown", {id = hold.id}) end
  if not fits(self, task, hold.paths) then return self:event(task, "acquire", "fail", {id = hold.id}) end
  self.fence = self.fence + self.random(3)
  hold.fence = ("%d"):format(self.fence)
  self.held[task], task.hold = hold, hold
  self:event(task, "acquire", "ok", {id = hold.id, fence = hold.fence, session = task.who})
end

-- A document is guarded by the path that it is named after.
function World:write(task)
  local hold = task.hold
  local path = hold.locks[1][1]
  if hold.locks[1][2] ~= "X" then return self:event(task, "sure", nil, {id = hold.id}) end
  self.ids = self.ids + 1
  local w = "w" .. self.ids
  self:event(task, "write", "invoke", {id = hold.id, w = w, doc = path})
  local outcome = ({"ok", "ok", "ok", "fail", "unknown"})[self.random(5)]
  if outcome == "ok" or outcome == "unknown" and self.random(2) == 1 then
    self.documents[path] = self.documents[path] or {}
    table.insert(self.documents[path], {w, hold.fence})
  end
  self:event(task, "write", outcome, {w = w})
end

function World:release(task)
  local hold = task.hold
  self:event(task, "sure", nil, {id = hold.id})
  self:event(task, "release", "invoke", {id = hold.id})
  self.held[task], task.hold = nil, nil
  self:event(task, "release", self.random(5) == 1 and "unknown" or "ok", {id = hold.id})
end

function World:entries()
  local sessions, entries = {}, {}
  for task, hold in pairs(self.held) do
    sessions[task.who] = sessions[task.who] or {}
    for _, path in ipairs(paths) do
      if hold.paths[path] then table.insert(sessions[task.who], {path, hold.paths[path], task.who}) end
    end
  end
  for _, own in pairs(sessions) do table.move(own, 1, #own, #entries + 1, entries) end
  return entries
end

function World:show(rest)
  local from = self.now
  self:say {who = "judge", op = "table", from = from, entries = self:entries(), rest = rest}
end

function World:finish(tasks)
  for _, task in ipairs(tasks) do
    if task.hold then self:release(task) end
  end
  self:show(true)
  for path, log in pairs(self.documents) do self:say {who = "judge", op = "doc", doc = path, log = log} end
end

-- `random` is math.random or a like; each task is a client of its own.
function reference.history(random, steps)
  local world = setmetatable({random = random, now = 0, fence = 0, ids = 0, held = {}, documents = {},
    events = {}}, World)
  local tasks = {}
  for i = 1, 5 do tasks[i] = {who = "c" .. i, number = i} end
  for _ = 1, steps do
    local task = tasks[random(#tasks)]
    if random(15) == 1 then
      world:show()
    elseif not task.hold then
      world:take(task)
    elseif random(3) > 1 then
      world:write(task)
    else
      world:release(task)
    end
  end
  world:finish(tasks)
  return world.events
end

return reference
