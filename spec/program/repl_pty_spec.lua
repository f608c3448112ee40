-- The prompt at a terminal, driven by expect; and without one.
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP the prompt: MORTISE_BIN is not set"
  return
end

local function has_expect()
  return os.execute "command -v expect >/dev/null"
end

stores.each("the prompt", function(store)
  it("works at a terminal", function()
    if not has_expect() then pending "expect is not installed" return end
    local namespace = stores.name "ns"
    stores.connect(store, {namespace = namespace}):close()
    local words = ("%s --store %s --namespace %s"):format(program.quote(program.file),
      program.quote(store.store), namespace)
    local state = stores.temporary ".state"
    local other = words .. " --wait 0 -e 'mortise.acquire {tree = \"/prompt/x\"}'; echo status $?"
    local pipe = io.popen(("env -u LD_PRELOAD TERM=dumb XDG_STATE_HOME=%s OTHER=%s "
      .. "expect spec/support/repl.exp %s repl 2>&1"):format(state, program.quote(other), words))
    local out = pipe:read "a"
    pipe:close()
    assert.matches("^passed: 29", out)
    local history = io.open(state .. "/mortise/history")
    assert.matches("\nfor i = 1, 2 do\\ntotal = %(total or 0%) %+ i\\nend\n", history:read "a")
    history:close()
    os.execute("rm -r " .. state)
    local _, list = program.run {"--store", store.store, "--namespace", namespace, "locks", "/"}
    assert.matches("nothing is held", list)
  end)
end)

stores.each("what the prompt offers", function(store)
  local function script(text)
    local file = os.tmpname()
    local handle = assert(io.open(file, "w"))
    handle:write(text)
    handle:close()
    os.execute("chmod +x " .. file)
    return file
  end

  it("is completion, tables, a pager, an editor, and commands", function()
    if not has_expect() then pending "expect is not installed" return end
    local namespace = stores.name "ns"
    local client <close> = stores.connect(store, {namespace = namespace})
    local index = stores.fill(client, {a = {path = "/a/1"}, b = {path = "/a/2"}})
    client:job({id = "prompt-job", index = index, change = {{set = {field = "x", value = 1}}},
      lock = "/a"}):run()
    local files = {
      EDITOR = script "#!/bin/sh\necho 'answer = 42' >\"$1\"\n",
      PAGER = script "#!/bin/sh\necho PAGER $(wc -l)\n", FILE = script "print 'from the file'\n",
    }
    local words = {"INDEX=" .. index, "TERM=xterm", "NO_COLOR=1"}
    for name, file in pairs(files) do words[#words + 1] = name .. "=" .. file end
    local pipe = io.popen(("env -u LD_PRELOAD -u VISUAL XDG_STATE_HOME=/dev/null/home %s expect "
      .. "spec/support/prompt.exp %s --store %s --namespace %s 2>&1"):format(table.concat(words, " "),
      program.quote(program.file), program.quote(store.store), namespace))
    local out = pipe:read "a"
    pipe:close()
    for _, file in pairs(files) do os.remove(file) end
    assert.matches("^passed: ", out)
  end)
end)

describe("the prompt of a process that was stopped", function()
  it("says that the lease was lost, and goes on", function()
    if not has_expect() then pending "expect is not installed" return end
    local store = stores.all()[1].store
    stores.connect(stores.all()[1]):close()
    local pipe = io.popen(("env -u LD_PRELOAD TERM=dumb XDG_STATE_HOME=/dev/null/home "
      .. "expect spec/support/repl_lost.exp %s --store %s --lease 3s --namespace lost repl 2>&1"):format(
      program.quote(program.file), program.quote(store)))
    local out = pipe:read "a"
    pipe:close()
    assert.equal("passed\n", out)
  end)
end)

describe("the prompt without a terminal", function()
  it("gives back its locks before os.exit", function()
    local store, namespace = stores.all()[1].store, stores.name "ns"
    stores.connect(stores.all()[1]):close()
    local words = {"--store", store, "--namespace", namespace}
    local status = program.run({words[1], words[2], words[3], words[4], "repl"},
      {input = "lock = mortise.acquire {tree = '/exit'}\nos.exit(3)\n"})
    assert.equal(3, status)
    local _, list = program.run {words[1], words[2], words[3], words[4], "locks", "--all", "/"}
    assert.matches("nothing is held", list)
  end)
  it("reads statements and prints results", function()
    local status, out, err = program.run({"repl"}, {input = "1+1\nx = {1,\n2}\nx\n'a\\nb'\nprint 'y'\n"})
    assert.same({0, '2\n{1, 2}\n"a\\nb"\ny\n', ""}, {status, out, err})
  end)
  it("goes on after an error, and says so at its end", function()
    local status, out, err = program.run({"repl"}, {input = "error 'boom'\n3\nx = ="})
    assert.equal(1, status)
    assert.equal("3\n", out)
    assert.matches("boom", err)
    assert.matches("near '='", err)
    assert.equal(1, (program.run({"repl"}, {input = "for i = 1"})))
  end)
end)
