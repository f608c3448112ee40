-- Breaking a lock by hand: who is told, who waits, and for how long.
local cjson = require "cjson"
local core = require "mortise.core"
local mortise = require "mortise"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP breaking: MORTISE_BIN is not set"
  return
end

local lease_ms = 2000

-- Holds; says so, when it lost it, and stays.
local owner = [[
local core = require "mortise.core"
local lock = mortise.acquire {tree = arg[1]}
print("held", core.now_ms()) io.stdout:flush()
local ok, why = pcall(function()
  while true do mortise.sleep(0.02) lock:check() end
end)
print(why.code, core.now_ms()) io.stdout:flush()
if arg[2] == "stay" then mortise.sleep(20) end
error(why, 0)
]]

-- Says when it got in.
local waiter = [[
local core = require "mortise.core"
mortise.with_tree_lock(arg[1], {wait = "30s"}, function() print("in", core.now_ms()) end)
]]

local function read(file)
  local handle = io.open(file, "rb")
  if not handle then return "" end
  local text = handle:read "a"
  handle:close()
  return text
end

local function wait_for(what, fn)
  for _ = 1, 1500 do
    local found = fn()
    if found then return found end
    mortise.sleep(0.02)
  end
  error("waited in vain for " .. what)
end

local Process = {}
Process.__index = Process

-- The program in the background.
local function start(store, namespace, words)
  local files = {}
  for _, name in ipairs {"out", "err", "pid", "status"} do files[name] = os.tmpname() end
  local quoted = {}
  for i, word in ipairs(words) do quoted[i] = program.quote(word) end
  local command = ([[
    (env -u LD_PRELOAD %s --store %s --namespace %s --lease %dms %s >%s 2>%s </dev/null & echo $! >%s
     wait $!; echo $? >%s) >/dev/null 2>&1 &]]):format(program.quote(program.file),
    program.quote(store.store), namespace, lease_ms, table.concat(quoted, " "), files.out, files.err,
    files.pid, files.status)
  os.execute(command)
  local self = setmetatable({files = files}, Process)
  self.pid = wait_for("a process", function() return read(files.pid):match "%d+" end)
  return self
end

function Process:kill(signal) os.execute(("kill -%s %s 2>/dev/null"):format(signal, self.pid)) end
function Process:out() return read(self.files.out) end
function Process:err() return read(self.files.err) end

-- The time that it said beside this word.
function Process:said(word)
  return wait_for(word, function()
    return math.tointeger(tonumber(self:out():match(word .. "\t(%d+)\n")))
  end)
end

function Process:status()
  return wait_for("the end of a process", function()
    return math.tointeger(tonumber(read(self.files.status):match "%d+"))
  end)
end

function Process:__close()
  self:kill "CONT"
  self:kill "KILL"
  self:status()
  for _, file in pairs(self.files) do os.remove(file) end
end

stores.each("breaking a lock", function(store)
  local namespace, client, owner_file, waiter_file

  setup(function()
    owner_file, waiter_file = program.write(owner, ".lua"), program.write(waiter, ".lua")
  end)
  teardown(function()
    os.remove(owner_file)
    os.remove(waiter_file)
  end)
  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
  end)
  after_each(function()
    client:with_tree_lock("/a", function() end) -- what the killed left
    client:close()
  end)

  local function hold(path, how)
    local process = start(store, namespace, {owner_file, path, how})
    process:said "held"
    return process
  end

  -- As the list shows it: "3f9a12cd/7".
  local function shown(path)
    for _, lock in ipairs(client:list().locks) do
      if lock.path == path then
        return lock.holders[1].session:sub(1, 8) .. "/" .. lock.holders[1].n
      end
    end
  end

  local function locks(...)
    return start(store, namespace, {"locks", ...})
  end

  local function run(...)
    local words = {"--store", store.store, "--namespace", namespace, "--lease", lease_ms .. "ms", "locks"}
    for _, word in ipairs {...} do words[#words + 1] = word end
    return program.run(words)
  end

  it("tells its owner, and lets others in only after the lease", function()
    local holder <close> = hold("/a", "stay")
    local _, listed = run()
    assert.truthy(listed:find(shown "/a", 1, true), listed)
    local next_one <close> = start(store, namespace, {waiter_file, "/a"})
    mortise.sleep(0.3)
    local breaker <close> = locks("break", "/a", "--hold", shown "/a", "--yes")
    local lost = holder:said "lock_lost"
    local entered = next_one:said "in"
    assert.equal(0, breaker:status(), breaker:err())
    assert.is_true(lost < entered)
    -- A beat is a sixth of the lease; the mark came before it was refused.
    assert.is_true(entered - lost >= lease_ms - lease_ms // 6 - 100, ("%d"):format(entered - lost))
    assert.equal(0, next_one:status())
    assert.matches("owner_?.*pid " .. holder.pid, "owner " .. breaker:err())
    assert.matches("/a  X", breaker:err())
    assert.matches("is over", breaker:out())
    assert.same({}, client:list().locks)
  end)

  it("ends the owner with status 5", function()
    local holder <close> = hold "/a"
    local breaker <close> = locks("break", "/a", "--hold", shown "/a", "--yes")
    assert.equal(5, holder:status())
    assert.equal(0, breaker:status(), breaker:err())
    assert.same({}, client:list().locks)
  end)

  it("waits for an owner that was stopped, who finds its locks lost", function()
    local holder <close> = hold "/a"
    holder:kill "STOP"
    local began = core.now_ms()
    local breaker <close> = locks("break", "/a", "--hold", shown "/a", "--yes", "--json")
    assert.equal(0, breaker:status(), breaker:err())
    assert.is_true(core.now_ms() - began >= lease_ms)
    local answer = cjson.decode(breaker:out())
    assert.same({"/a", true}, {answer.holds[1].path, answer.waited})
    assert.same({}, client:list().locks)
    holder:kill "CONT"
    assert.equal(5, holder:status())
  end)

  it("refuses what is not as it was shown", function()
    local holder <close> = hold("/a", "stay")
    local hold_text = shown "/a"
    local other = hold_text:gsub("%d+$", function(n) return tostring(tonumber(n) + 1) end)
    for _, wrong in ipairs {other, "00000000/" .. hold_text:match "%d+$"} do
      local status, _, err = run("break", "/a", "--hold", wrong, "--yes")
      assert.equal(3, status, err)
      assert.matches("nothing was done", err)
      assert.truthy(err:find(hold_text, 1, true), err)
      assert.matches("pid " .. holder.pid, err)
    end
    local status, _, err = run("break", "/b", "--hold", hold_text, "--yes")
    assert.equal(3, status)
    assert.matches("nobody holds it now", err)
    assert.equal(2, (run("break", "/a", "--hold", hold_text))) -- nobody can be asked
    assert.equal(2, (run("break", "/a", "--yes")))
    assert.equal(2, (run("break", "--session", "abc", "--yes")))
    assert.equal(2, (run("--yes")))
    assert.equal(shown "/a", hold_text)
    assert.is_nil(holder:out():match "lock_lost")
  end)

  it("goes on where it was killed, and has nothing to do after that", function()
    local holder <close> = hold "/a"
    holder:kill "STOP"
    local hold_text = shown "/a"
    local first <close> = locks("break", "/a", "--hold", hold_text, "--yes")
    wait_for("the mark", function() return first:err():match "to wait" end)
    first:kill "KILL"
    first:status()
    local _, listed = run()
    assert.matches("marked as broken", listed)
    local second <close> = locks("break", "/a", "--hold", hold_text, "--yes")
    wait_for("the mark", function() return second:err():match "to wait" end)
    second:kill "INT"
    assert.equal(130, second:status())
    assert.matches("the same command goes on from here", second:err())
    local third <close> = locks("break", "--session", hold_text:match "^%x+", "--yes")
    assert.equal(0, third:status(), third:err())
    assert.same({}, client:list().locks)
    assert.equal(3, (run("break", "/a", "--hold", hold_text, "--yes")))
    assert.equal(3, (run("break", "--session", hold_text:match "^%x+", "--yes")))
    holder:kill "CONT"
    assert.equal(5, holder:status())
  end)

  it("need not wait where the owner is gone", function()
    local holder <close> = hold "/a"
    holder:kill "KILL"
    holder:status()
    local began = core.now_ms()
    local status, _, err = run("break", "/a", "--hold", shown "/a", "--yes")
    assert.equal(0, status, err)
    assert.matches("others get in at once", err)
    assert.is_true(core.now_ms() - began < lease_ms)
    assert.same({}, client:list().locks)
  end)
end)
