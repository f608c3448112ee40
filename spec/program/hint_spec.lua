-- Commands that the program tells people reach the same store and namespace when they are typed as they are
-- printed.
local mortise = require "mortise"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP the program: MORTISE_BIN is not set"
  return
end

stores.each("a command in advice", function(store)
  local client, namespace, index

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    index = stores.fill(client, {a = {path = "/a/1", n = "1"}, b = {path = "/a/2", n = "2"}})
  end)
  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  -- Types the program's words, with the options that say where. -> status, all that it said
  local function typed(...)
    local status, out, err = program.run({"--store", store.store, "--namespace", namespace, ...},
      {typed = true})
    return status, out .. err
  end

  -- Types a line as it was printed. -> did it go well, all that it said
  local function type_line(line)
    local file = os.tmpname()
    local ok = os.execute(("env -u LD_PRELOAD HOME=/dev/null/home sh -c %s >%s 2>&1"):format(
      program.quote(line:gsub("^mortise", (program.quote(program.file):gsub("%%", "%%%%")), 1)), file))
    local handle = io.open(file)
    local text = handle:read "a"
    handle:close()
    os.remove(file)
    return ok == true, text
  end

  -- The command in the text that has these words.
  local function find(text, words)
    local line = text:match("(mortise [^\n`]-" .. words:gsub("%-", "%%-") .. "[%w.%-]*)")
    assert.is_truthy(line, text)
    assert.is_truthy(line:find("--namespace " .. namespace, 1, true), line)
    return line
  end

  it("of a rename undoes it", function()
    local status, text = typed("rename", index, "/a", "/b", "--yes")
    assert.equal(0, status, text)
    assert.equal("/b/1", client:get(index, "a").path)
    local ok, said = type_line(find(text, "jobs rollback "))
    assert.is_true(ok, said)
    assert.equal("/a/1", client:get(index, "a").path)
  end)

  -- One that stands, whose document is named "bad".
  local function fail()
    client:index(index, "bad", {path = "/a/bad", n = "x"})
    client:refresh(index)
    local script = program.write(([[
      return mortise.job {id = "stands", index = %q, lock = "/a", change = {{cast = {field = "n",
        to = "integer"}}},
        max_rejected = 0}]]):format(index), ".lua")
    local status, text = typed("job", "run", script)
    os.remove(script)
    assert.equal(1, status, text)
    return text
  end

  it("of a job that stands shows it, from wherever it is told", function()
    local texts = {fail()}
    local function add(...) texts[#texts + 1] = select(2, typed(...)) end
    add("jobs", "show", "stands")
    add "jobs"
    add "doctor"
    add("locks", "--who", "/a")
    add("rename", index, "/a", "/b", "--yes")
    for i, text in ipairs(texts) do
      local words = i == 2 and "jobs rollback stands" or i == 1 and "jobs accept stands" or "jobs show stands"
      local line = find(text, words)
      if i > 2 then
        local ok, said = type_line(line)
        assert.is_true(ok and said:find "^stands\n" ~= nil, said)
      end
    end
    local ok, said = type_line(find(texts[2], "jobs rollback stands"))
    assert.is_true(ok, said)
    assert.equal("undone", client:get_job("stands"):status().state)
  end)

  it("of a script's own client names its namespace", function()
    local own = stores.name "ns"
    local script = program.write(([[
      local c = mortise.connect {store = os.getenv "MORTISE_STORE", namespace = %q}
      c:init()
      c:index(%q, "bad", {path = "/a/bad", n = "x"}, {refresh = true})
      c:job {id = "mine", index = %q, lock = "/a", max_rejected = 0, change = {{cast = {field = "n",
        to = "integer"}}}}:run()
    ]]):format(own, index, index), ".lua")
    local status, _, err = program.run({"run", script, "--store", store.store, "--namespace", namespace})
    os.remove(script)
    assert.is_true(status ~= 0, err)
    assert.matches("--namespace " .. own .. " jobs resume mine", err, 1, true)
    local other = mortise.connect {store = store.store, namespace = own}
    other:get_job("mine"):rollback()
    other:close()
  end)

  it("repeats no password", function()
    local hint = require "mortise.hint"
    local config = require "mortise.config"
    local before = config.command_line
    config.command_line = {store = "https://me:secret@localhost:9", user = "me"}
    local line = hint.mortise()
    config.command_line = before
    assert.is_nil(line:find "secret")
    assert.matches("--store https://", line, 1, true)
  end)
end)
