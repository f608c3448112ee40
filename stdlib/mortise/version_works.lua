-- What a versioned script may return to be done: kinds of objects with an `id` that stays the same,
-- `status()`, `run()` and `resume()`. Each kind is
--   of(value, id) -> the object, which gets the id if it has none of its own; nil: the value is none
--   remove(work)     removes one that was undone, so that it can be run anew
--   watch(work, show(id) -> on_progress)
-- A record of status() has `state` ("done", "undone", ...), `stands`, `began`, `counts`, `reason`.
local errors = require "mortise.errors"
local job = require "mortise.job"
local migrate = require("mortise.later") "mortise.migrate"
local mortise = require "mortise"
local purge = require "mortise.purge"

local jobs = {}

function jobs.of(value, id)
  if type(value) ~= "table" then return nil end
  local found = value
  if getmetatable(value) == nil and rawget(value, "index") then found = mortise.job(value) end
  if getmetatable(found) ~= job.class then return nil end
  if not job.is_untouched(found) then
    errors.bad("it returns job %s, which it has run itself: return it as it was made, or nothing", found.id)
  end
  job.settle(found, id)
  return found
end

function jobs.remove(found)
  local client = job.client(found)
  purge.one(client, found.id)
end

function jobs.watch(found, show) job.watch(found, show(found.id)) end

local migrations = {}

function migrations.of(value, id)
  if getmetatable(value) ~= migrate.class then return nil end
  migrate.settle(value, id)
  return value
end

migrations.remove = function(found) purge.one(migrate.client(found), found.id) end

function migrations.watch(found, show) migrate.watch(found, show(found.id)) end

local kinds = {jobs, migrations}

local works = {}

-- What a script returned -> the object, its kind; nil: nothing is left to be done.
function works.of(value, id)
  if value == nil then return nil end
  for _, kind in ipairs(kinds) do
    local work = kind.of(value, id)
    if work then return work, kind end
  end
  errors.bad("it returns a %s: a versioned script returns a job, a migration, or nothing", type(value))
end

return works
