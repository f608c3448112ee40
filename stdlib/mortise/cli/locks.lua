-- mortise locks
local duration = require "mortise.duration"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local sessions = require "mortise.sessions"

local command = {
  summary = "list who holds and who waits for what",
  usage = "[--all] [--json]",
  help = [[
Lists the locks of the store: path, mode, since when, who (script, user and host, process), and
whether that process is alive as far as can be told from here. Marks of intention (IS and IX, which
every lock leaves on the paths above its own) are shown with --all, or where someone waits.]],
  options = {
    {name = "all", type = "boolean", flag = "--all", help = "marks of intention too"},
    output.json_row,
  },
  arguments = {0, 0},
}

local intention = {IS = true, IX = true}

local function age(entry, now)
  return entry.since and entry.since > 0 and duration.text(now - entry.since) or "?"
end

local function row_of(path, entry, known, now, waits)
  local session = known[entry.session]
  local verdict = sessions.judge(session, now)
  return {
    path, entry.mode, waits and "waits" or "holds", age(entry, now),
    sessions.owner_text(session and session.owner), (verdict.dead and "DEAD? " or "") .. verdict.text,
  }
end

local function add_lock(rows, lock, known, now, all)
  local queue = lock.queue or {}
  for _, entry in ipairs(lock.holders or {}) do
    if all or #queue > 0 or not intention[entry.mode] then
      rows[#rows + 1] = row_of(lock.path, entry, known, now, false)
    end
  end
  for _, entry in ipairs(queue) do rows[#rows + 1] = row_of(lock.path, entry, known, now, true) end
end

-- The rows of the list, heading included.
function command.rows(list, now, all)
  local known = sessions.by_id(list.sessions)
  local rows = {{"PATH", "MODE", "", "SINCE", "WHO", "SESSION"}}
  table.sort(list.locks, function(a, b) return a.path < b.path end)
  for _, lock in ipairs(list.locks) do add_lock(rows, lock, known, now, all) end
  return rows
end

function command.run(ctx)
  local client <close> = mortise.connect {}
  client:verify()
  local list = client:list()
  if ctx.options.json then
    output.json(list)
    return
  end
  local rows = command.rows(list, os.time() * 1000, ctx.options.all)
  if #rows == 1 then
    io.stdout:write("no locks are held in ", client:url(), "\n")
  else
    output.columns(rows)
  end
end

return command
