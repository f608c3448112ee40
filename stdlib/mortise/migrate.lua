-- Migrations: an index is copied into a new one while everybody goes on writing, and then the clients' alias
-- is moved. Each is a job (mortise.job), whose work is done here: mortise.migrate{from=, to=, alias=, ...}
-- makes one.
local audit = require "mortise.audit"
local by_function = require "mortise.by_function"
local changer = require "mortise.migrate.changer"
local context = require "mortise.migrate.context"
local core = require "mortise.core"
local cutover = require "mortise.migrate.cutover"
local earlier = require "mortise.earlier"
local errors = require "mortise.errors"
local following = require "mortise.migrate.following"
local guards = require "mortise.guards"
local job_spec = require "mortise.job_spec"
local names = require "mortise.names"
local options = require "mortise.options"
local orders = require "mortise.orders"
local other_store = require "mortise.migrate.other_store"
local overload = require "mortise.overload"
local phases = require "mortise.migrate.phases"
local plan = require "mortise.migrate.plan"
local purge = require "mortise.purge"
local records = require "mortise.records"
local refusals = require "mortise.migrate.refusals"
local segments = require "mortise.migrate.segments"
local source = require "mortise.migrate.source"
local spec_of = require "mortise.migrate.spec"
local target = require "mortise.migrate.target"
local watched = require "mortise.watched"

local Migration = {__name = "mortise.migration"}
Migration.__index = Migration

local migrate = {class = Migration}

-- ---- Where to ------------------------------------------------------------------------------------

-- A client of the store into which it copies.
function Migration:_open_other()
  local kept = self._spec.migrate.to_store
  self._to_client = self._to_client or (kept and other_store.again(kept, self._to_store) or self._client)
  return self._to_client
end

-- ---- Doing it ------------------------------------------------------------------------------------

-- What refusals, plan and target look at. The whole context is made once somebody has the job.
local function sketch(self)
  local to_client = self:_open_other()
  return {
    client = self._client, to_client = to_client, own = self._client:_open_core(),
    to = to_client:_open_core(), id = self.id, spec = self._spec.migrate, target = self._spec.migrate.to,
    state = core.object {},
  }
end

local function open_work(self, held, verb)
  return held:outside_job {
    verb = verb, id = self.id, rate = self._spec.rate,
    spec = verb == "run" and core.json(self._spec) or nil,
    patience_ms = self._patience,
  }
end

-- Its work under the job, which the caller has. -> the state in which it ends, and an error or nil
local function work_on(self, session, work, verb)
  local details = self._spec.migrate
  details.wait, details.wait_for_writes = self._wait, self._patience
  details.max_rejected = self._max_rejected or details.max_rejected
  local m = context.new(self._client, self:_open_other(), self.id, details, work, changer(details.change,
    self._function, self.id))
  m.change_back = changer(details.change_back, self._function_back, self.id)
  m.session = session
  local ok, why
  if verb == "undo" then
    ok, why = pcall(phases.undo, m, self._others)
    return ok and "undone" or "undoing", why
  end
  ok, why = pcall(phases.run, m)
  local is_refused = not ok and m.state.phase == "preparing" and core.is_error(why) and not why.ambiguous
  if is_refused and pcall(target.drop, m) then return "undone", why end
  return ok and "done" or "stopped", why
end

local function carry_on(self, session, work, verb)
  local result = work:run()
  if result then return result end
  local state, why = work_on(self, session, work, verb)
  work:finish(state, why)
  return work:run()
end

-- Has it stopped half-way?
local function stands(record) return record ~= nil and record.stands end

local function attempt(self, verb)
  self._touched = true
  if verb ~= "run" then audit(self._client, "%s: migration %s", verb, self.id) end
  local session <close> = self._client:_lock_core():open_session(self.id)
  local lock = self._spec.lock
  local began_ms = core.now_ms()
  local held = session:acquire(lock.kind, lock.index, lock.paths, {wait_ms = self._wait,
    adopts = verb ~= "run"})
  local work = open_work(self, held, verb)
  local guard <close> = overload.guard(self._client, work, verb ~= "undo" and self._spec.max_load or nil,
    function() return true end)
  local ok, result = pcall(watched, work, self._on_progress, "migration " .. self.id, nil, function()
    return carry_on(self, session, work, verb)
  end)
  if guard and guard.why ~= nil then ok, result = false, guard.why end
  if not ok then pcall(work.settle, work) end
  local record = records.get(self._client, self.id)
  if ok or not stands(record) then session:close() end
  if ok then
    return core.object {
      job = self.id, state = record.state, phase = record.work.phase, copied = record.counts.changed,
      changed = record.counts.changed, dropped = record.counts.unchanged, rejected = record.counts.rejected,
      made = record.work.made, deleted = record.work.deleted or 0, compared = record.work.compared,
      rounds = record.work.rounds, pause = record.work.pause_ms and record.work.pause_ms / 1000,
      seconds = (core.now_ms() - began_ms) / 1000,
    }
  end
  if core.is_error(result) then result.job = self.id end
  error(result, 0)
end

local function refuse_function(self, only_back)
  local spec = self._spec.migrate
  if not only_back and spec.change == "function" and not self._function
    or spec.change_back == "function" and not self._function_back then
    by_function.refuse(self._client, "invalid_argument", self.id)
  end
end

-- One that was taken back is in nobody's way; any other of this id is.
local function make_way(self)
  local record = records.get(self._client, self.id)
  if not record then return end
  if record.state == "undone" and record.began then
    purge.one(self._client, self.id)
  else
    earlier.met(self._client, self.id)
  end
end

-- Copies, follows and cuts over. -> {job=, state=, phase=, copied=, dropped=, rejected=, deleted=, rounds=,
-- pause= (seconds in which writes were refused), seconds=}. What stops it is raised, and says how to go on.
function Migration:run()
  records.ready(self._client)
  guards.sweep(self._client)
  make_way(self)
  refusals.check(sketch(self))
  return attempt(self, "run")
end

-- Goes on with one whose process is gone, or which stopped.
function Migration:resume()
  refuse_function(self)
  return attempt(self, "resume")
end

local function phase_of(record) return record.work and record.work.phase end

-- Is it followed, one way or the other, until it is told to end, or was until a process died?
local function is_following(record)
  local phase = phase_of(record)
  return record.state ~= "done" and (phase == "following" or phase == "swapped" or phase == "finished"
    or phase == "in step" and record.spec.migrate.to_store ~= nil)
end

local STOP_MS <const> = 60000

-- Ends whoever follows, and waits until it has gone.
function Migration:_stop()
  orders.cancel(self._client, self.id)
  local until_ms = core.now_ms() + STOP_MS
  while core.now_ms() < until_ms do
    local record = records.get(self._client, self.id)
    if not record or not record.alive then return end
    core.sleep(100)
  end
  errors.raise("lock_timeout", "whoever is at work on migration %s has not stopped for %d s", self.id,
    STOP_MS // 1000)
end

-- Would it lose what others have written, more than was allowed?
local function check_rollback(self, record)
  local details, back = self._spec.migrate, record.work and record.work.back
  if not details.keep_old_in_step then
    cutover.check_lost(details.to, self:plan_rollback().written, self._others)
  elseif phase_of(record) == "following" and back.strangers then
    following.check_strangers(details.from, back.strangers.n, back.strangers.ids[1], self._others)
  end
end

-- The alias names the old index again, and the new one is gone. Raises conflict where the new one was written
-- to since the alias came to it, unless no more operations than `others` are lost by that. Where the old one
-- is kept in step nothing of that is lost; there `others` are documents of the old index that others wrote.
function Migration:rollback(given)
  self._others = options.check("rollback", job_spec.rollback_rows, given or {}).others
  local record = records.need(self._client, self.id)
  if phase_of(record) == "finished" then
    errors.raise("conflict", "migration %s is finished: there is no way back", self.id)
  end
  refuse_function(self, true)
  if record.alive and phase_of(record) == "following" then self:_stop() end
  -- Before it is made ours, since it could then no longer be finished.
  check_rollback(self, record)
  return attempt(self, "undo")
end

-- What that would do, as of now: takes no lock, writes nothing. -> {from=, to=, alias= (nil: it would not be
-- moved), written= (operations on the new index since the alias came to it, which would be lost)}; where the
-- old index is kept in step: behind= (those that would be carried over), strangers= (documents of the old
-- index that others have written)
function Migration:plan_rollback()
  local record = records.need(self._client, self.id)
  local details, m = self._spec.migrate, sketch(self)
  local phase, back = phase_of(record), record.work and record.work.back
  local in_step = details.keep_old_in_step and (phase == "swapped" or phase == "following")
  local swapped = phase == "swapped" or in_step
  m.state = record.work
  return core.object {
    from = details.from, to = details.to, alias = swapped and details.alias or nil,
    written = swapped and not in_step and cutover.written_since(m) or 0,
    behind = in_step and following.behind(m.own, details.to, back) or nil,
    strangers = in_step and back.strangers and back.strangers.n or nil,
  }
end

-- What it would do, as of now: takes no lock, writes nothing.
function Migration:plan()
  self._touched = true
  return plan.of(sketch(self))
end

-- Tells whoever is at work on it to cut over.
function Migration:cutover()
  orders.cut_over(self._client, self.id)
  return self
end

local finish_rows = {
  {name = "delete", type = "boolean", help = "true: the old index is deleted"},
}
options.register({"migration:finish"}, finish_rows)

-- Of one that follows: whoever is at work on it ends it, or this process does. -> its phase
function Migration:_finish_following()
  orders.finish(self._client, self.id)
  local record
  repeat
    core.sleep(100)
    record = records.need(self._client, self.id)
  until not record.alive or record.state ~= "running"
  if record.state == "done" then return phase_of(record) end
  return attempt(self, "resume").phase
end

-- Once it has been cut over: there is no way back from here. The old index stays blocked, or is deleted.
function Migration:finish(given)
  local o = options.check("finish", finish_rows, given or {})
  local phase
  if is_following(records.need(self._client, self.id)) then
    refuse_function(self)
    phase = self:_finish_following()
  end
  if phase ~= "finished" then self:_finish_swapped() end
  if o.delete then self:_drop_source() end
  return self
end

function Migration:_finish_swapped()
  local lock = self._spec.lock
  local session <close> = self._client:_lock_core():open_session(self.id)
  session:acquire(lock.kind, lock.index, lock.paths, {wait_ms = self._wait, adopts = true})
  local record = records.need(self._client, self.id)
  local phase = phase_of(record)
  if record.state ~= "done" or phase ~= "swapped" and phase ~= "finished" then
    errors.raise("conflict", "migration %s is %s: only one that has been cut over can be finished", self.id,
      record.state)
  end
  local m = sketch(self)
  m.state = record.work
  target.finish(m)
  source.leave(m)
  records.set_work(self._client, self.id, function(work) work.phase = "finished" end)
  session:close()
end

function Migration:_drop_source()
  local ok, why = pcall(self._client.drop_index, self._client, self._spec.migrate.from)
  if not ok and errors.code(why) ~= "not_found" then error(why, 0) end
end

-- ---- Watching and steering it --------------------------------------------------------------------

function Migration:status() return (records.get(self._client, self.id)) end

-- Iterates over the documents that the change or the new index refused: {id=, index=, type=, reason=}.
function Migration:rejected()
  return segments.aside(self._client, records.index(self._client), self.id, self._spec.migrate.from)
end

orders.steer(Migration)

function Migration:__tostring() return "migration " .. self.id end

-- ---- Finding it ----------------------------------------------------------------------------------

local function new(client, id, spec, also)
  return setmetatable({
    id = id, name = spec.name, _client = client, _spec = spec, _wait = also.wait,
    _function = type(also.change) == "function" and also.change or nil,
    _function_back = type(also.change_back) == "function" and also.change_back or nil,
    _to_store = also.to_store, _given_id = also.given_id, _on_progress = also.on_progress,
    _max_rejected = also.max_rejected,
    _patience = also.wait_for_writes or spec.wait_for_writes or job_spec.default_patience_ms,
  }, Migration)
end

-- The index that `from` names, be it by an alias.
local function index_of(client, from)
  local described = client:describe(from)
  if not described.exists then
    errors.raise("not_found", "migrate: there is no index %s in %s", from, client:url())
  end
  return described.name or from
end

-- One that is not yet begun; nothing is written.
function migrate.new(client, given)
  local o = options.check("migrate", spec_of.rows, given)
  if o.to_store then o.to_store, o.to_profile = other_store.open(o.to_store) end
  o.given_id, o.id = o.id ~= nil, o.id or ("%s-to-%s"):format(o.from, o.to)
  core.job_id_check(o.id)
  return new(client, o.id, spec_of.of(o, index_of(client, o.from)), o)
end

-- Is it a migration that was made here, and never run nor planned?
function migrate.is_untouched(value)
  return getmetatable(value) == Migration and not value._touched
end

-- Gives one that was given no id this one.
function migrate.settle(self, id)
  if self._given_id then return end
  core.job_id_check(id)
  self.id, self._given_id = id, true
end

function migrate.client(self) return self._client end

-- For commands: `show` is called as `on_progress` is, and before it.
migrate.watch = orders.watch

-- The names of its indices.
function migrate.from(self) return self._spec.migrate.from end
function migrate.to(self) return self._spec.migrate.to end

-- Of its job's document.
function migrate.found(client, record, given)
  local o = options.check("get_job", spec_of.get_rows, given)
  return new(client, record.job, record.spec, o)
end

names.class(Migration, "migration")

return migrate
