-- mortise doctor
local config = require "mortise.config"
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local sessions = require "mortise.sessions"

local command = {
  summary = "check the store, its lock table, the rights and the sessions",
  usage = "[--json]",
  help = [[
Checks, one after another: the settings; that the store answers, and its version; the lock table; the
rights, by taking a lock of its own and giving it back; the clocks; the sessions' heartbeats and locks
that dead ones left. On a server it also removes the documents of sessions that ended more than a week
ago. Each finding says what to do. Exit status 1 when something is wrong.]],
  options = {output.json_row},
  arguments = {0, 0},
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
  lock_timeout = "others hold the lock; see `mortise locks`",
}

-- Runs one check; its error is a finding.
local function try(findings, check, fn)
  local ok, result = pcall(fn)
  if ok then return result end
  if errors.code(result) == "interrupted" then error(result, 0) end
  add(findings, check, "wrong", first_line(result), advice_for[errors.code(result)])
  return nil
end

-- ---- Checks --------------------------------------------------------------------------------------

local function check_settings(findings)
  local resolved = try(findings, "settings", config.resolve)
  if not resolved then return false end
  for _, why in ipairs(resolved.warnings) do add(findings, "settings", "warning", why) end
  if not resolved.found.store then
    return add(findings, "settings", "wrong", "no store is named", "name one with --store or MORTISE_STORE")
  end
  return add(findings, "settings", "fine", ("store %s, from %s"):format(
    config.show_store(resolved.found.store.value), resolved.found.store.from))
end

-- Major and minor that this was made for.
local function is_supported(distribution, number)
  local major, minor = number:match "^(%d+)%.(%d+)"
  if not major then return false end
  if distribution == "opensearch" then return true end
  return core.number(major) > 7 or (core.number(major) == 7 and core.number(minor) >= 17)
end

-- An embedded store. It is not made by looking at it.
local function check_file(findings, client)
  local ok, why = pcall(client.verify, client)
  if not ok and errors.code(why) == "not_found" then
    return add(findings, "store", "wrong", first_line(why),
      "is this its name? (`mortise config` shows where it came from)")
  end
  return add(findings, "store", "fine", "the embedded store: one machine, many processes")
end

local function check_server(findings, client)
  if client:url():find "^sqlite:" then return check_file(findings, client) end
  local root = try(findings, "store", function()
    local status, answer = client:raw("GET", "/")
    if status ~= 200 then errors.raise(status == 401 and "auth" or "unavailable", "it answers %d", status) end
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
  add(findings, "lock table", "fine", known and "verified, epoch " .. table_.epoch
    or "none yet: the first lock makes it")
  return known
end

-- One lock taken and given back uses every right that running needs.
local function check_rights(findings, client)
  return try(findings, "rights", function()
    local began = core.now_ms()
    local lock <close> = client:acquire {
      named = {"mortise-doctor", ("%x"):format(math.random(0))}, wait = "5s",
    }
    lock:check()
    return add(findings, "rights", "fine", ("a lock was taken and given back in %s"):format(
      duration.text(core.now_ms() - began)))
  end)
end

-- Where something between strips the request's id, an answer too many is not told from the right one.
local function check_answers(findings, client)
  local n = client:stats().unidentified
  if n == 0 then return end
  add(findings, "answers", "warning", ("%d answers did not say which request they belong to"):format(n),
    "let what is between here and the server pass the header X-Opaque-Id, in both directions")
end

-- The store's clock as this session's own heartbeat document shows it.
local function check_clock(findings, list, own)
  local mine = sessions.by_id(list.sessions)[own]
  if not mine or not mine.opened then return end
  local off = math.abs(os.time() * 1000 - mine.opened)
  local text = ("the store's clock and this one differ by about %s"):format(duration.text(off // 1000 * 1000))
  if off < 60000 then return add(findings, "clocks", "fine", text) end
  add(findings, "clocks", "warning", text, "locks do not depend on it, but ages and logs will mislead you")
end

local function count_locks(list)
  local held = {}
  for _, lock in ipairs(list.locks) do
    for _, entry in ipairs(lock.holders or {}) do held[entry.session] = (held[entry.session] or 0) + 1 end
  end
  return held
end

local function check_sessions(findings, list, own)
  local now, held = os.time() * 1000, count_locks(list)
  local alive, known = 0, sessions.by_id(list.sessions)
  for id in pairs(held) do known[id] = known[id] or false end
  for id, session in pairs(known) do
    local verdict = sessions.judge(session or nil, now)
    if id == own then
      held[id] = nil
    elseif not verdict.dead then
      alive = alive + 1
    elseif held[id] then
      add(findings, "sessions", "warning", ("%s (%s) left %d entries: %s"):format(
        sessions.owner_text(session and session.owner), id:sub(1, 8), held[id], verdict.text),
        "nothing: the next one that wants such a lock takes it over")
    end
  end
  add(findings, "sessions", "fine", ("%d others are alive"):format(alive))
  if alive > 256 then
    add(findings, "sessions", "warning", "more than 256 sessions share the root's entry",
      "use several namespaces, or fewer processes with tasks")
  end
end

-- Documents of sessions that ended a week ago, by the server's own clock, are of no use to anyone: one
-- that is missing counts as expired, once it has been written as such. (The embedded store drops them
-- by itself.) A copy of such a document that changes meanwhile is left alone.
local purge_query = {
  query = {bool = {filter = {
    {term = {kind = "session"}}, {terms = {state = {"closed", "expired"}}},
    {range = {beat_at = {lt = "now-7d"}}},
  }}},
}

local function purge_sessions(findings, client)
  if client:url():find "^sqlite:" then return end
  local named = config.resolve().found.table
  local path = ("/%s/_delete_by_query?conflicts=proceed"):format(named and named.value or "mortise-locks")
  local ok, status, answer = pcall(client.raw, client, "POST", path, purge_query)
  if not ok and errors.code(status) == "interrupted" then error(status, 0) end
  local deleted = ok and status == 200 and core.json_decode(answer).deleted
  if not deleted then
    add(findings, "sessions", "warning", "documents of sessions that ended long ago were not removed",
      "nothing, if they are few: it needs the right to search and to delete in the lock table")
  elseif deleted > 0 then
    add(findings, "sessions", "fine", ("%d that ended more than a week ago were removed"):format(deleted))
  end
end

local function check_lists(findings, client)
  local session = client:session()
  local own = session and session.id
  local list = try(findings, "sessions", function()
    return client:list()
  end)
  if not list then return end
  check_clock(findings, list, own)
  check_sessions(findings, list, own)
  purge_sessions(findings, client)
end

function command.findings()
  local findings = {}
  if not check_settings(findings) then return findings end
  local client = try(findings, "store", function() return mortise.connect {} end)
  if not client then return findings end
  local guard <close> = client
  if check_server(findings, guard) and check_table(findings, guard) and check_rights(findings, guard) then
    check_lists(findings, guard)
    check_answers(findings, guard)
  end
  return findings
end

-- ---- Printing ------------------------------------------------------------------------------------

local signs = {fine = "ok  ", warning = "note", wrong = "BAD "}

local function print_all(findings)
  for _, each in ipairs(findings) do
    io.stdout:write(signs[each.state], "  ", each.check, ": ", each.message, "\n")
    if each.advice then io.stdout:write("      -> ", each.advice, "\n") end
  end
end

function command.run(ctx)
  local findings = command.findings()
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
