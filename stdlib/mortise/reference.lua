-- Everything that scripts can use, one line each, for the prompt's help and for printed functions. The
-- options of a call are the rows that check them (mortise.options). docs/scripts.md lists the same; tests
-- compare both with what exists.
local core = require "mortise.core"
local options = require "mortise.options"

local reference = {}

-- Groups {name, what, rows}; a row is {name, how it is called or read, what it does}. The functions of
-- "client" are also the module's own, for the default client.
reference.groups = {
  {"mortise", "the module", {
    {"connect", "{store=, namespace=, ...}", "a client of your own: another session, other locks"},
    {"client", "()", "the default client, whose functions the module has too"},
    {"spawn", "(fn, ...)", "runs fn beside this; gives a task"},
    {"map", "(list, fn, [options])", "fn(value, index) for each, several at the same time; the results"},
    {"up", "{dir=, to=, dry_run=, ...}", "runs a folder's versioned scripts that have not been run"},
    {"sleep", "(time)", "waits while other tasks run"},
    {"now", "()", "seconds since 1970, by this machine's clock"},
    {"seconds", "(time)", "\"1m30s\" as 90.0"},
    {"view", "(text, [about])", "a view over JSON text"},
    {"json", "(value)", "the JSON text of a table, view or value"},
    {"null", nil, "JSON's null"},
    {"array", "(table)", "marks a table as an array, so that it may be empty"},
    {"object", "(table)", "marks a table as an object, so that it may be empty"},
    {"reject", "(reason)", "returned by a job's function: the document is set aside"},
    {"sandboxed", "(code, options)", "a job's function that is not trusted, in a state of its own"},
    {"format", "(value, [options])", "the value as Lua that can be pasted back"},
    {"metrics", "()", "what this process has counted, as Prometheus' text"},
    {"is_error", "(value)", "is it an error object of mortise?"},
    {"version", nil, "the version, as text"},
  }},
  {"client", "a client; its functions are also the module's", {
    {"get", "(index, id, [options])", "the document as it is now, or nil"},
    {"mget", "(index, ids, [options])", "a list of documents, false for what is not there"},
    {"create", "(index, id, source, [options])", "writes a document; conflict if it is there"},
    {"index", "(index, id, source, [options])", "writes a document, whatever is there"},
    {"update", "(index, id, change, [options])", "changes a document, by a table or a function of it"},
    {"delete", "(index, id, [options])", "removes a document; not_found if it is not there"},
    {"count", "(index, [query])", "how many documents match, exactly"},
    {"search", "(index, body)", "the server's answer, as a table"},
    {"scan", "(index, [options])", "every document that matches, once; for `for`"},
    {"refresh", "(index)", "what was written becomes visible to count, search and scan"},
    {"bulk", "(index, items, [options])", "many writes in one request; a result for each"},
    {"create_index", "(index, [body])", "makes an index, of {settings=, mappings=}"},
    {"drop_index", "(index)", "removes an index and its documents"},
    {"describe", "(index)", "is the index there, and what would writing whole documents lose?"},
    {"raw", "(method, path, [body, content_type])", "any request: its HTTP status and answer"},
    {"rename", "{index=, from=, to=, ...}", "renames a tree of documents, under its locks"},
    {"job", "{name=, index=, change= or rename=, ...}", "a job: a change that outlives its process"},
    {"migrate", "{from=, to=, alias=, ...}",
      "a migration: a job that copies an index, in use, into a new one"},
    {"get_job", "(id, [options])", "the job of this id, to resume it or roll it back"},
    {"jobs", "()", "a list of all jobs: {job, state, stands, counts, ...}"},
    {"with_tree_lock", "(path or paths, [options], fn)", "fn(lock) with the paths and all below locked"},
    {"with_document_locks", "(index, ids or {query=}, [options], fn)", "fn(lock) with documents locked"},
    {"with_lock", "(category, name, [options], fn)", "fn(lock) with a name of your own locked"},
    {"with_global_lock", "([options], fn)", "fn(lock) with everything in the namespace locked"},
    {"acquire", "{tree= or document= or named= or global=, ...}", "a lock, or an error raised"},
    {"try_lock", "{tree= or document= or named= or global=, ...}", "a lock, or nil and the error"},
    {"list", "([every_namespace])", "who holds and who waits for what: {locks, sessions}"},
    {"session", "()", "the session of its locks; nil before the first"},
    {"namespace", "()", "the namespace of its locks"},
    {"stats", "()", "how many requests, bytes, waits there were"},
    {"init", "([options])", "makes the lock tables, or says how"},
    {"verify", "()", "checks the lock tables"},
    {"url", "()", "the store's URL"},
    {"close", "()", "finishes writers, gives back every lock; again is fine"},
  }},
  {"lock", "a lock", {
    {"check", "()", "raises lock_lost unless it is held for sure"},
    {"remaining", "()", "seconds that it would last if the store fell silent"},
    {"release", "()", "finishes its writers, gives it back; again is fine"},
    {"upgrade", "([options])", "to a stronger mode, without letting go"},
    {"downgrade", "([options])", "to a weaker mode, without letting go"},
    {"covers", "(path)", "is the path, with all below it, locked exclusively?"},
    {"bulk", "(index, [options])", "a writer that writes nothing past the lock's deadline"},
    {"scan", "(index, [options])", "every document that matches, those written a moment ago too"},
    {"fence", nil, "larger than that of every earlier holder"},
    {"epoch", nil, "of the lock table, within which that is so"},
    {"paths", nil, "what it was asked for"},
    {"modes", nil, "the mode of each path: X, S, SIX"},
    {"mode", nil, "exclusive, shared or SIX"},
    {"ids", nil, "the ids of a document lock"},
  }},
  {"job", "a job, from mortise.job or mortise.get_job", {
    {"plan", "()", "what it would change; takes no lock, writes nothing"},
    {"run", "()", "takes its lock and does it; the result"},
    {"resume", "()", "does what is left of one that was cut off"},
    {"rollback", "{others=}", "undoes what it has done"},
    {"plan_rollback", "()", "what that would do; takes no lock, writes nothing"},
    {"accept", "()", "ends one as it is that stands because of what it has set aside"},
    {"rejected", "()", "for `for`: each document that was refused, {id=, index=, type=, reason=}"},
    {"conflicts", "()", "for `for`: each document that others had changed each time"},
    {"status", "()", "its record; nil before its first run"},
    {"pause", "()", "whoever is at work on it sends nothing more, until it goes on"},
    {"go_on", "()", "it is paused no longer"},
    {"throttle", "{rate=, batch=, concurrency=}", "how fast whoever is at work on it may go"},
    {"cancel", "()", "whoever is at work on it ends: it stands half-done"},
    {"id", nil, "its id"},
    {"name", nil, "what it was named"},
  }},
  {"migration", "a migration, from mortise.migrate or mortise.get_job", {
    {"plan", "()", "what it would do, and what keeps it from that; takes no lock, writes nothing"},
    {"run", "()", "copies, follows, and cuts over; the result"},
    {"resume", "()", "goes on with one that was cut off"},
    {"cutover", "()", "whoever is at work on one that waits for that is told to cut over"},
    {"finish", "{delete=}", "ends one that has been cut over: there is no way back from there"},
    {"rollback", "{others=}", "the alias names the old index again, and the new one is gone"},
    {"plan_rollback", "()", "what that would do; takes no lock, writes nothing"},
    {"rejected", "()", "for `for`: each document that was refused, {id=, index=, type=, reason=}"},
    {"status", "()", "its record; nil before its first run"},
    {"pause", "()", "whoever is at work on it copies nothing more, until it goes on"},
    {"go_on", "()", "it is paused no longer"},
    {"throttle", "{rate=}", "how fast whoever is at work on it may copy"},
    {"cancel", "()", "whoever is at work on it ends: it stands half-done"},
    {"id", nil, "its id"},
    {"name", nil, "what it was named"},
  }},
  {"writer", "a writer, from lock:bulk", {
    {"save", "(view)", "writes a changed document, if nobody else has changed it"},
    {"index", "(id, source)", "writes a document, whatever is there"},
    {"create", "(id, source)", "writes a document that is not there"},
    {"delete", "(id or view)", "removes a document"},
    {"add", "(item)", "an item as of client:bulk"},
    {"flush", "()", "sends what was gathered"},
    {"report", "()", "what has become of the items so far"},
    {"finish", "([options])", "sends the rest and ends; the report"},
    {"close", "()", "drops what was not sent"},
  }},
  {"scan", "a scan", {
    {"next", "()", "the next document; nil at the end"},
    {"next_page", "()", "a list of documents; nil at the end"},
    {"close", "()", "ends it; again is fine"},
    {"total", nil, "how many documents will come"},
  }},
  {"task", "a task, from mortise.spawn", {
    {"join", "()", "waits for it: what its function returned, or its error raised"},
    {"cancel", "()", "raises interrupted where it waits"},
    {"done", "()", "has it ended?"},
    {"id", nil, "its number"},
  }},
  {"document", "a document that was read: its fields, and", {
    {"_id", nil, "its id, also as id"},
    {"_index", nil, "its index"},
    {"_routing", nil, "its routing"},
    {"_seq_no", nil, "its version"},
    {"_term", nil, "the version's primary term"},
    {"_source", "()", "its JSON text, changes made"},
    {"_table", "()", "all of it as tables"},
    {"_changed", "()", "does an assignment make it differ?"},
    {"_changes", "()", "the changed fields: their JSON text, or false"},
    {"_get", "(name)", "a field of any name"},
    {"_set", "(name, value)", "assigns a field of any name"},
  }},
}

-- Groups whose functions are called with a colon.
local function separator(group)
  return group == "mortise" and "." or ":"
end

-- "mortise.scan(index, [options])": the form for the default client.
local function signature(group, row)
  local name = group == "client" and "mortise" or group
  return name .. (row[2] and separator(name) or ".") .. row[1] .. (row[2] or "")
end

-- Calls see(group, row) for each.
local function each(see)
  for _, group in ipairs(reference.groups) do
    for _, row in ipairs(group[3]) do see(group[1], row) end
  end
end

local holders

-- The existing functions: {group, table with them}. Loads what is otherwise loaded when it is used, by which
-- the options of its functions become known too.
function reference.holders()
  if not holders then
    for _, name in ipairs {"rename", "migrate", "versions"} do require("mortise." .. name) end
    local mortise = require "mortise"
    holders = {{"mortise", mortise}, {"client", mortise}}
    for _, group in ipairs {"client", "lock", "writer", "scan", "job"} do
      holders[#holders + 1] = {group, require("mortise." .. group).class}
    end
    holders[#holders + 1] = {"migration", require("mortise.migrate").class}
  end
  return holders
end

-- All names, sorted.
function reference.names()
  local list, seen = {}, {}
  each(function(_, row)
    if not seen[row[1]] then list[#list + 1] = row[1] end
    seen[row[1]] = true
  end)
  table.sort(list, core.before)
  return list
end

-- A row as {group=, name=, signature=, does=, options=}.
local function as_found(group, row)
  local key = (group == "client" or group == "mortise") and row[1] or group .. ":" .. row[1]
  return {
    group = group, name = row[1], signature = signature(group, row), does = row[3],
    options = options.known[key],
  }
end

-- Such rows for a name, which may be "lock:scan" or "mortise.scan".
function reference.find(name)
  local owner, last = name:match "^([0-9A-Za-z_]+)[.:]([0-9A-Za-z_]+)$"
  local list = {}
  reference.holders()
  each(function(group, row)
    local is_owner = not owner or owner == group or owner == "mortise" and group == "client"
    if is_owner and row[1] == (last or name) then list[#list + 1] = as_found(group, row) end
  end)
  return list
end

-- The line for a row from find: "mortise.scan(index, [options]): every document that matches".
function reference.line(row)
  return row.signature .. ": " .. row.does
end

-- The rows of a group in the form of find, and what the group is; nil if there is no such group.
function reference.group(name)
  for _, group in ipairs(reference.groups) do
    if group[1] == name then
      local list = {}
      for i, row in ipairs(group[3]) do
        list[i] = {name = row[1], signature = signature(name, row), does = row[3]}
      end
      return list, group[2]
    end
  end
end

-- The row of one of these functions in the form of find, or nil.
function reference.row_of(value)
  local found
  each(function(group, row)
    for _, holder in ipairs(reference.holders()) do
      if not found and row[2] and holder[1] == group and rawget(holder[2], row[1]) == value then
        found = as_found(group, row)
      end
    end
  end)
  return found
end

-- The line for one of these functions, or nil.
function reference.of_function(value)
  local row = reference.row_of(value)
  return row and reference.line(row)
end

return reference
