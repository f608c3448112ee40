-- A lock table whose crowded paths are several documents each: made with `init --stripes`, shown as if they
-- were one.
local cjson = require "cjson"
local mortise = require "mortise"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP the program: MORTISE_BIN is not set"
  return
end

local run = program.run

local N = 4

local function fresh_table(store)
  local server = not store.store:find "^sqlite:"
  if server then return {"--store", store.store, "--table", stores.name "striped"} end
  return {"--store", "sqlite:" .. stores.temporary ".db"}
end

stores.each("stripes", function(store)
  local also

  local function is_server() return also[3] == "--table" end

  local function with(...)
    return run(table.move({...}, 1, select("#", ...), #also + 1, {table.unpack(also)}))
  end

  local function ok(...)
    local status, out, err = with(...)
    assert.equal(0, status, err)
    return out
  end

  local function refuses(pattern, ...)
    local status, _, err = with(...)
    assert.equal(2, status)
    assert.matches(pattern, err)
  end

  local function connect()
    local own = is_server() and also[4] or nil
    return mortise.connect {store = also[2], table = own, wait = "5s", lease = "2s"}
  end

  before_each(function() also = fresh_table(store) end)

  after_each(function()
    local client <close> = connect()
    if is_server() then
      for number = 1, 3 do pcall(client.drop_index, client, ("%s-%06d"):format(also[4], number)) end
      pcall(client.drop_index, client, also[4] .. "-jobs")
    else
      os.execute(("rm -f -- '%s'*"):format(also[2]:match "^sqlite:(.*)"))
    end
  end)

  local function number_text(n) return ("%d stripe%s%%)\n"):format(n, n == 1 and "" or "s") end

  it("are chosen when the table is made", function()
    refuses("%-%-stripes 0: 1 to 64, not 0", "init", "--stripes", "0")
    refuses("%-%-stripes 65: 1 to 64, not 65", "init", "--stripes", "65")
    refuses("a whole number", "init", "--stripes", "many")
    assert.matches("created %(epoch %x+, 4 stripes%)", ok("init", "--stripes", "4"))
    assert.matches("is there %(epoch %x+, 4 stripes%)", ok("init", "--stripes", "4"))
    assert.matches("is there %(epoch %x+, 4 stripes%)", ok "init")
    assert.matches("ok    lock table: verified, epoch %x+, 4 stripes\n", ok "doctor")
  end)

  it("are 16 where nothing is said, or one of an embedded table", function()
    assert.matches(number_text(is_server() and 16 or 1), ok "init")
  end)

  it("of an embedded table that was used are not changed", function()
    if is_server() then return end
    do
      local client <close> = connect()
      client:acquire({tree = "/a"}):release()
    end
    refuses("its stripes are 1 and not 4: .* before the first lock", "init", "--stripes", "4")
    assert.matches(number_text(1), ok "init")
  end)

  it("of a server's table change while nobody uses it", function()
    if not is_server() then return end
    ok("init", "--stripes", "4")
    local waiting <close> = connect()
    local old = waiting:verify()
    waiting:acquire({tree = "/a/b"}):release()
    local in_use = "its stripes are 4 and not 5, .*only while nobody uses the table: there are "
    refuses(in_use .. "1 locks and sessions", "init", "--stripes", "5") -- its session
    local lock = waiting:acquire {tree = "/a/b"}
    refuses(in_use .. "4 locks and sessions", "init", "--stripes", "5")
    lock:check()
    lock:release()
    pcall(with, "locks", "break", "--session", waiting:session().id, "--yes")
    assert.matches("created %(epoch %x+, 5 stripes%)", ok("init", "--stripes", "5"))
    local new = waiting:verify()
    assert.equal(5, new.stripes)
    assert.not_equal(old.epoch, new.epoch)
    assert.is_false(waiting:describe(also[4] .. "-000001").exists)
    local other <close> = connect()
    local below <close> = waiting:acquire {tree = "/a/b"} -- by the number that it finds now
    assert.equal("lock_timeout", select(2, other:try_lock {tree = "/a", wait = 0}).code)
    below:release()
    other:acquire({global = true}):release()
  end)

  it("change beside a session that was silent for two hours", function()
    if not is_server() then return end
    ok("init", "--stripes", "4")
    local client <close> = connect()
    local function session(minutes)
      local when = (os.time() - minutes * 60) * 1000
      client:index(also[4], "default:@" .. ("0"):rep(32), {
        kind = "session", state = "live", owner = {host = "h"}, lease_ms = 60000, opened = when,
        beat_at = when, waiting = mortise.array {},
      }, {refresh = true})
    end
    session(119)
    refuses("there are 1 locks and sessions", "init", "--stripes", "1")
    assert.matches(number_text(4), ok "init")
    session(121)
    assert.matches(number_text(1), ok("init", "--stripes", "1"))
  end)

  it("change where that was cut off once: nobody gets in, and `init` ends it", function()
    if not is_server() then return end
    ok("init", "--stripes", "4")
    local function block()
      local client <close> = connect()
      assert.equal(200, (client:raw("PUT", "/" .. also[4] .. "-000001/_block/write")))
    end
    block()
    local code, _, told = with("--wait", "1s", "-e", "mortise.with_tree_lock('/a', print)")
    assert.equal(4, code, told)
    assert.matches("takes no writes %(index.blocks.write%): .*`mortise init` ends that", told)
    local status, findings = with("doctor")
    assert.equal(1, status)
    assert.matches("BAD +lock table: .*takes no writes", findings)
    assert.matches("is there %(epoch %x+, 4 stripes%)", ok "init")
    ok("-e", "mortise.with_tree_lock('/a', function() end)")
    block()
    assert.matches("created %(epoch %x+, 7 stripes%)", ok("init", "--stripes", "7"))
    ok("-e", "mortise.with_tree_lock('/a', function() end)")
  end)

  it("are for scripts, too", function()
    local client <close> = connect()
    assert.equal(N, client:init({stripes = N}).stripes)
    assert.equal(N, client:verify().stripes)
    local fine, why = pcall(client.init, client, {stripes = 0})
    assert.is_false(fine)
    assert.matches("option `stripes` is 1 to 64, not 0", why.message)
    if not is_server() then return end
    assert.matches('"stripes":4', client:init({print = true, stripes = N}).text)
  end)

  it("are shown as one path", function()
    ok("init", "--stripes", "4")
    local client <close> = connect()
    local lock = client:acquire {tree = {"/a", "/b/c"}}
    if is_server() then client:refresh(also[4]) end
    for _, words in ipairs {{"locks"}, {"locks", "/a"}, {"locks", "/"}, {"locks", "--who", "/a"}} do
      local out = ok(table.unpack(words))
      local _, n = out:gsub("/a +X +holds", "")
      assert.equal(1, n, out)
    end
    local _, n = ok("locks", "--json"):gsub('"path":"/a"', "")
    assert.equal(1, n)
    local id = client:session().id
    local hold = cjson.decode(ok("locks", "/a", "--json")).holds[1].hold
    local status, _, told = with("locks", "break", "/a", "--hold", hold)
    assert.equal(2, status)
    assert.matches("to do it unasked: mortise .*%-%-yes", told)
    pcall(with, "locks", "break", "--session", id, "--yes") -- ends with an error: it is our own
    assert.is_false(pcall(lock.check, lock))
    local other <close> = connect()
    other:acquire({global = true, wait = "30s"}):release()
  end)

  it("let a global lock exclude everything, and two others go on", function()
    ok("init", "--stripes", "4")
    local first <close> = connect()
    local second <close> = connect()
    local one <close> = first:acquire {tree = "/a/b"}
    local two <close> = second:acquire {tree = "/a/c"}
    local all, why = second:try_lock {global = true, wait = 0}
    assert.is_nil(all)
    assert.equal("lock_timeout", why.code)
    one:release()
    two:release()
    all = second:acquire {global = true}
    assert.is_nil((first:try_lock {tree = "/a/b", wait = 0}))
    all:release()
    first:acquire({tree = "/a/b"}):release()
  end)
end)
