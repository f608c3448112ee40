-- What a plan says, for people.
local duration = require "mortise.duration"
local hint = require "mortise.hint"
local output = require "mortise.cli.output"
local visible = require "mortise.visible"

local plan = {}

plan.nothing_to_do = 7 -- an exit status

local codes = {minus = "31", plus = "32", head = "1"}

local function coloured(handle, kind, text)
  if not output.is_coloured(handle == io.stdout and 1 or 2) then return output.line(handle, text) end
  handle:write("\27[", codes[kind], "m")
  output.line_part(handle, text)
  handle:write("\27[0m\n")
end

local units = {"kB", "MB", "GB", "TB"}

local function size_text(bytes)
  if bytes < 1000 then return ("%d bytes"):format(bytes) end
  local unit = 0
  while bytes >= 1000 and unit < #units do bytes, unit = bytes / 1000, unit + 1 end
  local tenths = math.floor(bytes * 10 + 0.5)
  return ("%d.%d %s"):format(tenths // 10, tenths % 10, units[unit])
end

local function print_sample(sample, handle)
  local function line(kind, text) coloured(handle, kind, text) end
  line("head", sample.index .. "/" .. sample.id)
  if sample.new_id then line("plus", "+ _id: " .. output.shortened(sample.new_id, 200)) end
  if sample.large then return output.line(handle, "  (too large to be shown)") end
  if sample.deleted then return line("minus", "- " .. output.shortened(sample.before, 200)) end
  for _, each in ipairs(sample.fields) do
    if each.before then line("minus", ("- %s: %s"):format(each.field, output.shortened(each.before, 200))) end
    if each.after then line("plus", ("+ %s: %s"):format(each.field, output.shortened(each.after, 200))) end
  end
end

-- At most so many of them, to standard output or standard error.
function plan.print_samples(samples, handle, most)
  for i = 1, math.min(#samples, most) do print_sample(samples[i], handle) end
end

local function locks_text(locks)
  local list = {}
  for i = 1, math.min(#locks, 10) do list[i] = ("%s %s"):format(visible(locks[i].path), locks[i].mode) end
  local more = #locks > #list and (", and %d more"):format(#locks - #list) or ""
  return table.concat(list, ", ") .. more
end

-- Prints the result of a job's plan; `what` is what it plans.
function plan.print(result, what)
  if result.stands then
    output.line(io.stdout,
      ("job %s stands half-done: this is what is left of it; %s jobs show %s says what may be done")
        :format(result.job, hint.mortise(), result.job))
  end
  output.line(io.stdout, ("%s: %d of %d documents that match would change (%s), in about %s"):format(
    what, result.changed, result.matched, size_text(result.bytes),
    duration.text(math.floor(result.estimate * 1000 + 0.5))))
  if result.rejected > 0 then
    local first = result.rejects[1]
    output.line(io.stdout, ("%d could not be changed, the first is %s: %s"):format(result.rejected, first.id,
      first.reason))
  end
  if result.beside > 0 then
    output.line(io.stdout, ("%d lie below the new path already"):format(result.beside))
  end
  if (result.outside or 0) > 0 then
    output.line(io.stdout, ("%d of those that match lie outside of the locked paths"):format(result.outside))
  end
  if result.strategy then
    output.line(io.stdout, ("made by the %s: %s"):format(result.strategy, result.strategy_reason))
  end
  output.line(io.stdout, "it would lock ", locks_text(result.locks))
  plan.print_samples(result.samples, io.stdout, #result.samples)
  local shown = #result.samples
  if result.changed > shown then
    output.line(io.stdout, ("and %d more; nothing was changed"):format(result.changed - shown))
  else
    output.line(io.stdout, "nothing was changed")
  end
end

-- The exit status of a plan that is not followed by a run: is there something to do? Where documents could
-- not be changed, it is that of such a run.
function plan.status(result)
  if result.rejected > 0 then return 1 end
  return result.changed + (result.deleted or 0) > 0 and 0 or plan.nothing_to_do
end

return plan
