-- Every handle that scripts can get hold of, and a call of each of its methods: those of the public API
-- as stdlib/mortise/reference.lua names them, those of the bindings as their metatables do.
local core = require "mortise.core"
local mortise = require "mortise"
local reference = require "mortise.reference"

local calls = {}

local documents = 7
local unchanged = '{"ids":{"values":["4","5","6","7"]}}' -- by these calls
local nobody = ("0"):rep(32)
local made = 0

local function path()
  made = made + 1
  return "/calls/" .. made
end

-- The index that the calls are about, filled; another store's client is given.
function calls.fill(client, index)
  client:init()
  pcall(client.drop_index, client, index)
  client:create_index(index, {mappings = {properties = {path = {type = "keyword"}}}})
  local items = {}
  for i = 1, documents do
    items[i] = {op = "index", id = tostring(i), doc = {path = "/a/" .. i, text = "line\n\"" .. i, deep = {
      list = {"one", "two\t"}, objects = {{two = 2}}, object = {a = {b = "c\\"}}}}}
  end
  for _, answer in ipairs(client:bulk(index, items)) do assert(answer.result == "applied", answer.reason) end
  client:refresh(index)
end

-- The objects of a try: a client of its own, and handles made from it.
function calls.open(store, namespace, index)
  local client = mortise.connect {store = store, namespace = namespace, wait = "200ms", timeout = "20s"}
  return {client = client, core = client._core, index = index}
end

local function core_lock(e)
  e.core_lock = e.core_lock or e.core:acquire("tree", nil, {path()}, {wait_ms = 200})
  return e.core_lock
end

local function lock(e)
  e.lock = e.lock or e.client:acquire {tree = path()}
  return e.lock
end

local function page(e)
  e.core_scan = e.core_scan or e.core:scan(e.index, {page = 3, slices = 1, query = unchanged})
  e.page = e.page or e.core_scan:next()
  return e.page
end

local function body(e)
  local doc = page(e)[1]
  doc.text = "changed"
  return doc
end

local transforms = '[{"default":{"field":"n","value":1}}]'

local function job_id() return "calls-" .. math.random(3) end

local function job(e)
  return e.client:job {id = job_id(), index = e.index, rename = {from = "/none", to = "/nowhere"},
    allow_empty = true, merge = true, wait = 0}
end

local function migration_options(e)
  return {id = "calls-migration", from = e.index .. "-new", to = e.index .. "-to", wait = 0, max_pause = "1s",
    wait_for_writes = "1s"}
end

-- How to get a handle of each kind.
calls.make = {
  mortise = function() return mortise end,
  client = function(e) return e.client end,
  lock = lock,
  writer = function(e)
    local w = lock(e):bulk(e.index)
    w:index("w", {path = "/w"})
    return w
  end,
  scan = function(e)
    local scan = e.client:scan(e.index, {page = 2})
    scan:next()
    return scan
  end,
  task = function(e)
    e.task = mortise.spawn(function() mortise.sleep(0) return 1, {2}, "three" end)
    return e.task
  end,
  document = function(e)
    local doc = page(e)[1]
    doc.text, doc.deep.object.a = "changed", {b = "new"}
    return doc
  end,
  ["core"] = function() return core end,
  ["core.client"] = function(e) return e.core end,
  ["core.lock"] = core_lock,
  ["core.writer"] = function(e) return core_lock(e):writer(e.index, {docs = 2, stamp_field = "stamp"}) end,
  ["core.scan"] = function(e)
    page(e)
    return e.core_scan
  end,
  ["core.page"] = page,
  ["core.list"] = function(e)
    core_lock(e)
    return e.core:list {kind = "locks", path = "/calls", page = 1}
  end,
  ["core.breaking"] = function(e) return e.core:break_session(nobody) end,
  ["core.change"] = function(e)
    return core_lock(e):change {index = e.index, fields = "path", from = "/none", to = "/nowhere",
      allow_empty = true, merge = true}
  end,
  job = job,
  migration = function(e)
    pcall(e.client.create_index, e.client, e.index .. "-new", {settings = {number_of_shards = 1}})
    return e.client:migrate(migration_options(e))
  end,
  ["core.transformer"] = function() return core.transformer(transforms) end,
  ["core.outside"] = function(e)
    local verbs = {"run", "resume", "undo"}
    return core_lock(e):outside_job {verb = verbs[math.random(3)], id = job_id(), spec = "{}"}
  end,
  ["core.job"] = function(e)
    local verbs = {"run", "resume", "undo"}
    local by_function = math.random(2) == 1
    return core_lock(e):job {verb = verbs[math.random(3)], id = job_id(), index = e.index,
      by_function = by_function, transforms = not by_function and transforms or nil}
  end,
}

local function nothing() end
local function index(e) return e.index end
local function one(e) return e.index, "1" end
local function source(e) return e.index, "n", {path = "/n", list = {1, 2}} end
local function fn() return 1 end

local function core_items(e)
  return {
    {kind = "index", id = "n", body = '{"path":"/n"}'}, {kind = "index", id = "v", body = body(e)},
    {kind = "update", id = "1", index = e.index, body = '{"doc":{"n":1}}'}, {kind = "delete", id = "none"},
  }
end

-- The arguments of a call of each, without the handle.
calls.arguments = {
  mortise = {
    connect = function(e) return {store = e.client:url(), namespace = "x"} end,
    client = nothing, spawn = function() return fn, {} end, map = function() return {1, 2, 3}, fn, {} end,
    sleep = function() return "1ms" end, now = nothing, seconds = function() return "1m30s" end,
    view = function() return '{"a":{"b":[1,"\\n"]}}', {id = "1", index = "x", seq_no = 1, term = 1} end,
    json = function(e) return {doc = body(e), list = {1, 2, {a = "b"}}, c = "d"} end,
    array = function() return {} end, object = function() return {} end,
    metrics = nothing,
    format = function(e) return {doc = body(e), list = {1, 2, {a = "b"}}} end,
    is_error = function() return {} end, reject = function() return "why" end,
    sandboxed = function() return "return function(doc) doc.x = 1 end" end,
    up = function() return {dir = "no/such/folder", dry_run = true} end,
  },
  client = {
    get = one, mget = function(e) return e.index, {"1", "none", "2"}, {} end,
    create = source, index = source, delete = function(e) return e.index, "3" end,
    update = function(e) return e.index, "2", function(doc) doc.n = (doc.n or 0) + 1 end end,
    count = function(e) return e.index, {match_all = {}} end,
    search = function(e) return e.index, {query = {match_all = {}}, size = 2} end,
    scan = function(e) return e.index, {page = 3} end, refresh = index,
    bulk = function(e)
      return e.index, {{op = "index", id = "b", doc = {path = "/b"}}, {op = "delete", id = "none"}}
    end,
    create_index = function(e) return e.index .. "-new", {settings = {number_of_shards = 1}} end,
    drop_index = function(e) return e.index .. "-new" end, describe = index,
    raw = function() return "GET", "/", nil, nil end,
    rename = function(e)
      return {index = e.index, from = "/none", to = "/nowhere", field = "path", allow_empty = true,
        merge = true}
    end,
    job = function(e)
      return {name = "calls", index = e.index, query = {match_all = {}}, field = false,
        lock = {tree = path()}, batch = 2,
        change = {{default = {field = "n", value = {1, {}}}}, {remove = {field = "nosuch"}}}}
    end,
    migrate = migration_options,
    get_job = function() return job_id(), {wait = 0} end, jobs = nothing,
    with_tree_lock = function() return {path(), path()}, {mode = "shared"}, fn end,
    with_document_locks = function(e) return e.index, {"1", "2"}, {}, fn end,
    with_lock = function() return "calls", "name", {}, fn end,
    with_global_lock = function() return {}, fn end,
    acquire = function() return {tree = {path(), path()}, mode = "shared"} end,
    try_lock = function() return {tree = path()} end,
    list = nothing, session = nothing, namespace = nothing, stats = nothing,
    init = function() return {print = true} end, verify = nothing, url = nothing, close = nothing,
  },
  lock = {
    check = nothing, remaining = nothing, release = nothing, upgrade = function() return {wait = 0} end,
    downgrade = function() return {mode = "shared"} end, covers = path,
    bulk = function(e) return e.index, {} end, scan = function(e) return e.index, {page = 2} end,
  },
  writer = {
    save = body, index = function() return "w", {path = "/w"} end,
    create = function() return "c", {path = "/c"} end, delete = function() return "w" end,
    add = function() return {op = "index", id = "a", doc = {path = "/a"}} end,
    flush = nothing, report = nothing, finish = function() return {} end, close = nothing,
  },
  job = {
    plan = nothing, run = nothing, resume = nothing, rollback = nothing, plan_rollback = nothing,
    status = nothing, accept = nothing,
    rejected = nothing,
    conflicts = nothing, pause = nothing, go_on = nothing, cancel = nothing,
    throttle = function() return {rate = 1000, batch = 2} end,
  },
  migration = {
    plan = nothing, run = nothing, resume = nothing, rollback = function() return {others = 3} end,
    plan_rollback = nothing, cutover = nothing, finish = function() return {delete = true} end,
    rejected = nothing, status = nothing, pause = nothing, go_on = nothing, cancel = nothing,
    throttle = function() return {rate = 1000} end,
  },
  scan = {next = nothing, next_page = nothing, close = nothing},
  task = {join = nothing, cancel = nothing, done = nothing},
  document = {
    _source = nothing, _table = nothing, _changed = nothing, _changes = nothing,
    _get = function() return "text" end, _set = function() return "deep.object", {a = {1, 2}, b = "c"} end,
    __index = function() return "deep" end, __newindex = function() return "new", {a = {b = "c"}} end,
    __pairs = nothing, __tostring = nothing,
  },
  ["core"] = {
    open = function(e) return {store = e.core:url(), ns = "x", program = "calls"} end,
    error = function() return {code = "conflict", message = "m", reason = "r"} end,
    json = function(e) return {doc = body(e), list = {1, 2, {a = "b\n"}}, c = "d"} end,
    json_decode = function() return '{"a":[1,{"b":"\\n"}]}' end,
    view = function() return '{"a":1}', {id = "1", routing = "r"} end,
    change_check = function() return {transforms = transforms} end, job_id_check = job_id,
    pack = function() return ("text"):rep(99) end, unpack = function() return core.pack "text" end,
    transformer = function() return transforms end,
    numbers_hash = function() return {1, 2, 1 << 39} end,
    job_table = nothing, traceback = function() return "why" end,
  },
  ["core.client"] = {
    describe = index, index_create = function(e) return e.index .. "-new", "{}" end,
    index_drop = function(e) return e.index .. "-new" end,
    count = function(e) return e.index, '{"match_all":{}}' end,
    refresh = index, search = function(e) return e.index, '{"size":2}' end,
    shards = index, intervals = function(e) return e.index, 0, 0, 100, {width = 8} end,
    range = function(e) return e.index, 0, 0, 50, {no_source = math.random(2) == 1} end, range_end = index,
    find = function(e) return e.index, 0, {"1", "none"}, {primary = false} end,
    copy = function(e) return e.index .. "-new", page(e) end, aliases = index, unblock = index,
    settings = function(e) return e.index, '{"index.refresh_interval":"1s"}' end,
    block = function(e) return e.index .. "-new" end,
    alias_move = function(e) return e.index .. "-alias", nil, e.index .. "-new" end,
    raw = function() return "GET", "/", "{}", "application/json" end,
    mget = function(e) return e.index, {"1", "none", "2"}, {false, "", "r"}, math.random(2) == 1 end,
    bulk = function(e) return e.index, core_items(e), false end,
    scan = function(e) return e.index, {page = 2, query = '{"match_all":{}}'} end,
    list = function() return {kind = "locks", ns = "default", path = "/calls", session = "0"} end,
    read_locks = function() return "default", {"/calls", "/none"} end,
    read_sessions = function() return "default", {nobody} end,
    acquire = function() return "tree", nil, {path(), path()}, {mode = "shared", wait_ms = 100} end,
    acquire_paths = function() return {{path(), "X"}, {path(), "S"}}, {wait_ms = 100} end,
    holds = core_lock, writer = function(e) return e.index, {strength = "none"} end,
    break_session = function() return nobody end,
    plan = function(e) return {index = e.index, transforms = transforms, query = '{"match_all":{}}'} end,
    outlook = function(e) return {id = job_id(), index = e.index, transforms = transforms} end,
    url = nothing, init = function() return true end, verify = nothing, stats = nothing, session = nothing,
    job_tasks = function() return "ns", job_id() end, job_task = function() return "node:1" end,
    jobs_index = nothing, namespace = nothing, close = nothing,
  },
  ["core.lock"] = {
    check = nothing, remaining = nothing, release = nothing,
    convert = function() return "shared", {wait_ms = 100} end,
    writer = function(e) return e.index, {strength = "stamp", stamp_field = "stamp"} end,
    change = function(e)
      return {index = e.index, fields = "path", from = "/none", to = "/nowhere", query = '{"match_all":{}}',
        allow_empty = true, strength = "stamp", stamp_field = "stamp"}
    end,
    job = function(e)
      return {verb = "run", id = job_id(), spec = "{}", index = e.index, fields = "path", from = "/none",
        to = "/nowhere", query = '{"match_all":{}}', allow_empty = true, page = 2, in_flight = 1}
    end,
    outside_job = function() return {verb = "run", id = job_id(), spec = "{}", rate = 5} end,
  },
  ["core.transformer"] = {apply = function() return '{"path":"/a"}' end},
  ["core.outside"] = {
    run = nothing, result = nothing, progress = nothing, cancel = nothing, settle = nothing, told = nothing,
    checkpoint = nothing, pause = function() return "why" end, waits = function() return "why" end,
    note = function() return '{"phase":"a"}', {total = 3, matched = 2} end,
      finish = function() return "done" end,
  },
  ["core.writer"] = {write = function(e) return core_items(e) end, close = nothing},
  ["core.scan"] = {next = nothing, close = nothing},
  ["core.page"] = {close = nothing, keys = nothing, __index = function() return 2 end, __len = nothing},
  ["core.list"] = {next = nothing, close = nothing},
  ["core.breaking"] = {progress = nothing, close = nothing},
  ["core.change"] = {run = nothing, result = nothing, progress = nothing, cancel = nothing, settle = nothing},
  ["core.job"] = {
    run = nothing, result = nothing, progress = nothing, cancel = nothing, settle = nothing, doc = nothing,
    put = function() return "change", '{"path":"/calls","n":1}' end, fail = function() return "why" end,
  },
}

-- Which method closes a handle of a kind.
calls.closers = {
  client = "close", lock = "release", writer = "close", scan = "close", task = "cancel",
  ["core.client"] = "close", ["core.lock"] = "release", ["core.writer"] = "close", ["core.scan"] = "close",
  ["core.page"] = "close", ["core.list"] = "close", ["core.breaking"] = "close", ["core.change"] = "cancel",
  ["core.job"] = "cancel", ["core.outside"] = "cancel",
}

-- The functions behind handle[name], also of the bindings' userdata.
local function methods(handle)
  local found, meta = {}, debug.getmetatable(handle)
  local at = type(handle) == "table" and handle or meta.__index
  if type(at) == "function" then at = select(2, debug.getupvalue(at, 1)) end
  for name, value in pairs(at) do
    if type(value) == "function" then found[name] = value end
  end
  for _, name in ipairs {"__index", "__newindex", "__len", "__pairs", "__tostring"} do
    local of_meta = type(handle) == "userdata" and meta[name]
    if type(of_meta) == "function" then found[name] = of_meta end
  end
  return found
end

-- The methods of a kind, {name, function(handle, ...)} by name: what the reference says of the public
-- ones, what there is of the bindings'.
function calls.methods(kind, handle)
  local list = {}
  local rows = reference.group(kind)
  if rows then
    for _, row in ipairs(rows) do
      local name = row.name
      local of_module = kind == "mortise"
      list[#list + 1] = {name, function(self, ...)
        local value = self[name]
        if type(value) ~= "function" then return value end
        if of_module then return value(...) end
        return value(self, ...)
      end}
    end
  end
  if kind == "core" then
    for name in pairs(calls.arguments.core) do
      list[#list + 1] = {name, function(_, ...) return core[name](...) end}
    end
  elseif not rows or kind == "document" then
    for name, method in pairs(methods(handle)) do
      if not rows or name:find "^__" then list[#list + 1] = {name, method} end
    end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

-- The kinds, sorted.
function calls.kinds()
  local list = {}
  for kind in pairs(calls.make) do list[#list + 1] = kind end
  table.sort(list)
  return list
end

-- The arguments of a call, packed.
function calls.pack(e, kind, name)
  local make = calls.arguments[kind][name] or nothing
  return table.pack(make(e))
end

-- Closes the handle, and whatever it depends on; failures do not matter.
function calls.close(e, kind, handle)
  local name = calls.closers[kind]
  if name then pcall(function() handle[name](handle) end) end
  if kind == "document" then pcall(e.page.close, e.page) end
end

-- Ends a try.
function calls.finish(e)
  if e.task then pcall(e.task.join, e.task) end
  for _, each in ipairs {e.client, e.core} do pcall(each.close, each) end
end

return calls
