-- `mortise run --sandbox`, and --sandbox-change.
local process = require "spec.support.process"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP sandboxes of the program: MORTISE_BIN is not set"
  return
end

local files = {}

local function file_of(text)
  local file = program.write(text, ".lua")
  files[#files + 1] = file
  return file
end

local function remove_files()
  for _, file in ipairs(files) do os.remove(file) end
  files = {}
end

stores.each("the program", function(store)
  local client, index, namespace

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    index = stores.fill(client, {a = {path = "/a/1", n = 1}, b = {path = "/b/1", n = 2}})
  end)

  after_each(function()
    remove_files()
    client:drop_index(index)
    client:close()
  end)

  local function mortise(...) return program.run {"--store", store.store, "--namespace", namespace, ...} end

  it("runs a script with what it is allowed, and no more", function()
    local file = file_of [[
      local index, who = ...
      mortise.with_tree_lock("/a", function(lock)
        local w <close> = lock:bulk(index)
        for doc in lock:scan(index, {query = {term = {n = 1}}}) do doc.by = who w:save(doc) end
      end)
      print(arg[0]:match "[^/]*$" ~= nil, #arg, who)
      mortise.delete(index, "b")]]
    local status, out, err = mortise("run", "--sandbox", "--allow", "read " .. index, "--allow",
      "write " .. index .. " under /a", "--allow", "lock /a", file, index, "gore")
    assert.equal("true\t2\tgore\n", out)
    assert.truthy(err:find("auth: the sandbox may write of " .. index .. " only what is under /a in path, "
      .. "and b is not", 1, true), err)
    assert.not_equal(0, status)
    assert.equal("gore", client:get(index, "a").by)
    assert.truthy(client:get(index, "b"))
    client:acquire {tree = "/a", wait = "5s"}:release()
  end)

  it("ends it in the middle when it is killed, and its locks go with its lease", function()
    local file = file_of [[
      mortise.acquire {tree = "/a"}
      for _ = 1, 3000 do print("begun", 1) end
      while true do pcall(function() while true do end end) end]]
    local running <close> = process.start(store, namespace, 2000,
      {"run", "--sandbox", "--allow", "lock /a", "--time", "0", "--instructions", "1000000000000", file})
    running:said "begun"
    running:kill "KILL"
    running:status()
    client:acquire {tree = "/a", wait = "30s"}:release()
  end)

  it("runs a job's function in one", function()
    local file = file_of [[
      local index, code = ...
      local factor = 10
      local function times(n) return n * factor end
      return {
        id = "theirs", index = index, lock = "/a",
        change = code == "bad" and function() os.execute "true" end or function(doc) doc.n = times(doc.n) end,
      }]]
    local status, _, err = mortise("job", "run", "--sandbox-change", file, index, "bad")
    assert.not_equal(0, status)
    assert.matches("attempt to index a nil value %(global 'os'%)", err)
    assert.equal(0, (mortise("jobs", "rollback", "theirs")))
    assert.equal(1, client:get(index, "a").n)
    local again = file_of((program.read(file):gsub("theirs", "again")))
    status, _, err = mortise("job", "run", "--sandbox-change", again, index)
    assert.equal(0, status, err)
    assert.equal(10, client:get(index, "a").n)
    local list = file_of [[
      return {id = "list", index = ..., lock = "/a", change = {{set = {field = "n", value = 1}}}}]]
    status, _, err = mortise("job", "run", "--sandbox-change", list, index)
    assert.equal(2, status)
    assert.matches("%-%-sandbox%-change: the change of .* is no function", err)
  end)

  it("migrates with a file that is not trusted", function()
    if client:_is_embedded() then return end
    local to, alias = index .. "-2", index .. "-alias"
    client:raw("POST", "/_aliases", {actions = {{add = {index = index, alias = alias}}}})
    local file = file_of [[
      return function(doc)
        if doc.n == 2 then while true do end end
        doc.n = doc.n + 1
      end]]
    local status, out, err = mortise("migrate", index, to, "--alias", alias, "--change", file,
      "--sandbox-change", "--max-rejected", "1")
    assert.equal(0, status, err)
    assert.matches("1 set aside", out)
    client:refresh(to)
    assert.equal(2, client:get(to, "a").n)
    assert.equal(0, (mortise("jobs", "finish", index .. "-to-" .. to)))
    client:drop_index(to)
    local _
    status, _, err = mortise("migrate", index, to, "--alias", "x", "--change", file_of "return io",
      "--sandbox-change")
    assert.not_equal(0, status)
    assert.matches("returns no function of a document", err)
  end)
end)

describe("a script in a sandbox", function()
  after_each(remove_files)

  local function run(code, ...)
    local words = {"run", "--sandbox", ...}
    words[#words + 1] = "-"
    return program.run(words, {
      input = code, typed = true,
      env = {MORTISE_STORE = "sqlite:/nowhere/at/all.db", MORTISE_PASSWORD = "s3cret"},
    })
  end

  it("needs no store for what asks for none", function()
    local status, out, err = run "print(1 + 1)"
    assert.same({0, "2\n", ""}, {status, out, err})
  end)

  it("cannot control the terminal", function()
    local _, out = run [[print("\27[2J\rmortise: done\u{202e}")]]
    assert.equal("\\x1b[2J\\rmortise: done\\u{202e}\n", out)
    local _, _, err = run [[error("\27[2J\rx", 0)]]
    assert.is_nil(err:find "[\27\r]", err)
  end)

  it("is told of budgets with the line, and of errors as any", function()
    local status, _, err = run("\n\nwhile true do end", "--instructions", "100000")
    assert.equal(1, status)
    assert.matches("stdin:3: the sandbox is out of instructions: it may carry out 100000\n$", err)
    status, _, err = run("local t = {} for i = 1, 1e9 do t[i] = {} end", "--memory", "2MB")
    assert.equal(1, status)
    assert.matches("stdin:1: the sandbox is out of memory: it may have 2097152 bytes\n$", err)
    status, _, err = run("\nwhile true do end", "--time", "200ms", "--instructions", "1000000000000")
    assert.equal(1, status)
    assert.matches("stdin:2: the sandbox is out of time: it may take 200 ms\n$", err)
    status, _, err = run "local x = nil\nx()"
    assert.equal(1, status)
    assert.matches("stdin:2: attempt to call a nil value", err)
    status, _, err = run "x = = 1"
    assert.equal(1, status)
    assert.matches("stdin:1: unexpected symbol near '='", err)
  end)

  it("finds no secret", function()
    local _, out, err = run [[
      local seen = {}
      local function walk(value, name)
        if type(value) == "string" and value:find "s3cret" then print("FOUND", name) end
        if type(value) ~= "table" or seen[value] then return end
        seen[value] = true
        for k, v in pairs(value) do walk(k, name) walk(v, name .. "." .. tostring(k)) end
        walk(getmetatable(value), name .. ".meta")
      end
      walk(_G, "_G") walk(getmetatable "", "string")
      print "walked"]]
    assert.same({"walked\n", ""}, {out, err})
  end)

  it("does not shut out an interrupt", function()
    local file = file_of [[
      for _ = 1, 3000 do print('begun', 1) end
      while true do pcall(function() while true do end end) end]]
    local running <close> = process.start(stores.all()[1], stores.name "ns", 10000,
      {"run", "--sandbox", "--time", "0", "--instructions", "1000000000000", file})
    running:said "begun"
    running:kill "TERM"
    assert.equal(130, running:status())
    assert.matches("asked to stop", running:err())
  end)

  it("is refused wrong options", function()
    local status, _, err = program.run {"run", "--allow", "read x", "-"}
    assert.same({2, "mortise: --allow belongs to --sandbox\n"}, {status, err})
    status, _, err = run("", "--allow", "read everything please")
    assert.equal(2, status)
    assert.matches("allow: \"read everything please\" is none of: read INDEX, write INDEX", err)
    status, _, err = run("", "--memory", "1kB")
    assert.equal(2, status)
    assert.matches("%-%-memory 1kB: from 1MB to 1GB", err)
  end)
end)
