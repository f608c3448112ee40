-- `mortise locks`: who holds and who waits for what, for people and for programs.
local cjson = require "cjson"
local core = require "mortise.core"
local mortise = require "mortise"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP locks: MORTISE_BIN is not set"
  return
end

local function wait_for(what, fn)
  for _ = 1, 1500 do
    local found = fn()
    if found then return found end
    mortise.sleep(0.02)
  end
  error("waited in vain for " .. what)
end

stores.each("locks", function(store)
  local namespace, client, other

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace, job = "nightly"})
    other = stores.connect(store, {namespace = namespace, script = "other.lua"})
  end)
  after_each(function()
    client:close()
    other:close()
  end)

  local function run(...)
    return program.run {"--store", store.store, "--namespace", namespace, "locks", ...}
  end

  local function ok(...)
    local status, out, err = run(...)
    assert.equal(0, status, err)
    return out, err
  end

  local function json(...)
    local answer = cjson.decode((ok("--json", ...)))
    local paths = {}
    for i, each in ipairs(answer.holds) do paths[i] = each.path .. " " .. each.mode end
    table.sort(paths, core.before)
    return paths, answer
  end

  it("are shown at, above and below a path", function()
    local held <close> = client:acquire {tree = {"/a/b/c", "/a/x", "/ab"}} -- luacheck: ignore
    local above <close> = other:acquire {tree = "/t", mode = "shared"} -- luacheck: ignore
    assert.same({"/a/b/c X", "/a/x X"}, (json "/a"))
    assert.same({"/a/b/c X"}, (json "/a/b"))
    assert.same({"/a/b/c X"}, (json "/a/b/c"))
    assert.same({"/a/b/c X"}, (json "/a/b/c/d/e"))
    assert.same({}, (json "/a/y"))
    assert.same({"/t S"}, (json "/t/u/v"))
    assert.same({"/a/b/c X", "/a/x X", "/ab X", "/t S"}, (json "/"))
    assert.same({"/a IX", "/a/b IX", "/a/b/c X", "/a/x X"}, (json("/a", "--all")))
    assert.same({"/a/x X"}, (json(namespace .. ":/a/x")))
    assert.same({}, (json "other-ns:/a/x"))
    local out = ok "/a/b"
    assert.truthy(out:find("/a/b/c  X", 1, true), out)
    assert.is_nil(out:find("/a/x", 1, true))
    assert.matches("nothing is held at, above or below /a/y", ok "/a/y")
    assert.equal(2, (run("/a", "/b")))
    assert.equal(2, (run("--who", "/a", "/b")))
    assert.equal(2, (run("no-path")))
  end)

  it("have documented fields as JSON", function()
    local held <close> = client:acquire {tree = "/a"} -- luacheck: ignore
    local _, answer = json "/a"
    assert.same({true, true}, {answer.complete, answer.refreshed})
    assert.equal(1, #answer.holds)
    local hold = answer.holds[1]
    local id = client:session().id
    assert.same({namespace, "/a", "X", false, id, "nightly", "live", false}, {hold.namespace, hold.path,
      hold.mode, hold.waits, hold.session, hold.owner.job, hold.state, hold.dead})
    assert.matches("^" .. id:sub(1, 8) .. "/%d+$", hold.hold)
    for _, name in ipairs {"since", "opened", "last_beat"} do
      assert.matches("^20%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ$", hold[name])
    end
    assert.equal(60000, hold.lease_ms)
    local me = core.json_decode(core.identity())
    assert.same({me.host, me.user, me.pid}, {hold.owner.host, hold.owner.user, hold.owner.pid})
  end)

  it("show no session that was closed, and all that is held", function()
    other:with_tree_lock("/gone", function() end)
    local id = other:session().id
    other:close()
    local held <close> = client:acquire {tree = "/a"} -- luacheck: ignore
    local out = ok "--json"
    assert.is_nil(out:find(id, 1, true))
    assert.truthy(out:find(client:session().id, 1, true))
  end)

  it("say what a waiter wants, not only where it stands in line", function()
    local held = client:acquire {tree = "/a"}
    local task = mortise.spawn(function()
      return other:with_tree_lock({"/a/b/c", "/a/b/d"}, {wait = "60s"}, function() return "in" end)
    end)
    local waiter = wait_for("what it wants", function()
      local _, answer = json "--waiting"
      local first
      for _, each in ipairs(answer.holds) do
        assert.is_true(each.waits)
        if each.namespace == namespace then first = each end
      end
      if first and first.path == "/a/b/c" then return first end
      -- Until the waiter has published its path, the ancestor is shown, marked as such.
      if first then assert.same({"/a", false}, {first.path, first.path_known}) end
    end)
    assert.same({"/a", "X", 1, true}, {waiter.queued_at, waiter.mode, waiter.more, waiter.path_known})
    local out = ok("--waiting", "/a/b/c/deep")
    assert.matches("/a/b/c %(and 1 more%) +X +waits ", out)
    assert.is_nil(out:find(" holds ", 1, true))
    assert.same({}, (json("--waiting", "/z")))
    held:release()
    assert.equal("in", task:join())
  end)

  it("say who is in the way, and what may be done", function()
    local held <close> = client:acquire {tree = "/a b"} -- luacheck: ignore
    local me = core.json_decode(core.identity())
    local out = ok("--who", "/a b/c")
    local _, answer = json "/a b"
    for _, text in ipairs {
      "/a b  X  holds  " .. answer.holds[1].hold, "since", me.user .. "@" .. me.host .. ", pid " .. me.pid,
      "runs", "alive", "wait until it ends", "on " .. me.host .. ": kill " .. me.pid,
      "locks break '/a b' --hold " .. answer.holds[1].hold,
    } do
      assert.truthy(out:find(text, 1, true), text .. " in " .. out)
    end
    assert.matches("nothing is held", ok("--who", "/z"))
  end)

  it("may be one's own only", function()
    local held <close> = client:acquire {tree = "/a"} -- luacheck: ignore
    assert.same({"/a X"}, (json("--mine", "/a")))
    local lines = 0
    for _ in ok("--mine", "/a"):gmatch "\n" do lines = lines + 1 end
    assert.equal(2, lines)
  end)

  it("are as many as asked for, which is said", function()
    local held <close> = client:acquire {tree = {"/l/1", "/l/2", "/l/3"}} -- luacheck: ignore
    local paths, answer = json("/l", "--limit", "2")
    assert.equal(2, #paths)
    assert.is_false(answer.complete)
    local out, err = ok("/l", "--limit", "2")
    assert.matches("the first 2 are shown, there are more", err)
    assert.is_nil(out:find("/l/3", 1, true))
    assert.is_true(select(2, json("/l", "--limit", "3")).complete)
  end)

  it("of the dead stand apart", function()
    local file = program.write [[
      local lock <close> = mortise.acquire {tree = "/dead"}
      os.execute("kill -9 " .. io.open "/proc/self/stat":read "n")]]
    os.execute(("%s --store '%s' --namespace %s run %s >/dev/null 2>&1"):format("env -u LD_PRELOAD "
      .. program.quote(program.file), store.store, namespace, file))
    local held <close> = client:acquire {tree = "/a"} -- luacheck: ignore
    local out = ok "/"
    local apart = out:find("Left by the dead", 1, true)
    assert.truthy(apart, out)
    assert.is_true(out:find("/a  ", 1, true) < apart)
    assert.is_true(out:find("/dead  ", 1, true) > apart)
    local _, answer = json "/dead"
    assert.is_true(answer.holds[1].dead)
    os.remove(file)
    other:with_tree_lock("/dead", function() end)
  end)

  it("are said by commands with what they work on, and never by the code or the arguments", function()
    local words = {"--store", store.store, "--namespace", namespace, "-e", [[
      local lock <close> = mortise.acquire {tree = "/a"}
      local pipe = io.popen(arg[1] .. " locks /a --json") io.write(pipe:read "a") pipe:close()]],
      ("env -u LD_PRELOAD %s --store '%s' --namespace %s"):format(program.quote(program.file), store.store,
        namespace), "secret-word"}
    local status, out, err = program.run(words)
    assert.equal(0, status, err)
    local owner = cjson.decode(out).holds[1].owner
    assert.equal("-e", owner.script)
    assert.is_nil(out:find("secret-word", 1, true))
  end)

  it("are said by a rename with what it renames", function()
    local index = stores.fill(client, {a = {path = "/r/1"}})
    local held = client:acquire {tree = "/r"}
    local command = "(env -u LD_PRELOAD %s --store '%s' --namespace %s rename %s /r /s &) >/dev/null 2>&1"
    os.execute(command:format(program.quote(program.file), store.store, namespace, index))
    wait_for("the rename in line", function()
      local _, answer = json("--waiting", "/r")
      local first = answer.holds[1]
      return first and first.owner.script == ("rename %s /r /s"):format(index)
    end)
    held:release()
    wait_for("its end", function()
      client:refresh(index)
      return client:get(index, "a").path == "/s/1"
    end)
  end)

  it("fail as JSON where JSON was asked for", function()
    local function failed(status, code, ...)
      local found, out, err = program.run {...}
      assert.equal(status, found, err)
      assert.equal(code, cjson.decode(out).error.code)
      assert.matches("mortise: ", err)
    end
    failed(2, "invalid_argument", "--store", store.store, "locks", "--json", "no-path")
    failed(2, "invalid_argument", "--store", store.store, "locks", "--json", "--nonsense")
    failed(2, "invalid_argument", "--store", store.store, "locks", "break", "--json")
    failed(4, "unavailable", "--store", "http://127.0.0.1:1", "--timeout", "3s", "locks", "--json")
    failed(2, "invalid_argument", "--store", "gopher://x", "rename", "i", "/a", "/b", "--json")
    failed(2, "invalid_argument", "config", "--json", "extra")
    failed(3, "not_held", "--store", store.store, "--namespace", namespace, "locks", "break", "/q", "--hold",
      "00000000/1", "--yes", "--json")
    local status, out = program.run {"--store", "gopher://x", "doctor", "--json"}
    assert.equal(1, status)
    assert.is_false(cjson.decode(out).good)
    status, out = program.run {"locks", "--nonsense"}
    assert.equal(2, status)
    assert.equal("", out)
  end)
end)
