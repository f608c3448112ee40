-- mortise jobs
local confirm = require "mortise.cli.confirm"
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local holds = require "mortise.cli.holds"
local job = require "mortise.job"
local job_orders = require "mortise.cli.job_orders"
local mortise = require "mortise"
local options = require "mortise.options"
local orders = require "mortise.orders"
local output = require "mortise.cli.output"
local plan = require "mortise.cli.plan"
local progress = require "mortise.cli.progress"
local purge = require "mortise.cli.purge"
local records = require "mortise.records"
local suggest = require "mortise.suggest"

local command = {
  summary = "list jobs; steer, finish or undo one",
  usage = "[ls] | VERB ID [--json]",
  help = [[
Jobs are changes that a script has begun with mortise.job{...}: what each is to do, how far it is and how it
is undone stand in the store, so that any process may go on with it.

ls         lists the jobs of the namespace. One whose process is gone, or which was stopped, stands
           half-done: its lock guards its paths until it is resumed or rolled back.
show       all about one, and what may be done; with --rejected or --conflicts the documents that were
           refused, or that others had changed, each on a line, however many.
plan       what it would change now; takes no lock, writes nothing.
pause      whoever is at work on it, anywhere, sends nothing more until it is resumed, and keeps the lock.
throttle   how fast it may go, from now on and after it was taken over.
cancel     whoever is at work on it ends, and it stands half-done.
resume     lets one go on that is paused; does what is left of one that stands half-done. One that is done
           stays as it is.
rollback   undoes what it has done: each document that still is what the job made of it becomes what it
           was. What others have changed since is left, counted, and the exit status is 1.
purge      removes what is over, so that it can no longer be undone: one, or all that ended --older TIME ago
           (without it, as long ago as each is to be kept, which is 7 days unless it says otherwise). It lists
           them first, and asks at a terminal; elsewhere it needs --yes.

resume and rollback take the job's lock over from its dead process, and give it back at the end.]],
  options = options.join({output.json_row}, job_orders.rows(), {
    {name = "rejected", type = "boolean", flag = "--rejected", help = "show: documents that were refused"},
    {name = "conflicts", type = "boolean", flag = "--conflicts", help = "show: those others had changed"},
    {name = "older", type = "duration", flag = "--older", value = "TIME",
      help = "purge: those that ended so long ago"},
    confirm.row,
  }),
  arguments = {0, 2},
}

-- ---- For people ----------------------------------------------------------------------------------

local function state_text(record)
  if record.stands and record.state ~= "stopped" then return record.state .. ", left" end
  if record.waits then return record.state .. ", paused" end
  return record.state
end

local function ago(seconds)
  return duration.text(core.wall_ms() - math.floor(seconds * 1000)) .. " ago"
end

local function paths_text(lock)
  if lock.kind == "global" then return "everything" end
  local text = table.concat(lock.paths, " ", 1, math.min(#lock.paths, 3))
  if lock.kind ~= "tree" then text = lock.index .. ": " .. text end
  return #lock.paths > 3 and ("%s and %d more"):format(text, #lock.paths - 3) or text
end

local function change_text(spec)
  local rename = spec.rename
  if rename then
    local fields = job.field_lines(rename):gsub("\n", ", ")
    return ("%s: %s becomes %s"):format(fields, rename.from, rename.to)
  end
  if spec.change == "function" then return "a Lua function" end
  local list = {}
  for i, each in ipairs(spec.change) do list[i] = (next(each)) end
  return table.concat(list, ", ")
end

local function print_list(list)
  if #list == 0 then return output.line(io.stdout, "there are no jobs") end
  local rows = {{"JOB", "STATE", "CHANGED", "INDEX", "LOCKS", "UPDATED"}}
  local standing
  for _, record in ipairs(list) do
    rows[#rows + 1] = record.state == "damaged" and {record.job, record.state, "", "", "", ""} or {
      record.job, state_text(record), core.tostring(record.counts.changed), record.spec.index,
      paths_text(record.spec.lock), ago(record.updated),
    }
    standing = standing or record.stands and record.job
  end
  output.columns(rows, 5)
  if standing then
    output.line(io.stderr, "mortise: note: what stands half-done keeps its lock; mortise jobs show ",
      standing, " says what may be done")
  end
end

local function steps_of(record)
  local steps = records.next_steps(record)
  for i, step in ipairs(steps) do steps[i] = ("%s  (%s)"):format(step.command, step.why) end
  if #steps == 0 then
    steps[1] = record.alive and ("nothing, or mortise jobs pause|throttle|cancel %s"):format(record.job)
      or "nothing"
  end
  return steps
end

local function print_one(record, limits)
  local function say(what, format, ...)
    output.line(io.stdout, ("  %-8s "):format(what), format:format(...))
  end
  local counts, spec = record.counts, record.spec
  output.line(io.stdout, record.job)
  say("state", "%s%s", state_text(record), record.reason and ": " .. record.reason or "")
  if record.owner then say("who", "%s", record.owner) end
  if record.stands and record.state ~= "stopped" then say("who", "nobody: its process is gone") end
  if record.waits then say("waits", "%s", record.waits) end
  if limits then
    say("limits", "%s%s", job_orders.limits_text(limits), limits.by and ", by " .. limits.by or "")
  end
  say("index", "%s", spec.index)
  say("change", "%s", change_text(spec))
  if record.strategy then say("by", "%s: %s", record.strategy, record.strategy_reason or "") end
  if spec.query then say("query", "%s", core.json(spec.query)) end
  say("locks", "%s", paths_text(spec.lock))
  say("done", "%d documents changed, %d deleted, %d had nothing to change, %d rejected, %d conflicts, "
    .. "%d restored, %d left as they are", counts.changed, counts.deleted, counts.unchanged, counts.rejected,
    counts.conflicts, counts.restored, counts.left)
  if (record.swept or 0) > 0 then say("", "%d more by the server's task so far", record.swept) end
  say("begun", "%s, %d attempt%s", ago(record.created), record.attempts, record.attempts == 1 and "" or "s")
  say("updated", "%s", ago(record.updated))
  for i, step in ipairs(steps_of(record)) do say(i == 1 and "do" or "", "%s", step) end
end

-- ---- The verbs -----------------------------------------------------------------------------------

local function record_for_programs(record)
  if record.state == "damaged" then return record end
  record.created, record.updated = holds.iso(math.floor(record.created * 1000)),
    holds.iso(math.floor(record.updated * 1000))
  record.next = core.array(records.next_steps(record))
  return record
end

local verbs = {}

function verbs.ls(client, ctx)
  local list = client:jobs()
  if not ctx.options.json then return print_list(list) end
  for _, record in ipairs(list) do record_for_programs(record) end
  output.json {jobs = list}
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

function verbs.show(client, ctx, id)
  local o = ctx.options
  if o.rejected then print_aside(client:get_job(id):rejected(), o.json) end
  if o.conflicts then print_aside(client:get_job(id):conflicts(), o.json) end
  if o.rejected or o.conflicts then return end
  local record = records.get(client, id)
  if not record then
    errors.raise("not_found", "there is no job %s in namespace %s%s", id, client:namespace(),
      #job.holds(client, id) > 0 and ("; its process died before it began: `mortise jobs rollback %s` gives "
      .. "its lock back"):format(id) or "")
  end
  local limits = not records.over[record.state] and orders.limits(client, record) or nil
  if not ctx.options.json then return print_one(record, limits) end
  record.limits = limits
  output.json(record_for_programs(record))
end

verbs.purge = purge

function verbs.pause(client, ctx, id) job_orders.give(client, ctx, "pause", id) end

function verbs.cancel(client, ctx, id) job_orders.give(client, ctx, "cancel", id) end

function verbs.throttle(client, ctx, id)
  job_orders.give(client, ctx, "throttle", id, job_orders.limits_of(ctx.options))
end

function verbs.plan(client, ctx, id)
  local result = client:get_job(id):plan()
  if ctx.options.json then return output.json(result) end
  plan.print(result, "job " .. id)
end

-- What is written if a second interrupt ends the program.
local function set_last_words(id, verb)
  output.last_words(("mortise: interrupted: job %s stands half-done\nto go on: mortise jobs %s %s"):format(id,
    verb, id))
end

local said = {resume = "is done", rollback = "is undone"}

local function go_on(client, ctx, verb, id)
  local found = client:get_job(id, {on_progress = progress.watcher(id)})
  set_last_words(id, verb)
  local ok, result = pcall(found[verb], found)
  output.status(nil)
  if not ok then error(result, 0) end
  output.last_words(nil)
  if ctx.options.json then return output.json(result) end
  output.line(io.stdout, ("job %s %s: %d documents changed in %s"):format(id, said[verb], result.changed,
    duration.text(result.seconds * 1000)))
end

-- Of one that someone is at work on, only the pause is ended.
function verbs.resume(client, ctx, id)
  local record = records.get(client, id)
  if record and record.alive and orders.is_paused(client, record) then
    return job_orders.give(client, ctx, "go_on", id)
  end
  go_on(client, ctx, "resume", id)
end

function verbs.rollback(client, ctx, id)
  if not records.get(client, id) then
    local n = job.clear(client, id)
    if n > 0 then
      if ctx.options.json then return output.json {job = id, state = "none", released = n} end
      return output.line(io.stdout, ("job %s had not begun: its lock was given back"):format(id))
    end
  end
  go_on(client, ctx, "rollback", id)
end

local verb_names = {"ls", "show", "plan", "pause", "resume", "throttle", "cancel", "rollback",
  "purge"}

local without_id = {ls = true, purge = true}

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
  if ctx.options.older and (verb ~= "purge" or id) then
    errors.bad("jobs: --older belongs to `mortise jobs purge` without an ID")
  end
  job_orders.check(verb, ctx.options)
  if verb ~= "show" and (ctx.options.rejected or ctx.options.conflicts) then
    errors.bad("jobs %s: --rejected and --conflicts belong to show", verb)
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
