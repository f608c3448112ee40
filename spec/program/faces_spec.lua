-- What tools/faces makes of the descriptions in the code: it is up to date, and of use.
local cjson = require "cjson"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP the faces: MORTISE_BIN is not set"
  return
end

local function is_there(name) return os.execute("command -v " .. name .. " >/dev/null") == true end

local function output_of(command)
  local pipe = io.popen(command .. " 2>&1")
  local text = pipe:read "a"
  return pipe:close() == true, text
end

local read = program.read

describe("what is made of the descriptions", function()
  it("is what tools/faces makes now", function()
    local same, said = output_of(("MORTISE_BIN=%s tools/faces --check"):format(program.quote(program.file)))
    assert.is_true(same, said)
  end)

  it("is valid Lua for the language server, and has all that examples and documents call", function()
    local text = read "share/mortise.lua"
    assert(load(text, "=annotations", "t", {}))
    local known = {}
    for name in text:gmatch "\nfunction module%.([a-z_]+)%(" do known[name] = true end
    for name in text:gmatch "%-%-%-@field ([a-z_]+) any" do known[name] = true end
    local _, files = output_of "ls examples/*.lua docs/*.md README.md"
    local n = 0
    for file in files:gmatch "[^\n]+" do
      for name in read(file):gmatch "[^%w_./]mortise%.([a-z_]+)[ \t]*[({\"']" do
        local mistake = name == "with_tree_lok" -- which is shown to be found
        assert.is_true(known[name] or mistake, file .. ": mortise." .. name)
        n = n + 1
      end
    end
    assert.is_true(n > 50, n)
  end)

  it("lets luacheck find what does not exist", function()
    if not is_there "luacheck" then pending "luacheck is not installed" return end
    local check = "luacheck --no-color --no-cache --config share/mortise.luacheckrc "
    local fine, said = output_of(check .. "examples/rename.lua examples/index_directory.lua "
      .. "examples/how-to/*.lua examples/guide/*.lua")
    assert.is_true(fine, said)
    local file = program.write("mortise.with_tree_lok('/a', print)", ".lua")
    fine, said = output_of(check .. file)
    os.remove(file)
    assert.is_false(fine)
    assert.matches("undefined field .with_tree_lok.", said)
  end)

  it("are pages of the manual", function()
    if not is_there "scdoc" then pending "scdoc is not installed" return end
    for _, page in ipairs {"mortise.1", "mortise-lua.3"} do
      local file = os.tmpname()
      local made, said = output_of(("scdoc <share/%s.scd >%s"):format(page, file))
      assert.is_true(made, said)
      if is_there "man" then
        local _, warnings = output_of(("LC_ALL=C.UTF-8 man --warnings -l %s >/dev/null"):format(file))
        assert.equal("", warnings)
      end
      os.remove(file)
    end
  end)

  -- A folder with the program in it as mortise.
  local function with_program(fn)
    local folder = os.tmpname()
    os.remove(folder)
    os.execute(("mkdir %s && ln -s %s %s/mortise"):format(folder, program.quote(program.file), folder))
    local ok, why = pcall(fn, folder)
    os.execute("rm -r " .. folder)
    assert(ok, why)
  end

  local store = stores.all()[1]
  local function place(namespace)
    return ("env -u LD_PRELOAD HOME=/dev/null/home MORTISE_STORE=%s MORTISE_NAMESPACE=%s"):format(store.store,
      namespace)
  end

  for _, shell in ipairs {"bash", "zsh"} do
    it("completes in " .. shell, function()
      if not is_there "expect" then pending "expect is not installed" return end
      if not is_there(shell) then pending(shell .. " is not installed") return end
      local namespace = stores.name "ns"
      local client <close> = stores.connect(store, {namespace = namespace})
      local lock <close> = client:acquire {tree = "/completed"} -- luacheck: ignore
      with_program(function(folder)
        local _, said = output_of(("%s expect spec/support/shells.exp %s $PWD/share %s"):format(
          place(namespace), shell, folder))
        assert.matches("^passed: ", said)
      end)
    end)
  end

  it("completes in fish", function()
    if not is_there "fish" then pending "fish is not installed" return end
    local namespace = stores.name "ns"
    local client <close> = stores.connect(store, {namespace = namespace})
    local lock <close> = client:acquire {tree = "/completed"} -- luacheck: ignore
    with_program(function(folder)
      for line, wanted in pairs {
        ["mortise sess"] = "sessions", ["mortise sessions sh"] = "show",
        ["mortise locks --waiti"] = "--waiting",
        ["mortise --store x rename --strategy ser"] = "server", ["mortise locks /comp"] = "/completed",
      } do
        local code = ('source share/mortise.fish; complete -C "%s"'):format(line)
        local _, said = output_of(("%s PATH=%s:$PATH fish --no-config -c %s"):format(place(namespace), folder,
          program.quote(code)))
        assert.equal(wanted, said:match "^[^\t\n]*", line .. ": " .. said)
      end
    end)
  end)

  it("and of a run is a recording, whose text README.md shows", function()
    local at, said = 0, {}
    for line in read "docs/first-change.cast":gmatch "[^\n]+" do
      local event = cjson.decode(line)
      if event.version then
        assert.equal(2, event.version)
      else
        assert.is_true(event[1] >= at and event[2] == "o")
        at, said[#said + 1] = event[1], event[3]
      end
    end
    local text = table.concat(said):gsub("\27%[[0-9;?]*[A-Za-z]", ""):gsub("\r\n", "\n")
    local shown = read "README.md":match "\n```text\n(%$ .-)\n```\n"
    local n = 0
    for line in shown:gmatch "[^\n]+" do
      assert.is_truthy(text:find(line, 1, true), line)
      n = n + 1
    end
    assert.is_true(n > 10)
  end)

  it("is help for topics and functions, too", function()
    local _, list = program.run {"help"}
    local n = 0
    for topic in list:match "Topics[^\n]*\n(.-)\n\n":gmatch "\n?  ([a-z]+) [^\n]*" do
      local status, out, err = program.run {"help", topic}
      assert.same({0, ""}, {status, err})
      assert.is_true(#out > 40, topic)
      n = n + 1
    end
    assert.is_true(n >= 6)
    assert.matches("^mortise.scan%(index", (select(2, program.run {"help", "scan"})))
    assert.matches("^usage: mortise locks", (select(2, program.run {"help", "locks"})))
    local status, _, err = program.run {"help", "erors"}
    assert.equal(2, status)
    assert.matches("did you mean `errors`", err)
  end)

  it("has each error that docs/scripts.md has, with its status", function()
    local _, out = program.run {"help", "errors"}
    local n = 0
    for codes, status in read "docs/scripts.md":gmatch "\n| (`[a-z_`, ]+) | (%d+) |" do
      for code in codes:gmatch "`([a-z_]+)`" do
        assert.is_truthy(out:find(("\n  %s (%s) "):format(code, status), 1, true), code)
        n = n + 1
      end
    end
    assert.equal(15, n)
  end)

  it("names what is in a store", function()
    local namespace = stores.name "ns"
    local client <close> = stores.connect(store, {namespace = namespace})
    local lock <close> = client:acquire {tree = {"/named/a", "/named/b", "/other"}} -- luacheck: ignore
    local words = {"--store", store.store, "--namespace", namespace, "names"}
    local function run(...)
      return program.run(table.move({...}, 1, select("#", ...), #words + 1, {table.unpack(words)}))
    end
    assert.same({0, "/named\n/named/a\n/named/b\n", ""}, {run("path", "/named")})
    assert.same({0, client:session().id:sub(1, 8) .. "\n", ""}, {run "session"})
    assert.equal(2, (run "nothing"))
    assert.same({0, "", ""}, {program.run {"--store", "http://127.0.0.1:1", "names", "index"}})
  end)
end)
