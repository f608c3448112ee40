-- Before a command changes many documents at a terminal: where, how many, the first of them, and a question.
local confirm = require "mortise.cli.confirm"
local core = require "mortise.core"
local errors = require "mortise.errors"
local job = require "mortise.job"
local output = require "mortise.cli.output"
local plan = require "mortise.cli.plan"

local large = {}

large.most = 1000 -- documents that are changed unasked

local shown = 3

local function say(format, ...) output.line(io.stderr, format:format(...)) end

local function say_where(client)
  say("store      %s", client:url())
  say("namespace  %s", client:namespace())
end

local function asked(question)
  if confirm.ask(question) then return true end
  say "nothing was changed"
  return false
end

-- What these are, the run finds as well, before it has changed anything; and it says more of them.
local of_the_run = {conflict = true, not_found = true, unsupported = true}

-- A job that is about to be run: `what` names it. -> may it be? Counting is cheap, and no more is read than
-- the first documents take.
function large.run(ctx, client, found, what)
  if ctx.options.yes or not confirm.can_ask(ctx) then return true end
  local ok, seen = pcall(job.foretell, found, {peeks = true, quiet = true})
  if not ok and of_the_run[errors.code(seen)] then return true end
  if not ok then error(seen, 0) end
  if seen.matched <= large.most then return true end
  say_where(client)
  say("%s: %d documents match; the first that would change:", what, seen.matched)
  plan.print_samples(seen.samples, io.stderr, shown)
  return asked(("Change %d documents?"):format(seen.matched))
end

-- A job that is about to be undone, by its record. -> may it be?
function large.rollback(ctx, client, record)
  if ctx.options.yes or not confirm.can_ask(ctx) then return true end
  local counts = record.counts
  local n = counts.changed + counts.deleted - counts.restored
  if n <= large.most then return true end
  say_where(client)
  say("job %s, %s, has changed %d documents of %s, and deleted %d", record.job, record.state, counts.changed,
    record.spec.index, counts.deleted)
  return asked(("Undo %s documents?"):format(core.tostring(n)))
end

return large
