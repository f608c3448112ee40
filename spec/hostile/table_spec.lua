-- Foreign data in the lock table: each entry is one marked row of the list, blocks everybody for ever, and
-- goes only when a person breaks it.
local mortise = require "mortise"
local program = require "spec.support.program"
local stores = require "spec.support.stores"
local tables = require "spec.support.tables"

local sid = tables.other

local function hold(more)
  local members = {session = ('"%s"'):format(sid), n = "1", mode = '"X"', since = "1700000000000"}
  for name, value in pairs(more) do members[name] = value end
  local parts = {}
  for name, value in pairs(members) do
    if value then parts[#parts + 1] = ('"%s":%s'):format(name, value) end
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local entries_of_servers = {
  ["holders a string"] = {'"x"'}, ["holders null"] = {"null"}, ["holders an object"] = {'{"a":1}'},
  ["holders of numbers"] = {"[1]"}, ["holders of lists"] = {"[[]]"}, ["holders of null"] = {"[null]"},
  ["session missing"] = {"[" .. hold {session = false} .. "]"},
  ["session null"] = {"[" .. hold {session = "null"} .. "]"},
  ["session short"] = {"[" .. hold {session = '"X!"'} .. "]"},
  ["session long"] = {"[" .. hold {session = '"' .. ("ab"):rep(500) .. '"'} .. "]"},
  ["session in capitals"] = {"[" .. hold {session = '"' .. ("AB"):rep(16) .. '"'} .. "]"},
  ["n a fraction"] = {"[" .. hold {n = "1.5"} .. "]"}, ["n a string"] = {"[" .. hold {n = '"1"'} .. "]"},
  ["n negative"] = {"[" .. hold {n = "-1"} .. "]"},
  ["n huge"] = {"[" .. hold {n = "9223372036854775808"} .. "]"},
  ["mode a number"] = {"[" .. hold {mode = "1"} .. "]"},
  ["mode unknown"] = {"[" .. hold {mode = '"Y"'} .. "]"},
  ["since a string"] = {"[" .. hold {since = '"now"'} .. "]"},
  ["job a list"] = {"[" .. hold {job = "[]"} .. "]"},
  ["queue a string"] = {"[]", '"x"'}, ["queue of numbers"] = {"[]", "[7]"},
  ["until missing"] = {"[]", "[" .. hold {since = false} .. "]"},
  ["until a string"] = {"[]", "[" .. hold {since = false, ["until"] = '"later"'} .. "]"},
}

local entries_of_files = {
  ["session short"] = {{{session = "'X!'"}}}, ["session long"] = {{{session = ("'%s'"):format(sid .. sid)}}},
  ["session a blob"] = {{{session = "x'6162ff'"}}},
  ["session with a zero"] = {{{session = "'ab' || char(0) || 'cd'"}}},
  ["n negative"] = {{{n = -1}}}, ["n a text"] = {{{n = "'x'"}}}, ["n a fraction"] = {{{n = 1.5}}},
  ["mode -1"] = {{{mode = -1}}}, ["mode 0"] = {{{mode = 0}}}, ["mode 6"] = {{{mode = 6}}},
  ["mode huge"] = {{{mode = "9223372036854775807"}}}, ["mode a text"] = {{{mode = "'S'"}}},
  ["since a text"] = {{{since = "'x'"}}}, ["since negative"] = {{{since = -5}}},
  ["job a blob"] = {{{job = "x'00ff'"}}},
  ["waiting in no mode"] = {nil, {{mode = 77}}}, ["waiting until a text"] = {nil, {{["until"] = "'x'"}}},
}

local sessions_of_servers = {
  ["owner a string"] = {owner = '"x"'}, ["lease 2^63-1"] = {lease_ms = "9223372036854775807"},
  ["lease -2^63"] = {lease_ms = "-9223372036854775808"}, ["lease 0"] = {lease_ms = "0"},
  ["lease a string"] = {lease_ms = '"60000"'}, ["beat a string"] = {beat_at = '"1"'},
  ["state unknown"] = {state = '"x"'}, ["state a list"] = {state = "[]"},
  ["waiting a string"] = {waiting = '"x"'}, ["waiting an object"] = {waiting = '{"a":1}'},
}

local sessions_of_files = {
  ["owner no JSON"] = {owner = "'{'"}, ["owner injects"] = {owner = [['{},"state":"x"']]},
  ["owner a list"] = {owner = "'[]'"}, ["owner a blob"] = {owner = "x'7b7d'"},
  ["waiting no JSON"] = {waiting = "'[1'"}, ["waiting deep"] = {waiting = ("'%s'"):format(("["):rep(100000))},
  ["waiting an object"] = {waiting = "'{}'"}, ["state 77"] = {state = 77}, ["state 0"] = {state = 0},
  ["state a text"] = {state = "'live'"}, ["state a fraction"] = {state = 2.5},
  ["state nearly expired"] = {state = 3.0000001}, ["state a blob"] = {state = "x'33'"},
  ["lease 2^63-1"] = {lease_ms = "9223372036854775807"},
  ["lease -2^63"] = {lease_ms = "-9223372036854775808"}, ["lease a text"] = {lease_ms = "'x'"},
  ["beat a text"] = {beat_at = "'x'"}, ["opened negative"] = {opened = -1},
}

-- The program on this client's namespace. -> exit status, what it wrote
local function run(store, client, words)
  local status, out, errors = program.run({"--store", store.store, "--namespace", client:namespace(),
    table.unpack(words)})
  return status, (out or "") .. (errors or "")
end

local function blocked(client, path)
  for _, wait in ipairs {"0", "300ms"} do -- a waiter sends another request than a single try
    local had, why = client:try_lock {tree = path, wait = wait}
    assert.is_nil(had)
    assert.equal("lock_timeout", why.code, why.message)
    assert.is_true(why.blockers[1].damaged, why.message)
    assert.matches("damaged", why.message, 1, true)
  end
end

local function listed(client, path, sound)
  local all, found = {}, nil
  for _, lock in ipairs(client:list().locks) do
    all[lock.path] = lock
    for _, entry in ipairs(lock.path == path and lock.holders or {}) do found = found or entry end
    for _, entry in ipairs(lock.path == path and lock.queue or {}) do found = found or entry end
  end
  assert.is_table(all[sound])
  assert.is_nil(all[sound].holders[1].damaged)
  return found
end

stores.each("a damaged lock table", function(store)
  local is_file = store.store:find "^sqlite:" ~= nil
  local client, sound
  before_each(function()
    client = stores.connect(store)
    sound = client:acquire {tree = "/sound"}
  end)
  after_each(function()
    sound:release()
    client:close()
  end)

  for name, case in pairs(is_file and entries_of_files or entries_of_servers) do
    it("has entries that a person must break: " .. name, function()
      tables.lock(store, client, "/bad", case[1], case[2])
      blocked(client, "/bad")
      assert.is_true(listed(client, "/bad", "/sound").damaged)
      local status, text = run(store, client, {"locks"})
      assert.equal(0, status, text)
      assert.matches("/bad +X +%S+ +damaged", text)
      assert.matches("/sound", text, 1, true)
      status, text = run(store, client, {"locks", "--who", "/bad"})
      assert.equal(0, status, text)
      assert.matches("mortise locks break /bad --hold damaged", text, 1, true)
      status, text = run(store, client, {"doctor"})
      assert.is_true(status < 2)
      assert.matches("damaged", text, 1, true)
      status, text = run(store, client, {"locks", "break", "/bad", "--hold", "damaged", "--yes"})
      assert.equal(0, status, text)
      client:acquire({tree = "/bad"}):release()
      status = run(store, client, {"locks", "break", "/bad", "--hold", "damaged", "--yes"})
      assert.equal(3, status)
      sound:check()
    end)
  end

  for name, given in pairs(is_file and sessions_of_files or sessions_of_servers) do
    it("has a session that a person must break: " .. name, function()
      tables.hold(store, client, "/bad", sid)
      tables.session(store, client, given)
      blocked(client, "/bad")
      assert.is_nil(listed(client, "/bad", "/sound").damaged)
      assert.is_true(client:_read_sessions({sid})[sid].damaged)
      local status, text = run(store, client, {"locks"})
      assert.equal(0, status, text)
      assert.matches("/bad +X +holds +abababab/1[^\n]*damaged", text)
      status, text = run(store, client, {"locks", "--who", "/bad"})
      assert.equal(0, status, text)
      assert.matches("mortise locks break /bad --hold abababab/1", text, 1, true)
      assert.is_nil(text:find "wait until" or text:find "kill")
      status, text = run(store, client,
        {"locks", "break", "/bad", "--hold", "abababab/1", "--yes", "--json"})
      assert.equal(0, status, text)
      assert.matches('"waited":false', text, 1, true)
      assert.matches('"path":"/bad"', text, 1, true)
      client:acquire({tree = "/bad"}):release()
      sound:check()
    end)
  end

  it("is waited at in vain for longer than any lease, and no other wait suffers", function()
    tables.hold(store, client, "/bad", "X!")
    tables.hold(store, client, "/odd", sid)
    tables.session(store, client, is_file and {lease_ms = "9223372036854775807"} or {lease_ms = "-1"})
    local waits = {}
    local hasty <close> = mortise.connect {store = store.store, namespace = client:namespace(), lease = "1s"}
    for _, path in ipairs {"/bad", "/odd"} do
      waits[#waits + 1] = mortise.spawn(function()
        local ok, why = pcall(hasty.acquire, hasty, {tree = path, wait = "3s"})
        return not ok and why.code
      end)
    end
    client:acquire({tree = "/else"}):release()
    for _, wait in ipairs(waits) do assert.equal("lock_timeout", wait:join()) end
    for path, held in pairs {["/bad"] = "damaged", ["/odd"] = "abababab/1"} do
      assert.equal(0, (run(store, client, {"locks", "break", path, "--hold", held, "--yes"})))
    end
  end)

  if not is_file then
    it("lists what does not say its kind", function()
      tables.put(client, client:namespace() .. ":/bad", "{}")
      blocked(client, "/bad")
      assert.is_true(listed(client, "/bad", "/sound").damaged)
      assert.equal(0, (run(store, client, {"locks", "break", "/bad", "--hold", "damaged", "--yes"})))
      client:acquire({tree = "/bad"}):release()
    end)

    it("lists a lock that says it is a session", function()
      tables.session(store, client, {})
      tables.put(client, client:namespace() .. ":/odd", mortise.json {
        kind = "session", path = "/odd", queue = mortise.array {},
        holders = {{session = sid, n = 1, mode = "X", since = 1}},
      })
      assert.is_nil((client:try_lock {tree = "/odd", wait = "0"}))
      local held = listed(client, "/odd", "/sound")
      assert.equal(sid, held.session)
      local words = {"locks", "break", "/odd", "--hold", sid:sub(1, 8) .. "/1", "--yes"}
      tables.session(store, client, {state = '"expired"'})
      assert.equal(0, (run(store, client, words)))
    end)
  end

  it("says what stands in everybody's way, and at no path at all", function()
    for _, name in ipairs(client:_place_names {"/"}) do tables.hold(store, client, name, "X!") end
    local status, text = run(store, client, {"doctor"})
    assert.equal(1, status, text)
    assert.matches("rights: lock_timeout", text, 1, true)
    assert.matches("`mortise locks --who /`", text, 1, true)
    assert.matches("at 1 paths entries are damaged, first at /", text, 1, true)
    assert.equal(0, (run(store, client, {"locks", "break", "/", "--hold", "damaged", "--yes"})))
    tables.hold(store, client, "/a//b", "X!")
    status, text = run(store, client, {"locks"})
    assert.equal(0, status, text)
    assert.matches("/a//b[^\n]*in nobody's way", text)
    status, text = run(store, client, {"locks", "break", "/a//b", "--hold", "damaged", "--yes"})
    assert.equal(0, status, text)
    assert.is_nil(select(2, run(store, client, {"locks"})):find("/a//b", 1, true))
  end)

  it("has paths that cannot be typed, but as they are shown", function()
    local path = "/x\ny\27[2J\u{202e}"
    tables.hold(store, client, path, "X!")
    local shown = "/x\\ny\\x1b[2J\\u{202e}"
    local _, text = run(store, client, {"locks"})
    assert.matches(shown, text, 1, true)
    for _, words in ipairs {{"locks", shown}, {"locks", "--who", shown}} do
      local status, out = run(store, client, words)
      assert.equal(0, status, out)
      assert.matches("damaged", out, 1, true)
    end
    local status, out = run(store, client, {"locks", "break", shown, "--hold", "damaged", "--yes"})
    assert.equal(0, status, out)
    _, text = run(store, client, {"locks"})
    assert.is_nil(text:find(shown, 1, true))
  end)

  it("is evicted of what a session left at such a path", function()
    local path = "/a\nb"
    tables.hold(store, client, path, sid)
    tables.session(store, client, is_file and {lease_ms = 1000} or {lease_ms = "1000"})
    local status, out = run(store, client, {"locks", "break", "/a\\nb", "--hold", "abababab/1", "--yes"})
    assert.equal(0, status, out)
    assert.equal(0, #client:_read_locks {path})
  end)
end)

describe("an embedded lock table", function()
  local store = stores.all()[1]

  it("is not granted over entries whose document is gone, or has no version", function()
    for _, statement in ipairs {"DELETE FROM locks WHERE path = '/a'", "UPDATE locks SET seq_no = 0",
      "UPDATE locks SET seq_no = 'x'"} do
      local client <close> = stores.connect(store)
      tables.hold(store, client, "/a", "X!")
      tables.sql(store, statement .. ";")
      blocked(client, "/a")
      assert.is_true(client:_read_locks({"/a"})[1].holders[1].damaged)
      assert.equal(0, (run(store, client, {"locks", "break", "/a", "--hold", "damaged", "--yes"})))
    end
  end)

  it("whose counter is none says so", function()
    for _, value in ipairs {"9223372036854775807", "-1", "'x'", "1.5", "1099511627776"} do
      local file = stores.temporary ".db"
      local own = {store = "sqlite:" .. file}
      local client <close> = stores.connect(own)
      client:acquire({tree = "/a"}):release()
      tables.sql(own, ("UPDATE counter SET seq_no = %s;"):format(value))
      local ok, why = pcall(client.acquire, client, {tree = "/a"})
      assert.is_false(ok)
      assert.equal("corrupt_table", why.code)
      os.execute(("rm -f -- '%s'*"):format(file))
    end
  end)
end)
