-- `mortise board`: what it answers, and what it refuses.
local board = require "spec.support.board"
local core = require "mortise.core"
local mortise = require "mortise"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local program = require "spec.support.program"
local says = require "spec.support.says"
local standing = require "spec.support.standing"
local stores = require "spec.support.stores"
local tables = require "spec.support.tables"

if not program.file then
  print "SKIP the board: MORTISE_BIN is not set"
  return
end

local hostile = "<script>alert(1)</script>\u{202e}gnp.exe\u{200b}" .. ("x"):rep(4000)

stores.each("the board", function(store)
  local client, namespace

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
  end)

  after_each(function() client:close() end)

  local function of_namespace(data)
    for _, each in ipairs(data.namespaces) do
      if each.namespace == namespace then return each end
    end
  end

  it("shows who holds, who waits, and lets one look down the tree", function()
    local held = client:acquire {tree = {"/a/b/c", "/a/b-x", "/a"}, mode = "shared"}
    local waiting <close> = process.start(store, namespace, 60000, {"lock", "/a/b", "--", "true"})
    local shown <close> = board.start(store, namespace)
    local data = shown:data_when("a wait", function(data)
      for _, wait in ipairs(data.waits) do
        if wait.namespace == namespace then return true end
      end
    end)
    assert.is_true(data.sums.locks >= 3 and data.sums.waiting >= 1 and data.sums.sessions >= 2)
    assert.same({namespace, 1}, {of_namespace(data).namespace, of_namespace(data).waits})
    local root = shown:json("/locks.json", {namespace = namespace, path = "/"})
    assert.same({"a", 1}, {root.children[1].name, root.children[1].waits})
    local level = shown:json("/locks.json", {namespace = namespace, path = "/a"})
    local names = {}
    for i, child in ipairs(level.children) do names[i] = child.name end
    table.sort(names)
    assert.same({"b", "b-x"}, names)
    assert.equal(1, #level.rows)
    local lock = shown:json("/lock.json", {namespace = namespace, path = "/a/b/c"})
    assert.same({"S", "/a"}, {lock.rows[1].mode, lock.above[1].path})
    local session = shown:json("/session.json", {namespace = namespace, id = lock.rows[1].session})
    assert.is_true(session.holds >= 3 and #session.locks >= 3)
    local found = shown:json("/search.json", {q = "/a/b-x"})
    assert.equal("/a/b-x", found.locks[1].path)
    held:release()
    local now = process.wait_for("what the board has seen", function()
      local lock_now = shown:json("/lock.json", {namespace = namespace, path = "/a/b/c"})
      return #lock_now.events > 0 and lock_now
    end)
    assert.same({"gave back", "S"}, {now.events[1].what, now.events[1].mode})
    assert.equal(0, waiting:status())
  end)

  it("sends events, from the newest on, each second", function()
    local shown <close> = board.start(store, namespace)
    local start = shown:json("/data.json").start
    local events = shown:events(4, {"Last-Event-ID: other-7"})
    assert.is_true(#events >= 3 and #events <= 6, ("%d events"):format(#events))
    local last = 0
    for _, event in ipairs(events) do
      local id, number = event.id:match "^(%x+)-(%d+)$"
      assert.equal(start, id)
      assert.is_true(tonumber(number) > last)
      last = tonumber(number)
      assert.equal(start, event.data.start)
    end
    local history = shown:json "/history.json"
    assert.equal("at", history.names[1])
    assert.is_true(#history.points >= 2)
  end)

  it("starts again with another name of itself, at the same address", function()
    local first = board.start(store, namespace)
    local port, start = first.port, first:json("/data.json").start
    first.process:kill "KILL"
    first.process:status()
    local again <close> = process.start(store, namespace, 60000, {"board", "--listen", "127.0.0.1:" .. port})
    process.wait_for("the address", function() return again:out():find("http", 1, true) end,
      function() return again:err() end)
    assert.not_equal(start, first:json("/data.json").start)
    assert.is_true(#first:events(1, {"Last-Event-ID: " .. start .. "-9"}) >= 1)
    local code, _, err = program.run {"--store", store.store, "board", "--listen", "127.0.0.1:" .. port}
    assert.equal(4, code)
    says(err, "--listen 127.0.0.1:" .. port, "Address already in use")
  end)

  it("gives Prometheus numbers alone, and says whether it is well", function()
    standing(client, "stands-half", {"/a"})
    local shown <close> = board.start(store, namespace)
    local status, text, head = shown:ask "/metrics"
    assert.equal(200, status)
    says(head, "text/plain; version=0.0.4")
    says(text, "mortise_board_up 1\n", "mortise_board_jobs_standing 1\n", "mortise_requests_total ",
      'mortise_board_job_done{job="stands-half"} 0\n')
    for line in text:gmatch "[^\n]+" do
      assert.is_true(line:find "^# " ~= nil or line:find '^[a-z_]+%g* %-?[%d.]+$' ~= nil, line)
    end
    local health
    status, health = shown:ask "/healthz"
    assert.equal(200, status)
    assert.equal("ok", core.json_decode(health).status)
  end)

  it("shows what others have named, and nothing of it can be taken for anything else", function()
    local config = require "mortise.config"
    local before = config.identity
    config.identity = {program = "p", script = hostile}
    local other = mortise.connect {store = store.store, namespace = namespace}
    local held = other:acquire {tree = {"/h/<img src=x onerror=alert(1)>", "/h/" .. ("y"):rep(2000)}}
    config.identity = before
    local shown <close> = board.start(store, namespace)
    local status, text, head = shown:ask "/data.json"
    assert.equal(200, status)
    says(head, "Content-Type: application/json", "nosniff", "default-src 'none'")
    assert.is_nil(text:find("\u{202e}", 1, true))
    says(text, "<script>alert(1)</script>\\\\u{202e}gnp")
    assert.is_true(#text < 40000, #text)
    local level = shown:json("/locks.json", {namespace = namespace, path = "/h"})
    local long, marked
    for _, child in ipairs(level.children) do
      if child.path == nil then long = child else marked = child end
    end
    assert.is_true(#long.name <= 100)
    assert.equal("<img src=x onerror=alert(1)>", marked.name)
    held:release()
    other:close()
  end)

  it("shows what no client of mortise has written", function()
    local is_file = store.store:find "^sqlite:"
    local holders = is_file and {{session = tables.text "no\nsession", n = -1, mode = 99}}
      or '[{"session":"<b>","n":-1,"mode":["X"]},7,{"session":[]}]'
    tables.lock(store, client, "/odd/one", holders)
    tables.lock(store, client, "/odd/two", nil, is_file and {{session = "7", mode = 1}} or '[null, "x"]')
    local shown <close> = board.start(store, namespace)
    local lock = shown:json("/lock.json", {namespace = namespace, path = "/odd/one"})
    assert.is_true(#lock.rows >= 1)
    says(lock.rows[1].verdict, "damaged")
    assert.equal(200, (shown:ask("/lock.json", {arguments = {namespace = namespace, path = "/odd/two"}})))
    local search = shown:json("/search.json", {q = "/odd/"})
    assert.is_true(#search.locks >= 1)
    assert.equal(200, (shown:ask "/metrics"))
    for _, path in ipairs {"/odd/one", "/odd/two"} do
      local code, _, err = program.run {
        "--store", store.store, "--namespace", namespace, "locks", "break", path, "--hold", "damaged",
        "--yes",
      }
      assert.equal(0, code, err)
    end
  end)

  it("steers a job that is at work, each order asked twice", function()
    local documents = {}
    for i = 1, 40 do documents["d" .. i] = {path = "/a/" .. i} end
    local index = stores.fill(client, documents)
    local file = program.write([[
      local index = ...
      local job = mortise.job {id = "steered", index = index, rename = {from = "/a", to = "/b"}, rate = 1}
      print("begun\t" .. math.floor(mortise.now())) io.stdout:flush()
      print(job:run().state)]], ".lua")
    local token_file = os.tmpname()
    local running <close> = process.start(store, namespace, 60000, {file, index})
    running:said "begun"
    local shown <close> = board.start(store, namespace, {"--control", "--token-file", token_file})
    local token = program.read(token_file):match "^(%x+)\n$"
    assert.equal(32, #token)
    assert.is_nil(shown.process:out():find(token, 1, true))

    local function give(order)
      local status, asked = shown:order(token, order)
      assert.equal(200, status, core.json(asked))
      assert.is_true(#asked.ask >= 1)
      local again, deed = shown:order(token, {yes = asked.yes})
      assert.equal(200, again, core.json(deed))
      assert.equal(409, (shown:order(token, {yes = asked.yes}))) -- once
      return asked, deed
    end

    local function job_when(what, fn)
      return shown:data_when(what, function(data)
        for _, job in ipairs(data.jobs) do
          if job.job == "steered" and fn(job) then return true end
        end
      end)
    end

    job_when("a job", function(job) return job.alive and job.total end)
    local _, deed = give {verb = "pause", job = "steered"}
    assert.equal("job steered is paused", deed.text)
    job_when("its pause", function(job) return job.waits and job.waits:find "^paused" end)
    _, deed = give {verb = "throttle", job = "steered", limits = {rate = 0, batch = 5}}
    says(deed.text, "told how fast it may go")
    give {verb = "resume", job = "steered"}
    shown:data_when("the order", function(data)
      return data.deeds[1].verb == "resume" and data.deeds[1].state == "done"
    end)
    assert.equal(0, running:status())
    job_when("its end", function(job) return job.state == "done" end)
    local asked = give {verb = "rollback", job = "steered"}
    says(asked.ask[1], "documents would become what they were")
    shown:data_when("the rollback", function(data)
      return data.deeds[1] and data.deeds[1].verb == "rollback" and data.deeds[1].state == "done"
    end)
    assert.equal("undone", client:get_job "steered":status().state)
    client:refresh(index)
    assert.equal(40, client:count(index, {prefix = {path = "/a/"}}))
    local job = shown:json("/job.json", {id = "steered"})
    assert.equal("undone", job.state)
    assert.equal("at", job.history.names[1])
    shown.process:kill "INT"
    assert.equal(130, shown.process:status())
    assert.is_nil(io.open(token_file))
    os.remove(file)
    client:drop_index(index)
  end)

  it("ends a session that cannot be stopped otherwise", function()
    local token_file = os.tmpname()
    local owner <close> = process.start(store, namespace, 2000, {"lock", "/x/y", "--", "sleep", "60"})
    local shown <close> = board.start(store, namespace, {"--control", "--token-file", token_file})
    local token = program.read(token_file):match "%x+"
    local lock = process.wait_for("a lock", function()
      local found = shown:json("/lock.json", {namespace = namespace, path = "/x/y"})
      return #found.rows > 0 and found
    end)
    local session = lock.rows[1].session
    local _, asked = shown:order(token, {verb = "break", session = session, namespace = namespace})
    says(core.json(asked.ask), "session " .. session, "/x/y", "its owner loses them")
    assert.equal(200, (shown:order(token, {yes = asked.yes})))
    shown:data_when("the end of a session", function(data)
      return data.deeds[1] and data.deeds[1].state == "done"
    end)
    client:acquire({tree = "/x/y", wait = "5s"}):release()
    assert.not_equal(0, owner:status())
    local nobody = {verb = "break", session = ("ab"):rep(16), namespace = namespace}
    local status, refused = shown:order(token, nobody)
    assert.same({404, "not_found"}, {status, refused.error.code})
  end)
end)

-- ---- A store that goes away ----------------------------------------------------------------------

for _, store in ipairs(stores.all()) do
  local is_server = not store.store:find "^sqlite:"
  if is_server and proxy.file then
    describe("the board on " .. store.name .. " behind a proxy", function()
      it("says that the store is away, and goes on when it is back", function()
        local between = proxy.start(store.store, 1, {})
        local namespace = stores.name "ns"
        stores.connect(store, {namespace = namespace}):close()
        local shown <close> = board.start({store = between.url}, namespace, {"--timeout", "2s"})
        assert.equal(200, (shown:ask "/healthz"))
        os.execute("kill -STOP " .. between.pid)
        local away = shown:data_when("a failure", function(data) return data.failure end)
        assert.is_true(away.sums.locks >= 0) -- the last ones
        assert.equal(503, (shown:ask "/healthz"))
        says(select(2, shown:ask "/metrics"), "mortise_board_up 0\n")
        os.execute("kill -CONT " .. between.pid)
        shown:data_when("no failure", function(data) return not data.failure end)
        assert.equal(200, (shown:ask "/healthz"))
        between:stop()
      end)
    end)
  end
end

-- ---- What does not depend on the store -----------------------------------------------------------

describe("the board", function()
  local store, namespace, shown, client, token_file, token = stores.all()[1], nil, nil, nil, nil, nil

  setup(function()
    namespace, token_file = stores.name "ns", os.tmpname()
    client = stores.connect(store, {namespace = namespace})
    shown = board.start(store, namespace, {"--control", "--token-file", token_file})
    token = program.read(token_file):match "%x+"
  end)

  teardown(function()
    local _ <close> = shown
    client:close()
  end)

  it("answers those alone who have opened it by its address", function()
    for host, expected in pairs {
      ["127.0.0.1"] = 200, ["localhost"] = 200, ["LOCALHOST:1"] = 200, ["[::1]:8787"] = 200,
      ["10.1.2.3"] = 200,
      ["evil.example"] = 403, ["127.0.0.1.evil.example"] = 403, ["localhost.evil.example"] = 403,
      ["evil.example:" .. shown.port] = 403, ["[::1].evil.example"] = 403, ["[evil]"] = 403, ["1.2.3"] = 403,
      ["127.0.0.1:80a"] = 403, ["localhost."] = 403, ["127.0.0.1@evil.example"] = 403,
    } do
      for _, path in ipairs {"/", "/data.json", "/events?x", "/metrics", "/healthz", "/history.json"} do
        if not (expected == 200 and path:find "events") then
          assert.same({host, path, expected}, {host, path, (shown:ask(path, {headers = {"Host: " .. host}}))})
        end
      end
    end
    local status, text = shown:ask("/data.json", {headers = {"Host: evil.example"}})
    assert.equal(403, status)
    says(text, "the Host header names another host")
  end)

  it("answers no other site's page", function()
    local own = "127.0.0.1:" .. shown.port
    for origin, expected in pairs {
      ["http://" .. own] = 200, ["https://" .. own] = 200, ["http://127.0.0.1"] = 403, ["null"] = 403,
      ["http://evil.example"] = 403, ["http://" .. own .. ".evil.example"] = 403, ["file://"] = 403,
      ["ftp://" .. own] = 403,
    } do
      local status, _, head = shown:ask("/data.json", {headers = {"Origin: " .. origin}})
      assert.same({origin, expected}, {origin, status})
      assert.is_nil(core.lower(head):find("access-control", 1, true))
    end
    local function site(path, value, mode)
      return (shown:ask(path, {headers = {"Sec-Fetch-Site: " .. value, "Sec-Fetch-Mode: " .. mode}}))
    end
    assert.same({200, 200, 200}, {site("/data.json", "same-origin", "cors"), site("/", "none", "navigate"),
      site("/", "cross-site", "navigate")})
    assert.same({403, 403, 403}, {site("/data.json", "cross-site", "no-cors"),
      site("/data.json", "cross-site", "navigate"), site("/", "same-site", "no-cors")})
    local _, _, head = shown:ask "/"
    says(head, "frame-ancestors 'none'", "X-Frame-Options: DENY", "script-src 'sha256-", "no-store",
      "Cross-Origin-Resource-Policy: same-origin", "require-trusted-types-for 'script'")
    assert.is_nil(head:find("unsafe", 1, true))
  end)

  it("obeys whoever has the token, and nobody else", function()
    local order = {verb = "pause", job = "x"}
    assert.equal(403, (shown:order(nil, order)))
    assert.equal(403, (shown:order("", order)))
    assert.equal(403, (shown:order(token:sub(1, -2), order)))
    assert.equal(403, (shown:order(token .. "0", order)))
    assert.equal(403, (shown:order(("0"):rep(32), order)))
    assert.equal(403, (shown:ask("/order.json?token=" .. token, {body = core.json(order)})))
    assert.equal(404, (shown:order(token, {verb = "resume", job = "x"})))
    for _, wrong in ipairs {
      {verb = "drop", job = "x"}, {verb = "pause"}, {verb = "pause", job = "../x"},
      {verb = "throttle", job = "x"}, {verb = "throttle", job = "x", limits = {rate = -1}},
      {verb = "break", session = "x"}, {verb = "run", job = 7},
      {verb = "break", session = ("a"):rep(32), namespace = "N/"},
    } do
      assert.equal(400, (shown:order(token, wrong)), core.json(wrong))
    end
    assert.equal(409, (shown:order(token, {yes = ("0"):rep(32)})))
    local function post(body, path)
      return (shown:ask(path or "/order.json", {body = body, headers = {"X-Mortise-Token: " .. token}}))
    end
    assert.equal(400, post "no json")
    assert.equal(413, post(("x"):rep(5000)))
    assert.equal(404, post("{}", "/data.json"))
    assert.equal(405, (shown:ask("/order.json", {method = "PUT", headers = {"X-Mortise-Token: " .. token}})))
    assert.equal(405, (shown:ask("/data.json", {method = "OPTIONS", headers = {"Origin: " .. shown.url}})))
    local reading <close> = board.start(store, namespace)
    local status, refused = reading:order(token, order)
    assert.equal(403, status)
    says(refused.error.message, "without --control")
  end)

  it("refuses what it does not know", function()
    assert.equal(404, (shown:ask "/no.json"))
    assert.equal(404, (shown:ask "/../../etc/passwd"))
    assert.equal(400, (shown:ask("/locks.json", {arguments = {namespace = namespace}})))
    assert.equal(400, (shown:ask("/search.json", {arguments = {q = ("x"):rep(300)}})))
    assert.equal(400, (shown:ask("/job.json", {arguments = {id = "../x"}})))
    assert.equal(404, (shown:ask("/job.json", {arguments = {id = "none"}})))
    assert.equal(404, (shown:ask("/session.json", {arguments = {namespace = namespace, id = "none"}})))
    assert.is_true(shown:ask("/search.json", {arguments = {q = ("x"):rep(30000)}}) >= 400)
  end)

  it("says where it cannot listen, and who else may see it", function()
    local function refuses(code, words, ...)
      local status, out, err = program.run {"--store", store.store, "board", table.unpack(words)}
      assert.same({code, ""}, {status, out})
      says(err, ...)
    end
    refuses(2, {"--listen", "a:b:c"}, "--listen a:b:c: HOST:PORT")
    refuses(2, {"--listen", "127.0.0.1:65536"}, "HOST:PORT")
    refuses(2, {"--listen", "no-such-host.invalid:1"}, "--listen no-such-host.invalid")
    refuses(4, {"--listen", "192.0.2.1:0"}, "--listen 192.0.2.1:0", "assign")
    refuses(2, {"--control"}, "--token-file FILE")
    refuses(2, {"--token-file", "x"}, "belongs to --control")
    refuses(2, {"--interval", "10ms"}, "1s or more")
    local function listen(where)
      return program.run {"--store", store.store, "board", "--listen", where, "--for", "1ms"}
    end
    local status, out, err = listen "0.0.0.0:0"
    assert.equal(0, status)
    says(err, "warning: whoever reaches 0.0.0.0:", "sees all locks and jobs")
    says(out, "http://0.0.0.0:")
    status, out = listen "[::1]:0"
    if status == 0 then says(out, "http://[::1]:") end -- else there is no IPv6 here
  end)

  it("waits for nobody who is slow, and goes on answering the others", function()
    local clients, held = {}, {}
    for i = 1, 30 do
      clients[i] = mortise.connect {store = store.store, namespace = namespace}
      held[i] = clients[i]:acquire {tree = ("/slow/%d/%s"):format(i, ("z"):rep(60))}
    end
    local pipe = io.popen("env -u LD_PRELOAD python3 spec/support/slow_clients.py " .. shown.port)
    local ended = {}
    for line in pipe:lines() do -- each as it comes
      local what, seconds = line:match "^(%a+) (%d+)$"
      ended[what] = math.tointeger(tonumber(seconds))
      assert.equal(200, (shown:ask "/healthz"))
    end
    pipe:close()
    assert.same({true, true, true, true}, {
      ended.crowd ~= nil, ended.half ~= nil and ended.half <= 40, ended.drip ~= nil and ended.drip <= 50,
      ended.deaf ~= nil,
    }, core.json(core.object(ended)))
    for _, each in ipairs(held) do each:release() end
    for _, each in ipairs(clients) do each:close() end
  end)

  it("looks at the store once for all who look, and rarely where nobody does", function()
    local quiet <close> = board.start(store, namespace)
    local function number()
      return select(2, quiet:ask "/metrics"):match "mortise_board_look_seconds (%d+)"
    end
    local before = quiet:json("/data.json").number
    local readers = {}
    for i = 1, 12 do
      readers[i] = io.popen(("env -u LD_PRELOAD curl -sN --max-time 5 %s/events | grep -c ^data"):format(
        quiet.url))
    end
    for _, reader in ipairs(readers) do
      local n = reader:read "n"
      assert.is_true(n >= 3 and n <= 7, n)
      reader:close()
    end
    local looks = quiet:json("/data.json").number - before
    assert.is_true(looks >= 3 and looks <= 8, looks)
    mortise.sleep(12) -- and nobody has looked for ten seconds
    local last = number()
    mortise.sleep(4)
    assert.equal(last, number())
    assert.is_true(#quiet:events(1) >= 1)
  end)

  it("keeps its token in a file that others cannot read", function()
    local pipe = io.popen("env -u LD_PRELOAD stat -c %a " .. program.quote(token_file))
    assert.equal("600\n", pipe:read "a")
    pipe:close()
  end)
end)
