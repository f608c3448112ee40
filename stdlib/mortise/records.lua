-- The documents of jobs (core/job/record.h), as scripts and people read them.
local argument = require "mortise.argument"
local by_function = require "mortise.by_function"
local core = require "mortise.core"
local errors = require "mortise.errors"
local hint = require "mortise.hint"
local sessions = require "mortise.sessions"
local warn = require "mortise.warn"

local records = {}

local ASIDE_PAGE = 10 -- lists at once, each of a batch's documents

-- Makes the jobs' index where it is missing; that there is one already is fine.
function records.make_index(client)
  local own = client:_open_core()
  local ok, why = pcall(own.index_create, own, own:jobs_index(), core.job_table())
  if not ok and errors.code(why) ~= "conflict" then error(why, 0) end
end

-- The name of the jobs' index; nil where an embedded store has none, since its first job makes it. Raises
-- not_found where a server has none.
local function find_index(client)
  local own = client:_open_core()
  local index = own:jobs_index()
  if own:describe(index).exists then return index end
  if client:_is_embedded() then return nil end
  errors.raise("not_found", "there is no index %s for jobs in %s: run `%s init` once", index,
    client:url(), hint.mortise(client))
end

records.find_index = find_index

-- The same where there must be one.
function records.index(client)
  return find_index(client) or errors.raise("not_found", "there are no jobs in %s", client:url())
end

-- The same for who lists what is there, which is then up to date, or, for who may not refresh, of a moment
-- ago; nil: nothing is. A store that has no file is an error: its name is mistyped, most likely.
function records.index_to_list(client)
  local index = find_index(client)
  local ok, why = pcall(client.refresh, client, index or client:_open_core():jobs_index())
  if not ok and index and errors.code(why) == "auth" then
    warn("this user may not refresh %s: what is newer than a moment may be missing", index)
  elseif not ok and (index or why.type ~= "index_not_found_exception") then
    error(why, 0)
  end
  return index
end

-- Before a job's first request: an embedded store is made ready at its first use, as for locks.
function records.ready(client)
  if client:_is_embedded() then records.make_index(client) else records.index(client) end
end

local count_names = {"matched", "changed", "deleted", "unchanged", "conflicts", "rejected", "restored"}

-- `kept`: what an undoing has left as others have made it.
local function read_counts(body)
  local counts = core.object {kept = body.counts.left or 0}
  for _, name in ipairs(count_names) do counts[name] = body.counts[name] or 0 end
  return counts
end

-- Iterates over what is listed as set aside (core/job/aside.h): page by page, however much there is.
function records.aside(client, id, what)
  local index = records.index(client)
  local view = client:get(index, client:namespace() .. ":" .. id)
  if not view then return function() end end
  client:refresh(index)
  local marks = core.array {view.body.aside}
  if marks[1] ~= "undo" then marks[2] = "unsure" end
  local filter = core.array {{terms = {state = marks}}}
  for name, value in pairs {kind = "aside", ns = client:namespace(), job = id} do
    filter[#filter + 1] = {term = {[name] = value}}
  end
  return coroutine.wrap(function()
    for list in client:scan(index, {query = {bool = {filter = filter}}, page = ASIDE_PAGE}) do
      for _, each in ipairs(core.json_decode(core.json(list.body.list))) do
        if each.what == what then
          coroutine.yield {id = each.id, index = each.index, type = each.type, reason = each.reason}
        end
      end
    end
  end)
end

-- Who wrote it last, for people: {user=, host=, pid=, program=, script=}, each where it is known.
local function read_by(given)
  local by = core.object {}
  for _, name in ipairs {"user", "host", "pid", "program", "script"} do
    local value = given[name]
    if type(value) == "string" or math.type(value) == "integer" then by[name] = value end
  end
  return by
end

local states = {running = true, stopped = true, done = true, undoing = true, undone = true, removed = true}

local function is_text_list(list)
  for _, each in ipairs(list) do
    if type(each) ~= "string" then return false end
  end
  return true
end

-- What `tune` is to put back: {{index=, before=}, ...}, without `before` where nothing was set; or nil.
local function is_tuned(list)
  for _, each in ipairs(list or {}) do
    if not is_text_list {each.index, each.before} then return false end
  end
  return true
end

-- Anyone with the right to write may have written anything there.
local function check(record)
  local spec = record.spec
  local change = spec.rename or spec.change or spec.migrate
  assert(states[record.state] and type(record.job) == "string" and type(record.session) == "string")
  assert(type(spec.index) == "string" and type(spec.lock.kind) == "string" and is_text_list(spec.lock.paths))
  assert(type(change) == "table" or change == "function")
  assert(not spec.rename or is_text_list {change.from, change.to})
  assert(not spec.rename or is_text_list(type(change.field) == "table" and change.field or {change.field}))
  assert(not spec.rename or change.ids == nil or change.ids == true)
  assert(not spec.field or type(spec.field) == "string")
  assert(is_tuned(spec.tuned) and (spec.journal == nil or spec.journal == false))
  for _, n in pairs(record.counts) do assert(math.type(n) == "integer") end
  assert(math.type(record.total) == "integer" and math.type(record.swept or 0) == "integer")
  return record
end

-- Was anything of it ever begun?
local function has_begun(body)
  for _, n in ipairs(body.batches) do
    if n > 0 then return true end
  end
  return #body.also > 0 or body.undo_by == "inverse" or body.work ~= nil
end

-- How many batches it has in its journal, of all attempts.
local function count_batches(body)
  local all = 0
  for _, n in ipairs(body.batches) do all = all + n end
  return all
end

-- Has it given its lock back for the moment (core/job/job.c, mt_job_yield)?
local function lets_others_in(view)
  local body = view.body
  local lets = view.state == "stopped" and body.spec.yield_every ~= nil
  return lets and body.reason:find "^others are let in" ~= nil or nil
end

local function read_sound(view)
  local body = view.body
  return check(core.object {
    job = view.job, state = view.state, reason = body.reason ~= "" and body.reason or nil,
    created = view.created / 1000, updated = view.updated / 1000, attempts = #body.batches,
    batches = count_batches(body),
    began = has_begun(body), session = body.session, renames_back = body.undo_by == "inverse" or nil,
    halted = body.halted ~= "" and body.halted or nil,
    waits = body.waits ~= "" and body.waits or nil, orders = body.orders or 0,
    strategy = body.strategy ~= "" and body.strategy or nil,
    strategy_reason = body.strategy_why ~= "" and body.strategy_why or nil,
    sweeps = body.sweeps == true or nil, swept = body.sweeps and body.swept or nil,
    task = body.sweeps and body.task ~= "" and body.task or nil,
    not_after = body.sweeps and math.type(body.not_after) == "integer" and body.not_after > 0
      and body.not_after / 1000 or nil,
    counts = read_counts(body), total = body.total or 0,
    found = body.total or 0, -- `total` becomes another thing once it is undone
    lets_in = lets_others_in(view),
    work = body.work and core.json_decode(core.json(body.work)) or nil,
    rate = body.speed, by = body.by and read_by(body.by) or nil,
    spec = core.json_decode(core.json(body.spec)),
  })
end

-- The record; nil where the document is not as this program writes it.
function records.read(view)
  local ok, record = pcall(read_sound, view)
  return ok and record or nil
end

local at_work = {running = true, undoing = true}

-- The states of a job of which nothing is left half-done.
records.over = {done = true, undone = true, removed = true}

-- Adds how far it is: `done` of `total` documents (nil: it is not known yet how many), what is `left` of
-- them, and while somebody is at work on it the `rate`, documents a second, and the `seconds_left`.
local function add_progress(record)
  local counts = record.counts
  local undoes = record.state == "undoing" or record.state == "undone"
  if undoes then
    record.total, record.done = counts.changed + counts.deleted, counts.restored + counts.kept
  else
    record.done = counts.changed + counts.deleted + counts.unchanged + counts.conflicts + counts.rejected
      + (record.swept or 0)
  end
  if records.over[record.state] then record.total = record.done end
  local is_known = undoes or records.over[record.state] or record.total > 0
  record.total = is_known and math.max(record.total, record.done) or nil
  record.left = is_known and record.total - record.done or nil
  local rate = record.alive and not record.waits and math.type(record.rate) == "integer" and record.rate or 0
  record.rate = rate > 0 and rate or nil
  record.seconds_left = record.rate and record.left and (record.left + rate - 1) // rate or nil
end

-- Adds who is at each: `alive`, and whether it `stands` half-done, to be resumed or rolled back.
local function judge(client, list, namespace)
  local ids, now = {}, core.wall_ms()
  for _, record in ipairs(list) do
    if at_work[record.state] then ids[#ids + 1] = record.session end
  end
  local known = #ids > 0 and client:_read_sessions(ids, namespace) or {}
  for _, record in ipairs(list) do
    local session = at_work[record.state] and known[record.session]
    record.alive = session and not sessions.judge(session, now).dead or false
    record.owner = record.alive and sessions.owner_text(session.owner) or nil
    record.waits = record.alive and record.waits or nil
    record.stands = record.state == "stopped" or at_work[record.state] and not record.alive or false
    -- Its process wrote that down about once a second (core/job/keeper.c), and was killed after that.
    record.at_least = at_work[record.state] and record.stands or nil
    if record.counts then add_progress(record) end -- else its document is damaged
  end
  return list
end

-- The id of a job's document.
function records.document_id(client, id) return client:namespace() .. ":" .. id end

-- The job's record and the view of its document; nil where there is none. `namespace`: not this client's.
function records.get(client, id, namespace)
  core.job_id_check(argument.name("get_job", "id", id))
  local index = find_index(client)
  local view = index and client:get(index, namespace and namespace .. ":" .. id
    or records.document_id(client, id))
  if not view then return nil end
  local record = records.read(view)
  if not record then
    errors.raise("corrupt_table", "the document of job %s is not as this program writes it", id)
  end
  return judge(client, {record}, namespace)[1], view
end

-- The same; raises not_found where there is none.
function records.need(client, id)
  local record, view = records.get(client, id)
  if record then return record, view end
  errors.raise("not_found", "there is no job %s in namespace %s", id, client:namespace())
end

-- Those of a namespace (nil: this client's), in these states or in any.
local function is_counts(list)
  for i = 1, 5 do
    if math.type(list[i]) ~= "integer" then return false end
  end
  return true
end

-- How it went, as its document tells it (core/job/history.h): {points = {{at=, attempt=, done=, aside=,
-- undoing=}, ...}, turns = {{at=, attempt=, undoing=, by=}, ...}}, times in seconds. What is not as this
-- program writes it is left out.
function records.went(client, id)
  local index = find_index(client)
  local view = index and client:get(index, records.document_id(client, id))
  local body = view and view.body
  local points, turns = core.array {}, core.array {}
  for _, each in ipairs(body and core.is_view(body.points) == "array" and body.points:_table() or {}) do
    if type(each) == "table" and is_counts(each) then
      points[#points + 1] = {
        at = each[1] / 1000, attempt = each[2], done = each[3], aside = each[4], undoing = each[5] == 1,
      }
    end
  end
  for _, each in ipairs(body and core.is_view(body.turns) == "array" and body.turns:_table() or {}) do
    local is_good = type(each) == "table" and math.type(each.at) == "integer"
      and math.type(each.attempt) == "integer" and type(each.by) == "table"
    if is_good then
      turns[#turns + 1] = {
        at = each.at / 1000, attempt = each.attempt, undoing = each.undoing == true, by = read_by(each.by),
      }
    end
  end
  table.sort(points, function(a, b) return a.at < b.at end)
  return {points = points, turns = turns}
end

local function list_of(client, wanted, namespace)
  local index, list = records.index_to_list(client), core.array {}
  local filter = {{term = {kind = "job"}}, {term = {ns = namespace or client:namespace()}}}
  if wanted then filter[#filter + 1] = {terms = {state = wanted}} end
  if not index then return list end
  for view in client:scan(index, {query = {bool = {filter = filter}}}) do
    list[#list + 1] = records.read(view)
      or core.object {job = view._id, state = "damaged", created = 0, stands = false}
  end
  table.sort(list, function(a, b)
    if a.created ~= b.created then return a.created < b.created end
    return core.before(a.job, b.job)
  end)
  return judge(client, list, namespace)
end

-- All of this namespace, the oldest first; one whose document is of no use has the state "damaged".
function records.list(client) return list_of(client) end

-- Those that are not over: they run, or stand half-done. `namespace`: not this client's.
function records.unfinished(client, namespace)
  return list_of(client, {"running", "stopped", "undoing"}, namespace)
end

-- Those that stand half-done.
function records.standing(client, namespace)
  local list = core.array {}
  for _, record in ipairs(records.unfinished(client, namespace)) do
    if record.stands then list[#list + 1] = record end
  end
  return list
end

-- Migrations that have been cut over and not finished.
function records.open_migrations(client)
  local list = core.array {}
  for _, record in ipairs(list_of(client, {"done"})) do
    if records.is_open(record) then list[#list + 1] = record end
  end
  return list
end

-- Only under the job's lock.
local function change_body(client, id, fn)
  local function change(view) fn(view.body) end
  client:update(records.index(client), records.document_id(client, id), change, {unguarded = true})
end

-- Writes down why it is not as it should be. Only when it is over.
function records.note(client, id, reason)
  change_body(client, id, function(body) body.reason = reason end)
end

-- Writes down what `tune` has to put back (tune.lua); nil: nothing.
function records.set_tuned(client, id, list)
  change_body(client, id, function(body) body.spec.tuned = list end)
end

-- Changes what a job whose work is done in Lua says of it (lua_outside.c). Only when it is over.
function records.set_work(client, id, fn)
  change_body(client, id, function(body)
    local work = core.json_decode(core.json(body.work))
    fn(work)
    body.work = work
  end)
end

-- Is its id its name and digits that no other run of it will have?
function records.has_random_id(record)
  local name = record.spec.name
  return type(name) == "string" and record.job:sub(1, #name + 1) == name .. "-" and #record.job == #name + 9
end

-- How a record's job is gone on with; nil: by `mortise jobs resume`.
local function own_resume(client, record)
  local migrate = record.spec.migrate
  if by_function.is(record.spec.change) then return by_function.command(client) end
  if not (migrate and migrate.change == "function") then return nil end
  return ("%s migrate %s %s --id %s --change FILE --resume"):format(hint.mortise(client), migrate.from,
    migrate.to,
    record.job)
end

-- Has it been cut over, so that it is to be finished, or taken back?
function records.is_open(record)
  return record.state == "done" and record.work ~= nil and record.work.phase == "swapped"
end

-- What is said of one that stands; `halted`: because of what it has set aside.
function records.advice(client, id, state, change, halted)
  local mortise = hint.mortise(client)
  local rollback = ("`%s jobs rollback %s`"):format(mortise, id)
  if state == "undoing" then return ("job %s is half undone: %s goes on"):format(id, rollback) end
  local is_function = by_function.is(change)
  local resume = is_function and by_function.command(client) or ("%s jobs resume %s"):format(mortise, id)
  local needs = is_function and by_function.needs(id) or ""
  if halted then
    return ("job %s stands, since it has set aside more than its `max_rejected` allows: `%s --max-rejected "
      .. "100%%` goes on without, `%s jobs accept %s` ends it as it is, %s undoes it"):format(id, resume,
        mortise,
      id, rollback)
  end
  return ("job %s stands half-done: `%s` goes on%s, %s undoes it"):format(id, resume, needs, rollback)
end

-- What may be done about it: {verb = "resume", "rollback" or another, command =, why =}, the likelier first.
function records.next_steps(client, record)
  local mortise = hint.mortise(client)
  local function step(verb, why, command)
    command = command or ("%s jobs %s %s"):format(mortise, verb, record.job)
    return core.object {verb = verb, command = command, why = why}
  end
  local phase = record.alive and record.work and record.work.phase
  if phase == "in step" then
    local cutover = step("cutover", "blocks the old index, copies the rest, moves the alias if it has one")
    return record.spec.migrate.to_store and {step("finish", "ends it"), cutover} or {cutover}
  end
  if records.is_open(record) or phase == "following" then
    return {step("finish", "ends it: there is no way back from there"), step("rollback", "goes back")}
  end
  if record.state == "done" then return record.work and {} or {step("rollback", "undoes it")} end
  if record.state == "undone" and record.began and not records.has_random_id(record) then
    return {step("purge", "removes it, so that it can be run again")}
  end
  if record.waits and record.waits:find "^paused by " then return {step("resume", "lets it go on")} end
  if not record.stands then return {} end
  if record.state == "undoing" then return {step("rollback", "goes on undoing it")} end
  local needs = by_function.is(record.spec.change) and by_function.needs(record.job) or ""
  local steps = {
    step("resume", "does what is left" .. needs, own_resume(client, record)), step("rollback",
      "undoes what it did"),
  }
  if record.halted then table.insert(steps, 2, step("accept", "ends it as it is")) end
  return steps
end

return records
