-- mortise jobs pause|resume|throttle|cancel of a job that someone is at work on: gives the order, and waits
-- until it is obeyed.
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local hint = require "mortise.hint"
local orders = require "mortise.orders"
local output = require "mortise.cli.output"

local job_orders = {}

local wait_ms = 10000

-- "500 documents/s, batches of 200, 1 at once"
function job_orders.limits_text(limits)
  local parts = {}
  local function add(format, value) parts[#parts + 1] = value and format:format(value) or nil end
  add("%d documents/s", limits.rate)
  add("batches of %d", limits.batch)
  add("%d at once", limits.concurrency)
  return table.concat(parts, ", ")
end

local function limits_now(client, record)
  local limits = orders.limits(client, record)
  return limits and "slowed down: " .. job_orders.limits_text(limits) or "no longer slowed down"
end

local said = {pause = "paused", go_on = "no longer paused", cancel = "cancelled"}

local function report(client, ctx, id, verb, number)
  local obeyed, record = orders.await(client, id, number, wait_ms)
  local stands = record and record.stands
  if verb == "cancel" and record and not record.alive then obeyed = true end
  if ctx.options.json then
    return output.json {job = id, order = verb, in_force = obeyed, state = record and record.state}
  end
  local what = said[verb] or limits_now(client, record or {job = id, spec = {}})
  if obeyed then
    output.line(io.stdout, ("job %s is %s"):format(id, what))
  elseif stands and verb == "throttle" then
    output.line(io.stdout, ("job %s is %s, once somebody resumes it"):format(id, what))
  elseif record and not record.alive then
    output.line(io.stdout, ("job %s has ended meanwhile: it is %s"):format(id, record.state))
  else
    output.line(io.stdout, ("job %s will be %s: its process has not looked for %s"):format(id, what,
      duration.text(wait_ms)))
  end
  if stands then
    output.line(io.stdout, ("%s jobs show %s says what may be done"):format(hint.mortise(), id))
  end
end

-- `verb`: pause, go_on, cancel or throttle, with its limits.
function job_orders.give(client, ctx, verb, id, limits)
  report(client, ctx, id, verb, orders[verb](client, id, limits))
end

-- The limits among the command's options, nil where there are none.
function job_orders.limits_of(found)
  local limits = {}
  for _, row in ipairs(orders.rows) do limits[row.name] = found[row.name] end
  return next(limits) and limits
end

-- Rows for the command line.
function job_orders.rows()
  local rows = {}
  for i, row in ipairs(orders.rows) do
    rows[i] = {flag = "--" .. row.name:gsub("_", "-"), value = "N"}
    for name, value in pairs(row) do rows[i][name] = value end
    rows[i].help = "throttle: " .. row.help
  end
  return rows
end

-- Raises an error where a limit is given to another verb, or none to throttle.
function job_orders.check(verb, found)
  local limits = job_orders.limits_of(found)
  if verb == "throttle" and not limits then
    errors.bad "jobs throttle: give --rate, --batch or --concurrency"
  end
  if verb ~= "throttle" and limits then
    errors.bad("jobs %s: --%s belongs to throttle", verb, (core.tostring(next(limits)):gsub("_", "-")))
  end
end

return job_orders
