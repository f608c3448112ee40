-- A client's methods for documents. Documents are read as views (bindings/lua_doc.c) and given as a view, a
-- table or JSON text.
local argument = require "mortise.argument"
local context = require "mortise.context"
local core = require "mortise.core"
local errors = require "mortise.errors"
local json = require "mortise.json"
local options = require "mortise.options"
local protect = require "mortise.protect"
local scan = require "mortise.scan"
local to_item = require "mortise.item"

local documents = {} -- results are marked as arrays or objects, so that tostring shows them

local routing_row = {name = "routing", type = "string", help = "the document's routing"}

local unguarded_row = {name = "unguarded", type = "boolean", default = false,
  help = "true: not as a write of the lock that this task holds"}
local refresh_row = {name = "refresh", type = "boolean", help = "return when searches see it"}

local write_rows = {
  routing_row,
  refresh_row,
  {name = "if_seq_no", type = "integer", help = "only if it still has this version, with if_term"},
  {name = "if_term", type = "integer", help = "the version's primary term"},
  {name = "pipeline", type = "boolean", default = true, help = "false: past the ingest pipelines"},
  unguarded_row,
}

local read_rows = {routing_row}

local update_rows = {
  routing_row,
  refresh_row,
  {name = "retries", type = "integer", default = 8, help = "when someone else changes it meanwhile"},
  unguarded_row,
}

options.register({"create", "index", "delete"}, write_rows)
options.register({"get", "mget"}, read_rows)
options.register({"update"}, update_rows)

-- ---- Reading -------------------------------------------------------------------------------------

local function read(self, index, ids, o)
  local routing
  if o.routing then
    routing = {}
    for i = 1, #ids do routing[i] = o.routing end
  end
  return core.array(self:_open_core():mget(index, ids, routing))
end

-- The current document (no refresh needed), or nil.
function documents:get(index, id, given)
  argument.name("get", "index", index)
  argument.name("get", "id", id)
  return read(self, index, {id}, options.check("get", read_rows, given))[1] or nil
end

-- A list of views, false for a missing document. `routing` applies to all.
function documents:mget(index, ids, given)
  argument.name("mget", "index", index)
  argument.names("mget", "ids", ids, true)
  return read(self, index, ids, options.check("mget", read_rows, given))
end

-- The exact number of documents that match; of all without a query.
function documents:count(index, query)
  argument.name("count", "index", index)
  return self:_open_core():count(index, json.body(argument.body("count", "query", query)))
end

-- Makes writes visible to searches; fails unless all shards succeed.
function documents:refresh(index)
  return self:_open_core():refresh(argument.name("refresh", "index", index))
end

-- The server's answer as a table, with exact integers and with arrays and objects distinguished.
function documents:search(index, body)
  argument.name("search", "index", index)
  body = argument.body("search", "body", body) or {}
  return core.json_decode(self:_open_core():search(index, json.body(body)))
end

-- for doc in client:scan(index, {query=}) do ... end; see mortise.scan.
function documents:scan(index, given)
  return scan.open(self, index, given)
end

-- Sends any request to a store over HTTP. -> status, text. `whole`, of ours: an interrupt waits for it.
function documents:raw(method, path, body, content_type, whole)
  argument.name("raw", "method", method)
  argument.name("raw", "path", path)
  if content_type ~= nil then argument.name("raw", "content_type", content_type) end
  local text = json.body(argument.body("raw", "body", body))
  return self:_open_core():raw(method, path, text, content_type, whole)
end

-- Sends items in one request; if a lock protects the running task, by a writer of that lock. -> their results
local function send(self, index, items, o)
  local lock = not o.unguarded and protect.by(self)
  if lock then return protect.write(lock, index, items, o.refresh) end
  return self:_open_core():bulk(index, items, o.refresh)
end

-- ---- Writing one ---------------------------------------------------------------------------------

local busy_tries = 6

local function message(index, item, what)
  return ("%s/%s: %s"):format(index, item.id, what)
end

local failures = {
  conflict = {"conflict", "it exists, or was changed by someone else"},
  missing = {"not_found", "there is no such document"},
  busy = {"unavailable", "the store is busy"},
  rejected = {"rejected", "the store refused it"},
  forbidden = {"auth", "the store does not let this user write it"},
}

local function complain(index, item, result)
  local forbidden = result.status == 401 or result.status == 403
  local why = forbidden and failures.forbidden or failures[result.result] or failures.rejected
  local code, text = table.unpack(why)
  error(core.error {
    code = code, message = message(index, item, text), status = result.status, type = result.type,
    reason = result.reason, retryable = result.result == "busy",
  }, 0)
end

-- Writes one item, retrying while the store is busy, which means that it was not applied.
local function write_once(self, index, item, o)
  local result
  for try = 1, busy_tries do
    result = send(self, index, {item}, o)[1]
    if result.result ~= "busy" then break end
    if try < busy_tries then core.sleep(25 << try) end
  end
  return result
end

local function write(self, index, item, o)
  item.routing, item.skip_pipeline = o.routing, not o.pipeline
  item.seq_no, item.term = o.if_seq_no, o.if_term
  local result = write_once(self, index, item, o)
  if result.result ~= "applied" and result.result ~= "noop" then complain(index, item, result) end
  return core.object {id = item.id, result = result.result, seq_no = result.seq_no, term = result.term}
end

local function check_target(call, index, id)
  argument.name(call, "index", index)
  argument.name(call, "id", id)
end

-- Writes it if it does not exist, else raises `conflict`. -> {id, result, seq_no, term}, like all below.
function documents:create(index, id, source, given)
  check_target("create", index, id)
  return write(self, index, {kind = "create", id = id, body = json.source(source, "create")},
    options.check("create", write_rows, given))
end

-- Writes it, whether or not it exists.
function documents:index(index, id, source, given)
  check_target("index", index, id)
  return write(self, index, {kind = "index", id = id, body = json.source(source, "index")},
    options.check("index", write_rows, given))
end

-- Removes it; raises `not_found` if it does not exist.
function documents:delete(index, id, given)
  check_target("delete", index, id)
  return write(self, index, {kind = "delete", id = id}, options.check("delete", write_rows, given))
end

local function apply(change, view)
  if type(change) == "function" then
    local _ <close> = context.at("update of %s/%s: nothing was written", view._index, view._id)
    local result = change(view)
    if result ~= nil and result ~= view then
      errors.bad("update: the function changes the view that it gets; what it returns (a %s) is not used",
        type(result))
    end
    return
  end
  for name, value in pairs(change) do view[name] = value end
end

-- Reads it, changes it (by a table of fields, or a function that gets the view) and writes it back unless
-- somebody else changed it meanwhile; in that case starts over.
function documents:update(index, id, change, given)
  check_target("update", index, id)
  if type(change) ~= "function" and type(change) ~= "table" then
    errors.bad("update: `change` is a function or a table of fields, not %s", argument.shown(change))
  end
  local o = options.check("update", update_rows, given)
  if not o.unguarded then protect.by(self) end -- a lost lock is told before anything is changed
  for _ = 0, o.retries do
    local view = self:get(index, id, {routing = o.routing})
    if not view then errors.raise("not_found", "%s", message(index, {id = id}, failures.missing[2])) end
    apply(change, view)
    local item = {
      kind = "index", id = id, index = view._index, body = view:_source(), routing = view._routing,
      seq_no = view._seq_no, term = view._term, skip_pipeline = true,
    }
    if not view:_changed() then
      return core.object {id = id, result = "noop", seq_no = item.seq_no, term = item.term}
    end
    local result = write_once(self, index, item, o)
    if result.result == "applied" then
      return core.object {id = id, result = "applied", seq_no = result.seq_no, term = result.term}
    end
    if result.result ~= "conflict" then complain(index, item, result) end
  end
  errors.raise("conflict", "%s", message(index, {id = id}, "changed by someone else again and again"))
end

-- ---- Writing many --------------------------------------------------------------------------------

local bulk_rows = {refresh_row, unguarded_row}

options.register({"bulk"}, bulk_rows)

-- One request with these items {op=, id=, doc=, ...}. -> a list with a result for each: {result = "applied" |
-- "noop" | "conflict" | "missing" | "busy" | "rejected", status, seq_no, term, type, reason}. It raises an
-- error only if the whole request failed, so check every result. Under a lock, also if that is lost, or the
-- store stays busy, once a part is done: err.results has what became of each then, "none" of those not done.
function documents:bulk(index, items, given)
  argument.name("bulk", "index", index)
  argument.list("bulk", "items", items)
  local o = options.check("bulk", bulk_rows, given)
  local list = {}
  for i, item in ipairs(items) do list[i] = to_item(item) end
  if #list == 0 then return core.array {} end
  local results = core.array(send(self, index, list, o))
  for _, result in ipairs(results) do core.object(result) end
  return results
end

-- ---- Indices -------------------------------------------------------------------------------------

-- `body`: {settings=, mappings=} or nil. Raises `conflict` if it exists.
function documents:create_index(index, body)
  argument.name("create_index", "index", index)
  return self:_open_core():index_create(index, json.body(argument.body("create_index", "body", body)))
end

-- Raises `not_found` if it does not exist.
function documents:drop_index(index)
  return self:_open_core():index_drop(argument.name("drop_index", "index", index))
end

-- Whether whole sources can safely be written into it; see store.h.
function documents:describe(index)
  return core.object(self:_open_core():describe(argument.name("describe", "index", index)))
end

return documents
