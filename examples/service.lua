#!/usr/bin/env -S mortise run
-- A lock service: take a lock by category and id, hold it while a command runs, or check who has it.
--
-- As a command:
--   mortise run [--wait TIME] examples/service.lua run CATEGORY ID -- COMMAND [ARGS]
--   mortise run examples/service.lua who CATEGORY ID
-- As a module, from a script beside it:
--   local service = require "service"
--   local ticket = service.take("invoice", "4711", {wait = "5s"})
--   ...                       -- ticket:check() raises as soon as the lock is not surely ours any more
--   service.give_back(ticket)
local mortise = mortise or require "mortise"

local service = {}

-- Tickets that are out, so that only who took a lock can give it back.
local out = setmetatable({}, {__mode = "k"})

-- -> a lock, or nil and an error that says who has it. `options`: wait.
function service.take(category, id, options)
  local wait = options and options.wait or 0
  local lock, why = mortise.try_lock {named = {category, id}, wait = wait}
  if not lock then return nil, why end
  out[lock] = category .. "/" .. id
  return lock
end

-- Raises where this ticket is not one that we gave out, or was given back before.
function service.give_back(lock)
  if not out[lock] then error("not a ticket that is out: " .. tostring(lock), 2) end
  out[lock] = nil
  lock:release()
end

-- Who holds it: a list of {path, mode, host, user, pid, script, since_ms}, empty when it is free.
function service.who(category, id)
  local lock, why = service.take(category, id)
  if not lock then return why.blockers or {} end
  service.give_back(lock)
  return {}
end

-- ---- The command -----------------------------------------------------------------------------------

local function quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

local function run(category, id, words)
  if not words[1] then error("usage: run CATEGORY ID -- COMMAND [ARGS]", 0) end
  local lock <close> = mortise.acquire {named = {category, id}} -- waits as --wait says
  local command = {}
  for i, word in ipairs(words) do command[i] = quote(word) end
  -- The heartbeat runs in a thread of its own: the lock is kept however long the command takes.
  local ok, how, number = os.execute(table.concat(command, " "))
  lock:check()
  if not ok then error(("the command ended with %s %d"):format(how, number), 0) end
end

local function print_who(category, id)
  local blockers = service.who(category, id)
  for _, each in ipairs(blockers) do
    print(("%s/%s: %s@%s, pid %s, %s"):format(category, id, each.user or "?", each.host or "?",
      each.pid or "?", each.script or each.program or ""))
  end
  if #blockers == 0 then print(("%s/%s: free"):format(category, id)) end
end

-- `require` passes the module's name; a command its words.
local command, category, id = ...
if arg and arg[0] and arg[0]:find "service%.lua$" and command ~= "service" then
  if command == "run" and id then
    run(category, id, {select(4, ...)})
  elseif command == "who" and id then
    print_who(category, id)
  else
    error("usage: service.lua run|who CATEGORY ID ...", 0)
  end
end

return service
