-- mortise job run FILE
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local job = require "mortise.job"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local plan = require "mortise.cli.plan"
local progress = require "mortise.cli.progress"
local run = require "mortise.cli.run"

local command = {
  summary = "run the job that a script returns",
  usage = "run FILE [ARGS] [-- ARGS]",
  help = [[
Runs a Lua script as `mortise run` does, and then the job that it returns: `return mortise.job{...}`, or the
table alone. The job shows its progress, and --json prints its result.

A job that was cut off stands half-done. If the script gives it an id (`id` or `once`), --resume goes on with
it, or runs it where it was never begun; --rollback undoes it. `mortise jobs` does the same for any job whose
change is not a Lua function, without its script.]],
  options = {
    {name = "resume", type = "boolean", flag = "--resume", help = "go on with it if it stands half-done"},
    {name = "rollback", type = "boolean", flag = "--rollback", help = "undo it"},
    {name = "dry_run", type = "boolean", flag = "--dry-run",
      help = "only say what it would change: takes no lock, writes nothing"},
    output.json_row,
  },
  script = true,
  verb = "run",
  arguments = {1, math.huge},
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
    .. "`mortise jobs` lists those there are", flag)
end

-- The method to call.
local function verb_of(found, o)
  check_id(found, o)
  if o.dry_run then return "plan" end
  local record = found:status()
  if o.rollback then return "rollback" end
  if o.resume then return record and "resume" or "run" end
  if record and record.stands then
    error(core.error {
      code = "orphaned_job", job = found.id, retryable = false,
      message = ("job %s stands half-done: --resume goes on, --rollback undoes it"):format(found.id),
    }, 0)
  end
  return "run"
end

local ended = {resume = "done", rollback = "undone"}
local said = {run = "is done", resume = "is done", rollback = "is undone"}

local function report(o, verb, found, result)
  if o.json then return output.json(result) end
  if verb == "plan" then return plan.print(result, "job " .. found.id) end
  if result.already then
    return output.line(io.stdout, ("job %s was %s already"):format(found.id, result.state))
  end
  output.line(io.stdout, ("job %s %s: %d documents changed in %s"):format(found.id, said[verb],
    result.changed, duration.text(result.seconds * 1000)))
end

local function work(o, found)
  local verb = verb_of(found, o)
  job.watch(found, progress.watcher(found.id))
  if verb ~= "plan" then
    output.last_words(("mortise: interrupted: mortise jobs show %s says how it stands"):format(found.id))
  end
  local was = ended[verb] and found:status()
  local ok, result = pcall(found[verb], found)
  output.status(nil)
  if not ok then error(result, 0) end
  result.already = result.already or was and was.state == ended[verb] or nil
  output.last_words(nil)
  report(o, verb, found, result)
end

local function check(ctx)
  local chosen = 0
  for _, name in ipairs {"resume", "rollback", "dry_run"} do
    if ctx.options[name] then chosen = chosen + 1 end
  end
  if chosen > 1 then errors.bad "job run: one of --resume, --rollback and --dry-run" end
end

function command.works_on(arguments) return arguments[1] end

function command.run(ctx)
  check(ctx)
  return run.run(ctx, function(chunk)
    return function(...) work(ctx.options, to_job(chunk(...), ctx.arguments[1])) end
  end)
end

return command
