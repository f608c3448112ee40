-- mortise up DIR
local core = require "mortise.core"
local duration = require "mortise.duration"
local failure = require "mortise.cli.failure"
local holds = require "mortise.cli.holds"
local losses = require "mortise.losses"
local options = require "mortise.options"
local output = require "mortise.cli.output"
local progress = require "mortise.cli.progress"
local sessions = require "mortise.sessions"
local versions = require "mortise.versions"

local command = {
  summary = "run the versioned scripts of a folder that have not been run",
  usage = "DIR",
  help = [[
Runs the scripts of a folder, V001__name.lua and so on, in the order of their versions, each once in a
namespace: a ledger in the store says which have been run. Of several `mortise up` one runs them, and the
others wait for it, as --wait allows. A script is run as by `mortise run`, without arguments, and returns a
job, which is then run, or nothing. One that was cut off or has failed is gone on with by the next `mortise
up`: its job is resumed; a script without a job is run again.

Nothing is run (exit status 1) while a script was changed since it was run, is missing, or has a lower version
than one that was run; --status lists all versions, with what is wrong (exit status 1), and each error says
what to do. --dry-run ends with status 7 if there is nothing to run.]],
  arguments = {1, 1},
  takes = {"FOLDER"},
}

command.options = {}
for _, row in ipairs(versions.rows) do -- --wait is a global one
  if row.flag then command.options[#command.options + 1] = row end
end
command.options = options.join(command.options, {output.json_row})

function command.works_on(arguments) return arguments[1] end

local function say(format, ...) output.line(io.stdout, format:format(...)) end

local function changed_text(row)
  if not row.job then return "" end
  return row.changed and (": job %s, %d documents changed"):format(row.job, row.changed)
    or (": job %s"):format(row.job)
end

local function tell_ran(row)
  output.status(nil)
  say("%s ran in %s%s", row.file, duration.text(math.floor(row.seconds * 1000)), changed_text(row))
end

-- ---- What it prints ------------------------------------------------------------------------------

local print_result = {}

function print_result.ran(ran, o)
  if #ran > 0 then return end
  say("nothing to run: all of %s%s has been run", o.dir, o.to and (" up to version %d"):format(o.to) or "")
end

function print_result.pending(pending, o)
  if #pending == 0 then print_result.ran(pending, o) end
  for _, row in ipairs(pending) do
    local of_job = row.job and ", job " .. row.job or ""
    say("would run %s%s", row.file, row.state == "pending" and "" or (" (%s%s)"):format(row.state, of_job))
  end
end

function print_result.repaired(list)
  if #list == 0 then say "nothing to repair" end
  local what = {
    changed = "the file is accepted as it is", missing = "that its file is missing is accepted",
    accepted = "it is done, with what its job has set aside",
  }
  for _, each in ipairs(list) do say("V%d: %s", each.version, what[each.repaired]) end
end

function print_result.baseline(list)
  for _, row in ipairs(list) do say("%s is noted as run", row.file) end
end

function print_result.versions(list, _, result)
  local rows = {{"VERSION", "NAME", "STATE", "BEGAN", "TOOK", "JOB", "BY"}}
  for i, row in ipairs(list) do
    rows[i + 1] = {
      ("%d"):format(row.version), row.name, row.state .. (row.problem and row.problem ~= row.state
        and ", " .. row.problem or ""),
      row.began and holds.iso(math.floor(row.began * 1000)) or "",
      row.seconds and duration.text(math.floor(row.seconds * 1000)) or "", row.job or "",
      row.by and sessions.owner_text(row.by) or "",
    }
  end
  if #list > 0 then output.columns(rows) else say "there are no versions" end
  for _, each in ipairs(result.problems) do say("%s", each.message) end
  for _, row in ipairs(list) do
    if row.reason then say("V%d %s: %s", row.version, row.state, row.reason) end
  end
end

local members = {"ran", "pending", "repaired", "baseline", "versions"}

local function show(result, o)
  for _, member in ipairs(members) do
    if result[member] then print_result[member](result[member], o, result) end
  end
end

local function has_failed(row) return row.state == "failed" or row.state == "cut off" end

-- -> exit status
local function status_of(result)
  if result.pending then return #result.pending == 0 and 7 or 0 end
  for _, row in ipairs(result.versions or {}) do
    if row.problem or has_failed(row) then return 1 end
  end
  return 0
end

function command.run(ctx)
  local o = {dir = ctx.arguments[1], watch = progress.watcher}
  for name, value in pairs(ctx.options) do o[name] = value end
  o.wait = nil -- the clients' own
  if not o.json then o.ended = tell_ran end
  losses.keep()
  local result = core.object {}
  local ok, why = core.catch(versions.up, failure.handler, o, result)
  output.status(nil)
  if ok and not o.json then show(result, o) end
  if not ok then result.error = output.error_object(why) end
  if o.json then output.json(result) end
  if not ok then error(why, 0) end
  return status_of(result)
end

return command
