-- mortise job run FILE
local budgets = require "mortise.sandbox.budgets"
local confirm = require "mortise.cli.confirm"
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local hint = require "mortise.hint"
local job = require "mortise.job"
local job_spec = require "mortise.job_spec"
local job_shown = require "mortise.cli.job_shown"
local kept_plan = require "mortise.cli.kept_plan"
local large = require "mortise.cli.large"
local migrate = require("mortise.later") "mortise.migrate"
local migration = require("mortise.later") "mortise.cli.migration"
local mortise = require "mortise"
local options = require "mortise.options"
local output = require "mortise.cli.output"
local pace = require "mortise.cli.pace"
local plan = require "mortise.cli.plan"
local progress = require "mortise.cli.progress"
local run = require "mortise.cli.run"
local sandbox = require("mortise.later") "mortise.sandbox"
local sweeps = require "mortise.sweeps"
local undo = require "mortise.cli.undo"

local command = {
  summary = "run the job that a script returns",
  usage = "run FILE [ARGS] [-- ARGS]",
  help = [[
Runs a Lua script as `mortise run` does, and then the job that it returns: `return mortise.job{...}`, or the
table alone. The job shows its progress, and --json prints its result. At a terminal it asks before it
changes more than 1,000 documents. --dry-run ends with status 7 if there is nothing to do.

A job that was cut off stands half-done. If the script gives it an id (`id` or `once`), --resume goes on with
it, or runs it where it was never begun; --rollback undoes it. `mortise jobs` does the same for any job whose
change is not a Lua function, without its script.]],
  options = options.join({
    {name = "resume", type = "boolean", flag = "--resume", help = "go on with it if it stands half-done"},
    {name = "rollback", type = "boolean", flag = "--rollback", help = "undo it"},
    {name = "max_rejected", type = "string", flag = "--max-rejected", value = "N|N%",
      default_text = "its own",
      help = "how many documents may be set aside; more, and it stops and stands"},
    {name = "dry_run", type = "boolean", flag = "--dry-run",
      help = "only say what it would change, or undo: takes no lock, writes nothing"},
    budgets.confine_row, job_spec.patience_row,
    output.json_row, confirm.row, undo.row,
  }, pace.rows, kept_plan.rows),
  script = true,
  verb = "run",
  arguments = {1, math.huge},
  takes = {"run", "FILE"},
}

local function to_job(value, file)
  if getmetatable(value) == job.class then return value end
  if type(value) == "table" and value.index then return mortise.job(value) end
  errors.bad("%s returns no job: it ends with `return mortise.job{...}`", file)
end

-- One whose id is made anew each time can be neither resumed nor undone by running its script.
local function check_id(found, o)
  local flag = o.resume and "--resume" or o.rollback and "--rollback"
  if not flag or job.is_lasting(found) then return end
  errors.bad("%s: the script gives its job no `id` and no `once`, so that this would be another one; "
    .. "`%s jobs` lists those there are", flag, hint.mortise())
end

-- The method to call, and the job's record, if it was looked for and there is one.
local function verb_of(found, o)
  check_id(found, o)
  if o.dry_run then return o.rollback and "plan_rollback" or "plan" end
  local record = found:status()
  if o.rollback then return "rollback", record end
  if o.resume then return record and "resume" or "run", record end
  if record and record.stands then
    error(core.error {
      code = "orphaned_job", job = found.id, retryable = false,
      message = ("job %s stands half-done: --resume goes on, --rollback undoes it"):format(found.id),
    }, 0)
  end
  return "run", record
end

local ended = {resume = "done", rollback = "undone"}
local said = {run = "is done", resume = "is done", rollback = "is undone"}

-- -> exit status
local function report(o, verb, found, result)
  local line, status = job_shown.already(found.id, result)
  if not result.already then status = 0 end
  if o.json then
    output.json(result)
    return status
  end
  if result.already then
    output.line(io.stdout, line)
    return status
  end
  output.line(io.stdout, ("job %s %s: %d documents changed in %s%s"):format(found.id, said[verb],
    result.changed, duration.text(result.seconds * 1000), job_shown.by_server(result) .. undo.also(result)))
  return 0
end

-- -> exit status
local function show_plan(ctx, client, found)
  local o = ctx.options
  local ok, result = pcall(job.foretell, found, {identifies = o.plan ~= nil})
  output.status(nil)
  if not ok then error(result, 0) end
  if o.plan then kept_plan.write(o.plan, client, found, result, ctx.arguments) end
  if o.json then output.json(result) else plan.print(result, "job " .. found.id) end
  return plan.status(result)
end

-- May it be done? One that is done already changes nothing. -> that; and the method's options
local function agreed(ctx, client, found, verb, record)
  local file = ctx.options.from_plan
  if file then
    kept_plan.expect(file, client, found, ctx.arguments)
  elseif verb == "run" and not (record and record.state == "done") then
    return large.run(ctx, client, found, "job " .. found.id .. " on " .. job.spec(found).index)
  elseif verb == "rollback" and record then
    return undo.agreed(ctx, client, found, record)
  end
  return true
end

-- -> exit status
local function work(ctx, found)
  local o, client = ctx.options, job.client(found)
  local verb, record = verb_of(found, o)
  job.allow(found, o.max_rejected)
  if verb == "plan_rollback" then return undo.show(ctx, found) end
  job.watch(found, progress.watcher(found.id))
  job.set_patience(found, o.wait_for_writes)
  pace.set(found, o)
  if verb == "plan" then return show_plan(ctx, client, found) end
  local may, given = agreed(ctx, client, found, verb, record)
  if not may then return 1 end
  output.last_words(("mortise: interrupted: %s jobs show %s says how it stands"):format(hint.mortise(),
    found.id))
  local ok, result = pcall(found[verb], found, given)
  output.status(nil)
  if not ok then error(result, 0) end
  result.already = result.already or record and record.state == ended[verb] or nil
  result.by_server = verb == "resume" and sweeps.earlier(record, found, result) or nil
  output.last_words(nil)
  return report(o, verb, found, result)
end

local function check(ctx)
  local chosen = 0
  for _, name in ipairs {"resume", "rollback", "dry_run"} do
    if ctx.options[name] then chosen = chosen + 1 end
  end
  if ctx.options.rollback and ctx.options.dry_run then chosen = chosen - 1 end
  if chosen > 1 then errors.bad "job run: one of --resume, --rollback and --dry-run" end
  kept_plan.check(ctx.options)
  if ctx.options.others and not ctx.options.rollback then
    errors.bad "job run: --others belongs to --rollback"
  end
end

function command.works_on(arguments) return arguments[1] end

function command.run(ctx)
  check(ctx)
  local status
  local code = run.run(ctx, function(chunk)
    return function(...)
      local value = chunk(...)
      local is_migration = getmetatable(value) == migrate.class
      if not is_migration then value = to_job(value, ctx.arguments[1]) end
      if ctx.options.sandbox_change then sandbox.confine(value, ctx.arguments[1]) end
      status = (is_migration and migration.run or work)(ctx, value)
    end
  end)
  return code ~= 0 and code or status or 0
end

return command
