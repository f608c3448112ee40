-- mortise sessions [ls | show ID | end ID]
local blocking = require "mortise.cli.blocking"
local breaking = require "mortise.cli.break"
local confirm = require "mortise.cli.confirm"
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local hint = require "mortise.hint"
local holds = require "mortise.cli.holds"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local sessions = require "mortise.sessions"
local suggest = require "mortise.suggest"
local visible = require "mortise.visible"

local command = {
  summary = "list who works on the store; end a session by hand",
  usage = "[ls | show ID | end ID] [--json]",
  help = [[
A session is one client of mortise: what it locks lives as long as it sends heartbeats, and no longer than its
lease after the last one.

ls      lists the sessions of all namespaces that have not ended, and ended ones that still hold something:
        since when, what is left of the lease, how many locks it holds and waits for, who it is. Who waits
        comes first, then who holds most. --mine: only those of this user on this host.
show    all about one: its locks, what it waits for and who is in the way, who waits for it, what may be done.
end     ends it without its owner's consent, with all of its locks: the same as `mortise locks break
        --session ID`, which says what that means. Prefer to end the process: that gives back in order.

An ID may be shortened to its first 8 digits, as the list shows it.]],
  options = {
    {name = "mine", type = "boolean", flag = "--mine", help = "ls: only those of this user on this host"},
    {name = "limit", type = "count", flag = "--limit", value = "N", help = "ls: at most so many; says so"},
    {name = "abandon", type = "boolean", flag = "--abandon", help = "end: what guards a job, too"},
    confirm.row,
    output.json_row,
  },
  arguments = {0, 2},
}

-- ---- What there is -------------------------------------------------------------------------------

local function new_row(namespace, id, record, now)
  return {
    namespace = namespace, id = id, record = record, verdict = sessions.judge(record, now),
    holds = {}, waits = {},
  }
end

-- -> {a row for each session, with its entries}, all entries, and whether the lists were fresh
local function read(client)
  local rows, by_id, entries, now = {}, {}, {}, core.wall_ms()
  local function row_of(namespace, id, record)
    local key = namespace .. ":" .. id
    if not by_id[key] then
      by_id[key] = new_row(namespace, id, record, now)
      rows[#rows + 1] = by_id[key]
    end
    return by_id[key]
  end
  for record in client:_each {kind = "sessions", page = holds.page} do
    row_of(record.ns, record.session, record)
  end
  local fresh = holds.each(client, {kind = "locks", unsorted = true}, function(entry)
    entries[#entries + 1] = entry
    if entry.damaged then return end
    local row = row_of(entry.namespace, entry.session, entry.record)
    if entry.waits then
      table.insert(row.waits, entry)
    elseif not holds.is_intention(entry.mode) then
      table.insert(row.holds, entry)
      row.verdict = entry.verdict -- which knows of guards
    end
  end)
  return rows, entries, fresh
end

local function is_before(a, b)
  if (#a.waits > 0) ~= (#b.waits > 0) then return #a.waits > 0 end
  if #a.holds ~= #b.holds then return #a.holds > #b.holds end
  return core.before(a.id, b.id)
end

-- What is left of its lease, in ms; nil where that is not known, or it is over.
local function lease_left(row)
  local record = row.record
  if row.verdict.dead or not record or math.type(record.beat_at) ~= "integer" then return nil end
  return record.beat_at + (record.lease_ms or 0) - core.wall_ms()
end

-- ---- For people ----------------------------------------------------------------------------------

local function state_text(row)
  if row.verdict.dead or row.verdict.damaged or row.verdict.state ~= "live" then return row.verdict.text end
  return "live"
end

local function id_text(row, namespace)
  local short = row.id:sub(1, holds.digits)
  return row.namespace == namespace and short or row.namespace .. ":" .. short
end

local function cells(row, namespace, now)
  local left = lease_left(row)
  return {
    id_text(row, namespace), holds.age(row.record and row.record.opened, now),
    left and duration.text(left) or "", ("%d"):format(#row.holds), ("%d"):format(#row.waits),
    sessions.owner_text(row.record and row.record.owner), state_text(row),
  }
end

-- ---- For programs --------------------------------------------------------------------------------

local function object_of(row)
  local record, left = row.record, lease_left(row)
  return core.object {
    namespace = row.namespace, session = row.id, state = row.verdict.state, dead = row.verdict.dead,
    orphaned = row.verdict.orphaned, verdict = row.verdict.text, owner = holds.owner_object(record),
    opened = record and holds.iso(record.opened), last_beat = record and holds.iso(record.beat_at),
    lease_ms = record and record.lease_ms, lease_left_ms = left, holds = #row.holds, waits = #row.waits,
  }
end

-- ---- The verbs -----------------------------------------------------------------------------------

local verbs = {}

local function note_stale(fresh)
  if fresh then return end
  output.line(io.stderr,
    "mortise: note: this user may not refresh the lock table: what changed in the last moment may be missing")
end

-- -> those that the options ask for, in order, and how many there were
local function chosen(rows, o)
  local list = {}
  for _, row in ipairs(rows) do
    if not o.mine or sessions.is_mine(row.record and row.record.owner) then list[#list + 1] = row end
  end
  table.sort(list, is_before)
  local all = #list
  for i = all, (o.limit or all) + 1, -1 do list[i] = nil end
  return list, all
end

function verbs.ls(client, ctx)
  local rows, _, fresh = read(client)
  local list, all = chosen(rows, ctx.options)
  if ctx.options.json then
    local objects = core.array {}
    for i, row in ipairs(list) do objects[i] = object_of(row) end
    return output.json {sessions = objects, complete = #list == all, refreshed = fresh}
  end
  note_stale(fresh)
  if #list == 0 then return output.line(io.stdout, "there are no such sessions in ", client:url()) end
  local lines, now = {{"SESSION", "OPENED", "LEASE", "HOLDS", "WAITS", "WHO", "STATE"}}, core.wall_ms()
  for i, row in ipairs(list) do lines[i + 1] = cells(row, client:namespace(), now) end
  output.columns(lines, 6)
  if #list < all then
    output.line(io.stderr, ("mortise: note: the first %d of %d are shown (--limit)"):format(#list, all))
  end
end

-- The one whose id begins so; nil after saying why not.
local function find(rows, ctx, prefix)
  local found = {}
  for _, row in ipairs(rows) do
    if row.id:sub(1, #prefix) == prefix then found[#found + 1] = row end
  end
  if #found == 1 then return found[1] end
  local ids = core.array {}
  for i, row in ipairs(found) do ids[i] = row.id end
  local code = #found == 0 and "not_found" or "several"
  local message = #found == 0 and ("there is no session %s that lives or holds anything"):format(prefix)
    or ("%s are several sessions: %s"):format(prefix, table.concat(ids, ", "))
  if ctx.options.json then output.json {error = {code = code, message = message, found = ids}} end
  output.line(io.stderr, "mortise: ", message)
end

local function say(what, format, ...)
  output.line(io.stdout, ("  %-7s "):format(what), format:format(...))
end

local shown_most = 20

local function say_list(what, list, text)
  for i = 1, math.min(#list, shown_most) do say(i == 1 and what or "", "%s", text(list[i])) end
  if #list > shown_most then say("", "and %d more", #list - shown_most) end
end

-- The waits of others that it is in the way of.
local function held_up_by(waits, row)
  local found = {}
  for _, wait in ipairs(waits) do
    for _, entry in ipairs(wait.blockers) do
      if entry.session == row.id then
        found[#found + 1] = wait
        break
      end
    end
  end
  return found
end

local function own_waits(waits, row)
  local found = {}
  for _, wait in ipairs(waits) do
    if wait.waiter.session == row.id then found[#found + 1] = wait end
  end
  return found
end

local who = blocking.who

local function wait_text(wait)
  local first = wait.blockers[1]
  return ("%s (%s)%s"):format(visible(wait.waiter.path), wait.waiter.mode,
    first and ("; in the way: %s, with %s (%s)%s"):format(who(first), visible(first.path), first.mode,
      #wait.blockers > 1 and (", and %d more"):format(#wait.blockers - 1) or "") or "")
end

local function steps_of(row, namespace)
  local verdict, owner = row.verdict, row.record and row.record.owner
  local there = row.namespace ~= namespace and " --namespace " .. row.namespace or ""
  local by_hand = ("%s sessions end %s%s"):format(hint.mortise(), row.id:sub(1, holds.digits), there)
  if verdict.orphaned then
    return {("%s jobs show %s says what may be done"):format(hint.mortise(), row.holds[1].job)}
  elseif verdict.dead then
    return {"nothing: the next who wants what it holds takes it over"}
  elseif verdict.damaged or verdict.state == "broken" then
    return {verdict.damaged and by_hand or "nothing: it is broken already, and over after its lease"}
  end
  local gone = type(owner) == "table" and math.type(owner.pid) == "integer"
    and ("on %s: kill %d"):format(core.tostring(owner.host or "its host"), owner.pid)
  return {"nothing, or " .. (gone or by_hand), gone and "or, where that cannot be done: " .. by_hand or nil}
end

function verbs.show(client, ctx, id)
  local rows, entries = read(client)
  local row = find(rows, ctx, id)
  if not row then return 1 end
  local waits, now = blocking.waits(entries), core.wall_ms()
  local mine, others = own_waits(waits, row), held_up_by(waits, row)
  if ctx.options.json then
    local object, list = object_of(row), core.array {}
    for i, entry in ipairs(row.holds) do list[i] = holds.object(entry) end
    object.locks = list
    object.waits_for, object.waited_for_by = blocking.objects(mine), blocking.objects(others)
    return output.json(object)
  end
  local record = row.record or {}
  output.line(io.stdout, row.namespace == client:namespace() and row.id or row.namespace .. ":" .. row.id)
  say("who", "%s", sessions.owner_text(record.owner))
  say("state", "%s", row.verdict.text)
  local left = lease_left(row)
  say("opened", "%s ago%s", holds.age(record.opened, now), left and ("; lease of %s, %s left"):format(
    duration.text(record.lease_ms or 0), duration.text(left)) or "")
  say_list("holds", row.holds, function(entry)
    return ("%s (%s), for %s%s"):format(visible(entry.path), entry.mode, holds.age(entry.since, now),
      entry.job and ", for job " .. entry.job or "")
  end)
  say_list("waits", mine, wait_text)
  say_list("awaited", others, function(wait)
    return ("%s, for %s (%s)"):format(who(wait.waiter), visible(wait.waiter.path), wait.waiter.mode)
  end)
  say_list("do", steps_of(row, client:namespace()), function(text) return text end)
end

verbs["end"] = function(_, ctx, id)
  ctx.options.session = id
  ctx.arguments = {"break"}
  return breaking.run(ctx)
end

local verb_names = {"ls", "show", "end"}
command.takes = {table.concat(verb_names, " "), "SESSION"}

local function check(ctx)
  local verb, id, o = ctx.arguments[1] or "ls", ctx.arguments[2], ctx.options
  if not verbs[verb] then
    local near = suggest(verb, verb_names)
    errors.bad("sessions: there is no `%s`%s", verb, near and (": did you mean `%s`?"):format(near)
      or "; there are: " .. table.concat(verb_names, ", "))
  end
  if (id ~= nil) ~= (verb ~= "ls") then errors.bad("usage: mortise sessions %s", command.usage) end
  if verb ~= "ls" and (o.mine or o.limit) then
    errors.bad("sessions %s: --mine and --limit belong to ls", verb)
  end
  if verb ~= "end" and (o.yes or o.abandon) then
    errors.bad("sessions %s: --yes and --abandon belong to end", verb)
  end
  if id and not (id:find "^%x+$" and #id >= holds.digits and #id <= 32) then
    errors.bad("sessions %s %s: a session's id, or its first %d hex digits or more", verb, id, holds.digits)
  end
  return verb, id and core.lower(id)
end

function command.run(ctx)
  local verb, id = check(ctx)
  if verb == "end" then return verbs[verb](nil, ctx, id) end
  local client <close> = mortise.connect {}
  client:verify()
  return verbs[verb](client, ctx, id)
end

return command
