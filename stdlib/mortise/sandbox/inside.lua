-- Runs inside a sandbox, with no more rights than its script: makes the `mortise` that the script finds. What
-- that wants of the store it asks for by a name and plain values (core.ask), and mortise.sandbox.requests
-- answers. Returns the functions by which the sandbox is started.
local core = ...
local error, pcall, setmetatable, type, xpcall = error, pcall, setmetatable, type, xpcall
local getmetatable, ipairs, load, next, pairs, pack = getmetatable, ipairs, load, next, pairs, table.pack
local unpack, text_of = table.unpack, tostring

local mortise = {
  null = core.null, array = core.array, object = core.object, json = core.json, view = core.view,
  is_error = core.is_error,
}

local function raise(code, format, ...) error(core.error {code = code, message = format:format(...)}, 0) end
local function bad(format, ...) raise("invalid_argument", format, ...) end

-- ---- Asking --------------------------------------------------------------------------------------

local function answered(good, ...)
  if not good then error((...), 0) end
  return ...
end

local function ask(...) return answered(core.ask(...)) end

-- A document as it comes: {id=, index=, routing=, seq_no=, term=, source= text or nil}
local function to_view(given)
  if not given then return given end
  return core.view(given.source or "{}", {id = given.id, index = given.index, routing = given.routing,
    seq_no = given.seq_no, term = given.term})
end

-- What a script gives as a document, as JSON text.
local function source_of(doc)
  if type(doc) == "string" then return doc end
  if core.is_view(doc) == "document" then return doc:_source() end
  return core.json(doc)
end

-- Marks empty tables as objects, as in match_all = {}.
local function marked(value, depth)
  if type(value) ~= "table" or getmetatable(value) then return value end
  if depth > 100 then bad "a query is nested too deeply, or contains itself" end
  if next(value) == nil then return core.object {} end
  local copy = {}
  for key, each in pairs(value) do copy[key] = marked(each, depth + 1) end
  return copy
end

-- Query DSL as JSON text, so that views and marks in it are written here.
local function query_of(query)
  if query == nil or type(query) == "string" then return query end
  return core.json(marked(query, 0))
end

local function with_query(given)
  if type(given) ~= "table" then return given end
  local out = {}
  for name, value in pairs(given) do out[name] = value end
  out.query = query_of(given.query)
  return out
end

-- ---- Reading -------------------------------------------------------------------------------------

function mortise.get(index, id, given) return to_view(ask("get", index, id, given)) or nil end

function mortise.mget(index, ids, given)
  local list = ask("mget", index, ids, given)
  for i, each in ipairs(list) do list[i] = to_view(each) end
  return list
end

function mortise.count(index, query) return ask("count", index, query_of(query)) end
function mortise.refresh(index) return ask("refresh", index) end
function mortise.search(index, body) return core.json_decode(ask("search", index, query_of(body or {}))) end

local Scan = {__name = "mortise.scan"}
Scan.__index = Scan

function Scan:next_page()
  local page = self._page
  if page and self._at < #page then
    local rest = {}
    for i = self._at + 1, #page do rest[#rest + 1] = to_view(page[i]) end
    self._at = #page
    return rest
  end
  if self._ended then return nil end
  page = ask("scan_next", self._number)
  self._ended = not page
  if not page then return nil end
  for i, each in ipairs(page) do page[i] = to_view(each) end
  return page
end

function Scan:next()
  while not self._ended and (not self._page or self._at >= #self._page) do
    self._page, self._at = ask("scan_next", self._number), 0
    self._ended = not self._page
  end
  if self._ended then return nil end
  self._at = self._at + 1
  return to_view(self._page[self._at])
end

function Scan:close()
  if not self._number then return end
  local number = self._number
  self._number, self._page, self._ended = nil, nil, true
  ask("scan_close", number)
end

Scan.__call, Scan.__close = Scan.next, Scan.close

local function open_scan(lock, index, given)
  local number, total = ask("scan", lock, index, with_query(given))
  local scan = setmetatable({_number = number, total = total, _at = 0}, Scan)
  return scan, nil, nil, scan
end

function mortise.scan(index, given) return open_scan(nil, index, given) end

-- ---- Writing -------------------------------------------------------------------------------------

local function write(op, index, id, doc, given)
  return ask("write", op, index, id, op ~= "delete" and source_of(doc) or nil, given)
end

function mortise.index(...) return write("index", ...) end
function mortise.create(...) return write("create", ...) end
function mortise.delete(index, id, given) return write("delete", index, id, nil, given) end

local function item_of(given)
  if type(given) ~= "table" then bad("bulk: an item is a table, not a %s", type(given)) end
  local item = {}
  for name, value in pairs(given) do item[name] = value end
  if given.doc ~= nil then item.doc = source_of(given.doc) end
  return item
end

function mortise.bulk(index, items, given)
  if type(items) ~= "table" then bad("bulk: `items` is a list, not a %s", type(items)) end
  local list = {}
  for i, each in ipairs(items) do list[i] = item_of(each) end
  return ask("bulk", index, list, given)
end

local update_tries = 9

-- Reads it, changes it and writes it back unless somebody else changed it meanwhile; then starts over.
function mortise.update(index, id, change, given)
  if type(change) ~= "function" and type(change) ~= "table" then
    bad("update: `change` is a function or a table of fields, not a %s", type(change))
  end
  given = given or {}
  for _ = 1, update_tries do
    local view = mortise.get(index, id, {routing = given.routing})
    if not view then raise("not_found", "%s/%s: there is no such document", index, id) end
    if type(change) == "function" then
      change(view)
    else
      for name, value in pairs(change) do view[name] = value end
    end
    if not view:_changed() then
      return core.object {id = id, result = "noop", seq_no = view._seq_no, term = view._term}
    end
    local ok, result = pcall(mortise.index, index, id, view, {
      routing = view._routing, refresh = given.refresh, if_seq_no = view._seq_no, if_term = view._term,
      pipeline = false,
    })
    if ok then return result end
    if not (core.is_error(result) and result.code == "conflict") then error(result, 0) end
  end
  raise("conflict", "%s/%s: changed by someone else again and again", index, id)
end

-- ---- Locks ---------------------------------------------------------------------------------------

local Writer = {__name = "mortise.writer"}
Writer.__index = Writer

local items_at_once = 500

local writers = {} -- those that are open: writer -> true
local unsent = 0   -- items of writers that were closed because something failed

local function forget_writer(self)
  local number = self._number
  self._number, writers[self] = nil, nil
  return number
end

function Writer:flush()
  local items = self._items
  self._items = {}
  if #items > 0 then ask("writer_add", self._number, items) end
end

local function put(self, item)
  if not self._number then bad "the writer is closed" end
  self._items[#self._items + 1] = item
  if #self._items >= items_at_once then self:flush() end
end

function Writer:add(given) put(self, item_of(given)) end
function Writer:index(id, doc) put(self, {op = "index", id = id, doc = source_of(doc)}) end
function Writer:create(id, doc) put(self, {op = "create", id = id, doc = source_of(doc)}) end

function Writer:save(view)
  if core.is_view(view) ~= "document" then bad("save: `view` is a document that was read") end
  if not view:_changed() then return end
  put(self, {
    op = "index", id = view._id, index = view._index, routing = view._routing, doc = view:_source(),
    if_seq_no = view._seq_no, if_term = view._term, pipeline = false,
  })
end

function Writer:delete(what)
  if core.is_view(what) ~= "document" then return put(self, {op = "delete", id = what}) end
  put(self, {op = "delete", id = what._id, index = what._index, routing = what._routing,
    if_seq_no = what._seq_no, if_term = what._term})
end

function Writer:report() return ask("writer_report", self._number) end

function Writer:finish(given)
  self:flush()
  return ask("writer_finish", forget_writer(self), given)
end

function Writer:close()
  local number = forget_writer(self)
  self._items = {}
  if number then ask("writer_close", number) end
end

function Writer:__close(why)
  if why ~= nil then
    unsent = unsent + #self._items
    self:close()
  elseif self._number then
    self:finish()
  end
end

-- Ends the open writers of a lock, or all: finished, unless something failed.
local function end_writers(lock, why)
  local list = {}
  for each in pairs(writers) do
    if not lock or each._lock == lock then list[#list + 1] = each end
  end
  for _, each in ipairs(list) do Writer.__close(each, why) end
end

local Lock = {__name = "mortise.lock"}
Lock.__index = Lock

local function to_lock(given)
  if not given then return given end
  return setmetatable(given, Lock)
end

local function take_over(self, given)
  for name, value in pairs(given) do self[name] = value end
  return self
end

function Lock:check() return ask("lock_check", self._number) end
function Lock:remaining() return ask("lock_remaining", self._number) end
function Lock:upgrade(given) return take_over(self, ask("lock_convert", self._number, "upgrade", given)) end

function Lock:downgrade(given)
  return take_over(self, ask("lock_convert", self._number, "downgrade", given))
end

function Lock:scan(index, given) return open_scan(self._number, index, given) end

function Lock:bulk(index, given)
  local w = setmetatable({_items = {}, _lock = self}, Writer)
  w._number = ask("writer", self._number, index, given)
  writers[w] = true
  return w
end

-- Finishes its writers, unless something failed, and gives it back.
function Lock:__close(why)
  if self._released then return end
  local ok, failure = pcall(end_writers, self, why)
  self._released = true
  ask("lock_release", self._number)
  if not ok and why == nil then error(failure, 0) end
end

function Lock:release() return Lock.__close(self, nil) end

function mortise.acquire(given) return to_lock(ask("acquire", given)) end

function mortise.try_lock(given)
  local lock, why = ask("try_lock", given)
  return to_lock(lock), why
end

local function returned(lock, ...)
  lock:release()
  return ...
end

-- (wanted, [opts], fn)
local function with(wanted, given, fn)
  if fn == nil then given, fn = nil, given end
  if type(fn) ~= "function" then bad("the last argument is a function, not a %s", type(fn)) end
  for name, value in pairs(given or {}) do wanted[name] = value end
  local lock <close> = mortise.acquire(wanted)
  return returned(lock, fn(lock))
end

function mortise.with_tree_lock(tree, given, fn) return with({tree = tree}, given, fn) end
function mortise.with_lock(category, name, given, fn) return with({named = {category, name}}, given, fn) end

function mortise.with_document_locks(index, what, given, fn)
  if type(what) == "table" and what.query ~= nil then
    bad "with_document_locks: in a sandbox it takes ids, and no query"
  end
  return with({document = index, ids = type(what) == "string" and {what} or what}, given, fn)
end

-- ---- The rest ------------------------------------------------------------------------------------

function mortise.now() return ask "now" end
function mortise.seconds(time) return ask("seconds", time) end
function mortise.sleep(seconds) return ask("sleep", seconds) end

local Reject = {__name = "mortise.reject", __metatable = false}

function mortise.reject(reason)
  if type(reason) ~= "string" or reason == "" then bad "reject: it takes the reason, a text" end
  return setmetatable({reason = reason, [Reject] = true}, Reject)
end

local delete = mortise.delete

setmetatable(mortise, {
  __index = function(_, name)
    if type(name) ~= "string" then return nil end
    raise("unsupported", "mortise.%s is not there in a sandbox", name)
  end,
})
_G.mortise = mortise -- luacheck: globals mortise

-- ---- How it is started -----------------------------------------------------------------------------

-- Only plain values can leave the sandbox.
local function plain_error(why)
  local kind = type(why)
  local is_odd = kind == "function" or kind == "thread" or kind == "userdata" and why ~= core.null
    or kind == "table" and not core.is_error(why) and getmetatable(why) ~= nil
  return is_odd and text_of(why) or why
end

-- -> what fn returns; its __close handlers are done when it raises an error.
local function call(fn, ...)
  local results = pack(xpcall(fn, core.traceback, ...))
  if not results[1] then error(plain_error(results[2]), 0) end
  return unpack(results, 2, results.n)
end

local function compiled(code, name)
  local chunk, why = load(code, name, "t")
  if not chunk then raise("script_error", "%s", why) end
  return chunk
end

local entries = {}

-- A script.
function entries.run(code, name, ...)
  _G.arg = {[0] = name:gsub("^[@=]", ""), ...} -- luacheck: globals arg
  local ok, why = pcall(call, compiled(code, name), ...)
  end_writers(nil, not ok and true or nil)
  if ok then return end
  if unsent > 0 then
    local lost = (" (%d items of its writers were not sent)"):format(unsent)
    if core.is_error(why) then why.message = why.message .. lost else why = text_of(why) .. lost end
  end
  error(why, 0)
end

local change

-- A change: a chunk that returns the function of each document, or is it.
function entries.load(code, name)
  local chunk = compiled(code, name)
  local made = call(chunk)
  if type(made) ~= "function" then
    raise("script_error", "%s returns no function of a document", (name:gsub("^[@=]", "")))
  end
  change = made
end

local function named(name)
  local value = _G
  for part in name:gmatch "[^.]+" do value = value[part] end
  return value
end

-- The same of functions that were compiled outside: for each the values of its upvalues, as
-- mortise.sandbox.adoption has them.
function entries.adopt(functions)
  for i, upvalues in ipairs(functions) do
    for at, each in pairs(upvalues) do
      if each.of then
        core.adopted_join(i, at, each.of, each.at)
      elseif each.fn then
        core.adopted_set(i, at, core.adopted(each.fn))
      elseif each.name then
        core.adopted_set(i, at, named(each.name))
      else
        core.adopted_set(i, at, each.value)
      end
    end
  end
  change = core.adopted(1)
end

local function one_of_list(each, view)
  if type(each) ~= "table" then bad "in its list are tables {_id=, _routing=, _source=}" end
  local out = {}
  for name, value in pairs(each) do out[name] = value end
  local source = each._source
  if source == nil then source = view end
  out._source = source_of(source)
  return out
end

-- -> "keep"; "change", {[name] = JSON text or false}; "delete"; "reject", reason; "list", list
function entries.change(given)
  local view = to_view(given)
  local result = call(change, view)
  if result == nil or result == view then
    if not view:_changed() then return "keep" end
    return "change", view:_changes()
  end
  if result == delete then return "delete" end
  if type(result) == "table" and result[Reject] then return "reject", result.reason end
  if type(result) ~= "table" or getmetatable(result) ~= nil then
    bad("it returns nothing, mortise.delete or mortise.reject(reason), not %s", text_of(result))
  end
  local list = {}
  for i, each in ipairs(result) do list[i] = one_of_list(each, view) end
  if #list == 0 and next(result) ~= nil then bad "it returns a list of tables {_id=, _routing=, _source=}" end
  return "list", list
end

return entries
