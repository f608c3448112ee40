-- Tasks: doing several things at the same time.
local argument = require "mortise.argument"
local context = require "mortise.context"
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local options = require "mortise.options"
local protect = require "mortise.protect"

local tasks = {}

-- spawn(fn, ...) -> task; task:join() returns what fn returned, or raises its error.
-- What it writes is protected by the lock that protects its starter.
function tasks.spawn(fn, ...)
  if type(fn) ~= "function" then errors.bad("spawn: `fn` is a function, not %s", argument.shown(fn)) end
  return core.spawn(protect.passed_on(fn), ...)
end

-- Waits for that time while other tasks run.
function tasks.sleep(time)
  core.sleep(duration.ms(time, "sleep"))
end

local map_rows = {
  {name = "limit", type = "count", default = 8, help = "how many run at the same time"},
}

options.register({"map"}, map_rows)

-- The tasks of one map. The first error cancels the others and is the one raised.
local Group = {}
Group.__index = Group

function Group:fail(why)
  if self.failed then return end
  self.failed, self.error = true, why
  for _, task in ipairs(self.tasks) do task:cancel() end
end

function Group.__close(self, why)
  if why ~= nil then self:fail(why) end
  for _, task in ipairs(self.tasks) do pcall(task.join, task) end
end

-- Returns fn's first result; adds the document to its error.
local function call(fn, value, i)
  if core.is_view(value) ~= "document" then return (fn(value, i)) end
  local _ <close> = context.at("map: at %s/%s", value._index, value._id)
  return (fn(value, i))
end

local function work(group, list, fn, results)
  local ok, why = pcall(function()
    while not group.failed and group.next <= #list do
      local i = group.next
      group.next = i + 1
      results[i] = call(fn, list[i], i)
    end
  end)
  if not ok then group:fail(why) end
end

-- Calls fn(value, index) for each, at most `limit` at the same time. -> the list of first results, with its
-- length `n`.
function tasks.map(list, fn, given)
  local o = options.check("map", map_rows, given)
  if type(list) ~= "table" or type(fn) ~= "function" then errors.bad("map: a list and a function") end
  local results = {n = #list}
  do
    local group <close> = setmetatable({tasks = {}, next = 1}, Group)
    for i = 1, math.min(o.limit, #list) do
      group.tasks[i] = tasks.spawn(work, group, list, fn, results)
    end
    for _, task in ipairs(group.tasks) do
      local ok, why = pcall(task.join, task)
      -- A task that was cancelled before it began failed for that reason, not with the first error.
      if not ok and not (group.failed and task:done()) then error(why, 0) end
    end
    if group.failed then error(group.error, 0) end
  end
  return results
end

return tasks
