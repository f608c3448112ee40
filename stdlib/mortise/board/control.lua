-- What the page may order under `mortise board --control`. Each is asked twice: the first request is
-- answered by what would be done, with a number by which the second one says yes; that number holds for a
-- minute, once.
local breaking = require "mortise.cli.break"
local core = require "mortise.core"
local errors = require "mortise.errors"
local hint = require "mortise.hint"
local job_orders = require "mortise.cli.job_orders"
local mortise = require "mortise"
local orders = require "mortise.orders"
local records = require "mortise.records"
local shown = require "mortise.board.shown"
local undo = require "mortise.cli.undo"

local control = {}

local asked_most, asked_ms = 16, 60000
local at_work_most, deeds_most = 4, 20
local obey_ms = 10000

function control.new(client) return {client = client, asked = {}, deeds = {}, at_work = 0} end

-- ---- What may be ordered -------------------------------------------------------------------------

-- Each: foresee(client, order) -> lines, what carry_out needs; carry_out(client, order, that) -> a sentence.
-- `long`: it may take as long as the job.
local verbs = {}

local function order_of(format)
  return function(_, order) return {format:format(order.job)} end
end

local said = {pause = "paused", go_on = "no longer paused"}

-- Gives an order to whoever is at work, and waits until it is obeyed.
local function give(client, verb, id, limits)
  local number = orders[verb](client, id, limits)
  local obeyed, record = orders.await(client, id, number, obey_ms)
  local what = said[verb] or "told how fast it may go"
  if obeyed then return ("job %s is %s"):format(id, what) end
  if record and not record.alive and not record.stands then
    return ("job %s has ended meanwhile: it is %s"):format(id, record.state)
  end
  return ("job %s is told; its process has not answered yet"):format(id)
end

verbs.pause = {
  foresee = order_of "job %s is paused by whoever is at work on it, within a batch, and keeps its lock",
  carry_out = function(client, order) return give(client, "pause", order.job) end,
}

verbs.throttle = {
  foresee = function(_, order)
    local text = job_orders.limits_text(order.limits)
    return {("job %s may go no faster than this from now on: %s"):format(order.job,
      text ~= "" and text or "without a limit")}
  end,
  carry_out = function(client, order) return give(client, "throttle", order.job, order.limits) end,
}

local function is_at_work(client, id)
  local record = records.need(client, id)
  return record.alive, record
end

verbs.resume = {
  long = true,
  foresee = function(client, order)
    if is_at_work(client, order.job) then return {("job %s goes on"):format(order.job)} end
    return {
      ("job %s stands half-done: this board takes its lock over and does what is left"):format(order.job),
      ("should the board end before that, it stands again: %s jobs resume %s goes on"):format(hint.mortise(),
        order.job),
    }
  end,
  carry_out = function(client, order)
    if is_at_work(client, order.job) then return give(client, "go_on", order.job) end
    local result = client:get_job(order.job):resume()
    return ("job %s is done: %s documents changed"):format(order.job,
      core.tostring(result.changed or result.copied or 0))
  end,
}

verbs.rollback = {
  long = true,
  foresee = function(client, order)
    local alive, record = is_at_work(client, order.job)
    if alive then
      errors.raise("conflict", "somebody is at work on job %s: cancel it there first", order.job)
    end
    if record.spec.migrate then return {("migration %s is taken back"):format(order.job)} end
    local seen = client:get_job(order.job):plan_rollback()
    return {undo.text(seen)}, {others = seen.others}
  end,
  carry_out = function(client, order, seen)
    client:get_job(order.job):rollback(seen and {others = seen.others} or nil)
    return ("job %s is undone"):format(order.job)
  end,
}

verbs["break"] = {
  long = true,
  foresee = function(client, order)
    local lines, job = breaking.foresee(client, order.session, false)
    return lines, {job = job}
  end,
  carry_out = function(client, order, seen)
    local removed, stands = breaking.carry_out(client, order.session, seen.job, false)
    return ("session %s is over: %d entries removed%s"):format(order.session:sub(1, 8), removed,
      stands and ("; job %s stands half-done and keeps its lock"):format(seen.job) or "")
  end,
}

-- ---- Reading an order ----------------------------------------------------------------------------

local function limits_of(given)
  local limits = {}
  for _, row in ipairs(orders.rows) do
    local value = type(given) == "table" and given[row.name] or nil
    if value ~= nil and (math.type(value) ~= "integer" or value < row.least or value > row.most) then
      errors.bad("%s: %s", row.name, row.range)
    end
    limits[row.name] = value
  end
  if next(limits) == nil then errors.bad "throttle: give rate, batch or concurrency" end
  return limits
end

-- Only what is known of it is taken.
local function read(text)
  local ok, given = pcall(core.json_decode, text)
  if not ok or type(given) ~= "table" then errors.bad "an order is a JSON object" end
  if type(given.yes) == "string" then return {yes = given.yes} end
  local verb = type(given.verb) == "string" and verbs[given.verb]
  if not verb then errors.bad "verb: pause, resume, throttle, rollback or break" end
  local order = {verb = given.verb}
  if given.verb == "break" then
    local is_id = type(given.session) == "string" and given.session:find "^%x+$" and #given.session == 32
    if not is_id then errors.bad "session: 32 hex digits" end
    order.session = core.lower(given.session)
    local namespace = given.namespace
    if namespace ~= nil and (type(namespace) ~= "string" or not namespace:find "^[a-z0-9_-]+$") then
      errors.bad "namespace: small letters, digits, `_` and `-`"
    end
    order.namespace = namespace
  else
    if type(given.job) ~= "string" then errors.bad "job: the id of a job" end
    core.job_id_check(given.job)
    order.job = given.job
    order.limits = given.verb == "throttle" and limits_of(given.limits) or nil
  end
  return order
end

-- ---- Asking, and doing it ------------------------------------------------------------------------

local function forget_old(c)
  local now = core.now_ms()
  while c.asked[1] and (now - c.asked[1].at > asked_ms or #c.asked >= asked_most) do
    table.remove(c.asked, 1)
  end
end

-- A client of its own, since what is done here may take long and holds locks.
local function connect(c, order)
  return mortise.connect {namespace = order.namespace or c.client:namespace()}
end

local function ask(c, order)
  forget_old(c)
  local client <close> = connect(c, order)
  local lines, seen = verbs[order.verb].foresee(client, order)
  local list = core.array {}
  for i, line in ipairs(lines) do list[i] = shown.text(line, 300) end
  local number = require("mortise.web").random()
  c.asked[#c.asked + 1] = {number = number, order = order, seen = seen, at = core.now_ms()}
  return core.object {ask = list, yes = number, verb = order.verb}
end

local function take_asked(c, number)
  forget_old(c)
  for i, each in ipairs(c.asked) do
    if each.number == number then return table.remove(c.asked, i) end
  end
  errors.raise("conflict", "that was asked too long ago, or answered already: ask again")
end

local function message_of(why) return core.is_error(why) and why.message or core.tostring(why) end

-- What was ordered, and what became of it, for all who look: the latest first.
local function new_deed(c, order)
  local deed = {
    verb = order.verb, what = order.job or order.session:sub(1, 8), at = core.wall_ms(), state = "at work",
  }
  table.insert(c.deeds, 1, deed)
  if #c.deeds > deeds_most then c.deeds[#c.deeds] = nil end
  return deed
end

local function carry_out(c, asked, deed)
  c.at_work = c.at_work + 1
  local ok, result = pcall(function()
    local client <close> = connect(c, asked.order)
    return verbs[asked.order.verb].carry_out(client, asked.order, asked.seen)
  end)
  c.at_work = c.at_work - 1
  deed.state, deed.text = ok and "done" or "failed", shown.text(ok and result or message_of(result), 400)
  if not ok and errors.code(result) == "interrupted" then error(result, 0) end
end

local function say_yes(c, number)
  if c.at_work >= at_work_most then
    errors.raise("overloaded", "%d orders are being carried out", c.at_work)
  end
  local asked = take_asked(c, number)
  local deed = new_deed(c, asked.order)
  if verbs[asked.order.verb].long then
    core.spawn(carry_out, c, asked, deed)
  else
    carry_out(c, asked, deed)
  end
  return core.object(deed)
end

-- The answer to the text of an order.
function control.obey(c, text)
  local order = read(text)
  if order.yes then return say_yes(c, order.yes) end
  return ask(c, order)
end

function control.deeds(c)
  local list = core.array {}
  for i, deed in ipairs(c.deeds) do list[i] = core.object(deed) end
  return list
end

return control
