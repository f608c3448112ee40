-- The public names: those that are reachable, those in the help and those in docs/scripts.md are the same; a
-- mistyped one is an error.
local complete = require "mortise.prompt.complete"
local mortise = require "mortise"
local reference = require "mortise.reference"
local stores = require "spec.support.stores"

local function known(...)
  local set = {}
  for _, group in ipairs {...} do
    for _, row in ipairs((reference.group(group))) do set[row.name] = true end
  end
  return set
end

-- Adds the names of a table that are not our own.
local function add_names(set, t)
  for name in next, t do
    if type(name) ~= "string" or name:sub(1, 1) ~= "_" then set[name] = true end
  end
  return set
end

-- Of an object and its class.
local function names_of(object)
  local set = add_names({}, type(object) == "table" and object or {})
  local index = debug.getmetatable(object).__index
  if type(index) == "function" then index = select(2, debug.getupvalue(index, 1)) end
  return add_names(set, index)
end

local function read(file)
  local handle = assert(io.open(file))
  local text = handle:read "a"
  handle:close()
  return text
end

describe("the public names", function()
  local store = stores.all()[1]
  local client, index, lock
  before_each(function()
    client = stores.connect(store)
    index = stores.fill(client, {a = {path = "/a"}})
    lock = client:acquire {document = index, ids = {"a"}}
  end)
  after_each(function()
    lock:release()
    client:drop_index(index)
    client:close()
  end)

  it("are those that help knows", function()
    assert.same(known("mortise", "client"), add_names({}, mortise))
    assert.same(known "client", names_of(client))
    assert.same(known "lock", names_of(lock))
    local w <close> = lock:bulk(index)
    assert.same(known "writer", names_of(w))
    local scan <close> = client:scan(index)
    assert.same(known "scan", names_of(scan))
    local task = mortise.spawn(function() end)
    local of_task = known "task"
    of_task.id = nil -- made when it is read
    assert.same(of_task, names_of(task))
    assert.equal("integer", math.type(task.id))
    task:join()
    local words = {}
    for _, word in ipairs((complete("doc:_", {doc = client:get(index, "a")}))) do words[word] = true end
    for name in pairs(words) do assert.truthy(known "document"[name], name) end
  end)

  it("are those that docs/scripts.md names", function()
    local text = read "docs/scripts.md"
    local code = {}
    for block in text:gmatch "```lua[^\n]*\n(.-)\n```" do code[#code + 1] = block end
    for span in text:gsub("```.-```", ""):gmatch "`([^`\n]+)`" do code[#code + 1] = span end
    code = table.concat(code, "\n")
    for _, name in ipairs(reference.names()) do
      assert.truthy(code:find("%f[%w_]" .. name .. "%f[^%w_]"), name .. " is not in docs/scripts.md")
    end
    for prefix, groups in pairs {
      ["mortise%."] = {"mortise", "client"}, ["client[.:]"] = {"client"}, ["lock[.:]"] = {"lock"},
      ["%f[%w]w[.:]"] = {"writer"}, ["task[.:]"] = {"task"}, ["scan[.:]"] = {"scan"},
      ["doc[:]"] = {"document"}, ["doc%._"] = {"document"},
    } do
      local set = known(table.unpack(groups))
      set.with_tree_lok, set.reindex = true, true -- of the example of names that are not there
      for name in code:gmatch("%f[%w]" .. prefix:gsub("^%%f%[%%w%]", "") .. "([%a_][%w_]*)") do
        if prefix == "doc%._" then name = "_" .. name end
        assert.truthy(set[name], ("docs/scripts.md names %s%s"):format(prefix, name))
      end
    end
  end)

  it("of errors are documented", function()
    local other <close> = mortise.connect {store = store.store, namespace = client:namespace()}
    local _, why = other:try_lock {document = index, ids = {"a"}}
    local text = read "docs/scripts.md":match "\n## Errors\n(.*)"
    for _, each in ipairs {why, why.blockers[1]} do
      for name in next, each do assert.truthy(text:find("%f[%w_]" .. name .. "%f[^%w_]"), name) end
    end
  end)

  it("that are mistyped are told, called or read", function()
    local w <close> = lock:bulk(index)
    local scan <close> = client:scan(index)
    local task <close> = mortise.spawn(function() end)
    for _, case in ipairs {
      {function() mortise.with_tree_lok("/a", print) end,
        "mortise has no `with_tree_lok`: did you mean `with_tree_lock`?"},
      {function() return mortise.cuont end, "did you mean `count`?"},
      {function() client:serch(index, {}) end, "a client has no `serch`: did you mean `search`?"},
      {function() lock:relase() end, "a lock has no `relase`: did you mean `release`?"},
      {function() return lock.fense end, "did you mean `fence`?"},
      {function() w:sav() end, "a writer has no `sav`: did you mean `save`?"},
      {function() scan:nxt() end, "a scan has no `nxt`: did you mean `next`?"},
      {function() task:joni() end, "a task has no `joni`: did you mean `join`?"},
    } do
      local ok, why = pcall(case[1])
      assert.is_false(ok)
      assert.equal("invalid_argument", why.code)
      assert.truthy(why.message:find(case[2], 1, true), why.message)
    end
  end)

  it("can be asked for", function()
    for _, name in ipairs {"foo", "log", "x", "open", "task", "reindex"} do
      assert.is_nil(mortise[name])
      assert.is_nil(client[name])
      assert.is_nil(lock[name])
    end
    local tree <close> = client:acquire {tree = "/names"}
    assert.is_nil(tree.ids)
  end)
end)
