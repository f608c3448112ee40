-- What the program prints on standard error while it has to wait.
local process = require "spec.support.process"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP what goes on: MORTISE_BIN is not set"
  return
end

local hold = [[
  local path, seconds = ...
  mortise.with_tree_lock(path, function()
    io.stdout:write("has\t1\n")
    io.stdout:flush()
    mortise.sleep(tonumber(seconds))
  end)]]

local take = "mortise.with_tree_lock(..., function() print 'had' end)"

stores.each("what goes on", function(store)
  local namespace
  before_each(function()
    namespace = stores.name "ns"
    local client <close> = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
  end)

  -- Somebody holds the lock for that long.
  local function held(path, seconds)
    local holder = process.start(store, namespace, 60000, {"-e", hold, path, seconds})
    holder:said "has"
    return holder
  end

  local function run(...)
    return program.run {"--store", store.store, "--namespace", namespace, ...}
  end

  it("is told as lines where one asks for them", function()
    local holder = held("/w", "4")
    local status, out, err = run("--progress", "plain", "-e", take, "/w/below")
    assert.same({0, "had\n"}, {status, out})
    local first, rest = err:match "^([^\n]*)\n(.*)$"
    assert.matches("^mortise: waiting %d s for /w in IX: held in X by %S+ pid " .. holder.pid, first)
    assert.matches("mortise: the wait is over after %d s\n$", rest)
    assert.equal(0, holder:status())
  end)

  it("is not told to a file unasked, nor where it is not wanted", function()
    local holder = held("/w", "60")
    for _, how in ipairs {"auto", "none"} do
      local status, out, err = run("--progress", how, "--wait", "1500ms", "-e", take, "/w")
      assert.same({3, ""}, {status, out})
      assert.not_matches("waiting", err)
    end
    local status, _, err = run("--progress", "loud", "locks")
    assert.equal(2, status)
    assert.matches("%-%-progress loud: one of auto, plain, json, none", err)
    holder:kill "TERM"
  end)

  it("is one line of a terminal, cut to it and taken away", function()
    if not os.execute "command -v expect >/dev/null" then pending "expect is not installed" return end
    local path = "/日本/äöü/" .. ("e\u{301}"):rep(20)
    held(path, "9")
    local pipe = io.popen(("env -u LD_PRELOAD -u MORTISE_PROGRESS LC_ALL=C.UTF-8 TERM=xterm "
      .. "expect spec/support/status.exp 40 %s --store %s --namespace %s -e %s %s"):format(
      program.quote(program.file), store.store, namespace, program.quote(take), program.quote(path)))
    local out = pipe:read "a"
    pipe:close()
    local line, after, status = out:match "^([^\n]*)\n([^\n]*)\n(%d+)\n$"
    assert.is_truthy(line, out)
    assert.matches("^waiting %d s for /日本/äöü/", line)
    local columns = 0
    for _, code in utf8.codes(line) do
      columns = columns + (code == 0x301 and 0 or code > 0x3000 and 2 or 1)
    end
    assert.equal(39, columns)
    assert.same({"had", "0"}, {after, status})
  end)
end)
