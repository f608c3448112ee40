-- mortise jobs
local confirm = require "mortise.cli.confirm"
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local guards = require "mortise.guards"
local hint = require "mortise.hint"
local holds = require "mortise.cli.holds"
local job = require "mortise.job"
local job_spec = require "mortise.job_spec"
local job_orders = require "mortise.cli.job_orders"
local job_page = require("mortise.later") "mortise.cli.job_page"
local job_shown = require "mortise.cli.job_shown"
local migration = require("mortise.later") "mortise.cli.migration"
local mortise = require "mortise"
local options = require "mortise.options"
local orders = require "mortise.orders"
local output = require "mortise.cli.output"
local plan = require "mortise.cli.plan"
local progress = require "mortise.cli.progress"
local purge = require "mortise.cli.purge"
local records = require "mortise.records"
local suggest = require "mortise.suggest"
local sweeps = require "mortise.sweeps"
local undo = require "mortise.cli.undo"

local command = {
  summary = "list jobs; steer, finish or undo one",
  usage = "[ls] | VERB ID [--json]",
  help = [[
Jobs are changes that a script has begun with mortise.job{...}: what each is to do, how far it is and how it
is undone stand in the store, so that any process may go on with it.

ls         lists the jobs of the namespace: what stands, what runs, then the latest that ended; of an --index,
           --since a time ago, or --mine. One whose process is gone, or which was stopped, stands half-done:
           its lock guards its paths until it is resumed or rolled back. One that has lost its lock, as by
           `mortise locks break --abandon`, is said to have none.
show       all about one: how far it is, who steered it, the first documents that were set aside, what may be
           done; with --rejected or --conflicts the documents that were refused, or that others had changed,
           each on a line, however many.
wait       shows how far it is until nobody is at work on it any more. The exit status is 0 if it is done or
           undone then, 1 if documents were set aside or it was refused, 6 if it stands half-done, and 3 if
           it is still at work after --for TIME.
watch      the same, with a line whenever something changes (an object with --json), and all about it at the
           end.
report     all about one, for a ticket: what show says, and the documents that were set aside, by reason. With
           --html as a page in one file, with plots of how it went: `jobs report ID --html > report.html`.
plan       what it would change now; takes no lock, writes nothing. The exit status is 7 if that is nothing.
pause      whoever is at work on it, anywhere, sends nothing more until it is resumed, and keeps the lock.
throttle   how fast it may go, from now on and after it was taken over.
cancel     whoever is at work on it ends, and it stands half-done.
resume     lets one go on that is paused; does what is left of one that stands half-done. One that is done
           stays as it is.
rollback   undoes what it has done: each document that still is what the job made of it becomes what it
           was. What others have changed since is left, counted, and the exit status is 1. --dry-run only
           says what it would do. At a terminal it asks before it undoes more than 1,000 documents. A rename
           without a journal is undone by renaming back whatever lies there: where that is not all the
           job's, it asks, or needs --yes or --others N. A migration's alias goes back.
cutover    whoever is at work on a migration that waits for it (`mortise migrate --cutover manual`) cuts
           over.
finish     ends a migration that has been cut over: there is no way back from there. --delete deletes the
           old index.
accept     ends one as it is that stands because it has set aside more documents than it may: these stay
           listed, and rollback still undoes the rest.
purge      removes what is over, so that it can no longer be undone: one, or all that ended --older TIME ago
           (without it, as long ago as each is to be kept, which is 7 days unless it says otherwise). It lists
           them first, and asks at a terminal; elsewhere it needs --yes. --dry-run only lists them.

resume, rollback and accept take the job's lock over from its dead process, and give it back at the end.]],
  options = options.join({output.json_row}, job_shown.list_rows, job_orders.rows(), {
    {name = "rejected", type = "boolean", flag = "--rejected", help = "show: documents that were refused"},
    {name = "conflicts", type = "boolean", flag = "--conflicts", help = "show: those others had changed"},
    {name = "html", type = "boolean", flag = "--html", help = "report: as a page, in one file"},
    {name = "for", type = "duration", flag = "--for", value = "TIME",
      help = "wait: how long at most; without it as long as somebody is at work"},
    {name = "max_rejected", type = "string", flag = "--max-rejected", value = "N|N%",
      help = "resume: how many documents may be set aside, instead of what the job says"},
    {name = "older", type = "duration", flag = "--older", value = "TIME",
      help = "purge: those that ended so long ago"},
    {name = "dry_run", type = "boolean", flag = "--dry-run",
      help = "rollback, purge: only say what it would do"},
    {name = "delete", type = "boolean", flag = "--delete", help = "finish: the old index is deleted"},
    job_spec.patience_row,
    undo.row, confirm.row,
  }),
  arguments = {0, 2},
}

-- ---- The verbs -----------------------------------------------------------------------------------

local verbs = {}

function verbs.ls(client, ctx)
  local all, unborn = guards.mark(client, client:jobs()), core.array {}
  for _, each in ipairs(guards.left(client)) do
    if not each.record then unborn[#unborn + 1] = each.job end
  end
  local list, hidden = job_shown.choose(all, ctx.options)
  if not ctx.options.json then
    return job_shown.print_list(list, #all > #list, hidden, unborn)
  end
  for _, record in ipairs(list) do job_shown.object(record) end
  output.json {jobs = list, hidden = hidden, unborn = unborn}
end

-- A line for each document: text, or JSON.
local function print_aside(each, as_json)
  for found in each do
    if as_json then
      output.line(io.stdout, core.json(core.object(found)))
    else
      output.line(io.stdout, found.id, "  ", found.type, ": ", found.reason)
    end
  end
end

-- Why a job has no document, if anything tells.
local function why_none(client, id)
  for _, each in ipairs(guards.left(client)) do
    if each.job == id then
      return ("; its process died before it began, and left its lock: whoever wants that gives it back, as "
        .. "`%s jobs rollback %s` does"):format(hint.mortise(), id)
    end
  end
  return #guards.entries(client, id) > 0 and "; its process waits for its lock, and has not begun" or ""
end

local aside_shown, aside_reported = 3, 1000

-- The first documents that it has set aside: {id, type, reason}; of a conflict there is no type.
local function first_aside(client, record, most)
  local list, counts = core.array {}, record.counts or {}
  for _, what in ipairs {"rejected", "conflicts"} do
    if (counts[what] or 0) > 0 then
      for each in client:get_job(record.job)[what](client:get_job(record.job)) do
        if #list >= most then break end
        list[#list + 1] = core.object(each)
      end
    end
  end
  return list
end

-- What stands beside its record: for job_shown.print_one.
local function more_about(client, record)
  if record.state == "damaged" then return {} end
  local is_over = records.over[record.state]
  local aside = first_aside(client, record, aside_shown)
  return {
    limits = not is_over and orders.limits(client, record) or nil, steered = orders.steered(client, record),
    aside = #aside > 0 and aside or nil,
  }
end

function verbs.show(client, ctx, id)
  local o = ctx.options
  if o.rejected then print_aside(client:get_job(id):rejected(), o.json) end
  if o.conflicts then print_aside(client:get_job(id):conflicts(), o.json) end
  if o.rejected or o.conflicts then return end
  local record = records.get(client, id)
  if not record then
    errors.raise("not_found", "there is no job %s in namespace %s%s", id, client:namespace(),
      why_none(client, id))
  end
  guards.mark(client, {record})
  sweeps.mark(client, record)
  local more = more_about(client, record)
  if not ctx.options.json then return job_shown.print_one(record, more) end
  for name, value in pairs(more) do record[name] = value end
  output.json(job_shown.object(record))
end

-- How a job stands when nobody waits for it any more, as an exit status.
local function status_of(record)
  if record.alive then return 3 end
  if record.stands then return 6 end
  local counts = record.counts
  local fine = record.began and not record.reason and counts.rejected + counts.conflicts + counts.kept == 0
  return fine and 0 or 1
end

function verbs.wait(client, ctx, id)
  local record = job_shown.watch(client, id, ctx.options["for"])
  if ctx.options.json then
    output.json(job_shown.object(record))
  else
    output.line(io.stdout, job_shown.line(record))
  end
  return status_of(record)
end

-- As `wait`, with a line for each change of what is seen, and all about it at the end.
function verbs.watch(client, ctx, id)
  local last
  local record = job_shown.watch(client, id, ctx.options["for"], function(record)
    local line = job_shown.line(record)
    if ctx.options.json then
      output.begin_json()
      output.line(io.stdout, core.json(job_shown.object(record)))
    elseif line ~= last and not output.is_terminal(2) then
      output.line(io.stdout, holds.iso(core.wall_ms()):sub(1, 19), "Z  ", line)
    end
    io.stdout:flush()
    last = line
  end)
  local status = status_of(record)
  verbs.show(client, ctx, id)
  return status
end

-- The reasons of a list, each with how many there are, the most frequent first.
local function by_reason(list)
  local counts, names = {}, {}
  for _, each in ipairs(list) do
    local name = each.type or "conflict"
    if not counts[name] then names[#names + 1] = name end
    counts[name] = (counts[name] or 0) + 1
  end
  table.sort(names, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return core.before(a, b)
  end)
  return names, counts
end

-- All about one, for a ticket: what `show` says, and each document that was set aside, by reason.
function verbs.report(client, ctx, id)
  local record = records.need(client, id)
  local list = first_aside(client, record, aside_reported)
  if ctx.options.html then
    guards.mark(client, {record})
    sweeps.mark(client, record)
    local names, counts = by_reason(list)
    return io.stdout:write(job_page.of {
      record = record, more = more_about(client, record), went = records.went(client, id),
      store = client:url(), namespace = client:namespace(),
      aside = {list = list, names = names, counts = counts, is_part = #list >= aside_reported},
    }) and nil
  end
  if ctx.options.json then
    guards.mark(client, {record})
    for name, value in pairs(more_about(client, record)) do record[name] = value end
    record.aside = list
    return output.json(job_shown.object(record))
  end
  output.line(io.stdout, ("mortise jobs report %s, %s, %s, namespace %s"):format(id,
    holds.iso(core.wall_ms()) or "", client:url(), client:namespace()))
  verbs.show(client, ctx, id)
  local names, counts = by_reason(list)
  for _, name in ipairs(names) do
    io.stdout:write "\n"
    output.line(io.stdout, ("%d set aside: %s"):format(counts[name], name))
    for _, each in ipairs(list) do
      local is_of_it = (each.type or "conflict") == name
      if is_of_it then output.line(io.stdout, "  ", each.id, "  ", each.reason or "") end
    end
  end
  if #list >= aside_reported then
    output.line(io.stdout, ("the first %d are listed; all: %s jobs show %s --rejected, --conflicts"):format(
      #list, hint.mortise(), id))
  end
end

verbs.purge = purge

function verbs.pause(client, ctx, id) job_orders.give(client, ctx, "pause", id) end

function verbs.cancel(client, ctx, id) job_orders.give(client, ctx, "cancel", id) end

function verbs.throttle(client, ctx, id)
  job_orders.give(client, ctx, "throttle", id, job_orders.limits_of(ctx.options))
end

function verbs.plan(client, ctx, id)
  local result = client:get_job(id):plan()
  if ctx.options.json then output.json(result) else plan.print(result, "job " .. id) end
  return plan.status(result)
end

-- What is written if a second interrupt ends the program.
local function set_last_words(id, verb)
  output.last_words(("mortise: interrupted: job %s stands half-done\nto go on: %s jobs %s %s"):format(id,
    hint.mortise(), verb, id))
end

local said = {resume = "is done", rollback = "is undone"}
local ended = {resume = "done", rollback = "undone"}

local function find(client, ctx, id)
  local found = client:get_job(id, {
    on_progress = progress.watcher(id), max_rejected = ctx.options.max_rejected,
  })
  job.set_patience(found, ctx.options.wait_for_writes)
  return found
end

-- `given`: the method's options.
local function go_on(ctx, verb, found, given)
  local id, before = found.id, found:status()
  local was = before.state
  set_last_words(id, verb)
  local ok, result = pcall(found[verb], found, given)
  output.status(nil)
  if not ok then error(result, 0) end
  output.last_words(nil)
  local line, status = job_shown.already(id, result)
  result.by_server = verb == "resume" and sweeps.earlier(before, found, result) or nil
  if was ~= ended[verb] then status = 0 end
  if ctx.options.json then
    output.json(result)
    return status
  end
  if was == ended[verb] then
    output.line(io.stdout, line)
    return status
  end
  output.line(io.stdout, ("job %s %s: %d documents changed in %s%s"):format(id, said[verb], result.changed,
    duration.text(result.seconds * 1000), job_shown.by_server(result) .. undo.also(result)))
end

function verbs.accept(client, ctx, id)
  local found = client:get_job(id)
  local before = found:status()
  local result = found:accept()
  if ctx.options.json then return output.json(result) end
  if before.state == "done" then return output.line(io.stdout, ("job %s was done already"):format(id)) end
  local rest = before.halted == "short" and before.left or 0
  output.line(io.stdout, ("job %s is done as it is: %d documents changed, %d set aside%s"):format(id,
    result.changed, result.rejected + result.conflicts,
    rest > 0 and (", %d not looked at"):format(rest) or ""))
end

function verbs.cutover(client, ctx, id) migration.cut_over(ctx, client, id) end
function verbs.finish(client, ctx, id) migration.finish(ctx, client, id) end

-- Of a job without a document: gives back what its dead process has left, which undoes it. -> was there
-- anything?
local function has_given_back(client, ctx, id)
  local n = guards.clear(client, id)
  if n == 0 then return false end
  if ctx.options.json then
    output.json {job = id, state = "none", released = n}
  else
    output.line(io.stdout, ("job %s had not begun: its lock was given back"):format(id))
  end
  return true
end

-- Of one that someone is at work on, only the pause is ended.
function verbs.resume(client, ctx, id)
  local record = records.get(client, id)
  if not record and guards.clear(client, id) > 0 then guards.refuse_unborn(id) end -- it is not done
  if record and record.alive and orders.is_paused(client, record) then
    return job_orders.give(client, ctx, "go_on", id)
  end
  if record and record.spec.migrate then return migration.resume(ctx, client, id) end
  return go_on(ctx, "resume", find(client, ctx, id))
end

function verbs.rollback(client, ctx, id)
  local record = records.get(client, id)
  if not record and not ctx.options.dry_run and has_given_back(client, ctx, id) then return end
  if record and record.spec.migrate then return migration.rollback(ctx, client, id) end
  local found = find(client, ctx, id)
  if ctx.options.dry_run then return undo.show(ctx, found) end
  local may, given = undo.agreed(ctx, client, found, record)
  if not may then return 1 end
  return go_on(ctx, "rollback", found, given)
end

local verb_names = {"ls", "show", "wait", "watch", "report", "plan", "pause", "resume", "throttle",
  "cancel", "rollback",
  "accept", "cutover", "finish", "purge"}
command.takes = {table.concat(verb_names, " "), "JOB"}

local without_id = {ls = true, purge = true}

-- The verb of each option that is one verb's.
local belongs_to = {
  all = "ls", state = "ls", index = "ls", since = "ls", mine = "ls", rejected = "show", conflicts = "show",
  max_rejected = "resume",
  older = "purge", others = "rollback", delete = "finish",
}

local function check(ctx)
  local verb, id = ctx.arguments[1] or "ls", ctx.arguments[2]
  if not verbs[verb] then
    local near = suggest(verb, verb_names)
    errors.bad("jobs: there is no `%s`%s", verb, near and (": did you mean `%s`?"):format(near)
      or "; there are: " .. table.concat(verb_names, ", "))
  end
  if id and verb == "ls" or not (id or without_id[verb]) then
    errors.bad("usage: mortise jobs %s", command.usage)
  end
  if id then core.job_id_check(id) end
  if ctx.options.older and verb == "purge" and id then
    errors.bad("jobs: --older belongs to `mortise jobs purge` without an ID")
  end
  job_orders.check(verb, ctx.options)
  for name, of in pairs(belongs_to) do
    if ctx.options[name] and verb ~= of then
      errors.bad("jobs %s: --%s belongs to %s", verb, (name:gsub("_", "-")), of)
    end
  end
  if ctx.options["for"] and verb ~= "wait" and verb ~= "watch" then
    errors.bad("jobs %s: --for belongs to wait and watch", verb)
  end
  if ctx.options.dry_run and not (verb == "rollback" or verb == "purge") then
    errors.bad("jobs %s: --dry-run belongs to rollback and purge", verb)
  end
  if ctx.options.wait_for_writes and not (verb == "resume" or verb == "rollback") then
    errors.bad("jobs %s: %s belongs to resume and rollback", verb, job_spec.patience_row.flag)
  end
  return verb, id
end

function command.works_on(arguments)
  return "jobs " .. table.concat(arguments, " ")
end

function command.run(ctx)
  local verb, id = check(ctx)
  local client <close> = mortise.connect {}
  return verbs[verb](client, ctx, id)
end

return command
