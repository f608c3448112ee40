-- Jobs: changes of many documents that outlive their process. mortise.job{name=, index=, ...} makes one,
-- mortise.get_job(id) finds one, mortise.jobs() lists them.
local audit = require "mortise.audit"
local by_function = require "mortise.by_function"
local context = require "mortise.context"
local core = require "mortise.core"
local earlier = require "mortise.earlier"
local errors = require "mortise.errors"
local guards = require "mortise.guards"
local hint = require "mortise.hint"
local hooks = require "mortise.hooks"
local job_spec = require "mortise.job_spec"
local metrics = require "mortise.metrics"
local names = require "mortise.names"
local options = require "mortise.options"
local orders = require "mortise.orders"
local orphans = require "mortise.orphans"
local overload = require "mortise.overload"
local plan = require "mortise.plan"
local preflight = require "mortise.preflight"
local purge = require "mortise.purge"
local records = require "mortise.records"
local tune = require "mortise.tune"
local undoing = require "mortise.undoing"
local watched = require "mortise.watched"
local within = require "mortise.within"
local yielding = require "mortise.yielding"

local migrate = require("mortise.later") "mortise.migrate"

local Job = {__name = "mortise.job"}
Job.__index = Job

local job = {class = Job}

-- ---- Doing it ------------------------------------------------------------------------------------

-- The core's options for its change.
local function work_options(self)
  local spec = self._spec
  local rename = spec.rename or {}
  local transforms, is_function = job_spec.transforms(spec)
  return {
    index = spec.index, query = spec.query, transforms = transforms, by_function = is_function,
    fields = spec.rename and job_spec.field_lines(rename),
    from = rename.from, to = rename.to, ids = rename.ids, merge = spec.merge, allow_empty = spec.allow_empty,
    page = spec.batch, slices = spec.slices, in_flight = spec.concurrency, passes = spec.passes,
    strategy = spec.strategy, unlisted = spec.journal == false or nil,
    max_rejected = self._max_rejected or spec.max_rejected or spec.rename and "0",
    patience_ms = self._patience or spec.wait_for_writes or job_spec.default_patience_ms,
  }
end

-- Raises what keeps it from changing its index, before its lock is taken. `begun`: some of it was changed
-- before.
local function check_index(self, begun, wait_ms)
  local spec = self._spec
  local looks = spec.rename and not (spec.allow_empty or begun)
  local field = within.field(spec)
  local _, is_function = job_spec.transforms(spec)
  local deletes = is_function or spec.rename and spec.rename.ids -- a new `_id` is a new document
  local fields = looks and job_spec.field_list(spec.rename) or field and {field} or nil
  preflight.check(self._client, spec.index, fields, deletes, wait_ms)
end

local internal = {
  duration_ms = true, reason = true, began = true, yielded = true, halted = true,
  strategy_refused = true,
}

local function finished(self, result, began_ms)
  local out = core.object {job = self.id, seconds = (core.now_ms() - began_ms) / 1000}
  for name, value in pairs(result) do
    if not internal[name] then out[name] = value end
  end
  core.array(out.rejects)
  return out
end

local over = {done = true, undone = true}

-- How `work` is run, if a function makes its change; nil: as any other.
local function runner(self)
  if not by_function.is(self._spec.change) then return nil end
  return function(work) return by_function.run(work, self._function, self.id) end
end

-- A script that waits in its own way would otherwise not find out.
local function explain_own(self, why)
  local own = self._client:session()
  for _, blocker in ipairs(own and core.is_error(why) and why.blockers or {}) do
    if blocker.session == own.id then
      return context.add(why, "this script holds it itself: a job has a session and a lock of its own")
    end
  end
end

-- Takes its lock in `session`. One that resumes or undoes takes over what the job's dead sessions hold.
local function take_lock(self, session, verb)
  local lock = self._spec.lock
  local ok, held = pcall(orphans.past, self._client, self._orphan, function()
    local held = session:acquire(lock.kind, lock.index, lock.paths,
      {wait_ms = self._wait, adopts = verb ~= "run"})
    if verb ~= "run" then return held end
    local other, path = guards.in_the_way(self._client, lock, self.id)
    if not other then return held end
    held:release()
    guards.refuse(self._client, other, path)
  end)
  if ok then return held end
  explain_own(self, held)
  if verb == "run" then
    session:close() -- there is nothing yet that it would guard
  else
    context.add(held, ("job %s stands as it did: nothing was done but to wait for its lock"):format(self.id))
  end
  error(held, 0)
end

-- What `tune` does before anything is written; or nil.
local function tuner(self)
  return self._spec.tuned and function() tune.begin(self._client, self.id, self._spec) end
end

-- The core's options for its change, as undoing.lua takes them.
local function undo_options(self)
  local o = work_options(self)
  o.merge, o.allow_empty, o.strategy, o.unlisted = true, true, nil, nil
  return o
end

-- Under the lock, before it is undone: how many of others' documents it takes along, which must not be too
-- many. -> nil where that cannot be
local function others_of(self, verb)
  local record = verb == "undo" and records.get(self._client, self.id)
  if not record or not record.renames_back then return nil end
  local seen = undoing.foresee(self._client, record, undo_options(self))
  if self._most_others then undoing.check(seen, self._most_others) end
  return seen.others
end

-- Does the work under the lock. `before`: what was done before others were let in. -> did it go well, the
-- result or error, how it stands
local function work_under(self, session, held, verb, standing, before)
  local o = work_options(self)
  local changes = verb == "run" or verb == "resume"
  if changes then o.query, o.within = within.narrow(self._client, self._spec) end
  o.standing = standing
  o.rate = self._spec.rate
  o.verb, o.id, o.spec = verb, self.id, verb == "run" and job_spec.text(self._spec) or nil
  if verb == "accept" then o.accepted = orders.accepted() end
  local on_start = changes and not before and hooks.starter(self, tuner(self)) or nil
  o.waits_at_start = on_start ~= nil
  local work = held:job(o)
  local watcher = self._on_progress
  if changes then watcher = hooks.watcher(self) end
  self._started = on_start == nil
  local guard <close> = overload.guard(self._client, work, changes and self._spec.max_load or nil,
    function() return self._started end)
  local every_ms = changes and self._spec.yield_every or nil
  local ok, result = pcall(yielding.while_wanted, self._client, session, held, work, every_ms, function()
    return watched(work, yielding.progress(watcher, before), "job " .. self.id, on_start,
      changes and runner(self) or nil)
  end)
  if guard and guard.why ~= nil then result = guard.why end
  if not ok then pcall(work.settle, work) end -- nothing of it is in flight when the session ends
  return ok, ok and yielding.join(before, result) or result, yielding.join(before, work:result())
end

-- The same; while it stops to let others in, gives its lock back, and goes on when it has it again.
local function work_in_turns(self, session, held, verb, standing)
  tune.prepare(self._client, self.id, self._spec, verb)
  local _ <close> = tune.at_end(self._client, self.id, self._spec, verb, session)
  local ok, result, now = work_under(self, session, held, verb, standing)
  while not ok and now.yielded and now.state == "stopped" do
    held:release()
    held = take_lock(self, session, "resume")
    ok, result, now = work_under(self, session, held, "resume", standing, now)
    if ok then yielding.complete(result, self:status().counts) end
  end
  return ok, result, now
end

-- It went well, and its lock is held still.
local function conclude(self, verb, result)
  if verb == "undo" or verb == "accept" then return end
  local why = hooks.verify(self, result)
  if why then
    why.job, why.result = self.id, result
    records.note(self._client, self.id, why.message)
    context.add(why, ("`%s jobs rollback %s` undoes it"):format(hint.mortise(self._client), self.id))
    error(why, 0)
  end
  hooks.done(self, result)
end

-- Raises not_found where there is nothing to resume or to undo; what its dead process holds is given back.
local function need_begun(self)
  records.index(self._client)
  if records.get(self._client, self.id) then return end
  if guards.clear(self._client, self.id, self._wait) == 0 then records.need(self._client, self.id) end
  guards.refuse_unborn(self.id)
end

-- A session that is left by an error leaves its locks as the job's guard. `standing`: only if it still
-- stands.
local function attempt(self, verb, standing)
  local wait_ms = self._patience or self._spec.wait_for_writes
  if verb == "run" then check_index(self, false, wait_ms) else need_begun(self) end
  local session <close> = self._client:_lock_core():open_session(self.id)
  local asked_ms = core.now_ms()
  local held = take_lock(self, session, verb)
  local began_ms = core.now_ms()
  local fit, others = pcall(others_of, self, verb)
  if not fit then
    if not self:status().stands then session:close() end -- else its lock stays as it was
    error(others, 0)
  end
  local ok, result, now = work_in_turns(self, session, held, verb, standing)
  metrics.job(verb, ok, ok and result or now)
  if verb == "undo" then pcall(self._client.refresh, self._client, self._spec.index) end -- searches see it
  if ok then
    result = finished(self, result, began_ms)
    result.others = others
    result.waited = (began_ms - asked_ms) / 1000
    local fine, why = pcall(conclude, self, verb, result)
    session:close()
    if not fine then error(why, 0) end
    return result
  end
  local stands = now.began and not over[now.state]
  if not stands then session:close() end
  if core.is_error(result) and now.state == "undone" and not now.began then result.ambiguous = false end
  if core.is_error(result) then result.job, result.result = self.id, finished(self, now, began_ms) end
  if stands then
    context.add(result, records.advice(self._client, self.id, now.state, self._spec.change,
      now.halted ~= ""))
  elseif now.state == "undone" and now.conflicts + now.rejected > 0 then
    context.add(result, ("job %s is undone, but for these: `%s jobs show %s --%s` lists them"):format(self.id,
      hint.mortise(self._client), self.id, now.conflicts > 0 and "conflicts" or "rejected"))
  elseif now.state == "done" then
    local mortise = hint.mortise(self._client)
    context.add(result, ("job %s is done: `%s jobs show %s --%s` lists what was set aside, "
      .. "`%s jobs rollback %s` undoes the rest"):format(self.id, mortise, self.id,
      now.rejected > 0 and "rejected" or "conflicts", mortise, self.id))
  end
  error(result, 0)
end

-- The same, telling on_error.
local function carry_out(self, verb, standing)
  self._touched, self._runs = true, true
  if verb ~= "run" then audit(self._client, "%s: job %s", verb, self.id) end
  local ok, result = pcall(attempt, self, verb, standing)
  self._runs = nil
  if ok then return result end
  hooks.failed(self, result)
  error(result, 0)
end

-- A function can go on only with a job whose journal was written for one.
local function check_function(self, record)
  if not by_function.is(self._spec.change) then return end
  if not self._function then by_function.refuse(self._client, "invalid_argument", self.id) end
  if record and not by_function.is(record.spec.change) then
    errors.bad("job %s was begun with another change, which is no function", self.id)
  end
end

-- Is it a job that was made here, and never run or planned?
function job.is_untouched(value)
  return getmetatable(value) == Job and not (value._found or value._touched)
end

-- Can it be found again? A name alone has another id each time.
function job.is_lasting(found) return found._given_id or found._once or found._found or false end

-- Gives one that could not be found again this id.
function job.settle(found, id)
  if job.is_lasting(found) then return end
  core.job_id_check(id)
  found.id, found._given_id, found._orphan.own = id, true, id
end

-- Takes the lock and makes the change. -> {job=, state=, changed=, unchanged=, ...}, with `already` where
-- `once` found it done. What stops it half-way is raised, and says how to go on; the lock then stays as a
-- guard. What stops it before anything was changed gives the lock back.
function Job:run()
  self._touched = true
  records.ready(self._client)
  purge.some(self._client)
  guards.sweep(self._client)
  local result
  if self._once then
    result = orphans.past(self._client, self._orphan, function()
      return earlier.met(self._client, self.id, true)
    end)
  elseif self._given_id then -- another may have had it
    earlier.met(self._client, self.id)
  end
  return result or carry_out(self, "run")
end

-- Does what is left of one whose process is gone, or which stopped: all of it, where nothing was begun. One
-- that is done stays as it is.
-- Only the script has a change that is a function.
function Job:resume()
  local record = records.get(self._client, self.id)
  local refused = record and record.state == "undone" and not record.began
  check_function(self, not refused and record or nil)
  local result = carry_out(self, refused and "run" or "resume")
  if record and record.state == "done" then -- what it has set aside stays that
    result.rejected, result.conflicts = record.counts.rejected, record.counts.conflicts
  end
  return result
end

-- Undoes what it has done: each document that still is what the job made of it becomes what it was, byte for
-- byte. Raises conflict, with all else undone, where others have changed documents since. A rename without a
-- journal is undone by renaming back whatever lies below `to`; the result's `others` says how many of these
-- are not the job's, at least. `others`: with more than that it raises conflict, with nothing undone.
function Job:rollback(given)
  self._most_others = options.check("rollback", job_spec.rollback_rows, given or {}).others
  return carry_out(self, "undo")
end

-- What a rollback would do, as of now: takes no lock, writes nothing. -> {job=, state=, by= ("journal" or
-- "renaming back"), changed= (documents that would be written), kept= (by the journal: how many of the job's
-- would stay as others have changed them, or deleted), others= (by renaming back: at least so many are not
-- the job's)}
function Job:plan_rollback()
  local record = records.need(self._client, self.id)
  return undoing.look(self._client, record, undo_options(self))
end

-- For commands, before they ask: the same without a look at the journal, so without `kept`, and `changed` is
-- at most.
function job.foresee_rollback(self)
  local record = records.need(self._client, self.id)
  return undoing.foresee(self._client, record, undo_options(self))
end

-- Ends one as it is that stands because of what it has set aside, and gives its lock back: that stays listed,
-- and it can be undone still. Needs no function.
function Job:accept() return carry_out(self, "accept") end

-- Does it stand half-done? Raises what would keep it from being run or resumed. Within its own run nothing
-- does.
local function foreseen(self)
  if self._runs then return false end
  return earlier.foreseen(self._client, job.is_lasting(self) and self.id or nil, self._once, self._found)
end

-- What the change would do, as of now: takes no lock, writes nothing. -> {matched=, changed=, rejected=,
-- bytes= (of the changed documents), estimate= (seconds), locks={{path=, mode=}, ...}, samples={{index=, id=,
-- new_id= (where it gets another), before=, after=, fields={{field=, before=, after=}, ...}}, ...}, strategy=
-- and strategy_reason= (who would make it, and why, where `strategy` is given), outside= (of `field = false`:
-- how many of those that match lie outside of the locked paths), ...}; before and after are JSON texts. Of
-- one that stands half-done, what is left of it: `stands` is true.
function Job:plan() return job.foretell(self, {}) end

-- The same for commands. `how.peeks`: only as far as its samples take, so that of the numbers only `matched`
-- and `beside` are of all; `how.identifies`: with `identity`, which two plans share only if they would do the
-- same; `how.quiet`: on_progress is not called.
function job.foretell(self, how)
  local stands = foreseen(self)
  if by_function.is(self._spec.change) and not self._function then
    by_function.refuse(self._client, "invalid_argument", self.id)
  end
  self._touched = true
  if not self._begun and (self._orphan.on_orphan or "fail") == "fail" then
    local other, path = guards.foreseen(self._client, self._spec.lock, self.id)
    if other then guards.refuse(self._client, other, path) end
  end
  local began_ms = core.now_ms()
  local o = work_options(self)
  o.peeks, o.identifies = how.peeks, how.identifies
  if self._begun or stands then o.strategy = nil end -- it has been chosen
  if (self._begun or stands) and self._spec.rename then o.merge, o.allow_empty = true, true end
  check_index(self, self._begun or stands)
  o.query, o.within = within.narrow(self._client, self._spec)
  local work = self._client:_open_core():plan(o)
  local watcher = not how.quiet and self._on_progress or nil
  local result = watched(work, watcher, "planning job " .. self.id, nil, runner(self))
  if result.strategy_refused then
    errors.raise("unsupported", 'strategy "server": %s', result.strategy_reason)
  end
  result = finished(self, result, began_ms)
  result.stands = stands
  if not how.peeks then result.outside = within.outside(self._client, self._spec) end
  return plan.complete(result, self._spec, self._client:url())
end

-- Its record: {job=, state=, stands=, alive=, counts=, reason=, created=, updated=, spec=, ...}; nil before
-- its first run.
function Job:status()
  return (records.get(self._client, self.id))
end

-- Iterators over the documents that the job, or its undoing, left as they are, in no order: {id=, index=,
-- type=, reason=}, as of the last pass over what matches. Those that the store or the change refused; those
-- that someone else had changed each time.
function Job:rejected() return records.aside(self._client, self.id, "rejected") end
function Job:conflicts() return records.aside(self._client, self.id, "conflict") end

orders.steer(Job)

function Job:__tostring() return "job " .. self.id end

-- ---- Finding it ----------------------------------------------------------------------------------

-- `also.change`: a function, if it is one.
local function new(client, id, spec, also)
  local change = by_function.is(spec.change) and also.change or nil
  return setmetatable({
    id = id, name = spec.name, _client = client, _spec = spec, _wait = also.wait, _once = also.once,
    _given_id = also.id ~= nil, _found = also.found, _max_rejected = job_spec.to_bound(also.max_rejected),
    _on_progress = also.on_progress, _begun = also.begun, _patience = also.wait_for_writes,
    _function = change, _hooks = job_spec.to_hooks(also),
    _orphan = {on_orphan = also.on_orphan, wait = also.wait, own = id, change = change},
  }, Job)
end

-- A job that is not yet begun; nothing is sent.
function job.new(client, given)
  local o = options.check("job", job_spec.rows, given)
  local id = job_spec.make_id(o)
  return new(client, id, job_spec.of(o), o)
end

-- For commands: how long it waits for writes, whatever it says itself; nil: as it says.
function job.set_patience(self, wait_ms) self._patience = wait_ms or self._patience end

-- For commands: {on_orphan=, rate=, batch=, concurrency=}, each in place of its own.
function job.adjust(self, given)
  self._orphan.on_orphan = given.on_orphan or self._orphan.on_orphan
  for _, name in ipairs {"rate", "batch", "concurrency"} do
    self._spec[name] = given[name] or self._spec[name]
  end
end

-- For commands: `show` is called as `on_progress` is, and before it.
job.watch = orders.watch

-- For commands: `check({matched=, beside=})` is called under the job's lock before anything is written, and
-- before `on_start`. Its error ends the job.
function job.before(self, check) self._check = check end

function job.client(self) return self._client end

-- For commands: what it is, as its document has it.
function job.spec(self) return core.json_decode(job_spec.text(self._spec)) end

-- For commands: another `max_rejected`, as text; nil: its own.
function job.allow(self, max_rejected)
  local text = job_spec.to_bound(max_rejected)
  self._max_rejected = text or self._max_rejected
  self._spec.max_rejected = text or self._spec.max_rejected
end

-- The job of this id, from its document alone; raises not_found.
function job.get(client, id, given)
  local record, view = records.need(client, id)
  if record.spec.unborn then guards.refuse_unborn(id) end
  if record.spec.migrate then return migrate.found(client, record, given) end
  local o = options.check("get_job", job_spec.get_rows, given)
  o.begun, o.found = record.state ~= "undone", true
  return new(client, id, job_spec.read(view), o)
end

-- Ends, as `o.on_orphan` says, what a process has left half-done, and gives its lock back; with nothing to do
-- where another process has ended it meanwhile, and otherwise an error where that says "fail". One that is
-- half undone can only be undone.
function job.recover(client, id, o)
  local record, view = records.get(client, id)
  if not record or records.over[record.state] then return guards.clear(client, id, o.wait) end
  if (o.on_orphan or "fail") == "fail" then earlier.refuse_orphaned(client, record) end
  local undoes = o.on_orphan == "rollback" or record.state == "undoing"
  if record.spec.migrate then
    local found = migrate.found(client, record, {wait = o.wait})
    return undoes and found:rollback() or found:resume()
  end
  local also = {wait = o.wait, on_orphan = o.on_orphan, change = o.own == id and o.change or nil}
  local found = new(client, id, job_spec.read(view), also)
  if not undoes and by_function.is(found._spec.change) and not found._function then
    by_function.refuse(client, "orphaned_job", id)
  end
  return carry_out(found, undoes and "undo" or "resume", true)
end

names.class(Job, "job")

return job
