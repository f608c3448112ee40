-- Orders to a job that is at work, from anywhere: its control document (core/job/control.h), which whoever
-- has the job reads about once a second.
local audit = require "mortise.audit"
local core = require "mortise.core"
local errors = require "mortise.errors"
local options = require "mortise.options"
local records = require "mortise.records"
local sessions = require "mortise.sessions"

local orders = {}

local function limit_row(name, help)
  return {
    name = name, type = "integer", least = 0, most = 0x7fffffff, range = "a whole number, 0 for no limit",
    help = help .. "; 0: no limit",
  }
end

orders.rows = {
  limit_row("rate", "documents a second, at most"),
  limit_row("batch", "documents a batch, at most"),
  limit_row("concurrency", "batches at the same time, at most"),
}

options.register({"job:throttle"}, orders.rows)

-- What the document of a job says that is accepted as it is.
function orders.accepted()
  return "accepted by " .. sessions.own_text()
end

local function document_id(client, id) return records.document_id(client, id) .. ":control" end

-- The orders as they stand, and the view that has them; nil where there are none.
local function read(client, id)
  local view = client:get(records.index(client), document_id(client, id))
  local body = view and view.body
  if not body or math.type(body.n) ~= "integer" then return nil, view end
  local given = {
    n = body.n, session = body.session, paused = body.paused, by = body.by, limited_by = body.limited_by,
    cutover = body.cutover, finish = body.finish, cancelled = body.cancelled, updated = view.updated,
  }
  for _, row in ipairs(orders.rows) do given[row.name] = body[row.name] end
  return given, view
end

-- {rate=, batch=, concurrency=, by=}: what slows it down; nil: nothing does.
function orders.limits(client, record)
  local given = read(client, record.job) or {rate = record.spec.rate}
  local found = core.object {}
  for _, row in ipairs(orders.rows) do
    local value = given[row.name]
    if math.type(value) == "integer" and value > 0 then found[row.name] = value end
  end
  if next(found) == nil then return nil end
  found.by = type(given.limited_by) == "string" and given.limited_by or nil
  return found
end

local told = {
  {"finish", "to finish"}, {"cutover", "to cut over"}, {"cancelled", "to end"}, {"paused", "to pause"},
}

-- Who gave it orders last: {by=, what=, at= (ms)}; nil: nobody, as far as is known.
function orders.steered(client, record)
  local given = read(client, record.job)
  local by = given and (given.by or given.limited_by)
  if type(by) ~= "string" then return nil end
  local what = given.by and "to go on" or "how fast it may go"
  for i = #told, 1, -1 do
    if given[told[i][1]] == true then what = told[i][2] end
  end
  local at = math.type(given.updated) == "integer" and given.updated or nil
  return core.object {by = by, what = what, at = at}
end

-- Is whoever has it told to pause?
function orders.is_paused(client, record)
  local given = read(client, record.job)
  return given ~= nil and given.paused == true and given.session == record.session
end

-- Writes it unless someone else did meanwhile. -> was it written?
local function write(client, id, body, view)
  local version = {
    if_seq_no = view and view._seq_no, if_term = view and view._term, pipeline = false, unguarded = true,
  }
  local source = {
    kind = "control", format = 1, ns = client:namespace(), job = id, updated = core.wall_ms(), body = body,
  }
  local call = view and client.index or client.create
  local ok, why = pcall(call, client, records.index(client), document_id(client, id), source,
    version)
  if not ok and errors.code(why) ~= "conflict" then error(why, 0) end
  return ok
end

local tries = 16

-- Changes these members. What was ordered of an earlier owner, but for limits, is forgotten. -> its number
local function give(client, record, change)
  for _ = 1, tries do
    local given, view = read(client, record.job)
    local same = given and given.session == record.session
    local body = {
      n = (given and given.n or 0) + 1, session = record.session, paused = same and given.paused or nil,
      by = same and given.by or nil, limited_by = given and given.limited_by, cutover = given
        and given.cutover, finish = given and given.finish,
    }
    for _, row in ipairs(orders.rows) do body[row.name] = given and given[row.name] end
    if not given then body.rate = record.spec.rate end
    for name, value in pairs(change) do body[name] = value end
    if write(client, record.job, body, view) then
      audit(client, "tells who has job %s: %s", record.job, core.json(change))
      return body.n
    end
  end
  errors.raise("conflict", "the orders of job %s are changed by others again and again", record.job)
end

local function find(client, id)
  local record = records.need(client, id)
  if records.over[record.state] then errors.raise("conflict", "job %s is %s already", id, record.state) end
  return record
end

-- Those of someone who is at work.
local function find_alive(client, id, what)
  local record = find(client, id)
  if record.alive then return record end
  errors.raise("conflict", "job %s cannot be %s: nobody is at work on it", id, what)
end

function orders.pause(client, id)
  return give(client, find_alive(client, id, "paused"), {paused = true, by = sessions.own_text()})
end

function orders.go_on(client, id)
  return give(client, find_alive(client, id, "let go on"), {paused = false, by = sessions.own_text()})
end

function orders.cancel(client, id)
  return give(client, find_alive(client, id, "cancelled"), {cancelled = true, by = sessions.own_text()})
end

-- Holds for whoever has the migration, now and later.
function orders.cut_over(client, id)
  return give(client, find(client, id), {cutover = true, by = sessions.own_text()})
end

function orders.finish(client, id)
  return give(client, find(client, id), {finish = true, by = sessions.own_text()})
end

-- Holds for whoever has the job, now and later, until it is changed.
function orders.throttle(client, id, given)
  local o = options.check("throttle", orders.rows, given)
  if next(o) == nil then errors.bad "throttle: give `rate`, `batch` or `concurrency`" end
  local record = find(client, id)
  if record.state == "undoing" then
    errors.raise("conflict", "job %s is half undone: an undoing is not slowed down", id)
  end
  o.limited_by = sessions.own_text()
  return give(client, record, o)
end

-- ---- For classes of jobs, whose objects have `id`, `_client` and `_on_progress` -------------------

-- Gives the class the methods that give orders to whoever is at work on a job, in force within a batch or a
-- second. Each returns the job.
function orders.steer(class)
  -- Paused, it keeps its lock.
  function class:pause()
    orders.pause(self._client, self.id)
    return self
  end

  -- It is paused no longer.
  function class:go_on()
    orders.go_on(self._client, self.id)
    return self
  end

  -- {rate=, batch=, concurrency=}: how fast it may go, also once it was taken over; 0: as fast as it can.
  function class:throttle(limits)
    orders.throttle(self._client, self.id, limits)
    return self
  end

  -- Ends it as if its process had been interrupted: it stands half-done.
  function class:cancel()
    orders.cancel(self._client, self.id)
    return self
  end
end

-- `show` is called as the job's own `on_progress` is, and before it.
function orders.watch(self, show)
  local own = self._on_progress
  self._on_progress = own and function(...)
    show(...)
    own(...)
  end or show
end

-- ---- Waiting -------------------------------------------------------------------------------------

local look_ms = 100

-- Waits until whoever has the job obeys the order of this number. -> does it? false: it ended, or was not
-- heard of for so long. And its record.
function orders.await(client, id, number, wait_ms)
  local until_ms = core.now_ms() + wait_ms
  while true do
    local record = records.get(client, id)
    if not record or record.orders >= number then return record ~= nil, record end
    if not record.alive or core.now_ms() >= until_ms then return false, record end
    core.sleep(look_ms)
  end
end

return orders
