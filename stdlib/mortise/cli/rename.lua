-- mortise rename
local confirm = require "mortise.cli.confirm"
local core = require "mortise.core"
local duration = require "mortise.duration"
local hint = require "mortise.hint"
local job = require "mortise.job"
local job_spec = require "mortise.job_spec"
local kept_plan = require "mortise.cli.kept_plan"
local large = require "mortise.cli.large"
local mortise = require "mortise"
local options = require "mortise.options"
local output = require "mortise.cli.output"
local pace = require "mortise.cli.pace"
local plan = require "mortise.cli.plan"
local progress = require "mortise.cli.progress"
local printable = require "mortise.printable"
local typed = require "mortise.cli.typed"
local visible = require "mortise.visible"

local command = {
  summary = "rename a tree of documents",
  usage = "INDEX FROM TO [--merge] [--dry-run]",
  help = [[
Renames a directory: in every document of INDEX whose field is FROM or lies below it, that prefix
becomes TO. It locks both trees, and ends when none is left under the old path. Documents that lie
below TO already are in its way, unless --merge joins them. It is a job: one that was stopped or
killed keeps its locks until `mortise jobs resume` does what is left, or `mortise jobs rollback`
undoes it. At a terminal it asks before it changes more than 1,000 documents. --dry-run ends with
status 7 if there is nothing to do.]],
  options = options.join({
    {name = "merge", type = "boolean", flag = "--merge",
      help = "there may be documents below TO already"},
    {name = "allow_empty", type = "boolean", flag = "--allow-empty",
      help = "there may be none below FROM"},
    {name = "field", type = "string", flag = "--field", value = "NAME,...", default_text = "path",
      help = "the fields that hold paths, or arrays of them"},
    {name = "ids", type = "boolean", flag = "--ids",
      help = "an _id that is FROM or lies below it changes, too"},
    {name = "strategy", type = "string", default = "client", flag = "--strategy",
      value = "client|server|auto", values = {"client", "server", "auto"},
      help = "who makes the change: this process, the server by itself, or whichever is likely to be faster"},
    job_spec.patience_row,
    {name = "max_rejected", type = "string", flag = "--max-rejected", value = "N|N%", default_text = "0",
      help = "how many documents may be set aside; more, and it stops and stands"},
    {name = "no_journal", type = "boolean", flag = "--no-journal",
      help = "into a tree that holds nothing: undone by renaming back, with what others put there"},
    {name = "dry_run", type = "boolean", flag = "--dry-run",
      help = "only show what would change: takes no lock, writes nothing"},
    output.json_row, confirm.row,
  }, pace.rows, kept_plan.rows),
  arguments = {3, 3},
  takes = {"INDEX", "PATH", "PATH"},
}

-- ---- What to type -------------------------------------------------------------------------------

local function how_to_go_on(id)
  return ("to go on: %s\nto undo it: %s"):format(hint.command(nil, "jobs", "resume", id),
    hint.command(nil, "jobs", "rollback", id))
end

local function how_far(ctx, id, changed, unknown, total)
  local index, _, to = table.unpack(ctx.arguments)
  local perhaps = unknown > 0 and (", perhaps %d more"):format(unknown) or ""
  return ("%d of %d documents of %s are below %s now%s\n%s"):format(changed, total, index, visible(to),
    perhaps, how_to_go_on(id))
end

-- The error's own text stays one line; only text added here has several.
local function set_lines(why, message) why.message, why.lines = message, true end

local flags = {["`merge`"] = "--merge", ["`allow_empty`"] = "--allow-empty"}

-- Names options as they are typed here, and adds to the error what to type next, if that is known.
local function advise(ctx, why)
  if core.is_error(why) then why.message = why.message:gsub("`[a-z_]+`", flags) end
  local r = core.is_error(why) and why.result
  if not r then return end
  if r.state == "stopped" and why.code == "interrupted" then
    set_lines(why, how_far(ctx, r.job, r.changed, r.unknown, r.matched))
  elseif r.state == "undone" and why.code == "conflict" and r.beside > 0
    and not (ctx.options.merge or ctx.options.from_plan) then
    set_lines(why, printable(why.message) .. "\nto do so: " .. typed.same_with(ctx, "--merge"))
  end
end

-- ---- Doing it -----------------------------------------------------------------------------------

-- Shows the progress and keeps the last words up to date.
local function watcher(ctx, id)
  local show = progress.watcher(id)
  return function(done, total, more)
    show(done, total, more)
    if done == 0 then return end
    output.last_words("mortise: interrupted: at least " .. how_far(ctx, id(), done, 0, total))
  end
end

local function print_result(ctx, result)
  if ctx.options.json then
    output.json(result)
    return
  end
  local index, from, to = table.unpack(ctx.arguments)
  local beside = result.beside > 0 and (", beside %d that lay there"):format(result.beside) or ""
  io.stdout:write(("%s: %s is now %s: %d documents changed in %s%s\n"):format(index, visible(from),
    visible(to), result.changed, duration.text(result.seconds * 1000), beside))
  if result.changed > 0 then
    io.stdout:write("to undo it: ", hint.command(nil, "jobs", "rollback", result.job), "\n")
  end
  if ctx.verbose then
    for _, name in ipairs {"matched", "unchanged", "redone", "passes", "round_trips", "bytes"} do
      io.stdout:write(("  %s %s\n"):format(name, core.tostring(result[name])))
    end
  end
end

function command.works_on(arguments)
  return "rename " .. table.concat(arguments, " ")
end

local function fields_of(ctx)
  local list = {}
  for name in (ctx.options.field or "path"):gmatch "[^,]+" do list[#list + 1] = name end
  return list[2] and list or list[1]
end

local function make(ctx, client)
  local index, from, to = table.unpack(ctx.arguments)
  local moving
  local watch = ctx.options.dry_run and function(_, id) return progress.watcher(id) end or watcher
  moving = client:job {
    name = "rename", index = index,
    rename = {from = from, to = to, field = fields_of(ctx), ids = ctx.options.ids},
    merge = ctx.options.merge, allow_empty = ctx.options.allow_empty,
    strategy = ctx.options.strategy, journal = not ctx.options.no_journal,
    max_rejected = ctx.options.max_rejected,
    wait_for_writes = ctx.options.wait_for_writes and ctx.options.wait_for_writes / 1000,
    on_progress = watch(ctx, function() return moving.id end),
  }
  pace.set(moving, ctx.options)
  return moving
end

local function what_of(ctx)
  local index, from, to = table.unpack(ctx.arguments)
  return ("%s: %s becomes %s"):format(index, visible(from), visible(to))
end

-- -> exit status
local function show_plan(ctx, client, moving)
  local o = ctx.options
  local ok, result = pcall(job.foretell, moving, {identifies = o.plan ~= nil})
  output.status(nil)
  if not ok then
    advise(ctx, result)
    error(result, 0)
  end
  if o.plan then kept_plan.write(o.plan, client, moving, result) end
  if o.json then output.json(result) else plan.print(result, what_of(ctx)) end
  return plan.status(result)
end

-- May it be done?
local function agreed(ctx, client, moving)
  if not ctx.options.from_plan then return large.run(ctx, client, moving, what_of(ctx)) end
  kept_plan.expect(ctx.options.from_plan, client, moving)
  return true
end

function command.run(ctx)
  kept_plan.check(ctx.options)
  local client <close> = mortise.connect {}
  local moving = make(ctx, client)
  if ctx.options.dry_run then return show_plan(ctx, client, moving) end
  if not agreed(ctx, client, moving) then return 1 end
  output.last_words("mortise: interrupted before it was known how far it came\n" ..
    how_to_go_on(moving.id))
  local ok, result = pcall(moving.run, moving)
  output.status(nil)
  if not ok then -- the last words stay until it is reported, since releasing the locks takes a while
    advise(ctx, result)
    error(result, 0)
  end
  print_result(ctx, result)
  output.last_words(nil)
end

return command
