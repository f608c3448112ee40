-- What the page asks for beside what is published: answered from the last look, and from the store only what
-- is about one job.
local blocking = require "mortise.cli.blocking"
local control = require "mortise.board.control"
local core = require "mortise.core"
local data = require "mortise.board.data"
local errors = require "mortise.errors"
local history = require "mortise.board.history"
local holds = require "mortise.cli.holds"
local job_orders = require "mortise.cli.job_orders"
local levels = require "mortise.board.levels"
local orders = require "mortise.orders"
local records = require "mortise.records"
local shown = require "mortise.board.shown"
local story = require "mortise.board.story"

local answers = {}

local found_most, listed_most, events_most, aside_most = 50, 100, 50, 5
local kept_most = 64 -- answers of one look

local routes = {}

local function need_text(arguments, name, most)
  local value = arguments[name]
  if type(value) ~= "string" or value == "" or #value > most then
    errors.bad("%s: a text of 1 to %d bytes", name, most)
  end
  return value
end

local function place_of(arguments)
  return need_text(arguments, "namespace", 64), need_text(arguments, "path", 4096)
end

routes["/locks.json"] = function(board, arguments)
  local namespace, path = place_of(arguments)
  return levels.of(board.found, namespace, path)
end

routes["/search.json"] = function(board, arguments)
  local text = need_text(arguments, "q", 256)
  if text:find "[\0-\31\127]" then errors.bad "q: no control characters" end
  local locks, waiters, owners, n = levels.search(board.found, text, found_most)
  local sessions, jobs = core.array {}, core.array {}
  for i, session in ipairs(owners) do sessions[i] = data.session(session, board.found) end
  for _, list in ipairs {board.found.jobs, board.found.ended} do
    for _, record in ipairs(list) do
      if record.job:find(text, 1, true) and #jobs < found_most then jobs[#jobs + 1] = data.job(record) end
    end
  end
  return core.object {
    q = shown.text(text), locks = locks, waiters = waiters, sessions = sessions, jobs = jobs, n = n,
  }
end

-- ---- One of each ---------------------------------------------------------------------------------

routes["/session.json"] = function(board, arguments)
  local namespace, id = need_text(arguments, "namespace", 64), need_text(arguments, "id", 64)
  local found = board.found
  local session = found.sessions[namespace .. ":" .. id]
  if not session then errors.raise("not_found", "there is no session %s that lives or holds anything", id) end
  local object = data.session(session, found)
  local list, waits, awaited = core.array {}, core.array {}, core.array {}
  local columns = found.columns[namespace] or {count = 0}
  for at = 1, columns.count do
    if columns.session[at] == session and #list < listed_most then
      list[#list + 1] = levels.row(columns, namespace, at)
    end
  end
  for _, wait in ipairs(found.waits) do
    local is_own = wait.waiter.session == id and wait.waiter.namespace == namespace
    if is_own and #waits < listed_most then waits[#waits + 1] = levels.waiter(wait) end
    for _, entry in ipairs(wait.blockers) do
      if entry.session == id and #awaited < listed_most then
        awaited[#awaited + 1] = levels.waiter(wait)
        break
      end
    end
  end
  object.locks, object.waits_for, object.waited_for_by = list, waits, awaited
  return object
end

-- The jobs of this board's namespace whose lock is on the path or above it.
local function jobs_on(board, path)
  local list, above = core.array {}, {}
  for _, each in ipairs(holds.chain(path)) do above[each] = true end
  for _, jobs in ipairs {board.found.jobs, board.found.ended} do
    for _, record in ipairs(jobs) do
      local lock = record.counts and record.spec.lock or {kind = "none", paths = {}}
      local is_on = lock.kind == "global"
      for _, each in ipairs(lock.kind == "tree" and lock.paths or {}) do is_on = is_on or above[each] end
      if is_on and #list < listed_most then list[#list + 1] = data.job(record) end
    end
  end
  return list
end

-- Who has it, who waits, who is in the way above it, and who had it as far as the board has seen.
routes["/lock.json"] = function(board, arguments)
  local namespace, path = place_of(arguments)
  local object, above = levels.of(board.found, namespace, path), core.array {}
  for _, each in ipairs(holds.chain(path)) do
    local level = each ~= path and levels.of(board.found, namespace, each) or {rows = {}}
    for _, row in ipairs(level.rows) do
      if #above < listed_most then above[#above + 1] = row end
    end
  end
  local waits = core.array {}
  for _, wait in ipairs(board.found.waits) do
    local entry = wait.waiter
    if entry.namespace == namespace and entry.path == path and #waits < listed_most then
      local in_the_way = core.array {}
      for i = 1, math.min(#wait.blockers, 5) do
        in_the_way[i] = core.object {
          who = shown.text(blocking.who(wait.blockers[i])), shown = shown.path(wait.blockers[i].path),
          mode = wait.blockers[i].mode,
        }
      end
      local waiter = levels.waiter(wait)
      waiter.blockers = in_the_way
      waits[#waits + 1] = waiter
    end
  end
  object.shown, object.above, object.waiters = shown.path(path, 600), above, waits
  object.jobs = namespace == board.client:namespace() and jobs_on(board, path) or core.array {}
  object.events = story.of(board.story, namespace, path, events_most)
  object.watched_since = board.began
  return object
end

local function first_aside(client, record)
  local list = core.array {}
  if record.counts.rejected == 0 then return list end
  for each in records.aside(client, record.job, "rejected") do
    list[#list + 1] = core.object {
      id = shown.text(each.id), type = shown.text(each.type), reason = shown.text(each.reason, 400),
    }
    if #list >= aside_most then break end
  end
  return list
end

routes["/job.json"] = function(board, arguments)
  local id = need_text(arguments, "id", 256)
  core.job_id_check(id)
  local record = records.need(board.client, id)
  local object = data.job(record)
  local limits, steered = orders.limits(board.client, record), orders.steered(board.client, record)
  object.limits = limits and shown.text(job_orders.limits_text(limits)) or nil
  object.steered = steered and core.object {
    by = shown.text(steered.by), what = steered.what, at = steered.at,
  } or nil
  object.aside = first_aside(board.client, record)
  local steps = core.array {}
  for i, step in ipairs(records.next_steps(nil, record)) do
    steps[i] = core.object {command = shown.text(step.command, 400), why = shown.text(step.why)}
  end
  object.steps, object.history = steps, history.of_job(board.history, id)
  return object
end

routes["/history.json"] = function(board) return history.object(board.history) end

-- ---- Answering -----------------------------------------------------------------------------------

local statuses = {
  invalid_argument = 400, not_found = 404, conflict = 409, orphaned_job = 409, auth = 403,
  overloaded = 503, unavailable = 503, timeout = 503,
}

local function error_object(why)
  local code = core.is_error(why) and why.code or "script_error"
  local message = core.is_error(why) and why.message or core.tostring(why)
  return statuses[code] or 500, core.object {
    error = core.object {code = code, message = shown.text(message, 600)},
  }
end

-- Answers of the same look are made once, however many ask.
local kept_routes = {
  ["/locks.json"] = true, ["/lock.json"] = true, ["/history.json"] = true, ["/search.json"] = true,
}

local function key_of(path, arguments)
  return ("%s %s %s %s"):format(path, arguments.namespace or "", arguments.path or "", arguments.q or "")
end

local function text_of(board, path, arguments)
  local route = routes[path]
  if not route then errors.raise("not_found", "there is no such page") end
  if not board.found then errors.raise("unavailable", "the store was not read yet") end
  local key = kept_routes[path] and key_of(path, arguments)
  local kept = board.kept
  if key and kept.number == board.number and kept[key] then return kept[key] end
  local text = core.json(route(board, arguments))
  if key then
    if kept.number ~= board.number or kept.n >= kept_most then
      kept = {number = board.number, n = 0}
      board.kept = kept
    end
    kept[key], kept.n = text, kept.n + 1
  end
  return text
end

local function answer(board, id, path, arguments, body)
  local ok, result = pcall(function()
    if not body then return text_of(board, path, arguments) end
    if path ~= "/order.json" then errors.raise("not_found", "orders go to /order.json") end
    return core.json(control.obey(board.control, body))
  end)
  if not ok and errors.code(result) == "interrupted" then error(result, 0) end
  local status = 200
  if not ok then
    local object
    status, object = error_object(result)
    result = core.json(object)
  end
  if board.ending then return end
  board.web:answer(id, status, result .. "\n")
  if body then board.changed = true end
end

local from_store = {["/job.json"] = true}

-- Answers until the board ends. What waits for the store does not keep others waiting.
function answers.serve(board)
  while not board.ending do
    local id, path, arguments, body = board.web:next()
    if id and (body or from_store[path]) then
      core.spawn(answer, board, id, path, arguments, body)
    elseif id then
      answer(board, id, path, arguments, body)
    end
  end
end

return answers
