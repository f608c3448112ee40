-- Versioned scripts: mortise.up{dir=} runs those of a folder that have not been run, in order, each once.
--
-- Only who holds the lock of the namespace's ledger runs any. An entry says `running` before its script is
-- called, and has the id of its job before that is begun, so that whoever comes after a process that died
-- knows what to go on with.
local client = require "mortise.client"
local context = require "mortise.context"
local core = require "mortise.core"
local errors = require "mortise.errors"
local hint = require "mortise.hint"
local ledger = require "mortise.ledger"
local losses = require "mortise.losses"
local mortise = require "mortise"
local namespaces = require "mortise.namespaces"
local options = require "mortise.options"
local printable = require "mortise.printable"
local records = require "mortise.records"
local sessions = require "mortise.sessions"
local version_files = require "mortise.version_files"
local works = require "mortise.version_works"

local versions = {}

local function version_row(name, help)
  return {
    name = name, type = "integer", least = 0, range = "the number of a version",
    flag = "--" .. name, value = "N", help = help,
  }
end

versions.rows = {
  version_row("to", "run none of a higher version"),
  {name = "dry_run", type = "boolean", flag = "--dry-run",
    help = "only say what would be run: takes no lock, runs and writes nothing"},
  {name = "status", type = "boolean", flag = "--status",
    help = "only say what has become of each version: takes no lock, writes nothing"},
  {name = "out_of_order", type = "boolean", flag = "--out-of-order",
    help = "run also those whose version is lower than one that was run"},
  {name = "repair", type = "boolean", flag = "--repair",
    help = "run nothing; accept the files as they are: changed and missing ones, and a job's complaints"},
  version_row("baseline", "run nothing; note those up to N as run, in a namespace where none was"),
  {name = "wait", type = "duration", help = "how long to wait for another `up`"},
}

options.register({"up"}, options.join({{name = "dir", type = "string", required = true,
  help = "the folder of the scripts"}}, versions.rows))

-- "V7" for people.
local function shown(version) return ("V%d"):format(version) end

-- ---- What is there, and what is wrong ------------------------------------------------------------

local over = {done = true, baseline = true}

local function problem(kind, version, format, ...)
  return core.object {problem = kind, version = version, message = shown(version) .. format:format(...)}
end

local function compare(entry, script)
  if not over[entry.state] then return nil end
  if entry.name ~= script.name then
    return problem("changed", entry.version, " was run as %s and is called %s now: give the file its name "
      .. "back, or accept the new one with --repair", entry.name, script.name)
  elseif entry.checksum ~= script.checksum then
    return problem("changed", entry.version, ", %s, was changed since it was run: put back what was run, and "
      .. "write the change as a new version; or accept the file as it is with --repair", script.file)
  end
end

local function last_over(entries)
  local last = -1
  for _, entry in ipairs(entries) do
    if over[entry.state] then last = math.max(last, entry.version) end
  end
  return last
end

local function is_gap(script, entry, last)
  local was_run = entry and entry.state ~= "undone" and entry.state ~= "undoing"
  return not was_run and script.version < last
end

-- The ledger, in which one whose job was rolled back since counts as undone, or is being undone.
local function read_book(own, namespace)
  local book = ledger.read(own, namespace)
  for _, entry in ipairs(book.entries) do
    local record = entry.state == "done" and entry.job and records.get(mortise.client(), entry.job)
    local is_taken_back = record and (record.state == "undone" or record.state == "undoing")
    if is_taken_back then entry.state = record.state end
  end
  return book
end

local function orphaned(id, format, ...)
  error(core.error {
    code = "orphaned_job", job = id, retryable = false, message = format:format(...),
  }, 0)
end

local function raise_complaint(entry, record)
  local counts = record.counts
  local aside = counts.rejected + counts.conflicts
  local accepted = record.reason and record.reason:find "^accepted by "
  if accepted or aside == 0 and not entry.unsettled then return end
  errors.raise("rejected", "job %s is done, but %s: `%s jobs rollback %s` undoes it, so that the script "
    .. "is run anew; --repair takes it as done", entry.job, aside == 0 and entry.reason
      or ("%d documents were set aside (`%s jobs show %s --%s`)"):format(aside, hint.mortise(), entry.job,
        counts.rejected > 0 and "rejected" or "conflicts"), hint.mortise(), entry.job)
end

-- Raises what keeps a script from being gone on with, whose earlier attempt has begun a job.
local function check_earlier(entry, script)
  local record = entry.job and records.get(mortise.client(), entry.job)
  local is_open = record and (record.stands or record.alive)
  if is_open and entry.checksum ~= script.checksum then
    orphaned(entry.job,
      "%s, %s, was changed since its job %s was begun, which is half-done: put back what was "
      .. "run, or undo that first: `%s jobs rollback %s`", shown(script.version), script.file, entry.job,
      hint.mortise(), entry.job)
  elseif record and record.state == "undoing" then
    orphaned(entry.job, "%s", records.advice(mortise.client(), entry.job, record.state, record.spec.change))
  elseif record and record.state == "done" then
    raise_complaint(entry, record)
  end
end

-- The name that its file had.
local function file_of(entry)
  return entry.file or ("V%d__%s.lua"):format(entry.version, entry.name)
end

-- What keeps any from being run: {{problem=, version=, message=}, ...}
local function problems_of(scripts, book, out_of_order)
  local list, there, last = core.array {}, {}, last_over(book.entries)
  for _, script in ipairs(scripts) do
    local entry = book:find(script.version)
    there[script.version] = true
    list[#list + 1] = entry and compare(entry, script)
    if is_gap(script, entry, last) and not out_of_order then
      list[#list + 1] = problem("gap", script.version, ", %s, %s, and %s was run: rename it to a version "
        .. "above that, or run it now with --out-of-order", script.file,
        entry and "was undone" or "was not run",
        shown(last))
    end
  end
  for _, entry in ipairs(book.entries) do
    -- What was undone may have been given a later version.
    if not (there[entry.version] or entry.removed or entry.state == "undone") then
      list[#list + 1] = problem("missing", entry.version,
        ": %s is missing: put it back; or, if it was removed "
        .. "on purpose, accept that with --repair", file_of(entry))
    end
  end
  table.sort(list, function(a, b) return a.version < b.version end)
  return list
end

local function refuse(problems)
  if #problems == 0 then return end
  local lines = {}
  for i, each in ipairs(problems) do lines[i] = each.message end
  error(core.error {
    code = "conflict", retryable = false, message = table.concat(lines, "\n"), problems = problems,
  }, 0)
end

-- Those that are to be run, in order. `into` (or nil) gets, as problems, what keeps one from being gone on
-- with; without it that is raised.
local function pending_of(scripts, book, to, into)
  local list = {}
  for _, script in ipairs(scripts) do
    local entry = book:find(script.version)
    local is_pending = not (entry and over[entry.state])
    if is_pending and script.version <= (to or math.maxinteger) then
      list[#list + 1] = script
      local ok, why = true, nil
      if entry then ok, why = pcall(check_earlier, entry, script) end
      if not ok and not (into and core.is_error(why) and why.code ~= "interrupted") then error(why, 0) end
      if not ok then into[#into + 1] = problem(why.code, script.version, ": %s", why.message) end
    end
  end
  return list
end

-- ---- How it is shown -----------------------------------------------------------------------------

-- Is somebody at work on it, or was it cut off?
local function state_of(own, entry)
  if entry.state ~= "running" or not own then return entry.state end
  local session = entry.session and own:_read_sessions({entry.session})[entry.session]
  return sessions.judge(session, core.wall_ms()).dead and "cut off" or "running"
end

-- As scripts and --json get it; of the script and the entry one may be nil.
local function row_of(script, entry, own)
  local row = core.object {
    version = (script or entry).version, name = (script or entry).name, file = script and script.file,
    state = entry and state_of(own, entry) or "pending",
  }
  if not entry then return row end
  row.began, row.seconds = entry.began / 1000, entry.took and entry.took / 1000
  for _, name in ipairs {"checksum", "by", "job", "changed", "reason"} do row[name] = entry[name] end
  if not script and entry.state ~= "undone" then row.state = entry.removed and "removed" or "missing" end
  return row
end

local function status_of(own, scripts, book, o)
  local rows, there = core.array {}, {}
  for _, script in ipairs(scripts) do
    there[script.version] = true
    rows[#rows + 1] = row_of(script, book:find(script.version), own)
  end
  for _, entry in ipairs(book.entries) do
    if not there[entry.version] then rows[#rows + 1] = row_of(nil, entry, own) end
  end
  table.sort(rows, function(a, b) return a.version < b.version end)
  local problems = problems_of(scripts, book, o.out_of_order)
  local kinds = {}
  pending_of(scripts, book, nil, problems)
  for _, row in ipairs(rows) do
    if row.state == "undone" and row.file then
      problems[#problems + 1] = problem("undone", row.version,
        ": its job %s was rolled back: `%s up` runs the "
        .. "script anew", row.job, hint.mortise())
    end
  end
  for _, each in ipairs(problems) do kinds[each.version] = kinds[each.version] or each.problem end
  for _, row in ipairs(rows) do row.problem = kinds[row.version] end
  return {versions = rows, problems = problems}
end

-- ---- Running one ---------------------------------------------------------------------------------

local function itself(why) return why end

-- Calls it in a task of its own, so that tasks which it leaves behind end with it. -> did it go well, result
local function in_a_task(fn, ...)
  local task = core.spawn(fn, ...)
  while true do -- an error that interrupted an earlier join is not its result
    local done = task:done()
    local ok, result = core.catch(task.join, itself, task)
    if done then return ok, result end
  end
end

local function refuse_exit()
  errors.bad "os.exit: a versioned script ends by returning, or with an error"
end

local Surroundings = {}

function Surroundings:__close()
  os.exit, package.path = self.exit, self.path -- luacheck: globals os.exit
end

-- While a script runs `require` looks beside it first, and the process does not end before the ledger says
-- how it went.
local function surround(script)
  local before = setmetatable({exit = os.exit, path = package.path}, Surroundings)
  local folder = script.file:match "^(.*)/[^/]*$"
  if not folder:find "[;?]" then
    package.path = ("%s/?.lua;%s/?/init.lua;%s"):format(folder, folder, package.path)
  end
  os.exit = refuse_exit -- luacheck: globals os.exit
  return before
end

-- The job was begun by an earlier attempt. -> its result
local function go_on(entry, work, kind)
  local record = work:status()
  if not record then return work:run() end
  if record.state == "undone" then
    if record.began then kind.remove(work) end
    entry.unsettled, entry.reason = nil, nil
    return work:run()
  elseif record.state == "done" then
    return {changed = record.counts.changed}
  end
  return work:resume()
end

-- One of this id that was begun is not the script's: running it says so.
local function is_free(work)
  local record = work:status()
  return not record or record.state == "undone" and not record.began
end

-- While the job that it has begun stands, it may return no other.
local function check_same(entry, work)
  local is_other = entry.job and (not work or work.id ~= entry.job)
  local old = is_other and records.get(mortise.client(), entry.job)
  if not old or not old.stands then return end
  orphaned(old.job, "it returned job %s before, which stands half-done, and now %s: `%s jobs rollback "
    .. "%s` undoes that", old.job, work and "job " .. work.id or "none", hint.mortise(), old.job)
end

local function do_work(run, entry, work, kind)
  if run.watch then kind.watch(work, run.watch) end
  if entry.job == work.id then return go_on(entry, work, kind) end
  if not is_free(work) then return work:run() end
  entry.job = work.id
  run.book:write()
  return work:run()
end

-- The script, and what it returns. -> the result of that
local function call(run, entry, script)
  local _ <close> = context.at("%s", script.file)
  local work, kind = works.of(version_files.load(script)(), script.stem)
  check_same(entry, work)
  if work then return do_work(run, entry, work, kind) end
  entry.job = nil
  return {}
end

local function me()
  local own, by = core.json_decode(core.identity()), core.object {}
  for _, name in ipairs {"user", "host", "pid"} do by[name] = own[name] end
  return by
end

local function fresh_entry(script, state)
  return {
    version = script.version, name = script.name, file = script.stem .. ".lua", checksum = script.checksum,
    state = state,
    began = core.wall_ms(), by = me(),
  }
end

-- Notes that it is being run.
local function begin(run, script)
  local old = run.book:find(script.version)
  if old then check_earlier(old, script) end
  local entry = fresh_entry(script, "running")
  entry.session = run.own:session().id
  if old then entry.job, entry.unsettled = old.job, old.unsettled end
  if old and old.unsettled then entry.reason = old.reason end
  run.book:put(entry)
  run.book:write()
  return entry
end

local function is_done(entry)
  if not entry.job then return nil end
  local ok, record = pcall(records.get, mortise.client(), entry.job)
  return ok and record and record.state == "done" or nil
end

local reason_most = 2000 -- bytes in the ledger

local function reason_of(why)
  local text = printable(core.is_error(why) and why.message or core.tostring(why), true)
  if #text <= reason_most then return text end
  return (text:sub(1, reason_most):gsub("[\xc0-\xff][\x80-\xbf]*$", "")) -- no part of a character
end

-- Notes why it failed. What was interrupted is shown as cut off. -> the error to raise
local function note_failure(run, entry, why)
  if errors.code(why) == "interrupted" then return why end
  entry.state, entry.took = "failed", core.wall_ms() - entry.began
  entry.unsettled = is_done(entry)
  if not entry.unsettled or not entry.reason then entry.reason = reason_of(why) end
  local ok, failure = pcall(run.book.write, run.book)
  return ok and why or losses.join(why, failure)
end

local function note_success(run, entry, result)
  entry.state, entry.took = "done", core.wall_ms() - entry.began
  entry.reason, entry.unsettled, entry.session = nil, nil, nil
  entry.changed = math.type(result.changed) == "integer" and result.changed or nil
  run.book:write()
end

-- Runs a script as a whole. -> its row
local function run_one(run, script)
  run.lock:check()
  local entry, mark = begin(run, script), client.mark()
  if run.begun then run.begun(script) end
  local ok, result
  do
    local _ <close> = surround(script)
    ok, result = in_a_task(call, run, entry, script)
  end
  local why
  if not ok then why = result == nil and "(the error is a nil value)" or result end
  why = losses.join(client.end_since(mark, why), losses.error())
  run.lock:check() -- without it the ledger is another's
  if why ~= nil then error(note_failure(run, entry, why), 0) end
  note_success(run, entry, result)
  local row = row_of(script, entry)
  if run.ended then run.ended(row) end
  return row
end

-- ---- All of them ---------------------------------------------------------------------------------

-- A session of its own, in a namespace of its own: that a script locks all of the namespace, or closes the
-- default client, does not concern the lock.
local function connect() return mortise.connect {namespace = namespaces.up} end

local function lock(own, namespace, wait)
  return own:acquire {named = {"up", namespace}, wait = wait and wait / 1000}
end

-- With the lock, calls fn(book, lock).
local function locked(own, namespace, o, fn)
  records.ready(own)
  local held <close> = lock(own, namespace, o.wait)
  return fn(read_book(own, namespace), held)
end

-- `into.ran` has the rows of what was run, also when the next one fails.
local function run_pending(own, scripts, namespace, o, into)
  local function look(book)
    refuse(problems_of(scripts, book, o.out_of_order))
    return pending_of(scripts, book, o.to)
  end
  if #look(read_book(own, namespace)) == 0 then return end -- without waiting for anybody
  locked(own, namespace, o, function(book, held)
    local run = {own = own, book = book, lock = held, watch = o.watch, begun = o.begun, ended = o.ended}
    for _, script in ipairs(look(book)) do into.ran[#into.ran + 1] = run_one(run, script) end
  end)
end

-- A script's job that stands is no matter of the ledger.
local function check_repair(entry)
  local record = entry.job and records.get(mortise.client(), entry.job)
  if not record or not record.stands then return end
  orphaned(entry.job, "%s: its job %s stands half-done: `%s jobs rollback %s` undoes it, and with its "
    .. "file `%s up` goes on with it", shown(entry.version), entry.job, hint.mortise(), entry.job,
      hint.mortise())
end

local function repair_one(book, entry, script)
  local wrong = script and compare(entry, script)
  local version = entry.version
  if wrong then
    entry.name, entry.checksum, entry.file = script.name, script.checksum, script.stem .. ".lua"
    return core.object {version = version, repaired = "changed"}
  elseif script and entry.unsettled then
    entry.state, entry.unsettled, entry.session, entry.reason = "done", nil, nil, nil
    return core.object {version = version, repaired = "accepted"}
  elseif script or entry.removed then
    return nil
  end
  check_repair(entry)
  if over[entry.state] then entry.removed = true else book:remove(version) end
  return core.object {version = version, repaired = "missing"}
end

local function repair(own, scripts, namespace, o)
  return locked(own, namespace, o, function(book)
    local list, by_version = core.array {}, {}
    for _, script in ipairs(scripts) do by_version[script.version] = script end
    for _, entry in ipairs(table.move(book.entries, 1, #book.entries, 1, {})) do
      list[#list + 1] = repair_one(book, entry, by_version[entry.version])
    end
    if #list > 0 then book:write() end
    return list
  end)
end

local function set_baseline(own, scripts, namespace, o)
  return locked(own, namespace, o, function(book)
    if #book.entries > 0 then
      errors.raise("conflict", "the ledger of namespace %s begins with %s already: --baseline is for one "
        .. "where nothing was run", namespace, shown(book.entries[1].version))
    end
    local list = core.array {}
    for _, script in ipairs(pending_of(scripts, book, o.baseline)) do
      list[#list + 1] = row_of(script, book:put(fresh_entry(script, "baseline")))
    end
    if #list == 0 then errors.bad("up: there is no script of version %d or lower", o.baseline) end
    book:write()
    return list
  end)
end

local function check_options(o)
  local chosen = 0
  for _, name in ipairs {"dry_run", "status", "repair", "baseline"} do
    if o[name] then chosen = chosen + 1 end
  end
  if chosen > 1 then errors.bad "up: one of --dry-run, --status, --repair and --baseline" end
  if o.to and (o.status or o.repair or o.baseline) then errors.bad "up: --to is for running and --dry-run" end
end

local function pending_rows(own, scripts, book, o)
  refuse(problems_of(scripts, book, o.out_of_order))
  local list = core.array {}
  for i, script in ipairs(pending_of(scripts, book, o.to)) do
    list[i] = row_of(script, book:find(script.version), own)
  end
  return list
end

-- The result so far is `into`, for who wants it although it fails. `o` may have, beside the options,
-- begun(script), ended(row) and watch(id) -> on_progress, for commands.
function versions.up(o, into)
  check_options(o)
  local scripts = version_files.read(o.dir)
  local namespace = mortise.client():namespace()
  local own <close> = connect()
  into.namespace, into.dir = namespace, o.dir
  if o.repair then
    into.repaired = repair(own, scripts, namespace, o)
  elseif o.baseline then
    into.baseline = set_baseline(own, scripts, namespace, o)
  elseif o.status then
    local found = status_of(own, scripts, read_book(own, namespace), o)
    into.versions, into.problems = found.versions, found.problems
  elseif o.dry_run then
    into.pending = pending_rows(own, scripts, read_book(own, namespace), o)
  else
    into.ran = core.array {}
    run_pending(own, scripts, namespace, o, into)
  end
  return into
end

-- up{dir=, to=, dry_run=, status=, out_of_order=, repair=, baseline=, wait=}, in the default client's store
-- and namespace -> {namespace=, dir=, ran={{version=, name=, file=, state=, seconds=, job=, changed=, ...},
-- ...}}; instead of `ran` with dry_run `pending`, with status `versions` and `problems`, with repair
-- `repaired`, with baseline `baseline`. What fails is raised, and nothing after it was run.
function versions.run(given)
  return versions.up(options.check("up", options.known.up, given), core.object {})
end

return versions
