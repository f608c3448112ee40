-- mortise locks [break ...]
local core = require "mortise.core"
local breaking = require "mortise.cli.break"
local config = require "mortise.config"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local sessions = require "mortise.sessions"

local command = {
  summary = "list who holds and who waits for what; end a session by hand",
  usage = "[--all] [--json] | break ...",
  help = [[
Lists the locks of the store: path (with its namespace where that is another), mode, which hold it is,
since when, who (script, user and host, process), and whether that process is alive as far as can be
told from here. Marks of intention (IS and IX, which every lock leaves on the paths above its own) are
shown with --all, or where someone waits.

  mortise locks break PATH --hold HOLD
  mortise locks break --session ID

ends a session whose owner cannot be stopped otherwise, with all of its locks: the one that holds PATH
as the list showed it in its column HOLD, or the one of that id. It says what that means and asks. The
session is marked, so that its heartbeat is refused; then its lease is waited for, because until then
its owner may believe in its locks; then its entries are removed. Exit status 3 when that hold is not
there any more. Prefer to end the process: that gives back in order.]],
  options = {
    {name = "all", type = "boolean", flag = "--all", help = "marks of intention too"},
    {name = "hold", type = "string", flag = "--hold", value = "HOLD",
      help = "break: the hold, as the list shows it"},
    {name = "session", type = "string", flag = "--session", value = "ID",
      help = "break: the session, or the first digits of its id"},
    {name = "yes", type = "boolean", flag = "--yes", help = "break: do not ask"},
    output.json_row,
  },
  arguments = {0, 2},
}

local intention = {IS = true, IX = true}

local function age(entry, now)
  return entry.since and entry.since > 0 and duration.text(now - entry.since) or "?"
end

local function row_of(path, entry, known, now, waits)
  local session = known[entry.session]
  local verdict = sessions.judge(session, now)
  return {
    path, entry.mode, waits and "waits" or "holds", breaking.hold_text(entry), age(entry, now),
    sessions.owner_text(session and session.owner), (verdict.dead and "DEAD? " or "") .. verdict.text,
  }
end

-- The path, with the namespace where it is another than ours.
local function place_of(lock, namespace)
  return lock.ns and lock.ns ~= namespace and lock.ns .. ":" .. lock.path or lock.path
end

local function add_lock(rows, lock, known, now, all, namespace)
  local queue, path = lock.queue or {}, place_of(lock, namespace)
  for _, entry in ipairs(lock.holders or {}) do
    if all or #queue > 0 or not intention[entry.mode] then
      rows[#rows + 1] = row_of(path, entry, known, now, false)
    end
  end
  for _, entry in ipairs(queue) do rows[#rows + 1] = row_of(path, entry, known, now, true) end
end

-- The rows of the list, heading included.
function command.rows(list, now, all, namespace)
  local known = sessions.by_id(list.sessions)
  local rows = {{"PATH", "MODE", "", "HOLD", "SINCE", "WHO", "SESSION"}}
  table.sort(list.locks, function(a, b)
    if a.path ~= b.path then return core.before(a.path, b.path) end
    return core.before(a.ns or "", b.ns or "")
  end)
  for _, lock in ipairs(list.locks) do add_lock(rows, lock, known, now, all, namespace) end
  return rows
end

-- A list takes nothing of what belongs to `break`.
local function check_list(ctx)
  local o = ctx.options
  if #ctx.arguments > 0 or o.hold or o.session or o.yes then
    errors.bad("usage: mortise locks %s", command.usage)
  end
end

function command.run(ctx)
  if ctx.arguments[1] == "break" then return breaking.run(ctx) end
  check_list(ctx)
  local client <close> = mortise.connect {}
  client:verify()
  local list = client:list(true)
  if ctx.options.json then
    output.json(list)
    return
  end
  local named = config.resolve().found.namespace
  local rows = command.rows(list, os.time() * 1000, ctx.options.all, named and named.value or "default")
  if #rows == 1 then
    io.stdout:write("no locks are held in ", client:url(), "\n")
  else
    output.columns(rows)
  end
end

return command
