-- How migrations are shown, and gone on with, by the commands that know them.
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local hint = require "mortise.hint"
local migrate = require "mortise.migrate"
local output = require "mortise.cli.output"
local progress = require "mortise.cli.progress"

local migration = {}

local function say(format, ...) output.line(io.stdout, format:format(...)) end

-- The result of one that was run or resumed.
function migration.print(ctx, found, result)
  if ctx.options.json then return output.json(result) end
  local aside = result.rejected > 0 and (", %d set aside"):format(result.rejected) or ""
  local pause = result.pause and ("; writes were refused for %s"):format(
    duration.text(math.floor(result.pause * 1000 + 0.5))) or ""
  local compared = result.compared and (", %d compared"):format(result.compared) or ""
  say("%s: %d documents are in %s now%s%s%s", migrate.from(found), result.copied, migrate.to(found), aside,
    compared, pause)
  if result.phase ~= "swapped" then return end
  say("to end it: %s", hint.command(nil, "jobs", "finish", found.id))
  say("to go back: %s", hint.command(nil, "jobs", "rollback", found.id))
end

local function say_differences(what, list)
  for _, each in ipairs(list or {}) do
    say("  %s %s: %s becomes %s", what, each.name, each.before or "nothing", each.after or "nothing")
  end
end

-- What it would do. -> exit status
function migration.show_plan(ctx, found)
  local plan = found:plan()
  if ctx.options.json then
    output.json(plan)
  else
    if plan.documents then
      say("%s: %d documents in %d shards would be copied into %s, in about %s", migrate.from(found),
        plan.documents,
        plan.shards, migrate.to(found), duration.text(plan.estimate * 1000))
      if plan.disk then
        say("  about %d MB are needed on disks that have %d MB to spare", plan.disk.needed >> 20,
          plan.disk.free >> 20)
      end
      say_differences("field", plan.fields)
      say_differences("setting", plan.settings)
      for _, name in ipairs(plan.aliases_left) do
        say("  alias %s is not moved: it goes on naming %s, which takes no writes then", name,
          migrate.from(found))
      end
    end
    for _, each in ipairs(plan.refusals) do say("refused: %s: %s", each.message, each.advice) end
    say "nothing was written"
  end
  return #plan.refusals > 0 and 1 or 0
end

function migration.find(client, id)
  local found = client:get_job(id, {on_progress = progress.watcher(id)})
  if getmetatable(found) ~= migrate.class then errors.bad("job %s is no migration", id) end
  return found
end

-- Calls its method, after which what goes on is no longer shown. -> its result
function migration.call(found, verb, given)
  output.last_words(("mortise: interrupted: %s says how it stands"):format(hint.command(nil, "jobs", "show",
    found.id)))
  local ok, result = pcall(found[verb], found, given)
  output.status(nil)
  if not ok then error(result, 0) end
  output.last_words(nil)
  return result
end

-- Goes on with `found`, if there is one, or runs what make() returns, also where that has never begun.
function migration.resume_or_run(ctx, found, make)
  local ok, result = false, nil
  if found then
    ok, result = pcall(migration.call, found, "resume")
    if not ok and errors.code(result) ~= "not_found" then error(result, 0) end
  end
  if not ok then
    found = make()
    result = migration.call(found, "run")
  end
  migration.print(ctx, found, result)
end

function migration.resume(ctx, client, id)
  local found = migration.find(client, id)
  migration.print(ctx, found, migration.call(found, "resume"))
end

-- What `mortise job run` does with one that a script returns. -> exit status or nil
function migration.run(ctx, found)
  local o = ctx.options
  migrate.watch(found, progress.watcher(found.id))
  if o.rollback then return migration.undo(ctx, found) end
  if o.dry_run then return migration.show_plan(ctx, found) end
  migration.resume_or_run(ctx, o.resume and found:status() and found, function() return found end)
end

local function show_rollback(ctx, found)
  local plan = found:plan_rollback()
  if ctx.options.json then return output.json(plan) end
  if plan.alias then
    say("the alias %s would name %s again, and %s would take writes; %s", plan.alias, plan.from, plan.from,
      plan.behind
        and ("%d operations on %s would come over first, and none be lost"):format(plan.behind, plan.to)
      or ("%d operations on %s would be lost"):format(plan.written, plan.to))
    if plan.strangers then
      say("%d documents of %s were written by others since: --others %d writes over them", plan.strangers,
        plan.from, plan.strangers)
    end
  else
    say("%s would take writes again", plan.from)
  end
  say("%s would be deleted", plan.to)
end

function migration.undo(ctx, found)
  if ctx.options.dry_run then return show_rollback(ctx, found) end
  local result = migration.call(found, "rollback", {others = ctx.options.others})
  if ctx.options.json then return output.json(result) end
  say("migration %s is undone: %s is as it was, and %s is gone", found.id, migrate.from(found),
    migrate.to(found))
end

function migration.rollback(ctx, client, id)
  return migration.undo(ctx, migration.find(client, id))
end

function migration.cut_over(ctx, client, id)
  migration.find(client, id):cutover()
  if ctx.options.json then return output.json {job = id, order = "cutover"} end
  say("migration %s is told to cut over", id)
end

function migration.finish(ctx, client, id)
  local found = migration.find(client, id)
  found:finish {delete = ctx.options.delete}
  if ctx.options.json then return output.json {job = id, phase = "finished"} end
  say("migration %s is finished%s", id, ctx.options.delete and ", and " .. migrate.from(found)
    .. " is deleted" or "")
end

return migration
