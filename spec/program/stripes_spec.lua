-- A lock table whose crowded paths are several documents each: made with `init --stripes`, shown as if they were one.
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
  if not store.store:find "^sqlite:" then return {"--store", store.store, "--table", stores.name "striped"} end
  return {"--store", "sqlite:" .. stores.temporary ".db"}
end

stores.each("stripes", function(store)
  local also

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
    local server = also[3] == "--table"
    return mortise.connect {store = also[2], table = server and also[4] or nil, wait = "5s", lease = "2s"}
  end

  before_each(function() also = fresh_table(store) end)

  after_each(function()
    local client <close> = connect()
    if also[3] == "--table" then
      client:drop_index(also[4] .. "-000001")
      client:drop_index(also[4] .. "-jobs")
    else
      os.execute(("rm -f -- '%s'*"):format(also[2]:match "^sqlite:(.*)"))
    end
  end)

  it("are chosen when the table is made, and never after", function()
    refuses("%-%-stripes 0: 1 to 64, not 0", "init", "--stripes", "0")
    refuses("%-%-stripes 65: 1 to 64, not 65", "init", "--stripes", "65")
    refuses("a whole number", "init", "--stripes", "many")
    assert.matches("4 stripes", ok("init", "--stripes", "4"))
    assert.matches("is there %(epoch %x+, 4 stripes%)", ok("init", "--stripes", "4"))
    assert.matches("4 stripes", ok "init")
    refuses("its stripes are 4 and not 5: their number is chosen", "init", "--stripes", "5")
    refuses("its stripes are 4 and not 1: their number is chosen", "init", "--stripes", "1")
    assert.matches("ok    lock table: verified, epoch %x+, 4 stripes\n", ok "doctor")
  end)

  it("of a table that is used are not changed", function()
    local made = store.store:find "^sqlite:" and "1 stripe%)" or "16 stripes%)"
    assert.matches(made, ok "init")
    do
      local client <close> = connect()
      client:acquire({tree = "/a"}):release()
    end
    refuses("its stripes are %d+ and not 4", "init", "--stripes", "4")
    assert.matches(made, ok "init")
  end)

  it("are for scripts, too", function()
    local client <close> = connect()
    assert.equal(N, client:init({stripes = N}).stripes)
    assert.equal(N, client:verify().stripes)
    local fine, why = pcall(client.init, client, {stripes = 0})
    assert.is_false(fine)
    assert.matches("option `stripes` is 1 to 64, not 0", why.message)
    if store.store:find "^sqlite:" then return end
    assert.matches('"stripes":4', client:init({print = true, stripes = N}).text)
  end)

  it("are shown as one path", function()
    ok("init", "--stripes", "4")
    local client <close> = connect()
    local lock = client:acquire {tree = {"/a", "/b/c"}}
    if not store.store:find "^sqlite:" then client:refresh(also[4]) end
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
    assert.matches("say %-%-yes", told)
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
