-- mortise jobs purge: removes jobs that are over, one by one.
local confirm = require "mortise.cli.confirm"
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local holds = require "mortise.cli.holds"
local output = require "mortise.cli.output"
local plan = require "mortise.cli.plan"
local purge = require "mortise.purge"
local records = require "mortise.records"
local typed = require "mortise.cli.typed"

-- The jobs that are meant: one that is named, or all that are over for long enough.
local function find(client, ctx, id)
  if id then return {(records.need(client, id))} end
  return records.index_to_list(client) and purge.list(client, ctx.options.older) or {}
end

local function print_list(list)
  local rows = {{"JOB", "STATE", "CHANGED", "INDEX", "ENDED"}}
  for i, record in ipairs(list) do
    rows[i + 1] = {record.job, record.state, core.tostring(record.counts.changed), record.spec.index,
      duration.text(core.wall_ms() - math.floor(record.updated * 1000)) .. " ago"}
  end
  output.columns(rows)
end

-- For programs: each job, and what has become of it.
local function object_of(record)
  return core.object {
    job = record.job, state = record.state, changed = record.counts.changed, index = record.spec.index,
    ended = holds.iso(math.floor(record.updated * 1000)), outcome = record.outcome,
    documents = record.documents, error = record.why,
  }
end

local function print_objects(list, why)
  local jobs, removed, n = core.array {}, core.array {}, 0
  for i, record in ipairs(list) do
    jobs[i] = object_of(record)
    if record.outcome == "removed" then
      removed[#removed + 1], n = record.job, n + record.documents
    end
  end
  output.json {jobs = jobs, removed = removed, documents = n, error = why and output.error_object(why)}
end

-- Says what would be removed, and asks. Where nobody can be asked, that is an error.
local function confirmed(ctx, list)
  if ctx.options.yes then return true end
  if ctx.options.json then
    local why = core.error {code = "invalid_argument", retryable = false, message =
      "nothing was removed: nobody can be asked; to do it unasked: " .. typed.same_with(ctx, "--yes")}
    print_objects(list, why)
    error(why, 0)
  end
  print_list(list)
  local question = #list == 1 and "Remove this job? It can then no longer be undone."
    or ("Remove these %d jobs? They can then no longer be undone."):format(#list)
  if confirm.required(ctx, question) then return true end
  output.line(io.stderr, "nothing was removed")
  return false
end

-- What concerns one job alone; after other errors there is no use in going on with the next.
local of_one = {conflict = true, rejected = true, not_found = true, corrupt_table = true}

-- Sets the record's `outcome`.
local function remove(client, record)
  local ok, result = pcall(purge.one, client, record.job, record)
  if ok then
    record.outcome, record.documents = result and "removed" or "removed already", result
  elseif of_one[errors.code(result)] then
    record.outcome, record.why = "not removed", output.error_object(result)
  else
    return result
  end
end

local function print_outcome(record)
  if record.outcome == "removed" then
    output.line(io.stdout, ("removed job %s, with %d documents of its journal"):format(record.job,
      record.documents))
  elseif record.outcome == "removed already" then
    output.line(io.stdout, ("job %s was removed already, by another"):format(record.job))
  else
    output.line(io.stdout, ("job %s was not removed: %s"):format(record.job, record.why.message))
  end
end

-- Removes them. -> exit status
local function remove_all(client, ctx, list)
  local status, why = 0, nil
  for _, record in ipairs(list) do
    why = remove(client, record)
    if why then break end
    if record.outcome == "not removed" then status = 1 end
    if not ctx.options.json then print_outcome(record) end
  end
  if ctx.options.json then print_objects(list, why) end
  if why then error(why, 0) end
  return status
end

-- What would be removed. -> exit status, as of any plan
local function show(ctx, list)
  if ctx.options.json then print_objects(list) elseif #list > 0 then print_list(list) end
  return #list > 0 and 0 or plan.nothing_to_do
end

-- One, or all that are over for long enough. -> exit status
return function(client, ctx, id)
  local list = find(client, ctx, id)
  if id then purge.check(client, list[1]) end
  if #list == 0 and not ctx.options.json then
    output.line(io.stdout, "there is no job to remove")
    return ctx.options.dry_run and plan.nothing_to_do or 0
  end
  if ctx.options.dry_run then return show(ctx, list) end
  if #list > 0 and not confirmed(ctx, list) then return 1 end
  return remove_all(client, ctx, list)
end
