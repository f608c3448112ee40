-- A handle may be closed while one of its own calls runs: by a metamethod of an argument, by a finalizer,
-- by another task. Then the call ends with a clear error or goes well; never is memory used that was freed,
-- which the sanitizer of the build sees. Each kind of handle in a process of its own.
local calls = require "spec.hostile.calls"
local fails = require "spec.support.fails"
local mortise = require "mortise"
local program = require "spec.support.program"
local reference = require "mortise.reference"
local stores = require "spec.support.stores"

-- So many occasions of each call; the fuzzer (api.lua) finds the later ones.
local most = {metamethod = 8, finalizer = 8, task = 6}
local few = {metamethod = 2, finalizer = 2, task = 2}

-- With leaks told, but for one of the C library's own, of LOCPATH.
local environment = {LUA_PATH = "./?.lua;;", LOCPATH = "", ASAN_OPTIONS = "exitcode=99"}

local function run(words)
  local status, out, err = program.run(words, {seconds = 600, env = environment})
  assert.equal("", out)
  assert.equal(0, status, err)
  assert.matches("%d+ tries", err)
end

describe("the calls that are tried", function()
  it("are all that there are", function()
    for _, group in ipairs(reference.groups) do
      for _, row in ipairs(group[3]) do
        local known = not row[2] or calls.arguments[group[1]][row[1]] ~= nil
        assert.is_true(known, group[1] .. "." .. row[1])
      end
    end
  end)
end)

describe("finalizers at the state's end", function()
  local function file(body)
    return program.write(([[
      local mortise, core, kept = mortise, nil, {}
      local function use()
        local function try(name, ...)
          local ok, why = pcall(...)
          if not ok then why = tostring(why):match "[^\n]*" end
          print(name, ok, ok or why)
        end
        %s
      end
      local function at_end() return setmetatable({}, {__gc = use}) end
    ]]):format(body), ".lua")
  end

  -- What makes something of each kind there, and what uses what was made before.
  local body = [[
    try("json", function() return core.json {a = {b = "c"}} end)
    try("view", function() return core.view('{"a":"\\n"}'):_table() end)
    try("client", function()
      local c = mortise.connect {store = STORE}
      c:index("x", "1", {path = "/a", text = "\n"})
      local w = c:acquire({tree = "/gc"}):bulk "x"
      w:index("2", {path = "/b"})
      local scan = c:scan "x"
      local doc = scan:next()
      doc.text = "b"
      return doc:_source(), c:get("x", "1"), c:list()
    end)
    try("rename", function()
      local c = core.open {store = STORE}
      local lock = c:acquire("tree", nil, {"/rename"}, {})
      local r = lock:change {index = "x", fields = "path", from = "/none", to = "/new", allow_empty = true}
      r:run()
      c:list {}
      lock:writer("x"):write {{kind = "index", id = "3", body = "{}"}}
    end)
    try("task", function() return mortise.spawn(function() mortise.sleep(0.001) return 1 end):join() end)
    try("kept", function()
      kept.lock:release()
      return kept.doc.path, kept.doc:_source(), kept.client:count "x"
    end)
  ]]
  local before = [[
    core = require "mortise.core"
    kept.client = mortise.connect {store = STORE}
    kept.client:index("x", "1", {path = "/a"})
    kept.lock, kept.doc = kept.client:acquire {tree = "/a"}, kept.client:get("x", "1")
  ]]

  local function write(store, first, last)
    local script = file(body)
    local handle = assert(io.open(script, "a"))
    handle:write(first, before, last)
    handle:close()
    handle = assert(io.open(script))
    local text = handle:read "a"
    handle:close()
    handle = assert(io.open(script, "w"))
    handle:write((text:gsub("STORE", ("%q"):format(store))))
    handle:close()
    return script
  end

  local function store() return "sqlite:" .. stores.temporary ".db" end

  it("use mortise as ever, and leak nothing", function()
    local at = store()
    local script = write(at, "", "X = at_end()")
    local status, out, err = program.run({script}, {env = environment})
    assert.equal(0, status, err)
    assert.equal("json\ttrue\ttrue\nview\ttrue\ttrue\nclient\ttrue\ttrue\nrename\ttrue\ttrue\n"
      .. "task\ttrue\ttrue\nkept\tfalse\tinvalid_argument: the client is closed\n", out)
    os.remove(script)
    os.execute(("rm -f -- '%s'*"):format(at:sub(8)))
  end)

  local function lua(script)
    local build = program.file:match "^(.*)/cli/[^/]*$"
    local sanitizer = [[case $(ldd %s/bindings/mortise.so) in *libasan*) export LD_PRELOAD
      LD_PRELOAD=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so);; esac;]]
    local pipe = io.popen((sanitizer .. [[ LUA_PATH= LUA_CPATH='%s/bindings/?.so' LOCPATH=
      ASAN_OPTIONS=exitcode=99 timeout 60 lua5.4 %s 2>&1]]):format(build, build, script))
    local out = pipe:read "a"
    local _, _, status = pipe:close()
    return status, out
  end

  it("find the state ending where they are older than the module", function()
    local at = store()
    local script = write(at, "X = at_end() mortise = require 'mortise'\n", "")
    local status, out = lua(script)
    assert.equal(0, status, out)
    for line in out:gsub("mortise: warning: [^\n]*\n", ""):gmatch "[^\n]+" do
      assert.matches("^%a+\tfalse\t", line)
      assert.is_truthy(line:find "^kept" or line:find("the Lua state ends", 1, true), line)
    end
    os.remove(script)
    os.execute(("rm -f -- '%s'*"):format(at:sub(8)))
  end)

  it("do not load the module", function()
    local script = program.write([[
      X = setmetatable({}, {__gc = function() print(pcall(require, "mortise")) end})
    ]], ".lua")
    local status, out = lua(script)
    assert.equal(0, status, out)
    assert.matches("^false\t.*mortise cannot be loaded by a finalizer", out)
    os.remove(script)
  end)
end)

describe("a task that has ended", function()
  it("says so where its coroutine was closed or resumed by hand", function()
    for _, spoil in ipairs {coroutine.close, coroutine.resume} do
      local co
      local task = mortise.spawn(function()
        co = coroutine.running()
        return function() end, 2, 3
      end)
      assert.equal(2, select(2, task:join()))
      spoil(co)
      local why = fails("script_error", task.join, task)
      assert.matches("was closed or finished by someone else", why.message, 1, true)
    end
  end)
end)

stores.each("a handle that is closed inside its own call", function(store)
  local namespace, index = stores.name "ns", stores.name "docs"
  local on_server = not store.store:find "^sqlite:"
  local client

  setup(function()
    client = stores.connect(store)
    calls.fill(client, index)
  end)
  teardown(function()
    client:drop_index(index)
    client:close()
  end)

  for _, kind in ipairs(calls.kinds()) do
    for way, n in pairs((on_server or not kind:find "^core") and few or most) do
      it(("by a %s: %s"):format(way, kind), function()
        run {"run", "spec/hostile/close_inside.lua", store.store, namespace, index, kind, way, tostring(n)}
      end)
    end
  end
end)
