-- An invalid id, index, path or other name is an error before anything is sent: in every call, for every
-- argument.
local mortise = require "mortise"
local stores = require "spec.support.stores"

local NIL = {} -- stands for nil in a list

-- Values that are not names.
local bad_names = {NIL, "", 42, {}, "a\0b", true, print}
-- Values that are not lists of names.
local bad_lists = {
  NIL, 42, true, {42}, {""}, {{}}, {"a", "b\0"}, {[2] = "b"}, {"a", x = "b"}, {nil, "a", nil, "b"},
}
local no_bodies = {"", 42, "a\0b", true, print}
local no_sources = {NIL, "", 42, {}, "a\0b", true, print, {1, x = 2}, {x = print}}

local function nothing() end

-- Each: the call's name; fn(...) that makes it; good arguments; for each argument its name and the bad
-- values.
local function calls(client, lock, writer)
  local function of(object, name, ...)
    local good = {...}
    return {name = name, fn = function(...) return object[name](object, ...) end, good = good}
  end
  local function with(call, ...)
    call.bad = {...}
    return call
  end
  local index, id = {"index", bad_names}, {"id", bad_names}
  local source = {"source", no_sources}
  return {
    with(of(client, "get", "i", "1"), index, id),
    with(of(client, "mget", "i", {"1"}), index, {"ids", bad_lists}),
    with(of(client, "count", "i", {match_all = {}}), index, {"query", no_bodies}),
    with(of(client, "search", "i", {}), index, {"body", no_bodies}),
    with(of(client, "refresh", "i"), index),
    with(of(client, "scan", "i"), index),
    with(of(client, "create", "i", "1", {a = 1}), index, id, source),
    with(of(client, "index", "i", "1", {a = 1}), index, id, source),
    with(of(client, "update", "i", "1", {a = 1}), index, id, {"change", {NIL, "", 42, true}}),
    with(of(client, "delete", "i", "1"), index, id),
    with(of(client, "bulk", "i", {}), index, {"items", {NIL, "", 42, {[2] = {}}, {x = {}}}}),
    with(of(client, "create_index", "i", {}), index, {"body", no_bodies}),
    with(of(client, "drop_index", "i"), index),
    with(of(client, "describe", "i"), index),
    with(of(client, "raw", "GET", "/i", {}, "text/plain"), {"method", bad_names}, {"path", bad_names},
      {"body", no_bodies}, {"content_type", {"", 42, {}, "a\0b"}}),
    with(of(client, "_break_session", "00"), id),
    with(of(client, "with_tree_lock", "/a", nothing), {"path", {NIL, "", 42, {}, "a\0b", {""}, {"/a", 42}}}),
    with(of(client, "with_document_locks", "i", {"1"}, nothing), index,
      {"ids", {NIL, "", 42, {""}, {"a", 42}, {[2] = "b"}, {"a", "b\0"}}}),
    with(of(client, "with_lock", "c", "n", nothing), {"category", bad_names}, {"name", bad_names}),
    with(of(lock, "bulk", "i"), index),
    with(of(lock, "scan", "i"), index),
    with(of(writer, "index", "1", {a = 1}), id, source),
    with(of(writer, "create", "1", {a = 1}), id, source),
    with(of(writer, "delete", "1"), id),
    with(of(writer, "save", nil), {"view", {NIL, "", 42, {}, "a\0b"}}),
  }
end

-- Options: the call, good ones, and which must be names.
local function option_calls(client, lock, writer)
  local item = {op = "index", id = "1", doc = {a = 1}, index = "i", routing = "r"}
  return {
    {"bulk", function(o) client:bulk("i", {o}) end, item, {"id", "index", "routing"}, {"id"}},
    {"bulk", function(o) writer:add(o) end, item, {"id", "index", "routing"}, {"id"}},
    {"rename", function(o) client:rename(o) end,
      {index = "i", from = "/a", to = "/b", field = "path", stamp_field = "s"},
      {"index", "from", "to", "field", "stamp_field"}, {"index", "from", "to"}},
    {"connect", function(o) mortise.connect(o):close() end,
      {store = "sqlite:x.db", namespace = "n", table = "t", user = "u", password = "p", api_key = "k",
        bearer = "b", api_key_command = "true", bearer_command = "true", aws_region = "r", ca_file = "f",
        cert_file = "f", key_file = "f", proxy = "none",
        unix_socket = "f", program = "p", script = "s", job = "j"},
      {"store", "namespace", "table", "user", "password", "api_key", "bearer", "api_key_command",
        "bearer_command", "aws_region", "ca_file", "cert_file", "key_file", "proxy", "unix_socket",
        "program", "script", "job"}, {}},
    {"get", function(o) client:get("i", "1", o) end, {routing = "r"}, {"routing"}, {}},
    {"bulk", function(o) lock:bulk("i", o) end, {stamp_field = "s"},
      {"stamp_field"}, {}},
    {"acquire", function(o) client:acquire(o) end, {document = "i", ids = {"1"}}, {"document"}, {}},
  }
end

local function copy(list)
  local out = {}
  for key, value in pairs(list) do out[key] = value end
  return out
end

local function shown(value)
  if value == NIL then return "nil" end
  return type(value) == "string" and ("%q"):format(value) or tostring(value)
end

local function refuses(call, argument, value, fn, ...)
  local what = ("%s with %s as %s"):format(call, shown(value), argument)
  local ok, why = pcall(fn, ...)
  assert.is_false(ok, what .. " went well")
  assert.is_true(mortise.is_error(why), what .. " raised " .. tostring(why))
  assert.equal("invalid_argument", why.code, what)
  assert.truthy(why.message:find("^" .. call .. ": "), what .. " said " .. why.message)
  assert.truthy(why.message:find("`" .. argument .. "`", 1, true), what .. " said " .. why.message)
end

stores.each("what is no name", function(store)
  local client, lock, writer

  before_each(function()
    client = stores.connect(store)
    lock = client:acquire {tree = "/arguments"}
    writer = lock:bulk "i"
  end)
  after_each(function() client:close() end)

  it("is refused by every call that means one", function()
    for _, call in ipairs(calls(client, lock, writer)) do
      for at, each in ipairs(call.bad) do
        for _, value in ipairs(each[2]) do
          local given = copy(call.good)
          given[at] = value ~= NIL and value or nil
          refuses(call.name, each[1], value, call.fn, table.unpack(given, 1, math.max(#call.good, at)))
        end
      end
    end
    assert.equal(0, writer:report().unsent)
  end)

  it("is refused as an option", function()
    for _, call in ipairs(option_calls(client, lock, writer)) do
      local name, fn, good, names, needed = table.unpack(call)
      for _, option in ipairs(names) do
        for _, value in ipairs {"", 42, {}, "a\0b"} do
          local given = copy(good)
          given[option] = value
          refuses(name, option, value, fn, given)
        end
      end
      for _, option in ipairs(needed) do
        local given = copy(good)
        given[option] = nil
        refuses(name, option, NIL, fn, given)
      end
    end
  end)

  it("is refused in acquire and try_lock", function()
    for _, call in ipairs {"acquire", "try_lock"} do
      local function fn(o) return client[call](client, o) end
      for _, value in ipairs {"", 42, {}, "a\0b", {""}, {"/a", [3] = "/b"}, {42}} do
        refuses(call, "path", value, fn, {tree = value})
      end
      for _, value in ipairs {42, {}, {""}, {"a", 42}, {[2] = "a"}, "1"} do
        refuses(call, "ids", value, fn, {document = "i", ids = value})
      end
      refuses(call, "ids", NIL, fn, {document = "i"})
      for _, value in ipairs {NIL, "", 42, "a\0b"} do
        local given = value ~= NIL and value or nil
        refuses(call, "category", value, fn, {named = {given, "n"}})
        refuses(call, "name", value, fn, {named = {"c", given}})
      end
    end
  end)

  it("is not an empty list of ids: nothing is to be locked then", function()
    local seen
    client:with_document_locks("orders", {}, function(held)
      seen = held.ids
      held:check()
      assert.is_true(held.fence > 0)
    end)
    assert.same({}, seen)
    local index = stores.fill(client, {a = {n = 1}})
    assert.equal("[]", mortise.json(client:mget(index, {})))
  end)
end)
