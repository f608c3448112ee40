-- What a sandbox asks for, done for it where its policy lets it. The script may have made the requests
-- itself, in any form: each is checked here, and nothing of it is believed.
local argument = require "mortise.argument"
local check_path = require "mortise.path"
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local lock = require "mortise.lock"
local policy = require "mortise.sandbox.policy"

local requests = {}

local Session = {}
Session.__index = Session

local handles_most = 64 -- locks, scans and writers that are open at the same time

-- `own_policy` of policy.of; client() gives the client, when it is first needed; `box` is whose time bounds
-- what it waits for.
function requests.open(own_policy, client, box)
  return setmetatable({
    _policy = own_policy, _client = client, _box = box, _handles = {}, _n = 0, _last = 0,
  }, Session)
end

-- ---- Values ---------------------------------------------------------------------------------------

local function table_of(given, what)
  if given ~= nil and type(given) ~= "table" then
    errors.bad("%s: options are a table, not a %s", what, type(given))
  end
  return given or {}
end

-- Only these options; others are refused by name.
local function picked(given, what, names)
  local out, known = {}, {}
  for _, name in ipairs(names) do known[name] = true end
  for name, value in pairs(table_of(given, what)) do
    if not known[name] then
      errors.bad("%s: there is no option `%s` in a sandbox", what, core.tostring(name))
    end
    out[name] = value
  end
  return out
end

local function to_plain(view, no_source)
  if not view then return false end
  return {
    id = view._id, index = view._index, routing = view._routing, seq_no = view._seq_no, term = view._term,
    source = not no_source and view:_source() or nil,
  }
end

-- Only clauses that stay within the index, as JSON text written anew.
local function checked_query(query)
  if query == nil then return nil end
  if type(query) ~= "string" then errors.bad("a query is a table or JSON text") end
  local text = core.json(core.json_decode(query))
  core.query_check(text)
  return text
end

local listed_most = 10000

-- A list of a bounded length.
local function check_length(list, what)
  if type(list) == "table" and #list > listed_most then
    errors.raise("unsupported", "%s: in a sandbox a list has at most %d items", what, listed_most)
  end
end

function Session:_remaining() return self._box:left() or math.huge end

-- A time to wait, as far as it may take.
function Session:_bounded(time, what)
  local ms = time == nil and math.huge or duration.ms(time, what)
  ms = math.min(ms, self:_remaining())
  return ms < math.huge and ms / 1000 or nil
end

-- ---- Handles --------------------------------------------------------------------------------------

function Session:_keep(kind, value)
  if self._n >= handles_most then
    errors.raise("unsupported", "a sandbox has at most %d locks, scans and writers open", handles_most)
  end
  self._last, self._n = self._last + 1, self._n + 1
  self._handles[self._last] = {kind = kind, value = value}
  return self._last
end

function Session:_find(kind, number)
  local handle = self._handles[number]
  if not handle or handle.kind ~= kind then errors.bad("there is no such %s, or it is closed", kind) end
  return handle.value, handle
end

function Session:_drop(number)
  if self._handles[number] then self._n = self._n - 1 end
  self._handles[number] = nil
end

-- ---- Reading --------------------------------------------------------------------------------------

local answers = {}

local function readable(self, index)
  local client = self._client()
  self._policy:may_read(index, client._table)
  return client
end

function answers.get(self, index, id, given)
  return to_plain(readable(self, index):get(index, id, picked(given, "get", {"routing"})))
end

function answers.mget(self, index, ids, given)
  local out = {}
  check_length(ids, "mget")
  local found = readable(self, index):mget(index, ids, picked(given, "mget", {"routing"}))
  for i, view in ipairs(found) do out[i] = to_plain(view) end
  return core.array(out)
end

function answers.count(self, index, query) return readable(self, index):count(index, checked_query(query)) end
function answers.refresh(self, index) return readable(self, index):refresh(index) end

local search_fields = {
  query = true, size = true, from = true, sort = true, _source = true, track_total_hits = true,
  search_after = true,
}

local function is_names(value)
  if type(value) == "boolean" or type(value) == "string" then return true end
  if type(value) ~= "table" then return false end
  for _, each in pairs(value) do
    if type(each) ~= "string" then return false end
  end
  return true
end

local sort_options = {order = true, missing = true, mode = true, unmapped_type = true}

local function check_sort_field(field, how)
  if type(field) ~= "string" or field == "_script" or field == "_geo_distance" then
    errors.raise("unsupported", "search: a sandbox sorts by fields only")
  end
  if type(how) == "string" then return end
  for name, value in pairs(table_of(how, "search: sort")) do
    if not sort_options[name] or type(value) == "table" then
      errors.raise("unsupported", "search: a sandbox has no sort with `%s`", core.tostring(name))
    end
  end
end

local function check_sort(sort)
  if type(sort) == "string" then return check_sort_field(sort, "asc") end
  for _, each in ipairs(table_of(sort, "search: sort")) do
    if type(each) == "string" then
      check_sort_field(each, "asc")
    else
      for field, how in pairs(table_of(each, "search: sort")) do check_sort_field(field, how) end
    end
  end
end

local function check_search(body)
  if type(body) ~= "table" then errors.bad("search: its body is a JSON object") end
  for name in pairs(body) do
    if not search_fields[name] then
      errors.raise("unsupported", "search: a sandbox has no `%s`", core.tostring(name))
    end
  end
  if body.query ~= nil then core.query_check(core.json(body.query)) end
  if body.sort ~= nil then check_sort(body.sort) end
  if body._source ~= nil and not is_names(body._source) then
    errors.raise("unsupported", "search: in a sandbox `_source` is true, false, or a list of names")
  end
end

function answers.search(self, index, body)
  local client = readable(self, index)
  argument.name("search", "body", body)
  local decoded = core.json_decode(body)
  check_search(decoded)
  return client:_open_core():search(index, core.json(core.object(decoded)))
end

local page_most = 500

function answers.scan(self, number, index, given)
  local client = readable(self, index)
  local o = picked(given, "scan", {"query", "page", "slices", "source"})
  o.query, o.slices = checked_query(o.query), nil
  local page = math.tointeger(o.page or page_most)
  if not page or page < 1 then errors.bad("scan: option `page` is a whole number above 0") end
  o.page = math.min(page, page_most)
  local scan
  if number then
    scan = self:_find("lock", number):scan(index, o)
  else
    scan = client:scan(index, o)
  end
  return self:_keep("scan", {scan = scan, no_source = o.source == false}), scan.total
end

function answers.scan_next(self, number)
  local own = self:_find("scan", number)
  local views = own.scan:next_page()
  if not views then return nil end
  for i, view in ipairs(views) do views[i] = to_plain(view, own.no_source) end
  return core.array(views)
end

function answers.scan_close(self, number)
  local own = self:_find("scan", number)
  self:_drop(number)
  own.scan:close()
end

-- ---- Writing --------------------------------------------------------------------------------------

local function not_there(rules, index, id)
  errors.raise("auth", "the sandbox may write of %s only what is %s, and %s is not", index,
    policy.text(rules), id)
end

-- What is there now, for those of one routing.
local function current_of(client, index, items, routing)
  local ids, at = {}, {}
  for _, item in ipairs(items) do
    if (item.routing or false) == routing then
      ids[#ids + 1] = argument.name("bulk", "id", item.id)
      at[#at + 1] = item
    end
  end
  local ok, views = pcall(client.mget, client, index, ids, {routing = routing or nil})
  if ok then return at, views end
  if errors.code(views) ~= "not_found" then error(views, 0) end
  return at, {} -- there is no such index yet
end

-- A document may be written where it is, and as it becomes, under the paths of the rules. That it still is
-- where it was is left to its version.
local function pin(rules, index, item, view)
  if item.op == "update" then
    errors.raise("unsupported", "bulk: in a sandbox that may write only under a path, there is no `update` "
      .. "of %s: read it, change it, and index it", item.id)
  end
  if item.op ~= "delete" and not policy.meets(rules, item.doc) then not_there(rules, index, item.id) end
  if not view then
    if item.op == "index" then item.op = "create" end
    return
  end
  if not policy.meets(rules, view:_source()) then not_there(rules, index, item.id) end
  if item.op == "create" then return end
  if item.if_seq_no ~= nil and (item.if_seq_no ~= view._seq_no or item.if_term ~= view._term) then
    errors.raise("conflict", "%s/%s: it exists, or was changed by someone else", index, item.id)
  end
  item.if_seq_no, item.if_term = view._seq_no, view._term
end

local function pin_all(client, rules, index, items)
  local routings = {}
  for _, item in ipairs(items) do routings[item.routing or false] = true end
  for routing in pairs(routings) do
    local some, views = current_of(client, index, items, routing)
    for i, item in ipairs(some) do pin(rules, index, item, views[i]) end
  end
end

local item_names = {"op", "index", "id", "doc", "routing", "if_seq_no", "if_term", "pipeline"}

-- Checks the items for bulk, each of which may name an index of its own.
local function checked_items(self, index, given)
  local client, of_index = self._client(), {}
  argument.list("bulk", "items", given)
  check_length(given, "bulk")
  local items = {}
  for i, each in ipairs(given) do
    local item = picked(each, "bulk", item_names)
    item.op = item.op or "index"
    argument.name("bulk", "id", item.id)
    if item.op ~= "delete" and type(item.doc) ~= "string" then
      errors.bad("bulk: `doc` is JSON text in a sandbox")
    end
    local target = item.index or index
    of_index[target] = of_index[target] or {}
    table.insert(of_index[target], item)
    items[i] = item
  end
  for target, some in pairs(of_index) do
    local rules = self._policy:may_write(target, client._table)
    if rules then pin_all(client, rules, target, some) end
  end
  return items, client
end

local write_options = {"routing", "refresh", "if_seq_no", "if_term", "pipeline"}

function answers.write(self, op, index, id, doc, given)
  if op ~= "index" and op ~= "create" and op ~= "delete" then
    errors.bad("there is no write %s", core.tostring(op))
  end
  local o = picked(given, op, write_options)
  local item = {
    op = op, id = id, doc = doc, routing = o.routing, if_seq_no = o.if_seq_no, if_term = o.if_term,
  }
  local items, client = checked_items(self, index, {item})
  item = items[1]
  o.if_seq_no, o.if_term = item.if_seq_no, item.if_term
  if item.op == "delete" then return client:delete(index, id, o) end
  return client[item.op](client, index, id, item.doc, o)
end

function answers.bulk(self, index, given, o)
  self._policy:may_write(index, self._client()._table)
  local items, client = checked_items(self, index, given)
  return client:bulk(index, items, picked(o, "bulk", {"refresh"}))
end

-- ---- Locks ----------------------------------------------------------------------------------------

local function lock_fields(self, own, number)
  local paths, modes, ids = {}, {}, nil
  for i, path in ipairs(own.paths) do paths[i] = path end
  for i, mode in ipairs(own.modes) do modes[i] = mode end
  if own.ids then ids = table.move(own.ids, 1, #own.ids, 1, {}) end
  return {
    _number = number or self:_keep("lock", own), fence = own.fence, epoch = own.epoch, mode = own.mode,
    paths = paths, modes = modes, ids = ids,
  }
end

local function check_lock(self, o)
  if o.tree ~= nil then
    local list = type(o.tree) == "table" and o.tree or {o.tree}
    for _, path in ipairs(argument.names("acquire", "tree", list)) do
      self._policy:may_lock_path(check_path(path))
    end
  end
  if o.document ~= nil then self._policy:may_lock_documents(o.document, self._client()._table) end
  if o.named ~= nil then
    argument.names("acquire", "named", o.named)
    self._policy:may_lock_name(o.named[1])
  end
end

local lock_options = {"tree", "document", "ids", "named", "mode", "wait"}

local function take(self, call, given)
  local o = picked(given, call, lock_options)
  check_length(o.tree, call)
  check_length(o.ids, call)
  check_lock(self, o)
  if self._n >= handles_most then self:_keep() end
  if call == "acquire" or o.wait ~= nil then o.wait = self:_bounded(o.wait, call) end
  local client = self._client()
  return client[call](client, o)
end

function answers.acquire(self, given) return lock_fields(self, take(self, "acquire", given)) end

function answers.try_lock(self, given)
  local own, why = take(self, "try_lock", given)
  if own then return lock_fields(self, own) end
  return nil, self:_shown(why)
end

function answers.lock_check(self, number) return self:_find("lock", number):check() end
function answers.lock_remaining(self, number) return self:_find("lock", number):remaining() end

function answers.lock_convert(self, number, how, given)
  local own = self:_find("lock", number)
  if how == "downgrade" then
    own:downgrade(picked(given, how, {"mode"}))
  else
    local o = picked(given, "upgrade", {"mode", "wait"})
    o.wait = self:_bounded(o.wait, "upgrade")
    own:upgrade(o)
  end
  return lock_fields(self, own, number)
end

function answers.lock_release(self, number)
  local own = self:_find("lock", number)
  self:_drop(number)
  own:release()
end

-- ---- A lock's writers ------------------------------------------------------------------------------

function answers.writer(self, number, index, given)
  local own = self:_find("lock", number)
  self._policy:may_write(index, self._client()._table)
  local o = picked(given, "bulk", {"strength", "stamp_field", "batch"})
  return self:_keep("writer", {writer = own:bulk(index, o), index = index})
end

function answers.writer_add(self, number, given)
  local own = self:_find("writer", number)
  local items = checked_items(self, own.index, given)
  for _, item in ipairs(items) do own.writer:add(item) end
end

function answers.writer_report(self, number) return self:_find("writer", number).writer:report() end

function answers.writer_finish(self, number, given)
  local own = self:_find("writer", number)
  self:_drop(number)
  return own.writer:finish(picked(given, "finish", {"partial"}))
end

function answers.writer_close(self, number)
  local own = self:_find("writer", number)
  self:_drop(number)
  own.writer:close()
end

-- ---- The rest -------------------------------------------------------------------------------------

function answers.now() return core.wall_ms() / 1000 end
function answers.seconds(_, time) return duration.ms(time, "seconds") / 1000 end

function answers.sleep(self, time)
  core.sleep(math.min(duration.ms(time, "sleep"), self:_remaining() + 1)) -- then it is over, if it was less
end

-- What needs no store. -> true and the answer, or false and the error
function requests.plain(what, ...) return pcall(answers[what], nil, ...) end

-- ---- Errors ---------------------------------------------------------------------------------------

local shown_fields = {
  "code", "message", "type", "reason", "status", "retryable", "ambiguous", "report", "results",
}

-- Errors that tell of others, or of how the store is reached.
local hidden = {
  lock_timeout = "others hold the lock", deadlock = "the lock is waited for in a circle",
  orphaned_job = "a job of another that stands half-done holds the lock",
  unavailable = "the store cannot be asked now",
}

-- What the script is told of it; the whole of it is kept, for the one who runs the script.
function Session:_shown(why)
  if not core.is_error(why) then why = {code = "script_error", message = core.tostring(why)} end
  local out = {}
  for _, name in ipairs(shown_fields) do out[name] = why[name] end
  out.message = hidden[why.code] or out.message
  if out.code == "auth" and why.status then out.message, out.reason = "the store does not allow it", nil end
  out.number = (self._whys and #self._whys or 0) % 64 + 1
  self._whys = self._whys or {}
  self._whys[out.number] = why
  return core.error(out)
end

-- The error that a script raised as it was told, as it was.
function Session:whole(why)
  local number = core.is_error(why) and why.number
  local own = number and self._whys and self._whys[number]
  return own and own.code == why.code and own or why
end

-- Does what is asked. -> true and the values of the answer, or false and the error
function Session:answer(what, ...)
  local fn = answers[what]
  local results = table.pack(pcall(function(...)
    if not fn then errors.bad("there is no request %s", core.tostring(what)) end
    return fn(self, ...)
  end, ...))
  if results[1] then return table.unpack(results, 1, results.n) end
  if errors.code(results[2]) == "interrupted" then error(results[2], 0) end
  return false, self:_shown(results[2])
end

-- Gives back what is left; unsent items are reported.
function Session:__close(why)
  local failure
  for number, handle in pairs(self._handles) do
    if handle.kind == "scan" then handle.value.scan:close() end
    if handle.kind ~= "lock" then self._handles[number] = nil end
  end
  for _, handle in pairs(self._handles) do
    local ok, wrong = pcall(lock.class.__close, handle.value, why)
    if not ok then failure = failure or wrong end
  end
  self._handles = {}
  if why == nil and failure ~= nil then error(failure, 0) end
end

return requests
