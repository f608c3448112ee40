-- The option `tune` of a job: its index is not refreshed for the time of the job, which spares the server the
-- making of many small segments. Not on an embedded store, which refreshes nothing.
--
-- What was there stands in the job's document, as `tuned` of its spec, before it is changed, and leaves it
-- when putting it back was acknowledged; so whoever resumes, undoes or removes the job knows whether
-- something is to be put back. A request that sets -1 and could come after that, since it had no answer,
-- keeps it there, too. A job never writes down -1, and puts nothing back where it finds anything but -1:
-- whatever other jobs and people do to the same index meanwhile, what it puts back is what somebody wanted.
local core = require "mortise.core"
local errors = require "mortise.errors"
local hint = require "mortise.hint"
local records = require "mortise.records"
local segment = require "mortise.segment"
local warn = require "mortise.warn"

local tune = {}

local NONE = "-1"
local LATE_MS = 60000 -- a request without an answer may come so late

-- Of specs: when a request that was to set -1 ended without an answer, if one did.
local unanswered = setmetatable({}, {__mode = "k"})

tune.row = {
  name = "tune", type = "boolean",
  help = "its index is not refreshed meanwhile; what was set is put back at its end",
}

-- -> the answer, decoded. Raises an error that says what the server has refused. An interrupt waits for the
-- answer to what is set (`body`).
local function ask(client, method, index, also, body)
  local path = "/" .. segment(index) .. "/_settings" .. also
  local status, text = client:raw(method, path, body, nil, body ~= nil)
  if status == 200 then return core.json_decode(text) end
  local code = (status == 401 or status == 403) and "auth" or status == 404 and "not_found" or "rejected"
  errors.raise(code, "%s %s: %d: %s", method, path, status, text:sub(1, 300))
end

-- {index -> refresh_interval as text, or false where none is set} of each index behind the name.
local function read(client, index)
  local found = {}
  for name, answer in pairs(ask(client, "GET", index, "?flat_settings=true")) do
    local value = answer.settings and answer.settings["index.refresh_interval"]
    found[name] = type(value) == "string" and value or false
  end
  return found
end

local function write(client, index, value)
  local text = value and core.json(value) or "null"
  ask(client, "PUT", index, "", '{"index":{"refresh_interval":' .. text .. "}}")
end

-- Calls fn(...). What fails is told, and no more, but for an interrupt. -> did it go well, its result
local function try(what, fn, ...)
  local ok, result = pcall(fn, ...)
  if ok then return true, result end
  if errors.code(result) == "interrupted" then error(result, 0) end
  warn("%s: %s", what, core.tostring(result))
  return false
end

-- ---- What is written down ------------------------------------------------------------------------

-- What there is now, but for what is -1 already: of that, what `known` says, which was written down before
-- the job died.
local function look(client, index, known)
  local list, before = core.array {}, {}
  for _, each in ipairs(known or {}) do before[each.index] = each end
  for name, value in pairs(read(client, index)) do
    if value == NONE then
      list[#list + 1] = before[name]
    else
      list[#list + 1] = core.object {index = name, before = value or nil}
    end
  end
  return #list > 0 and list or nil
end

-- Before a job of this id begins or is resumed, under its lock: its spec, and its document where there is
-- one, then say what is there. Of one that is undone they say what there is still to be put back.
function tune.prepare(client, id, spec, verb)
  if client:_is_embedded() or verb == "run" and not spec.tune then return end
  local record = records.get(client, id)
  local may_begin = verb ~= "run" or record and record.state == "undone"
  local known = may_begin and record and record.spec.tuned or nil
  if verb ~= "run" then spec.tune = record and record.spec.tune end
  spec.tuned = known
  if verb == "undo" or verb == "accept" or not spec.tune then return end
  local ok, list = try("job " .. id .. " goes on without `tune`", look, client, spec.index, known)
  if not ok then return end
  spec.tuned = list
  if verb ~= "run" then records.set_tuned(client, id, list) end
end

-- ---- What is done --------------------------------------------------------------------------------

-- Once the job's document says what was there, and before anything else is written.
function tune.begin(client, id, spec)
  local function set(each)
    local before = unanswered[spec]
    unanswered[spec] = core.now_ms() -- beforehand, since no pcall catches an interrupt that is raised again
    local ok, why = pcall(write, client, each.index, NONE)
    if ok or not (core.is_error(why) and why.ambiguous) then unanswered[spec] = before end
    if not ok then error(why, 0) end
  end
  for _, each in ipairs(spec.tuned or {}) do try("job " .. id .. " goes on without `tune`", set, each) end
end

-- `may_come`: it may be set to -1 later.
local function put_back(client, list, may_come)
  for _, each in ipairs(list) do
    local ok, now = pcall(read, client, each.index)
    if not ok and errors.code(now) ~= "not_found" then error(now, 0) end
    if ok and now[each.index] == NONE then
      write(client, each.index, each.before)
    elseif ok and may_come then
      errors.raise("unavailable", "whether it was set to %s is not known, since there was no answer", NONE)
    end
  end
end

-- The verb by which it is tried again.
local function again_by(client, id, verb)
  if verb == "purge" then return verb end
  local ok, record = pcall(records.get, client, id)
  local undone = ok and record and record.state == "undone"
  return (undone or verb == "undo") and "rollback" or "resume"
end

-- At any end of the job, under its lock, or when it is purged. `verb` is what was done, and is to be done
-- again where nothing was put back.
function tune.finish(client, id, spec, verb)
  local list = spec.tuned
  if not list then return end
  local since = unanswered[spec]
  local function forget()
    put_back(client, list, since and core.now_ms() - since < LATE_MS)
    records.set_tuned(client, id, nil)
    spec.tuned = nil
  end
  local ok, why = pcall(forget)
  local interrupted = not ok and errors.code(why) == "interrupted" and why
  if interrupted then ok, why = pcall(forget) end -- it is told once, and this must be done
  if not ok then
    warn("job %s: the refresh_interval of %s was not put back; to try it again: %s jobs %s %s: %s", id,
      spec.index, hint.mortise(client), again_by(client, id, verb), id, core.tostring(why))
  end
  if interrupted then error(interrupted, 0) end
end

-- The same, when the value is closed. One that was to be begun may not have been, since there is one of that
-- id already, which others are at: its document is then not of this session.
function tune.at_end(client, id, spec, verb, session)
  local function finish()
    if verb == "run" and spec.tuned then
      local record = records.get(client, id)
      if not record or record.session ~= session:info().id then return end
    end
    tune.finish(client, id, spec, verb)
  end
  return setmetatable({}, {__close = function() pcall(finish) end})
end

return tune
