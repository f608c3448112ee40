-- The program from end to end: what it says and with which status it ends.
local cjson = require "cjson"
local mortise = require "mortise"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP the program: MORTISE_BIN is not set"
  return
end

-- Options are what these are about.
local function run(words, given)
  local also = {typed = true}
  for name, value in pairs(given or {}) do also[name] = value end
  return program.run(words, also)
end

local function decode(text) return cjson.decode(text) end

-- Fails with this status, prints all of these on standard error, and no sign of a bug of mortise.
local function refuses(status, words, given, ...)
  local got, _, err = run(words, given)
  assert.equal(status, got, err)
  for _, text in ipairs {...} do assert.truthy(err:find(text, 1, true), err) end
  assert.not_matches("attempt to [cip]", err)
  assert.not_matches("AddressSanitizer", err)
  return err
end

describe("the command line", function()
  it("helps", function()
    local status, out = run {"help"}
    assert.equal(0, status)
    for _, word in ipairs {
      "run", "repl", "rename", "migrate", "jobs", "up", "init", "locks", "sessions", "watch", "board",
      "doctor", "config",
      "--store URL", "Exit status",
    } do
      assert.truthy(out:find(word, 1, true), word)
    end
    for line in out:gmatch "[^\n]+" do assert.is_true(#line <= 110, line) end
    assert.same({0, out, ""}, {run {"--help"}})
    for _, name in ipairs {
      "run", "repl", "rename", "migrate", "jobs", "up", "init", "locks", "sessions", "watch", "board",
      "doctor", "config", "version",
    } do
      local code, text = run {"help", name}
      assert.equal(0, code)
      assert.matches("usage: mortise", text)
      assert.same({0, text, ""}, {run {name, "--help"}})
    end
    assert.matches("^mortise %d+%.%d+%.%d+ ", select(2, run {"version"}))
    assert.same({run {"version"}}, {run {"--version"}})
  end)

  it("refuses what it does not know, and suggests", function()
    refuses(2, {}, nil, "usage: mortise")
    refuses(2, {"lcoks"}, nil, "unknown command `lcoks`: did you mean `locks`?")
    refuses(2, {"--stroe", "x", "locks"}, nil, "unknown option `--stroe`: did you mean `--store`?")
    refuses(2, {"locks", "--rate", "3"}, nil,
      "unknown option `--rate`: it belongs to `mortise rename`, `mortise migrate`")
    refuses(2, {"locks", "--jsno"}, nil, "did you mean `--json`?")
    refuses(2, {"help", "renam"}, nil, "did you mean `rename`?")
    refuses(2, {"--store"}, nil, "--store needs a value: --store URL")
    refuses(2, {"--wait", "soon", "locks"}, nil, "--wait soon: a number of seconds")
    refuses(2, {"--insecure=1", "locks"}, nil, "--insecure takes no value")
    refuses(2, {"rename", "a", "/b"}, nil, "usage: mortise rename INDEX FROM TO")
    refuses(2, {"locks", "/a", "/b"}, nil, "usage: mortise locks")
    refuses(2, {"locks", "extra"}, nil, "no \"/\" in front", "extra")
  end)

  it("knows a command's options before its name, too", function()
    for _, words in ipairs {{"--json", "locks"}, {"locks", "--json"}, {"--limit", "5", "locks", "--json"}} do
      local status, out = run(words)
      assert.equal(2, status)
      assert.equal("invalid_argument", decode(out).error.code)
    end
    refuses(2, {"--older", "1d", "locks"}, nil, "unknown option `--older`")
    refuses(2, {"--no-such", "locks"}, nil, "unknown option `--no-such`")
    refuses(2, {"rename", "--field", "--dry-run", "i", "/a", "/b"}, nil, "--field needs a value")
    refuses(2, {"locks", "-e", "return 1"}, nil, "unknown option `-e`")
  end)

  -- Where an option stands before the command's name, it must be clear whether it has a value. The global
  -- ones mean the same everywhere; doctor's --verbose only says more of it.
  it("knows no option in two ways", function()
    local cli, with_value = require "mortise.cli", {}
    for _, row in ipairs(cli.global_rows) do
      if row.flag and row.flag ~= "--verbose" then with_value[row.flag] = "global" end
    end
    for _, name in ipairs(cli.commands) do
      local rows = name == "repl" and {} or cli.command(name).options or {} -- repl needs the program
      for _, row in ipairs(rows) do
        local before = with_value[row.flag]
        assert.is_true(before == nil or before == (row.value ~= nil), row.flag)
        with_value[row.flag] = row.value ~= nil
      end
    end
  end)

  it("refuses secrets among its arguments, and does not repeat them", function()
    for _, flag in ipairs {"--password", "--api-key", "--bearer"} do
      local err = refuses(2, {flag .. "=hunter2", "locks"}, nil, flag .. " is not an option", flag .. "-file")
      assert.not_matches("hunter2", err)
    end
  end)

  it("never falls back to a local store", function()
    for _, words in ipairs {{"locks"}, {"init"}, {"rename", "i", "/a", "/b"},
      {"-e", "mortise.acquire{tree = '/a'}"}} do
      refuses(2, words, nil, "no store is named", "--store URL", "MORTISE_STORE=URL",
        "/dev/null/home/.config/mortise/config.lua")
    end
    assert.equal(0, (run {"-e", "return 1"}))
  end)

  it("says what is wrong with a store", function()
    refuses(2, {"--store", "gopher://x", "locks"}, nil, "sqlite:FILE, this is neither")
    refuses(2, {"--store", "http://", "locks"}, nil, "no host")
    refuses(2, {"--store", "http://h:99999", "locks"}, nil, "port")
    refuses(2, {"--store", "http://a b", "locks"}, nil, "space")
    refuses(2, {"--store", "sqlite:", "locks"}, nil, "names no file")
    local err = refuses(2, {"--store", "http://u:hunter2@h:1", "locks"}, nil, "does not belong there")
    assert.not_matches("hunter2", err)
    refuses(4, {"--store", "http://127.0.0.1:1", "--timeout", "3s", "locks"}, nil, "unavailable",
      "127.0.0.1:1")
    refuses(1, {"--store", "sqlite:/nonexistent/folder/x.db", "locks"}, nil, "not_found",
      "/nonexistent/folder")
    local text = program.write("this is no database, but long enough to be looked at as one\n", ".db")
    refuses(4, {"--store", "sqlite:" .. text, "locks"}, nil, text)
    os.remove(text)
  end)
end)

describe("what only reads an embedded store", function()
  it("makes no file where there is none, and names it", function()
    local folder = os.tmpname()
    os.remove(folder)
    os.execute("mkdir " .. folder)
    local file = folder .. "/prdo.db"
    local function files()
      local pipe = io.popen("ls " .. folder)
      local names = pipe:read "a"
      pipe:close()
      return names
    end
    for _, words in ipairs {
      {"locks"}, {"locks", "--json"}, {"-e", "mortise.get('i', '1')"}, {"-e", "mortise.count 'i'"},
      {"-e", "mortise.search('i', {})"}, {"-e", "for _ in mortise.scan 'i' do end"},
    } do
      refuses(1, table.move(words, 1, #words, 3, {"--store", "sqlite:" .. file}), nil, "not_found", file)
      assert.equal("", files())
    end
    local status, out = run {"--store", "sqlite:" .. file, "doctor"}
    assert.equal(1, status)
    assert.matches("BAD   store: not_found: .*prdo%.db.*%-> is this its name", out)
    assert.equal(0, (run {"--store", "sqlite:" .. file, "config"}))
    assert.equal(0, (run {"--store", "sqlite:" .. file, "init", "--print"}))
    assert.equal(0, (run {"--store", "sqlite:" .. file, "-e",
      "assert(not mortise.describe('i').exists)"}))
    assert.equal("", files())
    assert.equal(0, (run {"--store", "sqlite:" .. file, "-e", "mortise.index('i', '1', {a = 1})"}))
    assert.matches("no locks are held", select(2, run {"--store", "sqlite:" .. file, "locks"}))
    assert.matches("ok    lock table: none yet", select(2, run {"--store", "sqlite:" .. file, "doctor"}))
    assert.not_matches("locks", files())
    assert.equal(0, (run {"--store", "sqlite:" .. file, "-e", "mortise.acquire {tree = '/a'}"}))
    assert.matches("prdo%.db%-locks\n", files())
    os.execute("rm -r " .. folder)
  end)
end)

describe("scripts", function()
  it("get their arguments", function()
    local file = program.write("print(#arg, arg[0], ...) print(arg[2])", ".lua")
    assert.same({0, "3\t" .. file .. "\ta\t--store\t-v\n--store\n", ""},
      {run {file, "a", "--", "--store", "-v"}})
    assert.same({run {file, "a"}}, {run {"run", file, "a"}})
    local _, out = run({"run", "-", "x", "y"}, {input = "print(#arg, arg[0], ...) print(arg[2])"})
    assert.equal("2\tstdin\tx\ty\ny\n", out)
    assert.equal("1\t--help\n", select(2, run {"-e", "print(#arg, ...)", "--", "--help"}))
    os.remove(file)
  end)

  -- Each word that looks like an option is one of the program's, before the script's name and after it.
  it("leave all options before -- to the program", function()
    local file = program.write("print(mortise.connect({}):namespace(), ...)", ".lua")
    local name = os.tmpname()
    local store = "sqlite:" .. name
    local expected = {0, "ns7\ta\t-x\n", ""}
    for _, words in ipairs {
      {"--store", store, "--namespace", "ns7", "run", file, "a", "--", "-x"},
      {"run", "--namespace", "ns7", file, "a", "--store=" .. store, "--", "-x"},
      {file, "--namespace=ns7", "a", "--store", store, "--", "-x"},
      {"--namespace=ns7", "--store", store, "--", file, "a", "-x"},
      {"--store", store, "run", "--namespace", "ns7", "--", file, "a", "-x"},
    } do
      assert.same(expected, {run(words)})
    end
    assert.same({run {"run", "--help"}}, {run {file, "--help"}})
    local hint = "what is meant for the script comes after `--`"
    refuses(2, {file, "--foo"}, nil, "unknown option `--foo`", hint)
    refuses(2, {"run", file, "-5"}, nil, "unknown option `-5`", hint)
    refuses(2, {"run", "-", "--stroe", "x"}, nil, "did you mean `--store`?", hint)
    refuses(2, {"-e", "print(...)", "--jsno"}, nil, "unknown option `--jsno`", hint)
    refuses(2, {"-e", "--store", "x"}, nil, "--execute needs a value")
    refuses(2, {"job", "run", file, "--dryrun"}, nil, "did you mean `--dry-run`?", hint)
    os.remove(file)
    os.remove(name)
  end)

  it("may begin with #!, and find modules beside them", function()
    local folder = os.tmpname()
    os.remove(folder)
    os.execute("mkdir " .. folder)
    local function put(name, text)
      local handle = io.open(folder .. "/" .. name, "w")
      handle:write(text)
      handle:close()
    end
    put("beside.lua", "return {word = 'found'}")
    put("script", "#!" .. program.file .. "\nprint(require 'beside'.word, ...)")
    os.execute("chmod +x " .. folder .. "/script")
    assert.equal("found\tx\n", select(2, run {folder .. "/script", "x"}))
    local pipe = io.popen("env -u LD_PRELOAD " .. folder .. "/script y")
    assert.equal("found\ty\n", pipe:read "a")
    pipe:close()
    put("script", "#!" .. program.file .. " --\nprint(...)")
    pipe = io.popen("env -u LD_PRELOAD " .. folder .. "/script --store -h")
    assert.equal("--store\t-h\n", pipe:read "a")
    pipe:close()
    os.execute("rm -r " .. folder)
  end)

  it("that fail say where", function()
    local file = program.write("local x\nlocal function f()\n  x()\nend\nf()", ".lua")
    local status, _, err = run {file}
    assert.equal(1, status)
    assert.truthy(err:find(file .. ":3: attempt to call a nil value", 1, true), err)
    assert.matches("stack traceback:\n%s+.-:3: in .*\n%s+.-:5: in main chunk", err)
    assert.not_matches("mortise/", err)
    os.remove(file)
    file = program.write("x = = 1", ".lua")
    refuses(1, {file}, nil, file .. ":1:", "near '='")
    os.remove(file)
    file = program.write("\nmortise.acquire {tree = 'x'}", ".lua")
    local name = os.tmpname()
    refuses(2, {file}, {env = {MORTISE_STORE = "sqlite:" .. name}}, file .. ":2: invalid_argument")
    os.remove(file)
    os.remove(name)
    refuses(1, {"-e", "error {}"}, nil, "the error is a table value")
    refuses(1, {"-e", "error(setmetatable({}, {__tostring = function() error \"again\" end}))"}, nil,
      "the error is a value whose __tostring fails")
    refuses(1, {"-e", "error()"}, nil, "nil")
    refuses(1, {"-e", "mortise.spawn(error, 'in a task') mortise.sleep(0.01)"}, nil, "in a task")
    refuses(1, {"-e", "local t <close> = setmetatable({}, {__close = function() error 'closing' end})"},
      nil, "closing")
    refuses(1, {"-e", "io.stderr:write(('x'):rep(10)) error(('y'):rep(5000))"}, nil, ("y"):rep(5000))
  end)

  it("that are not there are a mistake of usage", function()
    refuses(2, {"/nonexistent/x.lua"}, nil, "/nonexistent/x.lua", "No such file")
    refuses(2, {"run", "/tmp"}, nil, "/tmp")
    refuses(2, {"run"}, nil, "usage: mortise run FILE")
  end)

  it("run no compiled code", function()
    local file = program.write(string.dump(function() end), ".lua")
    local status, _, err = run {file}
    assert.equal(1, status)
    assert.matches("binary chunk", err)
    os.remove(file)
  end)
end)

describe("the configuration command", function()
  it("says where each value came from", function()
    local file = program.write([[return {store = "http://127.0.0.1:7", lease = "90s"}]], ".lua")
    local env = {MORTISE_PASSWORD = "hunter2", MORTISE_WAIT = "7"}
    local status, out, err = run({"--config", file, "--namespace", "n1", "config"}, {env = env})
    assert.equal(0, status, err)
    assert.not_matches("hunter2", out)
    for _, line in ipairs {
      "store%s+http://127.0.0.1:7%s+" .. file:gsub("%p", "%%%0"), "lease%s+1m 30s",
      "namespace%s+n1%s+%-%-namespace",
      "wait%s+7s%s+MORTISE_WAIT", "password%s+%(set, from MORTISE_PASSWORD%)", "margin%s+1s%s+default",
    } do
      assert.matches(line, out)
    end
    local data = decode(select(2, run({"--config", file, "config", "--json"}, {env = env})))
    assert.equal("http://127.0.0.1:7", data.settings.store.value)
    assert.equal(file, data.file)
    os.remove(file)
    refuses(2, {"--config", "/nonexistent/c.lua", "config"}, nil, "/nonexistent/c.lua")
  end)

  it("refuses what no client could have", function()
    refuses(2, {"--lease", "0", "config"}, nil, "mortise: --lease 0: a time from 1s to 1h, not 0\n")
    refuses(2, {"--lease=2h", "config"}, nil, 'mortise: --lease 2h: a time from 1s to 1h, not "2h"\n')
    refuses(2, {"config", "--timeout", "0"}, nil, "--timeout 0: a time from 1ms to 366d, not 0")
    refuses(2, {"config"}, {env = {MORTISE_LEASE = "0"}}, "MORTISE_LEASE: a time from 1s to 1h, not 0")
  end)
end)

stores.each("commands", function(store)
  local also, namespace
  before_each(function()
    namespace = stores.name "ns"
    also = {"--store", store.store, "--namespace", namespace}
    stores.connect(store):close() -- the table is there
  end)

  local function with(...)
    return table.move({...}, 1, select("#", ...), #also + 1, {table.unpack(also)})
  end

  local function ok(...)
    local status, out, err = run(with(...))
    assert.equal(0, status, err)
    return out, err
  end

  it("set up and look at a store", function()
    assert.matches("the lock table is there", ok "init")
    assert.matches("least role", ok("init", "--print"):lower() .. "least role")
    assert.matches("nothing is held", ok("locks", "/"))
    local out = ok "doctor"
    assert.matches("ok    lock table", out)
    assert.matches("ok    rights", out)
    assert.is_true(decode(ok("doctor", "--json")).good)
  end)

  it("remove the documents of sessions that ended long ago", function()
    if store.store:find "^sqlite:" then return end
    local client <close> = stores.connect(store)
    local own = stores.name "purged" -- whoever works in a table removes them, of all namespaces
    also = {"--store", store.store, "--table", own}
    ok "init"
    local function put(state, days)
      local id = ("%s:@%032x"):format(namespace, days * 16 + #state)
      local when = (os.time() - days * 86400) * 1000
      client:index(own, id, {
        kind = "session", state = state, owner = {host = "h"}, lease_ms = 60000, opened = when,
        beat_at = when, waiting = mortise.array {},
      }, {refresh = true})
      return id
    end
    local gone = {put("closed", 8), put("expired", 30)}
    local kept = {put("closed", 6), put("live", 9), put("broken", 10)}
    assert.matches("2 that ended more than a week ago were removed", ok "doctor")
    for _, id in ipairs(gone) do assert.is_nil(client:get(own, id)) end
    for _, id in ipairs(kept) do assert.truthy(client:get(own, id), id) end
    client:drop_index(own .. "-000001")
    client:drop_index(own .. "-jobs")
  end)

  it("list who holds what, and keep others out", function()
    local script = ([[
      mortise.with_tree_lock("/held", function() io.stdout:flush() os.execute(arg[1]) end)]])
    local base = program.quote(program.file)
    for _, word in ipairs(also) do base = base .. " " .. program.quote(word) end
    local out = ok("-e", script, base .. " locks; " .. base .. " locks --json; " .. base
      .. [[ --wait 0 -e 'mortise.with_tree_lock("/held/x", print)' 2>&1; echo status $?]])
    assert.matches("/held%s+X%s+holds%s+%x+/%d+%s+[%d.]+m?s%s+%-e, .-pid %d+%s+alive", out)
    assert.matches('"path":"/held"', out)
    assert.matches("lock_timeout: .*/held", out)
    assert.matches("status 3", out)
    assert.matches("nothing is held", ok("locks", "/"))
  end)

  it("free at once what a killed process held", function()
    local status = run(with("-e", "mortise.acquire {tree = '/k'} local f = io.open('/proc/self/stat') "
      .. "os.execute('kill -9 ' .. f:read 'n')"), {seconds = 20})
    assert.equal(137, status)
    assert.matches("Left by the dead.-/k .-its process is gone", ok "locks")
    assert.equal("taken\n",
      (ok("--wait", "5s", "-e", "mortise.with_tree_lock('/k', function() print 'taken' end)")))
  end)

  it("give back locks at os.exit", function()
    assert.equal(5, (run(with("-e", "mortise.acquire {tree = '/x'} os.exit(5)"))))
    assert.matches("nothing is held", ok("locks", "/"))
  end)

  it("rename --ids", function()
    local client = stores.connect(store)
    local index = stores.fill(client,
      {["/old"] = {path = "/old"}, ["/old/a"] = {path = "/old/a"}, b = {path = "/old/b"}})
    local out = ok("rename", "--ids", "--dry-run", index, "/old", "/new")
    assert.truthy(out:find("//old/a\n+ _id: /new/a\n", 1, true), out)
    local result = decode(ok("rename", "--ids", "--json", index, "/old", "/new"))
    assert.same({3, "done"}, {result.changed, result.state})
    assert.equal("/new/a", client:get(index, "/new/a").path)
    assert.equal("/new/b", client:get(index, "b").path)
    assert.is_nil(client:get(index, "/old"))
    assert.matches("is undone: 3 documents changed", ok("jobs", "rollback", result.job))
    assert.equal("/old", client:get(index, "/old").path)
    assert.is_nil(client:get(index, "/new/a"))
    local status, _, err = run(with("rename", "--ids", "--strategy=server", index, "/old", "/new"))
    assert.equal(1, status)
    assert.matches("unsupported: .*documents get other ids", err)
    client:drop_index(index)
    client:close()
  end)

  it("shows a path that ends with a blank in quotes", function()
    local client = stores.connect(store, {namespace = namespace})
    local index = stores.fill(client, {a = {path = "/p /a"}, b = {path = "/q "}})
    local lock <close> = client:acquire {tree = "/p/q "}
    assert.matches('lock on "/p/q " %(held', tostring(lock))
    for _, words in ipairs {{"locks"}, {"locks", "/p/q "}, {"locks", "--who", "/p/q "}} do
      assert.matches('"/p/q " +X', ok(table.unpack(words)))
    end
    assert.matches('nothing is held at, above or below "/n "', ok("locks", "/n "))
    local status, _, err = run(with("-e", 'mortise.acquire {tree = "/p/q ", wait = 0}'))
    assert.equal(3, status)
    assert.matches('"/p/q " wanted in X is held in X by .*\n  "/p/q ": held in X', err)
    assert.matches(': "/p " becomes /r: 1 of 1 .*it would lock / IX, "/p " X, /r X',
      ok("rename", index, "/p ", "/r", "--dry-run"))
    assert.matches('1 document lies below "/q " already', select(3, run(with("rename", index, "/p ", "/q "))))
    assert.matches('no documents below "/s "', select(3, run(with("rename", index, "/s ", "/t"))))
    assert.matches(': "/p " is now "/r ": 1 documents', ok("rename", index, "/p ", "/r "))
    assert.matches('"/p " "/r "', ok "jobs")
    client:drop_index(index)
    client:close()
  end)

  it("rename", function()
    local client = stores.connect(store)
    local index = stores.fill(client, {a = {path = "/o/l/d"}, b = {path = "/old"}})
    assert.matches("1 documents changed", ok("rename", index, "/old", "/new"))
    local status, out, err = run(with("rename", index, "/nosuch", "/x"))
    assert.same({1, ""}, {status, out})
    assert.matches("not_found: there are no documents below /nosuch", err)
    assert.matches("0 documents changed", ok("rename", "--allow-empty", index, "/nosuch", "/x"))
    status, out, err = run(with("rename", index, "/o", "/new"))
    assert.same({1, ""}, {status, out})
    assert.matches("conflict: 1 document lies below /new already; %-%-merge is needed", err)
    assert.is_truthy(err:find("rename " .. index .. " /o /new --merge\n", 1, true), err)
    status, out, err = run(with("rename", index, "/o", "/new", "--dry-run"))
    assert.same({1, ""}, {status, out})
    assert.matches("conflict: 1 document lies below /new already; %-%-merge is needed to join them\n", err)
    assert.matches("1 documents changed in .*, beside 1 that lay there",
      ok("rename", "--merge", index, "/o", "/new"))
    assert.matches("2 documents changed", ok("rename", index, "/new", "/o"))
    client:index(index, "c", {path = "/o/\27[31m\n", deep = {a = 1.0, b = {1, 2}}})
    client:refresh(index)
    status, out, err = run(with("rename", "--dry-run", index, "/o", "/q"))
    assert.same({0, ""}, {status, err})
    assert.matches("^%S+: /o becomes /q: 3 of 3 documents that match would change %(%d+ bytes%), in about %S+"
      .. "\nit would lock / IX, /o X, /q X\n", out)
    local difference = '/c\n- path: "/o/\\u001b[31m\\n"\n+ path: "/q/\\u001b[31m\\n"\n'
    assert.truthy(out:find(difference, 1, true), out)
    assert.truthy(out:find("nothing was changed\n", 1, true))
    assert.equal("/o/l/d", client:get(index, "a").path)
    assert.equal(3, decode(ok("rename", "--dry-run", "--json", index, "/o", "/q")).changed)
    client:delete(index, "c")
    client:refresh(index)
    local result = decode(ok("rename", "--json", index, "/o", "/n"))
    assert.same({2, 0, "done"}, {result.changed, result.beside, result.state})
    assert.matches("is undone: 2 documents changed", ok("jobs", "rollback", result.job))
    assert.equal("/o", client:get(index, "b").path)
    assert.matches("2 documents changed", ok("rename", index, "/o", "/n"))
    assert.equal("/n", client:get(index, "b").path)
    status, out, err = run(with("rename", index, "/n", "/n/m"))
    assert.equal(2, status)
    assert.matches("/n", err)
    assert.equal("", out)
    status, out, err = run(with("rename", index .. "-not", "/n", "/m"))
    assert.same({1, ""}, {status, out})
    assert.matches("not_found", err)
    client:drop_index(index)
    client:close()
  end)

  it("end by an interrupt, and give back what they hold", function()
    local file = program.write("mortise.with_tree_lock('/i', function() mortise.sleep(60) end)", ".lua")
    local words = ""
    for _, word in ipairs(with(file)) do words = words .. " " .. program.quote(word) end
    local command = "env -u LD_PRELOAD %s %s 2>&1 & sleep 1.5; kill -INT $!; wait $!; echo status $?"
    local pipe = io.popen(command:format(program.quote(program.file), words))
    local out = pipe:read "a"
    pipe:close()
    assert.matches("interrupted", out)
    assert.matches("status 130", out)
    assert.matches("nothing is held", ok("locks", "/"))
    os.remove(file)
  end)

  it("say so where the output cannot be written", function()
    local all = {"locks --json", "locks", "config", "--version", "-e 'print(1)'", "-e 'return 1'"}
    for _, words in ipairs(all) do
      local command = "env -u LD_PRELOAD %s --store %s %s 2>&1 >/dev/full; echo status $?"
      local pipe = io.popen(command:format(program.quote(program.file), store.store, words))
      local said = pipe:read "a"
      pipe:close()
      assert.matches("could not be written", said, 1, true)
      assert.matches("status 1\n", said, 1, true)
    end
  end)

  it("name what is missing", function()
    if store.store:find "^http" then
      local status, _, err = run {"--store", store.store, "--table", "luaspec-no-such-table", "locks"}
      assert.not_equal(0, status)
      assert.matches("mortise init", err)
      local code, out = run {"--store", store.store, "--table", "luaspec-no-such-table", "doctor"}
      assert.equal(1, code)
      assert.matches("BAD   lock table: .*%-> run `mortise init`", out)
    end
    local code, out = run {"--store", "http://127.0.0.1:1", "doctor"}
    assert.equal(1, code)
    assert.matches("BAD   store: unavailable", out)
  end)
end)
