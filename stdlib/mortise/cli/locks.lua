-- mortise locks [tree | break ...]
local blocking = require "mortise.cli.blocking"
local breaking = require "mortise.cli.break"
local confirm = require "mortise.cli.confirm"
local core = require "mortise.core"
local errors = require "mortise.errors"
local guards = require "mortise.guards"
local hint = require "mortise.hint"
local holds = require "mortise.cli.holds"
local job_shown = require "mortise.cli.job_shown"
local lock_tree = require "mortise.cli.lock_tree"
local mortise = require "mortise"
local normalised = require "mortise.path"
local output = require "mortise.cli.output"
local printable = require "mortise.printable"
local sessions = require "mortise.sessions"
local visible = require "mortise.visible"

local command = {
  summary = "list who holds and who waits for what; end a session by hand",
  usage = "[tree] [PATH | --who PATH] | break ...",
  help = [[
Lists the locks of the store: path (with its namespace where that is another), mode, which hold it is,
since when, who (script or command, user and host, process), and whether that process is alive as far
as can be told from here. Who waits is shown at the path it wants; "waits at" an ancestor of that where
it has not said yet. What dead ones left stands apart: the next who wants it takes it over. So does what
guards a job whose process is gone: nobody takes that over before the job is resumed or rolled back. Marks of
intention (IS and IX, which every lock leaves on the paths above its own) are shown with --all. A job of the
namespace that stands half-done and has lost its guard holds nothing: it is named after the locks.

With PATH (or NAMESPACE:PATH): what is held or waited for at it, below it, and above it what reaches
down to it. --who PATH says of each of these what may be done about it.

  mortise locks tree [PATH]

shows them as a tree of paths, and after it who waits for whom: below each who is in the way, those that
wait for it, and those that wait for these. What is waited for comes first; where there are more than
--limit lines (100), the rest is counted: `mortise locks tree /that/path` shows more of it.

  mortise locks break PATH --hold HOLD
  mortise locks break --session ID

ends a session whose owner cannot be stopped otherwise, with all of its locks: the one that holds PATH
(or NAMESPACE:PATH) as the list showed it in its column HOLD, or the one of that id. It says what that
means and asks. The session is marked, so that its heartbeat is refused; then its lease is waited for,
because until then its owner may believe in its locks; then its entries are removed. What guards a job that
stands half-done stays, until that is resumed or rolled back: with --abandon it goes too, and others get at
what was changed half-way. Exit status 3 when that hold is not there any more. Prefer to end the process:
that gives back in order.

What no client of mortise has written is shown as damaged, and nobody takes it over. With HOLD
`damaged` all of that at PATH is removed, and nothing else; its session's own document, where that is
damaged, is broken like any other, but not waited for. PATH may be typed with the escapes of the list.]],
  options = {
    {name = "all", type = "boolean", flag = "--all", help = "marks of intention too"},
    {name = "waiting", type = "boolean", flag = "--waiting", help = "only who waits"},
    {name = "mine", type = "boolean", flag = "--mine",
      help = "only what this user has on this host, by the names of both"},
    {name = "who", type = "string", flag = "--who", value = "PATH",
      help = "who is in the way of PATH, and what may be done"},
    {name = "limit", type = "count", flag = "--limit", value = "N", help = "at most so many; says so"},
    {name = "hold", type = "string", flag = "--hold", value = "HOLD",
      help = "break: the hold, as the list shows it"},
    {name = "session", type = "string", flag = "--session", value = "ID",
      help = "break: the session, or the first digits of its id"},
    {name = "abandon", type = "boolean", flag = "--abandon", help = "break: what guards a job, too"},
    confirm.row,
    output.json_row,
  },
  arguments = {0, 2},
  takes = {"tree break PATH", "PATH"},
}

-- ---- What is asked for ---------------------------------------------------------------------------

-- A list takes none of the options of `break`. -> the namespace and path to list; nil: all.
local function check_list(ctx)
  local o, text = ctx.options, ctx.options.who or ctx.arguments[1]
  if #ctx.arguments > 1 or o.hold or o.session or o.yes or o.abandon or (o.who and ctx.arguments[1]) then
    errors.bad("usage: mortise locks %s", command.usage)
  end
  if ctx.tree and o.who then errors.bad "locks: --who belongs to the list, not to the tree" end
  if not text then return nil, nil end
  local namespace, path = holds.place(text)
  return namespace, normalised(path, true)
end

local function is_shown(entry, lock, o)
  if o.waiting and not entry.waits then return false end
  if o.mine and not sessions.is_mine(entry.record and entry.record.owner) then return false end
  return o.all or holds.is_worth_showing(entry, lock)
end

-- Calls see(entry) for the requested entries. -> {n=, stale=, cut=, failure=}: how many; the list was not
-- fresh; there are more than --limit; the error that ended it early.
local function go_through(client, ctx, see)
  local o, state = ctx.options, {n = 0}
  local function take(entry, lock)
    if not is_shown(entry, lock, o) then return end
    state.cut = o.limit ~= nil and not ctx.tree and state.n >= o.limit
    if state.cut then return false end
    state.n = state.n + 1
    see(entry)
  end
  local ok, fresh = pcall(function()
    if not ctx.path then return holds.each(client, {kind = "locks", unsorted = ctx.tree}, take) end
    return holds.around(client, ctx.namespace or client:namespace(), ctx.path, take)
  end)
  if ok then state.stale = not fresh else state.failure = fresh end
  return state
end

-- The jobs that keep nobody away from what they have left half-done: they hold nothing that could be listed.
local function lost_jobs(client, ctx)
  local o = ctx.options
  return (o.waiting or o.mine) and {} or guards.lost(client, ctx.path, ctx.namespace)
end

-- ---- For people ----------------------------------------------------------------------------------

-- The path, with the namespace if it is not ours.
local function place_of(entry, namespace)
  local path = entry.namespace and entry.namespace ~= namespace
    and entry.namespace .. ":" .. entry.path or entry.path
  path = visible(path)
  return entry.more and ("%s (and %d more)"):format(path, entry.more) or path
end

local function word_of(entry)
  if not entry.waits then return "holds" end
  return entry.known and "waits" or "waits at"
end

local function row_of(entry, now, namespace)
  return {
    place_of(entry, namespace), entry.mode, word_of(entry), holds.name(entry),
    holds.age(entry.since, now), sessions.owner_text(entry.record and entry.record.owner),
    entry.verdict.text,
  }
end

local heading = {"PATH", "MODE", "", "HOLD", "SINCE", "WHO", "SESSION"}

local function by_path(a, b)
  if a.path ~= b.path then return core.before(a.path, b.path) end
  if a.namespace ~= b.namespace then return core.before(a.namespace, b.namespace) end
  return a.at < b.at
end

-- The rows of the list, for live sessions, for dead ones, and for the guards of orphaned jobs, each with a
-- heading unless empty.
function command.rows(entries, now, namespace)
  table.sort(entries, by_path)
  local living, dead, orphaned = {}, {}, {}
  for _, entry in ipairs(entries) do
    local rows = entry.verdict.orphaned and orphaned or entry.verdict.dead and dead or living
    if #rows == 0 then rows[1] = heading end
    rows[#rows + 1] = row_of(entry, now, namespace)
  end
  return living, dead, orphaned
end

local function print_table(entries, client)
  local living, dead, orphaned = command.rows(entries, core.wall_ms(), client:namespace())
  local blank = #living > 0 and "\n" or ""
  local function print_apart(title, rows)
    if #rows == 0 then return end
    io.stdout:write(blank, title, ":\n")
    output.columns(rows, 1)
    blank = "\n"
  end
  output.columns(living, 1)
  print_apart("Left by the dead, for the next who wants it", dead)
  print_apart("Guards of jobs, until they are resumed or rolled back", orphaned)
end

local function break_line(entry, namespace)
  local path = entry.damaged and entry.queued_at or entry.path
  local place = entry.namespace ~= namespace and entry.namespace .. ":" .. path or path
  return ("%s locks break %s --hold %s"):format(hint.mortise(), hint.quoted(printable(place)),
    holds.name(entry))
end

local function advice_of(entry, namespace)
  local owner = entry.record and entry.record.owner
  if entry.verdict.stray then
    return {"nothing: no lock can be there", "or, to be rid of it: " .. break_line(entry, namespace)}
  elseif entry.verdict.orphaned then
    return {("resume job %s, or roll it back: it is not finished"):format(entry.job),
      hint.mortise() .. " jobs show " .. entry.job,
      ("or, to leave what it changed as it is: %s --abandon"):format(break_line(entry, namespace))}
  elseif entry.verdict.dead and entry.job and not entry.waits then
    return {"nothing: the next who wants it gives it back, and so does the next job that begins"}
  elseif entry.verdict.dead then
    return {"nothing: the next who wants it takes it over"}
  elseif entry.damaged then
    return {break_line(entry, namespace)}
  elseif entry.waits then
    return {"nothing: it holds nothing here yet"}
  elseif entry.verdict.state == "broken" then
    return {"wait: it was broken, and others get in after its lease"}
  end
  local damaged = entry.verdict.damaged -- nobody takes it over, and its owner's pid means nothing
  local list = {not damaged and "wait until it ends" or nil}
  if entry.job and not damaged then
    list[2] = ("or steer its job: %s jobs pause %s (it keeps its lock)"):format(hint.mortise(), entry.job)
    list[3] = ("or end it, to be resumed or undone: %s jobs cancel %s"):format(hint.mortise(), entry.job)
  end
  if not damaged and type(owner) == "table" and math.type(owner.pid) == "integer" then
    list[#list + 1] = ("or on %s: kill %d"):format(core.tostring(owner.host or "its host"), owner.pid)
  end
  list[#list + 1] = (damaged and "" or "or, where that cannot be done: ") .. break_line(entry, namespace)
  return list
end

-- All about one entry, and what may be done about it, as lines.
function command.who_lines(entry, now, namespace)
  local owner = entry.record and entry.record.owner
  local who = type(owner) == "table" and owner or {}
  local lines = {("%s  %s  %s  %s"):format(place_of(entry, namespace), entry.mode, word_of(entry),
    holds.name(entry))}
  local function say(what, format, ...)
    lines[#lines + 1] = ("  %-6s "):format(what) .. format:format(...)
  end
  if not entry.waits then
    say("since", "%s ago (%s)", holds.age(entry.since, now), holds.iso(entry.since) or "?")
  elseif entry.queued_at ~= entry.path then
    say("line", "at %s", visible(entry.queued_at))
  end
  say("who", "%s@%s, pid %s", core.tostring(who.user or "?"), core.tostring(who.host or "?"),
    core.tostring(who.pid or "?"))
  say("runs", "%s%s", sessions.runs_text(who), entry.job and ", job " .. entry.job or "")
  say("state", "%s", entry.verdict.text)
  for i, line in ipairs(advice_of(entry, namespace)) do say(i == 1 and "do" or "", "%s", line) end
  return lines
end

local function print_who(entry, now, namespace)
  for _, line in ipairs(command.who_lines(entry, now, namespace)) do output.line(io.stdout, line) end
end

-- Notes if the list is incomplete.
local function print_end(state, ctx, client)
  local function note(format, ...) output.line(io.stderr, "mortise: note: ", format:format(...)) end
  if state.cut then note("the first %d are shown, there are more (--limit)", state.n) end
  if state.stale then
    note("this user may not refresh the lock table: what changed in the last moment may be missing")
  end
  if state.failure then
    if state.n > 0 then note("this is a part: %d were shown before it failed", state.n) end
    error(state.failure, 0)
  end
  if state.n > 0 then return end
  local what = ctx.options.who or ctx.arguments[1]
  if what then
    output.line(io.stdout, "nothing is held at, above or below ", visible(what))
  elseif ctx.options.waiting or ctx.options.mine then
    io.stdout:write("nothing of that is in ", client:url(), "\n")
  else
    io.stdout:write("no locks are held in ", client:url(), "\n")
  end
end

local function print_lost(list)
  if #list == 0 then return end
  local rows = {{"JOB", "LOCK", "SAYS WHAT MAY BE DONE"}}
  for i, record in ipairs(list) do
    rows[i + 1] = {record.job, job_shown.paths_text(record.spec.lock), hint.mortise() .. " jobs show "
      .. record.job}
  end
  io.stdout:write "\nJobs that stand half-done and have lost their lock, so that they keep nobody away:\n"
  output.columns(rows, 2)
end

local function print_who_lost(list)
  for _, record in ipairs(list) do
    output.line(io.stdout, ("%s  job %s stands half-done, and has lost its lock"):format(
      job_shown.paths_text(record.spec.lock), record.job))
    output.line(io.stdout, "  do     resume it or roll it back: ", hint.mortise(), " jobs show ", record.job)
    output.line(io.stdout, "         or, to keep others away until then: ", hint.mortise(), " doctor --fix")
  end
end

local tree_lines = 100

local function show_tree(client, ctx)
  local entries, now, most = {}, core.wall_ms(), ctx.options.limit or tree_lines
  local state = go_through(client, ctx, function(entry) entries[#entries + 1] = entry end)
  if #entries > 0 then
    local rows = lock_tree.rows(entries, client:namespace(), now, most)
    output.columns(table.move(rows, 1, #rows, 2, {lock_tree.heading}), 1)
    io.stdout:write("\n", lock_tree.sum(entries), "\n")
  end
  local waits = blocking.waits(entries)
  if #waits > 0 then
    io.stdout:write "\nWho waits for whom:\n"
    for _, line in ipairs(blocking.lines(waits, now, most)) do output.line(io.stdout, line) end
  end
  print_end(state, ctx, client)
  print_lost(lost_jobs(client, ctx))
end

local function show(client, ctx)
  local entries, namespace, now = {}, client:namespace(), core.wall_ms()
  local state = go_through(client, ctx, function(entry)
    if ctx.options.who then
      print_who(entry, now, namespace)
    else
      entries[#entries + 1] = entry
      entry.at = #entries
    end
  end)
  print_table(entries, client)
  print_end(state, ctx, client);
  (ctx.options.who and print_who_lost or print_lost)(lost_jobs(client, ctx))
end

-- ---- For programs --------------------------------------------------------------------------------

local function lost_object(record)
  return core.object {job = record.job, state = record.state, paths = record.spec.lock.paths}
end

-- Prints one object a line as they come, and at the end the jobs without a lock and whether the list is
-- complete.
local function print_json(client, ctx)
  output.begin_json()
  io.stdout:write "{\"holds\":["
  local between, entries = "\n", {}
  local state = go_through(client, ctx, function(entry)
    io.stdout:write(between, core.json(holds.object(entry)))
    between = ",\n"
    if ctx.tree then entries[#entries + 1] = entry end
  end)
  local unguarded = core.array {}
  for _, record in ipairs(not state.failure and lost_jobs(client, ctx) or {}) do
    unguarded[#unguarded + 1] = lost_object(record)
  end
  local rest = {
    waits = ctx.tree and blocking.objects(blocking.waits(entries)) or nil,
    unguarded = unguarded, complete = not (state.cut or state.failure), refreshed = not state.stale,
    error = state.failure and output.error_object(state.failure) or nil,
  }
  io.stdout:write("\n],", core.json(rest):sub(2), "\n")
  if state.failure then error(state.failure, 0) end
end

function command.run(ctx)
  if ctx.arguments[1] == "break" then return breaking.run(ctx) end
  ctx.tree = ctx.arguments[1] == "tree" and table.remove(ctx.arguments, 1) ~= nil
  ctx.namespace, ctx.path = check_list(ctx)
  local client <close> = mortise.connect {}
  client:verify()
  ctx.path = ctx.path and holds.typed(client, ctx.namespace or client:namespace(), ctx.path)
  if ctx.options.json then return print_json(client, ctx) end
  return (ctx.tree and show_tree or show)(client, ctx)
end

return command
