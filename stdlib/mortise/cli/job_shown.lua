-- How jobs are shown: a list of them, all about one, and how far one is.
local by_function = require "mortise.by_function"
local core = require "mortise.core"
local duration = require "mortise.duration"
local hint = require "mortise.hint"
local holds = require "mortise.cli.holds"
local job_spec = require "mortise.job_spec"
local job_orders = require "mortise.cli.job_orders"
local output = require "mortise.cli.output"
local progress = require "mortise.cli.progress"
local records = require "mortise.records"
local sessions = require "mortise.sessions"
local sweeps = require "mortise.sweeps"
local visible = require "mortise.visible"

local job_shown = {}

-- ---- Its parts as text ---------------------------------------------------------------------------

local function state_text(record)
  local phase = record.work and record.work.phase
  if phase and (record.alive or record.state == "done") then return record.state .. ", " .. phase end
  if record.guarded == false then return record.state .. ", no lock" end
  if record.stands and record.state ~= "stopped" then return record.state .. ", left" end
  if record.waits then return record.state .. (record.waits:find "^paused" and ", paused" or ", waits") end
  return record.state
end

local function ago(seconds)
  return duration.text(core.wall_ms() - math.floor(seconds * 1000)) .. " ago"
end

-- What a job's lock is on, for people.
function job_shown.paths_text(lock)
  if lock.kind == "global" then return "everything" end
  local shown = {}
  for i = 1, math.min(#lock.paths, 3) do shown[i] = visible(lock.paths[i]) end
  local text = table.concat(shown, " ")
  if lock.kind ~= "tree" then text = lock.index .. ": " .. text end
  return #lock.paths > 3 and ("%s and %d more"):format(text, #lock.paths - 3) or text
end

function job_shown.change_text(spec)
  local rename = spec.rename
  if rename then
    local fields = job_spec.field_lines(rename):gsub("\n", ", ")
    return ("%s: %s becomes %s"):format(fields, visible(rename.from), visible(rename.to))
  end
  if spec.migrate then
    local alias = spec.migrate.alias
    local other = spec.migrate.to_store
    return ("copied into %s%s%s"):format(spec.migrate.to, other and " of " .. visible(other.url) or "",
      alias and ", to which the alias " .. alias
      .. " moves" or "")
  end
  if by_function.is(spec.change) then return "a Lua function" end
  if spec.unborn then return "not known: it never began" end
  local list = {}
  for i, each in ipairs(spec.change) do list[i] = (next(each)) end
  return table.concat(list, ", ")
end

-- How far it is, as `progress` shows it: nil where that is not known yet.
local function progress_of(record)
  if not record.total or record.total == 0 then return nil end
  return core.object {
    job = record.job, done = record.done, all = record.total, rate = record.rate,
    seconds_left = record.seconds_left, conflicts = record.counts.conflicts,
    rejected = record.counts.rejected, waits = record.waits,
  }
end

function job_shown.time_text(seconds) return holds.iso(math.floor(seconds * 1000)) or "?" end

-- ---- One -----------------------------------------------------------------------------------------

local function steps_of(record)
  local steps = records.next_steps(nil, record)
  for i, step in ipairs(steps) do steps[i] = ("%s  (%s)"):format(step.command, step.why) end
  if #steps == 0 then
    local orders = ("nothing, or %s jobs pause|throttle|cancel %s"):format(hint.mortise(), record.job)
    steps[1] = record.alive and orders or "nothing"
  end
  return steps
end

local function say(what, format, ...)
  output.line(io.stdout, ("  %-8s "):format(what), format:format(...))
end

-- Who is at it, or was last: with what command, as whom, where.
local function say_who(record)
  if record.owner then return say("who", "%s", record.owner) end
  local by = record.by or {}
  local was = sessions.owner_text(core.object {
    user = by.user, host = by.host, program = by.program, script = by.script,
  })
  if record.stands and record.state ~= "stopped" then
    say("who", "nobody: its process is gone%s", was ~= "" and ", which was " .. was or "")
  elseif was ~= "" then
    say("who", "%s", was)
  end
end

-- Before numbers: nothing, unless its process may have done more than it wrote down.
local function at_least(record)
  return record.at_least and ("at least, as of %s: "):format(ago(record.updated)) or ""
end

local function say_counts(record)
  local counts = record.counts
  say("counts", "%s%d documents changed, %d deleted, %d had nothing to change, %d rejected, %d conflicts, "
    .. "%d restored, %d left as they are", at_least(record), counts.changed, counts.deleted, counts.unchanged,
    counts.rejected, counts.conflicts, counts.restored, counts.kept)
  if record.server then
    say("server", "%s", sweeps.text(record.server))
  elseif (record.swept or 0) > 0 then
    say("", "%d more by the server's task so far", record.swept)
  end
end

local function say_times(record)
  local attempts = record.attempts == 1 and "1 attempt" or ("%d attempts"):format(record.attempts)
  say("begun", "%s (%s), %s", ago(record.created), job_shown.time_text(record.created), attempts)
  if not records.over[record.state] then return say("updated", "%s", ago(record.updated)) end
  local took = duration.text(math.floor((record.updated - record.created) * 1000 + 0.5))
  say("ended", "%s (%s), %s after it was begun", ago(record.updated), job_shown.time_text(record.updated),
    took)
end

-- How it stands, in one line.
function job_shown.line(record)
  local now = not records.over[record.state] and progress_of(record)
  local counts, parts = record.counts, {}
  local function add(format, n)
    if n > 0 then parts[#parts + 1] = format:format(n) end
  end
  add("%d documents changed", counts.changed)
  add("%d deleted", counts.deleted)
  add("%d rejected", counts.rejected)
  add("%d conflicts", counts.conflicts)
  add("%d restored", counts.restored)
  add("%d left as they are", counts.kept)
  local what = now and at_least(record) .. progress.line(now) or table.concat(parts, ", ")
  return ("job %s is %s%s%s"):format(record.job, state_text(record), what ~= "" and ": " .. what or "",
    record.reason and "; " .. record.reason or "")
end

-- Of one that is resumed or undone, and was that `already`: a line for it, and the exit status.
function job_shown.already(id, result)
  local line = ("job %s was %s already"):format(id, result.state)
  local rejected, aside = result.rejected or 0, (result.rejected or 0) + (result.conflicts or 0)
  if aside == 0 then return line, 0 end
  return ("%s, but for %d documents that were set aside: %s jobs show %s --%s"):format(line, aside,
    hint.mortise(), id,
    rejected > 0 and "rejected" or "conflicts"), 1
end

-- Of one that was resumed, after its numbers: what the server's task had changed before.
function job_shown.by_server(result)
  if (result.by_server or 0) == 0 then return "" end
  return (", %d before that by the server"):format(result.by_server)
end

-- The first documents that were set aside, with why.
local function say_aside(aside)
  for i, each in ipairs(aside) do
    say(i == 1 and "aside" or "", "%s: %s: %s", each.id, each.type or "conflict", each.reason or "")
  end
end

local bar_width = 40

-- Prints all about one. `more`: {limits=, what slows it down, steered=, who gave it orders last, aside=, the
-- first documents that were set aside}, each or nil.
function job_shown.print_one(record, more)
  local spec, now = record.spec, not records.over[record.state] and progress_of(record)
  local limits, steered = more.limits, more.steered
  output.line(io.stdout, record.job)
  say("state", "%s%s", state_text(record), record.reason and ": " .. record.reason or "")
  if now then
    say("so far", "%s%s", at_least(record), progress.line(now))
    say("", "%s", progress.bar(now.done, now.all, bar_width))
  end
  say_who(record)
  if record.guarded == false then
    say("lock", "it has lost it: nothing keeps others away from what stands half-done; resume and rollback "
      .. "take it anew")
  end
  if record.waits then say("waits", "%s", record.waits) end
  local migration = spec.migrate
  if migration and record.stands and record.work and record.work.phase == "cutting over" then
    say("blocked", "%s takes no writes until it is resumed or rolled back", migration.from)
  end
  local back = record.work and record.work.back
  if back and back.strangers then
    say("strangers", "%d documents of %s were written by others since the alias left it: %s%s",
      back.strangers.n, migration.from, visible(table.concat(back.strangers.ids, ", ")),
      back.strangers.n > #back.strangers.ids and ", ..." or "")
  end
  if limits then
    say("limits", "%s%s", job_orders.limits_text(limits), limits.by and ", by " .. limits.by or "")
  end
  if steered then
    say("steered", "by %s: told %s%s", steered.by, steered.what,
      steered.at and ", " .. ago(steered.at / 1000) or "")
  end
  say("index", "%s", spec.index)
  say("change", "%s", job_shown.change_text(spec))
  if record.strategy then say("by", "%s: %s", record.strategy, record.strategy_reason or "") end
  if spec.query then say("query", "%s", core.json(spec.query)) end
  say("locks", "%s", job_shown.paths_text(spec.lock))
  say_counts(record)
  say_aside(more.aside or {})
  say_times(record)
  for i, step in ipairs(steps_of(record)) do say(i == 1 and "do" or "", "%s", step) end
end

-- ---- A list --------------------------------------------------------------------------------------

local shown_at_most = 20

job_shown.list_rows = {
  {name = "all", type = "boolean", flag = "--all",
    help = "ls: also those that were refused before they changed anything, and older ones than the last 20"},
  {name = "state", type = "string", flag = "--state", value = "STATE",
    values = {"stands", "running", "stopped", "done", "undoing", "undone", "removed", "damaged"},
    help = "ls: only those in this state; `stands`: half-done, whatever its state"},
  {name = "index", type = "string", flag = "--index", value = "NAME", help = "ls: only those that change it"},
  {name = "since", type = "duration", flag = "--since", value = "TIME",
    help = "ls: only those that were at work within this time"},
  {name = "mine", type = "boolean", flag = "--mine", help = "ls: only those of this user on this host"},
}

local function is_asked_for(record, o)
  local spec = record.spec or {}
  if o.index and spec.index ~= o.index and (spec.migrate or {}).to ~= o.index then return false end
  if o.mine and not sessions.is_mine(record.by) then return false end
  return not o.since or (record.updated or 0) * 1000 >= core.wall_ms() - o.since
end

local function is_wanted(record, o)
  if not is_asked_for(record, o) then return false end
  if o.state == "stands" then return record.stands end
  if o.state then return record.state == o.state end
  return o.all or not (record.state == "undone" and not record.began)
end

-- What stands first, then what runs, then what ended, each the latest first.
local function rank(record)
  return record.state == "damaged" and 1 or record.stands and 2 or record.alive and 3 or 4
end

local function is_before(a, b)
  if rank(a) ~= rank(b) then return rank(a) < rank(b) end
  local at, bt = a.updated or 0, b.updated or 0
  if at ~= bt then return at > bt end
  return core.before(a.job, b.job)
end

-- Of a list of records those that are shown, in that order. -> and how many `all` would show beside them
function job_shown.choose(list, o)
  local chosen, most = core.array {}, 0
  for _, record in ipairs(list) do
    local wanted = is_wanted(record, o)
    if wanted then chosen[#chosen + 1] = record end
    if wanted or not o.state and is_asked_for(record, o) then most = most + 1 end
  end
  table.sort(chosen, is_before)
  for i = #chosen, shown_at_most + 1, -1 do
    if o.all or rank(chosen[i]) < 4 then break end
    chosen[i] = nil
  end
  return chosen, most - #chosen
end

local function percent(record)
  local is_over = records.over[record.state]
  if is_over or not record.total or record.total == 0 then return "" end
  return ("%d%%"):format(record.done * 100 // record.total)
end

local function cells_of(record)
  if record.state == "damaged" then return {record.job, record.state, "", "", "", "", "", "", ""} end
  return {
    record.job, state_text(record), percent(record), core.tostring(record.counts.changed),
    record.rate and progress.rate_text(record.rate) or "",
    record.seconds_left and duration.text(record.seconds_left * 1000) or "",
    record.spec.index, job_shown.paths_text(record.spec.lock), ago(record.updated),
  }
end

local function note(...) output.line(io.stderr, "mortise: note: ", ...) end

local function note_standing(list)
  local first = {}
  for _, record in ipairs(list) do
    local is_guarded = record.stands and record.guarded ~= false
    if record.stands then first[is_guarded] = first[is_guarded] or record.job end
  end
  if first[true] then
    note("what stands half-done keeps its lock; ", hint.mortise(), " jobs show ", first[true],
      " says what may be done")
  end
  if first[false] then
    note("what stands half-done without its lock is open to others; ", hint.mortise(), " jobs show ",
      first[false],
      " says what may be done")
  end
end

-- `others`: are there others? `hidden`: how many of them --all shows; `unborn`: the ids of those that never
-- began and whose dead process left its lock.
function job_shown.print_list(list, others, hidden, unborn)
  if #list == 0 then
    output.line(io.stdout, others and "there are no such jobs" or "there are no jobs")
  else
    local rows = {{"JOB", "STATE", "DONE", "CHANGED", "RATE", "LEFT", "INDEX", "LOCKS", "UPDATED"}}
    for _, record in ipairs(list) do
      rows[#rows + 1] = cells_of(record)
    end
    output.columns(rows, 8)
  end
  note_standing(list)
  for _, id in ipairs(unborn) do
    note("job ", id, " never began, since its process died: whoever wants its paths gives its lock back")
  end
  if hidden > 0 then note(("%d more are not shown (--all)"):format(hidden)) end
end

-- ---- For programs --------------------------------------------------------------------------------

-- The record as `--json` prints it.
function job_shown.object(record)
  if record.state == "damaged" then return record end
  if records.over[record.state] then
    record.seconds = math.floor((record.updated - record.created) * 1000 + 0.5) / 1000
    record.ended = job_shown.time_text(record.updated)
  end
  record.created, record.updated = job_shown.time_text(record.created), job_shown.time_text(record.updated)
  record.percent = record.total and record.total > 0 and record.done * 100 // record.total or nil
  record.next = core.array(records.next_steps(nil, record))
  return record
end

-- ---- Waiting -------------------------------------------------------------------------------------

local look_ms = 500

-- Shows how far it is until nobody is at work on it any more, `wait_ms` at most (nil: as long as that takes).
-- `see` (or nil) gets its record each time. -> its record
function job_shown.watch(client, id, wait_ms, see)
  local until_ms = wait_ms and core.now_ms() + wait_ms
  while true do
    local record = records.need(client, id)
    if not record.alive or until_ms and core.now_ms() >= until_ms then
      output.status(nil)
      return record
    end
    local now = progress_of(record)
    if now then output.status(progress.line(now), now, record.waits) end
    if see then see(record) end
    core.sleep(until_ms and math.min(look_ms, math.max(1, until_ms - core.now_ms())) or look_ms)
  end
end

return job_shown
