-- Unknown names. Reading a name that is nearly one of ours raises an error, since it was probably mistyped;
-- any other is nil, so that a script can check whether a later version has something.
local errors = require "mortise.errors"
local later = require "mortise.later"
local suggest = require "mortise.suggest"

local reference = later "mortise.reference"

local names = {}

-- The edit distance that counts as near; short names are near to too many others.
local function nearness(name)
  return #name < 4 and 1 or #name < 12 and 2 or 3
end

-- Sets `__index` of the table's metatable, which it makes if there is none; for a class it is asked for names
-- that its objects do not have. Names of these groups (mortise.reference), and our own that begin with `_`,
-- are allowed.
function names.guard(t, what, groups)
  local known, list = nil, {}
  local function is_known(name)
    if not known then
      known = {}
      for _, group in ipairs(groups) do
        for _, row in ipairs((reference.group(group))) do
          known[row.name] = true
          list[#list + 1] = row.name
        end
      end
    end
    return known[name]
  end
  local meta = debug.getmetatable(t) or {}
  -- The first letter is seldom mistyped: `set` is not meant as `get`.
  local function alike(name)
    local some = {}
    for _, each in ipairs(list) do
      if each:byte() == name:byte() then some[#some + 1] = each end
    end
    return suggest(name, some, nearness(name))
  end
  function meta.__index(_, name)
    if type(name) == "number" and rawget(t, "_no_list") then t._no_list() end
    if type(name) ~= "string" or name:byte() == 95 or is_known(name) then return nil end
    local near = alike(name)
    if near then errors.bad("%s has no `%s`: did you mean `%s`?", what, name, near) end
  end
  return setmetatable(t, meta)
end

-- names.guard for tasks, which are userdata.
function names.guard_tasks()
  local meta = debug.getregistry()["mortise.task"]
  local own = meta.__index
  local _, methods = debug.getupvalue(own, 1)
  local missing = names.guard({}, "a task", {"task"})
  function meta.__index(task, name)
    local found = methods[name] or own(task, name)
    if found == nil then return missing[name] end
    return found
  end
end

-- Makes a class's methods raise an error if they are called with a dot: `lock.release()`.
function names.methods(class, group)
  for name, method in pairs(class) do
    if type(method) == "function" and name:byte() ~= 95 then
      class[name] = function(self, ...)
        if debug.getmetatable(self) ~= class then
          errors.bad("%s is called with a colon: %s:%s(...)", name, group, name)
        end
        return method(self, ...)
      end
    end
  end
end

-- Both for a class.
function names.class(class, group)
  names.methods(class, group)
  names.guard(class, "a " .. group, {group})
end

return names
