-- Undoing a job by a command: what it would do, and what is asked where others' documents would go along.
local confirm = require "mortise.cli.confirm"
local core = require "mortise.core"
local job = require "mortise.job"
local large = require "mortise.cli.large"
local output = require "mortise.cli.output"
local plan = require "mortise.cli.plan"
local sweeps = require "mortise.sweeps"
local typed = require "mortise.cli.typed"
local undoing = require "mortise.undoing"

local undo = {}

undo.row = {
  name = "others", type = "integer", flag = "--others", value = "N",
  help = "rollback, of a rename without a journal: at most N documents that are not the job's go along",
}

-- What a rollback would do, in a sentence. `seen`: of job.foresee_rollback or plan_rollback.
function undo.text(seen)
  if seen.state == "undone" then return ("job %s is undone already"):format(seen.job) end
  if seen.by == "journal" then
    return ("job %s: %d documents would become what they were; %d that others have changed or deleted since "
      .. "would stay as they are, and so would what others have created"):format(seen.job, seen.changed,
      seen.kept)
  end
  local others = seen.others > 0 and (", at least %d of which are not the job's"):format(seen.others) or ""
  if seen.server then
    return ("job %s kept no journal, and %s; all that lie there when it is undone would be renamed back, "
      .. "which are %d documents now%s"):format(seen.job, sweeps.text(seen.server), seen.changed, others)
  end
  return ("job %s kept no journal: all %d documents that lie there would be renamed back%s"):format(seen.job,
    seen.changed, others)
end

-- What a rollback would do. -> exit status, as of any plan; a server at work has always something to undo
function undo.show(ctx, found)
  local seen = found:plan_rollback()
  if ctx.options.json then output.json(seen) else output.line(io.stdout, undo.text(seen)) end
  return (seen.changed > 0 or seen.server) and 0 or plan.nothing_to_do
end

local function refuse(ctx, seen)
  local ok, why = pcall(undoing.check, seen, 0)
  if ok then return end
  why.message = ("%s\nto see how many: %s\nto undo it nevertheless: %s"):format(why.message,
    typed.same_with(ctx, "--dry-run"), typed.same_with(ctx, "--yes"))
  why.lines = true
  error(why, 0)
end

-- Is it to be done? Asks where others' documents would go along, unless that was allowed beforehand, and
-- where there are many. -> that, and the rollback's options
function undo.agreed(ctx, client, found, record)
  local o, most = ctx.options, ctx.options.others
  if not (o.yes or most) then
    local seen = job.foresee_rollback(found)
    most = seen.others
    if most > 0 then
      if not confirm.can_ask(ctx) then refuse(ctx, seen) end
      output.line(io.stderr, undo.text(seen))
      if confirm.ask "Undo it?" then return true, {others = most} end
      output.line(io.stderr, "nothing was undone")
      return false
    end
  end
  return large.rollback(ctx, client, record), {others = most}
end

-- What was done, after its numbers: nothing, or how many of others' documents went along.
function undo.also(result)
  if not (result.others and result.others > 0) then return "" end
  return (", at least %s of them not the job's"):format(core.tostring(result.others))
end

return undo
