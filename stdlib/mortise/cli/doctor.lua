-- mortise doctor
local config = require "mortise.config"
local core = require "mortise.core"
local doctor_index = require "mortise.cli.doctor_index"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local guards = require "mortise.guards"
local hint = require "mortise.hint"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local records = require "mortise.records"
local secret = require "mortise.secret"
local sessions = require "mortise.sessions"
local settings = require "mortise.settings"
local stripes = require "mortise.stripes"
local sweeps = require "mortise.sweeps"
local visible = require "mortise.visible"

local command = {
  summary = "check the store, its lock table, the rights and the sessions",
  usage = "[INDEX] [--fix] [--verbose] [--json]",
  help = [[
Checks, one after another: the settings; that the store answers, and its version; the lock table, and
whether it is as this program makes it; the index of jobs; the rights, by taking a lock of its own and giving
it back; the clocks; the sessions' heartbeats and what dead ones left, which every client that works here
removes bit by bit; --fix removes it now, which takes up to one lease of theirs, but never what guards a job
that stands half-done. That there is one is wrong, and worse where it has lost its lock, which --fix takes
anew. It also makes the index of jobs where that is missing, and a file with a secret its owner's alone. On a
server the documents of sessions that ended more than a week ago are removed in any case. With INDEX, also
whether a rename or a job could change its documents: that it is there and takes writes, that searches find
its paths, and that this user may write; nothing is written. Each finding says what to do. Exit status 1 when
something is wrong.]],
  options = {
    {name = "fix", type = "boolean", flag = "--fix", help = "mend what can be mended without asking"},
    {name = "verbose", type = "boolean", flag = "--verbose", help = "list the dead sessions one by one"},
    doctor_index.row,
    output.json_row,
  },
  arguments = {0, 1},
  takes = {"INDEX"},
}

-- ---- Findings ------------------------------------------------------------------------------------

local function add(findings, check, state, message, advice)
  findings[#findings + 1] = {check = check, state = state, message = message, advice = advice}
  return state ~= "wrong"
end

local function first_line(value)
  return (core.tostring(value):match "^[^\n]*")
end

local advice_for = {
  auth = "check the credentials; `mortise init --print` shows the least role",
  unavailable = "is the server up, and is this its address? (`mortise config` shows where it came from)",
  not_found = "run `mortise init` once, with the rights it prints",
  corrupt_table = "see what differs; `mortise init` makes a new epoch once the table is empty",
  invalid_argument = "see `mortise config` and `mortise help`",
  orphaned_job = "a job is not finished: resume it or roll it back; see `mortise locks`",
  lock_timeout = "others hold the lock; see `mortise locks`",
}

local function advice_on(why)
  local who = core.is_error(why) and why.blockers and why.blockers[1]
  if who and who.damaged then
    return ("nobody takes it over: `%s locks --who %s` says what does"):format(hint.mortise(),
      hint.quoted(who.path))
  end
  if errors.code(why) == "auth" and not why.status then return nil end -- a file's rights, which it names
  if core.is_error(why) and why.type == "certificate" then
    return "compare the server's certificate with `--ca FILE`, and your own with what the server trusts"
  end
  return advice_for[errors.code(why)]
end

-- Runs one check; an error becomes a finding. -> its result, or nil and the error.
local function try(findings, check, fn)
  local ok, result = pcall(fn)
  if ok then return result end
  if errors.code(result) == "interrupted" then error(result, 0) end
  add(findings, check, "wrong", first_line(result), advice_on(result))
  return nil, result
end

-- ---- Checks --------------------------------------------------------------------------------------

-- A file with a secret becomes its owner's alone.
local function fix_file(findings, name, found)
  local before = secret.exposed(found.value)
  if not before then return end
  os.execute("chmod 600 -- " .. hint.quoted(found.value) .. " 2>/dev/null")
  if secret.exposed(found.value) then return end
  add(findings, "settings", "fine",
    ("%s (%s) is mode 0600 now: it could be read or written by others"):format(found.value, name))
end

local function check_settings(findings, ctx)
  local resolved = try(findings, "settings", config.resolve)
  if not resolved then return false end
  for _, row in ipairs(ctx.options.fix and settings.rows or {}) do
    if row.private and resolved.found[row.name] then
      fix_file(findings, row.name, resolved.found[row.name])
    end
  end
  if ctx.options.fix then resolved = config.resolve() end
  for _, why in ipairs(resolved.warnings) do add(findings, "settings", "warning", why) end
  if not resolved.found.store then
    return add(findings, "settings", "wrong", "no store is named", "name one with --store or MORTISE_STORE")
  end
  return add(findings, "settings", "fine", ("store %s, from %s"):format(
    config.show_store(resolved.found.store.value), resolved.found.store.from))
end

-- Is this version of the server supported?
local function is_supported(distribution, number)
  local major, minor = number:match "^(%d+)%.(%d+)"
  if not major then return false end
  if distribution == "opensearch" then return true end
  return core.number(major) > 7 or (core.number(major) == 7 and core.number(minor) >= 17)
end

-- Checks an embedded store without creating it.
local function check_file(findings, client)
  local ok, why = pcall(client.verify, client)
  if not ok and errors.code(why) == "not_found" then
    return add(findings, "store", "wrong", first_line(why),
      "is this its name? (`mortise config` shows where it came from)")
  end
  return add(findings, "store", "fine", "the embedded store: one machine, many processes")
end

-- ": why", as the server or what is before it says; "" if it does not.
local function reason_of(answer)
  local ok, root = pcall(core.json_decode, answer)
  if not ok or type(root) ~= "table" then return "" end
  local why = type(root.error) == "table" and root.error.reason or root.message
  return type(why) == "string" and ": " .. why or ""
end

local function check_server(findings, client)
  if client:_is_embedded() then return check_file(findings, client) end
  local root = try(findings, "store", function()
    local status, answer = client:raw("GET", "/")
    if status ~= 200 then
      local refused = status == 401 or status == 403
      errors.raise(refused and "auth" or "unavailable", "it answers %d%s", status, reason_of(answer))
    end
    return core.json_decode(answer)
  end)
  if not root then return false end
  local version = type(root.version) == "table" and root.version or {}
  local distribution, number = version.distribution or "elasticsearch", version.number or "?"
  if not is_supported(distribution, number) then
    return add(findings, "store", "wrong", ("%s %s is not supported"):format(distribution, number),
      "Elasticsearch 7.17 or later, or OpenSearch")
  end
  return add(findings, "store", "fine", ("%s %s answers"):format(distribution, number))
end

local function check_table(findings, client)
  local table_ = try(findings, "lock table", function() return client:verify() end)
  if not table_ then return false end
  local known = table_.epoch ~= ""
  add(findings, "lock table", "fine",
    known and ("verified, epoch %s, %s"):format(table_.epoch, stripes.text(table_.stripes))
    or "none yet: the first lock makes it")
  return known
end

-- Without it there are no jobs; all else works.
local function check_jobs(findings, client, ctx)
  local index = client:_open_core():jobs_index()
  local found = try(findings, "jobs", function() return client:describe(index) end)
  if not found then return end
  if found.exists then return add(findings, "jobs", "fine", ("their index %s is there"):format(index)) end
  if client:_is_embedded() then
    return add(findings, "jobs", "fine", "none yet: the first one makes their index")
  end
  local function make() return records.make_index(client) or true end
  if ctx.options.fix and try(findings, "jobs", make) then
    return add(findings, "jobs", "fine", ("their index %s was missing, and is made"):format(index))
  end
  add(findings, "jobs", "wrong", ("their index %s is missing: the table is older than this program")
    :format(index), ("run `%s init` once more, with the rights it prints"):format(hint.mortise()))
end

-- {id -> source} of the scripts that `mortise init` stores.
local function wanted_scripts(client)
  local wanted = {}
  for id, body in client:init({print = true}).text:gmatch "PUT /_scripts/([^/]+)/update\n([^\n]+)" do
    wanted[id] = core.json_decode(body).script.source
  end
  return wanted
end

-- Are the stored scripts this program's? The least role may not read them; who may not is not told.
local function check_scripts(findings, client)
  if client:_is_embedded() then return end
  for id, source in pairs(try(findings, "lock table", function() return wanted_scripts(client) end) or {}) do
    local status, text = client:raw("GET", "/_scripts/" .. id)
    local stored = status == 200 and core.json_decode(text).script or {}
    if status == 404 or status == 200 and stored.source ~= source then
      return add(findings, "lock table", "wrong", ("its script %s is %s"):format(id,
        status == 404 and "missing" or "another than this program's"),
        ("run `%s init` once more, with the rights it prints, by the newest mortise in use"):format(
          hint.mortise()))
    end
  end
end

-- Taking and releasing one lock uses every right needed at run time. -> was it granted; are the rights there,
-- because at least the blockers were seen?
local function check_rights(findings, client)
  local fine, why = try(findings, "rights", function()
    local began = core.now_ms()
    local lock <close> = client:acquire {
      named = {"mortise-doctor", ("%x"):format(math.random(0))}, wait = "5s",
    }
    lock:check()
    return add(findings, "rights", "fine", ("a lock was taken and given back in %s"):format(
      duration.text(core.now_ms() - began)))
  end)
  return fine, fine or errors.code(why) == "lock_timeout"
end

-- If a proxy removes the request's id, surplus answers cannot be recognised.
local function check_answers(findings, client)
  local n = client:stats().unidentified
  if n == 0 then return end
  add(findings, "answers", "warning", ("%d answers did not say which request they belong to"):format(n),
    "let what is between here and the server pass the header X-Opaque-Id, in both directions")
end

-- Compares the store's clock, as our session's document shows it, with ours.
local function check_clock(findings, mine)
  if not mine or not mine.opened then return end
  local off = math.abs(core.wall_ms() - mine.opened)
  local text = ("the store's clock and this one differ by about %s"):format(duration.text(off // 1000 * 1000))
  if off < 60000 then return add(findings, "clocks", "fine", text) end
  add(findings, "clocks", "warning", text, "locks do not depend on it, but ages and logs will mislead you")
end

-- The number of entries of each session, the sessions' ids, the paths with damaged entries, and the job that
-- each session guards.
local function count_locks(client)
  local held, ids, damaged, jobs, known = {}, {}, {}, {}, {}
  for lock in client:_each {kind = "locks", ns = client:namespace()} do
    for _, entries in ipairs {lock.holders, lock.queue} do
      for _, entry in ipairs(entries) do
        local new = entry.damaged and not known[lock.path]
        known[lock.path] = known[lock.path] or entry.damaged
        if new and pcall(core.path_check, lock.path, true) then damaged[#damaged + 1] = lock.path end
      end
    end
    for _, entries in ipairs {lock.holders, lock.queue} do
      for _, entry in ipairs(entries) do
        if not entry.damaged then
          if not held[entry.session] then ids[#ids + 1] = entry.session end
          held[entry.session] = (held[entry.session] or 0) + 1
          if entries == lock.holders then jobs[entry.session] = entry.job or jobs[entry.session] end
        end
      end
    end
  end
  return held, ids, damaged, jobs
end

-- Sessions that have not ended, and ended or missing ones that left something.
local function all_sessions(client, ids)
  local known, ns = {}, client:namespace()
  for session in client:_each {kind = "sessions", ns = ns} do known[session.session] = session end
  local others = {}
  for _, id in ipairs(ids) do
    if not known[id] then others[#others + 1] = id end
  end
  local found = #others > 0 and client:_read_sessions(others) or {}
  for _, id in ipairs(others) do known[id] = found[id] or false end
  return known
end

-- What there is now: {alive=, dead={{id, session, verdict, entries}, ...}, entries=, since_ms=, lease_ms=,
-- jobs={{job, id, session, entries}, ...}, damaged={id, ...}, paths={path, ...}, known=}. `entries` is what
-- the dead left that no job guards, `since_ms` how long the first of them has been silent at most, by the
-- store's clock, `lease_ms` the longest lease of those whose death is not known for certain.
local function survey(client, own)
  local now = core.wall_ms()
  local held, ids, paths, jobs = count_locks(client)
  local found = {
    alive = 0, dead = {}, entries = 0, since_ms = 0, lease_ms = 0, jobs = {}, damaged = {}, paths = paths,
    known = all_sessions(client, ids),
  }
  for id, session in pairs(found.known) do
    local verdict = sessions.judge(session or nil, now)
    local each = {id = id, session = session, verdict = verdict, entries = held[id], job = jobs[id]}
    if verdict.damaged then
      found.damaged[#found.damaged + 1] = id
    elseif id ~= own and not verdict.dead then
      found.alive = found.alive + 1
    elseif id ~= own and held[id] and jobs[id] then
      found.jobs[#found.jobs + 1] = each
    elseif id ~= own and held[id] then
      found.dead[#found.dead + 1] = each
      found.entries = found.entries + held[id]
      found.since_ms = math.max(found.since_ms, verdict.silent_ms or 0)
      local over = not session or verdict.gone or verdict.state == "expired" or verdict.state == "closed"
      if not over then found.lease_ms = math.max(found.lease_ms, session.lease_ms or 0) end
    end
  end
  return found
end

local function the_dead(found)
  local several = #found.dead ~= 1
  return ("%d dead session%s left %d entr%s"):format(#found.dead, several and "s" or "",
    found.entries, found.entries == 1 and "y" or "ies")
end

local fix_slack_ms = 20000 -- for the requests, beside the lease

-- Waits until nothing of the dead is left, at most for their longest lease. -> what is left
local function clear_the_dead(client, own, found, ctx)
  local until_ms = core.now_ms() + found.lease_ms + fix_slack_ms
  if found.lease_ms > 0 and not ctx.options.json then
    output.line(io.stderr, "mortise: ", the_dead(found), ": they are watched for their lease, ",
      duration.text(found.lease_ms), " at most")
  end
  client:_clear_the_dead()
  local left = found
  while #left.dead > 0 and core.now_ms() < until_ms do
    mortise.sleep(0.25)
    left = survey(client, own)
  end
  return left
end

local function add_cleared(findings, before, left)
  local entries = math.max(0, before.entries - left.entries)
  add(findings, "sessions", "fine", ("%s: %d of them %s removed"):format(the_dead(before), entries,
    entries == 1 and "was" or "were"))
end

local function add_the_dead(findings, found, ctx)
  if #found.dead == 0 then return end
  add(findings, "sessions", "warning", ("%s, since %s at most"):format(the_dead(found),
    duration.text(found.since_ms // 1000 * 1000)),
    ("nothing: clients that work here remove them within a few leases; `%s doctor --fix` does so now"):format(
      hint.mortise()))
  local last = findings[#findings]
  last.sessions, last.entries, last.since_ms = #found.dead, found.entries, found.since_ms
  if not ctx.options.verbose then return end
  for _, each in ipairs(found.dead) do
    add(findings, "sessions", "warning", ("%s (%s) left %d entries: %s"):format(
      sessions.owner_text(each.session and each.session.owner), each.id:sub(1, 8), each.entries,
      each.verdict.text))
  end
end

local clear_ms = 60000

-- What a dead session left for a job: it guards what stands half-done, or nothing.
local function add_guard(findings, client, each, ctx)
  local meaning, record = guards.meaning(client, each.job)
  if not guards.is_left[meaning] then
    local server = record and sweeps.look(client, record)
    add(findings, "jobs", "wrong", ("job %s is not finished: %s (%s) left %d entries that guard it%s")
      :format(each.job, sessions.owner_text(each.session and each.session.owner), each.id:sub(1, 8),
        each.entries, sweeps.goes_on(server) and "; " .. sweeps.text(server) or ""),
      ("resume the job or roll it back (`%s jobs show %s`): nobody takes them over"):format(hint.mortise(),
        each.job))
  elseif ctx.options.fix then
    local n = guards.clear(client, each.job, clear_ms)
    add(findings, "jobs", "fine", ("%d entries were given back, %s"):format(n,
      guards.left_text(each.job, record)))
  else
    add(findings, "jobs", "warning", ("%d entries were %s"):format(each.entries,
      guards.left_text(each.job, record)), "nothing: the next who wants them, or the next job, gives them "
      .. ("back; `%s doctor --fix` does so now"):format(hint.mortise()))
  end
end

local function add_guards(findings, client, found, ctx)
  for _, each in ipairs(found.jobs) do
    try(findings, "jobs", function() add_guard(findings, client, each, ctx) end)
  end
end

local function add_unguarded(findings, client, record, ctx)
  local said = ("job %s stands half-done without its lock"):format(record.job)
  local function restore() return guards.restore(client, record, clear_ms) end
  if ctx.options.fix and try(findings, "jobs", restore) then
    return add(findings, "jobs", "wrong", said .. ", which was taken anew: others are kept away",
      ("resume it or roll it back (`%s jobs show %s`)"):format(hint.mortise(), record.job))
  end
  add(findings, "jobs", "wrong", said .. ": others get at what it has changed",
    ("resume it or roll it back (`%s jobs show %s`): either takes its lock anew, as `%s doctor "
    .. "--fix` does"):format(hint.mortise(), record.job, hint.mortise()))
end

-- A migration whose process died while writes were refused.
local function add_blocked(findings, record)
  local phase = record.work and record.work.phase
  if phase ~= "cutting over" and phase ~= "going back" then return end
  local spec = record.spec.migrate
  local said = "index %s may take no writes: migration %s was cut off while it moved the alias"
  add(findings, "jobs", "wrong", said:format(phase == "cutting over" and spec.from or spec.to, record.job),
    ("resume it or roll it back (`%s jobs show %s`)"):format(hint.mortise(), record.job))
end

local function add_open(findings, record)
  add(findings, "jobs", "warning", ("migration %s was cut over and is not finished: index %s takes no writes")
    :format(record.job, record.spec.migrate.from),
    ("`%s jobs finish %s` ends it, `%s jobs rollback %s` goes back"):format(hint.mortise(), record.job,
      hint.mortise(), record.job))
end

-- Jobs that stand half-done and keep nobody away, and migrations that somebody has to end.
local function check_standing(findings, client, ctx)
  local ok, list = pcall(records.standing, client)
  if not ok and errors.code(list) == "not_found" then return end -- check_jobs says it
  if not ok then error(list, 0) end
  for _, record in ipairs(guards.mark(client, list)) do
    if record.guarded == false then add_unguarded(findings, client, record, ctx) end
    add_blocked(findings, record)
  end
  for _, record in ipairs(records.open_migrations(client)) do add_open(findings, record) end
end

-- `just`: this session was opened a moment ago.
local function check_sessions(findings, client, own, just, ctx)
  local found = survey(client, own)
  if just then check_clock(findings, found.known[own]) end
  if ctx.options.fix and #found.dead > 0 then
    local left = clear_the_dead(client, own, found, ctx)
    add_cleared(findings, found, left)
    found = left
  end
  for _, id in ipairs(found.damaged) do
    add(findings, "sessions", "warning", ("%s is damaged"):format(id),
      ("see what it holds (`%s locks`), then `%s locks break --session` it"):format(hint.mortise(),
        hint.mortise()))
  end
  add_guards(findings, client, found, ctx)
  add_the_dead(findings, found, ctx)
  add(findings, "sessions", "fine", ("%d others are alive"):format(found.alive))
  if #found.paths > 0 then
    add(findings, "sessions", "warning", ("at %d paths entries are damaged, first at %s"):format(#found.paths,
      visible(found.paths[1])),
        ("nobody takes them over: `%s locks break PATH --hold damaged`"):format(hint.mortise()))
  end
  if found.alive > 256 then
    add(findings, "sessions", "warning", "more than 256 sessions share the root's entry",
      "use several namespaces, or fewer processes with tasks")
  end
end

local purge_rounds = 1000

-- -> how many documents of sessions were removed, and whether those were all
local function purge_all(client)
  local all = 0
  for _ = 1, purge_rounds do
    local ok, deleted, more = pcall(client._purge_sessions, client)
    if not ok and errors.code(deleted) == "interrupted" then error(deleted, 0) end
    if not ok then return all, false end
    all = all + (deleted or 0)
    if not more then return all, true end
  end
  return all, false
end

local function purge_sessions(findings, client)
  local all, done = purge_all(client)
  if all > 0 then
    add(findings, "sessions", "fine", ("%d that ended more than a week ago were removed"):format(all))
  end
  if not done then
    add(findings, "sessions", "warning", ("documents of sessions that ended long ago were not %sremoved")
      :format(all > 0 and "all " or ""),
      "nothing, if they are few: it needs the right to search and to delete in the lock table")
  end
end

local function check_lists(findings, client, just, ctx)
  local session = client:session()
  try(findings, "sessions", function()
    check_sessions(findings, client, session and session.id, just, ctx)
    check_standing(findings, client, ctx)
    purge_sessions(findings, client)
  end)
end

-- Of a table that is there.
local function check_use(findings, client, ctx)
  check_scripts(findings, client)
  check_jobs(findings, client, ctx)
  local had, may = check_rights(findings, client)
  if not may then return end
  check_lists(findings, client, had, ctx)
  check_answers(findings, client)
end

function command.findings(ctx)
  local findings = {}
  if not check_settings(findings, ctx) then return findings end
  local client = try(findings, "store", function() return mortise.connect {} end)
  if not client then return findings end
  local guard <close> = client
  if not check_server(findings, guard) then return findings end
  if check_table(findings, guard) then check_use(findings, guard, ctx) end
  doctor_index.check(guard, ctx, function(...) return add(findings, ...) end,
    function(check, fn) return (try(findings, check, fn)) end)
  return findings
end

-- ---- Printing ------------------------------------------------------------------------------------

local signs = {fine = "ok  ", warning = "note", wrong = "BAD "}

local function print_all(findings)
  for _, each in ipairs(findings) do
    output.line(io.stdout, signs[each.state], "  ", each.check, ": ", each.message)
    if each.advice then output.line(io.stdout, "      -> ", each.advice) end
  end
end

function command.works_on(arguments) return table.concat({"doctor", table.unpack(arguments)}, " ") end

function command.run(ctx)
  doctor_index.check_options(ctx)
  local findings = command.findings(ctx)
  local good = true
  for _, each in ipairs(findings) do good = good and each.state ~= "wrong" end
  if ctx.options.json then
    output.json {findings = findings, good = good}
  else
    print_all(findings)
  end
  return good and 0 or 1
end

return command
