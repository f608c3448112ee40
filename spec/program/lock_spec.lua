-- `mortise lock PATH -- COMMAND`: a program under a lock.
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP mortise lock: MORTISE_BIN is not set"
  return
end

local lease_ms = 6000

-- Leaves a process behind that ignores TERM.
local stubborn = "(trap '' TERM; echo >%s; while :; do sleep 0.05; done) & echo $! >%s; "

stores.each("mortise lock", function(store)
  local namespace, client, folder
  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    folder = os.tmpname()
    os.remove(folder)
    os.execute("mkdir " .. folder)
  end)
  after_each(function()
    client:close()
    os.execute("rm -rf " .. folder)
  end)

  local function mortise(...)
    return program.run {"--store", store.store, "--namespace", namespace, ...}
  end

  local function file(name) return folder .. "/" .. name end

  local function read(name)
    local handle = io.open(file(name))
    local text = handle and handle:read "a"
    if handle then handle:close() end
    return text
  end

  local function wait_for(what, name)
    process.wait_for(what, function() return (read(name) or "") ~= "" end, function() return "" end)
    return (read(name):gsub("%s+$", ""))
  end

  local function is_alive(pid) return os.execute("kill -0 " .. pid .. " 2>/dev/null") == true end

  local function wait_for_end(pid)
    process.wait_for("the end of " .. pid, function() return not is_alive(pid) end, function() return "" end)
  end

  local function is_free()
    local lock = client:try_lock {tree = "/w"}
    if lock then lock:release() end
    return lock ~= nil
  end

  -- Starts it; the lease that `process` gives goes to the program.
  local function start(...)
    return process.start(store, namespace, 60000, {"lock", "--lease", lease_ms .. "ms", ...})
  end

  it("runs it under the lock, and passes on what it says and its status", function()
    local code = [[
      echo "$MORTISE_LOCK_PATHS" "$MORTISE_LOCK_FENCE" "$1" "$(cat "$2")"
      "$3" --store "$MORTISE_LOCK_STORE" --namespace "$MORTISE_LOCK_NAMESPACE" --wait 0 lock /w/below -- true
      echo "inner $?"
      [ "$MORTISE_LOCK_REMAINING_MS" -gt 1000 ] && [ -n "$MORTISE_LOCK_EPOCH" ] || exit 1
      exit 7]]
    local status, out = mortise("lock", "/w", "--fence-file", file "fence", "--", "sh", "-c", code, "sh",
      "--shared", file "fence", program.file)
    assert.equal(7, status)
    local fence, said = out:match "^/w (%d+) %-%-shared (%d+)\ninner 124\n$"
    assert.truthy(fence, out)
    assert.equal(fence, said)
    assert.is_nil(read "fence")
    assert.is_true(is_free())
  end)

  it("may be shared", function()
    local held <close> = client:acquire {tree = "/w", mode = "shared"}
    assert.equal(0, (mortise("lock", "/w", "--shared", "--wait", "0", "--", "true")))
    assert.equal(124, (mortise("lock", "/w", "--wait", "0", "--", "true")))
    held:check()
  end)

  it("has statuses of its own", function()
    local status, out, err = mortise("lock", "/w", "--", file "none")
    assert.same({127, ""}, {status, out})
    says(err, "none: No such file or directory")
    assert.equal(126, (mortise("lock", "/w", "--", folder)))
    assert.equal(143, (mortise("lock", "/w", "--", "sh", "-c", "kill -TERM $$")))
    assert.equal(2, (mortise("lock", "/w")))
    assert.equal(2, (mortise("lock", "--", "true")))
    assert.equal(125, (mortise("lock", "w", "--", "true")))
    assert.equal(125, (mortise("lock", "/w", "--fence-file", file "no/such", "--", "true")))
    assert.equal(125, (program.run {"--store", "http://127.0.0.1:1", "--timeout", "1s", "--wait", "2s",
      "lock", "/w", "--", "true"}))
    assert.is_true(is_free())
  end)

  it("leaves a fence's file that is another's by then", function()
    local code = "echo 1 >" .. file "fence"
    assert.equal(0, (mortise("lock", "/w", "--fence-file", file "fence", "--", "sh", "-c", code)))
    assert.equal("1\n", read "fence")
  end)

  it("passes signals on", function()
    local code = "trap 'echo got >%s; exit 9' TERM; echo $$ >%s; while :; do sleep 0.05; done"
    local running = start("/w", "--", "sh", "-c", code:format(file "got", file "pid"))
    wait_for("it", "pid")
    running:kill "TERM"
    assert.equal(9, running:status())
    assert.equal("got\n", read "got")
    assert.is_true(is_free())
  end)

  it("ends what it leaves behind", function()
    local code = stubborn .. "while [ ! -e %s ]; do sleep 0.01; done"
    code = code:format(file "ready", file "pid", file "ready")
    assert.equal(0, (mortise("lock", "/w", "--", "sh", "-c", code)))
    assert.is_false(is_alive(wait_for("it", "pid")))
    assert.is_true(is_free())
  end)

  it("ends it when the lock is lost, also where it ignores that", function()
    local running = start("/w", "--fence-file", file "fence", "--grace", "300ms", "--", "sh", "-c",
      ("trap '' TERM; echo $$ >%s; while :; do sleep 0.05; done"):format(file "pid"))
    local pid = wait_for("it", "pid")
    local session = select(2, mortise("locks", "/w", "--json")):match '"session":"(%x+)"'
    local status, _, err = mortise("locks", "break", "--session", session, "--yes")
    assert.equal(0, status, err)
    assert.equal(123, running:status())
    says(running:err(), "lock_lost")
    assert.is_false(is_alive(pid))
    assert.is_nil(read "fence")
  end)

  it("ends it when it is killed itself, with all of its group", function()
    local running = start("/w", "--fence-file", file "fence", "--grace", "300ms", "--", "sh", "-c",
      (stubborn .. "wait"):format(file "ready", file "pid"))
    local pid = wait_for("it", "pid")
    process.wait_for("its child", function() return read "ready" ~= nil end, function() return "" end)
    running:kill "KILL"
    running:status()
    wait_for_end(pid)
    process.wait_for("the file's end", function() return read "fence" == nil end, function() return "" end)
  end)

  it("ends it when it was stopped for longer than its lease", function()
    local running = start("--lease", "1500ms", "/w", "--grace", "200ms", "--", "sh", "-c",
      ("echo $$ >%s; while :; do sleep 0.05; done"):format(file "pid"))
    local pid = wait_for("it", "pid")
    running:kill "STOP"
    os.execute "sleep 2"
    running:kill "CONT"
    assert.equal(123, running:status())
    assert.is_false(is_alive(pid))
  end)

  it("gives it the terminal", function()
    local handle = io.open(file "terminal.py", "w")
    handle:write [[
import os, pty, sys, time
pid, fd = pty.fork()
if not pid: os.execv(sys.argv[1], sys.argv[1:])
def until(text):
    said = b""
    while text not in said:
        some = os.read(fd, 1000)
        if not some: break
        said += some
    return said
os.write(fd, b"hello\n")
until(b"hello\r\nhello\r\n")
os.write(fd, b"\x03")
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
]]
    handle:close()
    local pipe = io.popen(("timeout 30 python3 %s %s --store %s --namespace %s lock /w -- cat 2>&1"):format(
      file "terminal.py", program.quote(program.file), program.quote(store.store), namespace))
    local out = pipe:read "a"
    pipe:close()
    assert.equal("130\n", out)
    assert.is_true(is_free())
  end)
end)
