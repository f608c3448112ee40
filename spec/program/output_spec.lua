-- What the program prints of results and of failures, and how it ends when nobody reads it.
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP the program's output: MORTISE_BIN is not set"
  return
end

local run = program.run

describe("mortise -e", function()
  it("prints what the code returns", function()
    assert.same({0, "2\n", ""}, {run {"-e", "return 1 + 1"}})
    assert.same({0, '"a", nil, {b = 1}\n', ""}, {run {"-e", "return 'a', nil, {b = 1}"}})
    assert.same({0, "nil\n", ""}, {run {"-e", "return nil"}})
    assert.same({0, "", ""}, {run {"-e", "return"}})
    assert.same({0, "{n = 1}\n", ""}, {run {"-e", "return mortise.view '{\"n\":1}'"}})
    local file = program.write("return 5", ".lua")
    assert.same({0, "", ""}, {run {file}})
    os.remove(file)
  end)
end)

describe("a failure", function()
  it("of the script itself shows the traceback", function()
    for _, code in ipairs {"local x; x()", "error 'boom'"} do
      local status, _, err = run {"-e", code}
      assert.equal(1, status)
      assert.matches("stack traceback:", err)
    end
  end)

  it("of anything else is one line, with its place; -v has the traceback", function()
    local env = {MORTISE_STORE = "sqlite:" .. stores.temporary ".db"}
    for code, says in pairs {
      ["local n = mortise.count 'none'"] = "not_found: there is no store",
      ["mortise.acquire {tree = 'x'}"] = "invalid_argument: ",
      ["mortise.connect{store = 'http://127.0.0.1:1', timeout = '2s'}:count 'x'"] = "unavailable: ",
    } do
      local file = program.write("\n" .. code .. "\n", ".lua")
      local _, _, err = run({file}, {env = env})
      assert.equal(("mortise: %s:2: %s"):format(file, says), err:sub(1, #file + #says + 13), err)
      assert.equal(1, select(2, err:gsub("\n", "")), err)
      assert.matches("\nstack traceback:", select(3, run({"-v", file}, {env = env})))
      os.remove(file)
    end
  end)

  it("names the script where a tail call has left no line", function()
    local file = program.write("return mortise.acquire {tree = 'x'}", ".lua")
    local status, _, err = run({file}, {env = {MORTISE_STORE = "sqlite:" .. stores.temporary ".db"}})
    assert.equal(2, status)
    assert.truthy(err:find("mortise: " .. file .. ": invalid_argument: ", 1, true), err)
    os.remove(file)
  end)

  it("at the prompt is shown likewise", function()
    local input = {input = "local lock = mortise.acquire {tree = 'x'}\n"}
    local store = "sqlite:" .. stores.temporary ".db"
    local _, _, err = run({"--store", store, "repl"}, input)
    assert.matches("^stdin:1: invalid_argument: [^\n]+\n$", err)
    assert.matches("stack traceback", select(3, run({"-v", "--store", store, "repl"}, input)))
  end)
end)

-- What a shell sees: both statuses, and the output.
local function piped(words, reader, input)
  local quoted = {}
  for i, word in ipairs(words) do quoted[i] = program.quote(word) end
  local command = ("{ %s | env -u LD_PRELOAD %s %s | %s; echo ${PIPESTATUS[1]}; } 2>&1"):format(
    input or "true", program.quote(program.file), table.concat(quoted, " "), reader)
  local pipe = io.popen("bash -c " .. program.quote(command))
  local text = pipe:read "a"
  pipe:close()
  return text
end

stores.each("a closed pipe", function(store)
  it("ends the program as it ends others, without a word, and gives back locks", function()
    local namespace = stores.name "ns"
    local client <close> = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    local also = {"--store", store.store, "--namespace", namespace, "-e"}
    local function ends(code)
      assert.equal("1\n141\n", piped(table.move({code}, 1, 1, #also + 1, {table.unpack(also)}), "head -1"))
    end
    ends "for i = 1, 1e6 do print(i) end"
    ends "while true do io.write '1\\n' end"
    ends "while true do pcall(print, 1) end"
    ends [[mortise.with_tree_lock("/pipe", function() for i = 1, 1e6 do print(i) end end)]]
    assert.same({}, client:list().locks)
  end)
end)

describe("a closed pipe", function()
  it("ends commands and the prompt, too", function()
    assert.equal("141\n", piped({"help"}, "sleep 0.5 <&-", "sleep 0.2"):match "141\n$")
    assert.equal('"1"\n141\n', piped({"repl"}, "head -1", [[yes "'1'"]]))
  end)
  it("of standard error ends nothing", function()
    local file = os.tmpname()
    local code = "for i = 1, 1e5 do io.stderr:write('x\\n') end io.open(arg[1], 'w'):write 'whole'"
    os.execute("bash -c " .. program.quote(("env -u LD_PRELOAD %s -e %s %s 2>&1 >/dev/null | head -1 "
      .. ">/dev/null"):format(program.quote(program.file), program.quote(code), file)))
    local handle = io.open(file)
    assert.equal("whole", handle:read "a")
    handle:close()
    os.remove(file)
  end)
end)

describe("mortise.now", function()
  it("is the time in seconds", function()
    local mortise = require "mortise"
    assert.equal("float", math.type(mortise.now()))
    local good = false
    for _ = 1, 3 do -- the clock may be set while it is looked at
      local before, now = os.time(), mortise.now()
      good = good or now >= before - 1 and now <= os.time() + 1
      mortise.sleep(0.05)
    end
    assert.is_true(good)
  end)
end)

stores.each("a namespace that nobody used", function(store)
  it("is told at the first lock, with those that there are", function()
    local known, new = stores.name "ns", stores.name "ns"
    local client <close> = stores.connect(store, {namespace = known})
    stores.use(store, client)
    local code = "for _ = 1, 2 do mortise.with_tree_lock('/a', function() end) end "
      .. "local c <close> = mortise.connect {} c:acquire {tree = '/b'}"
    local function says(namespace, lua)
      local status, _, err = run {"--store", store.store, "--namespace", namespace, "-e", lua or code}
      assert.equal(0, status, err)
      return err
    end
    local err = says(new)
    assert.equal(('mortise: warning: new namespace "%s"; there are: '):format(new), err:match "^.-: .-: .-: ")
    assert.equal(1, select(2, err:gsub("\n", "")))
    assert.equal("", says(known))
    assert.equal("", says "default")
    if not store.store:find "^sqlite:" then client:refresh "mortise-locks" end
    assert.equal("", says(new))
  end)

  it("is not told where nothing is locked, or nobody else is there", function()
    local name = stores.name "ns"
    assert.equal("", select(3, run {"--store", store.store, "--namespace", name, "locks"}))
    local alone = "sqlite:" .. stores.temporary ".db"
    local lock = "mortise.acquire {tree = '/a'}"
    assert.same({0, "", ""}, {run {"--store", alone, "--namespace", name, "-e", lock}})
  end)
end)
