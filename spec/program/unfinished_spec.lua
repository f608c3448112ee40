-- What a script leaves behind: writers with items, locks that were never released.
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP the program: MORTISE_BIN is not set"
  return
end

stores.each("a script", function(store)
  local client, index, also

  before_each(function()
    local namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    index = stores.fill(client, {a = {path = "/a"}})
    also = {"--store", store.store, "--namespace", namespace}
  end)
  after_each(function() client:close() end)

  local prelude = "local index = ... "
    .. "local function put(w, n) for i = 1, n do w:index('x' .. i, {n = i}) end end "

  -- Runs the code, whose first argument is the index. -> status, stdout, stderr
  local function run(code)
    return program.run({also[1], also[2], also[3], also[4], "-e", prelude .. code, index})
  end

  local function stored()
    client:refresh(index)
    return client:count(index) - 1
  end

  local function is_free() assert(client:acquire {tree = "/w", wait = 0}):release() end

  it("has all that its block gathered, with more than one batch", function()
    local status, _, err = run "mortise.with_tree_lock('/w', function(l) put(l:bulk(index), 5500) end)"
    assert.same({0, ""}, {status, err})
    assert.equal(5500, stored())
  end)

  it("has what it gathered when it ends with the lock", function()
    local status, _, err = run [[
      local l = mortise.acquire {tree = "/w"}
      put(l:bulk(index), 15)
      mortise.spawn(function() collectgarbage() mortise.sleep "10ms" collectgarbage() end)]]
    assert.same({0, ""}, {status, err})
    assert.equal(15, stored())
    is_free()
  end)

  it("fails at its end by what finishing raises", function()
    local status, _, err = run [[
      local w = mortise.acquire({tree = "/w"}):bulk(index)
      local doc = mortise.get(index, "a")
      mortise.update(index, "a", {n = 1})
      doc.n = 2
      w:save(doc)
      w:index("x", {n = 1})]]
    assert.equal(1, status)
    says(err, "conflict", "the first is a")
    assert.equal(1, stored())
  end)

  it("says what an error kept from being sent", function()
    local status, _, err = run [[
      mortise.with_tree_lock('/w', function(l) put(l:bulk(index), 15) error 'no' end)]]
    assert.equal(1, status)
    says(err, "no (writer on " .. index .. ": 15 items not sent)")
    status, _, err = run "put(mortise.acquire({tree = '/w'}):bulk(index), 15) error 'no'"
    assert.equal(1, status)
    says(err, "no (writer on " .. index .. ": 15 items not sent)")
    status, _, err = run [[
      local l = mortise.acquire {tree = '/w'}
      put(l:bulk(index), 15)
      error {}]]
    assert.equal(1, status)
    says(err, "writer on " .. index .. ": 15 items not sent")
    assert.equal(0, stored())
    is_free()
  end)

  it("fails where a writer was collected with items in it, and says whose", function()
    local status, _, err = run [[
      do
        local l = mortise.acquire {tree = "/w"}
        put(l:bulk(index), 15)
      end
      collectgarbage() collectgarbage()
      print "on"]]
    assert.equal(1, status)
    says(err, "(command line):3: writer on " .. index .. ": 15 items not sent",
      "(command line):2: the lock on /w was never released; it was given back by the garbage collector")
    assert.equal(0, stored())
    is_free()
  end)

  it("finishes with os.exit, unless that says failure", function()
    local status, _, err = run "put(mortise.acquire({tree = '/w'}):bulk(index), 15) os.exit()"
    assert.same({0, ""}, {status, err})
    assert.equal(15, stored())
    status, _, err = run [[
      mortise.with_tree_lock('/w', function(l) l:bulk(index):delete 'x1' os.exit(true) end)]]
    assert.same({0, ""}, {status, err})
    assert.equal(14, stored())
    status, _, err = run [[
      mortise.with_tree_lock('/w', function(l) l:bulk(index):delete 'x2' os.exit(7) end)]]
    assert.equal(7, status)
    says(err, "writer on " .. index .. ": 1 item not sent: its block was left by os.exit(7)")
    assert.equal(14, stored())
    status, _, err = run [[
      local w = mortise.acquire({tree = "/w"}):bulk(index)
      local doc = mortise.get(index, "a")
      mortise.update(index, "a", {n = 1})
      doc.n = 2
      w:save(doc)
      os.exit(0)]]
    assert.equal(1, status)
    says(err, "conflict")
    is_free()
  end)

  it("has the items in the error when the lock is lost", function()
    local status, _, err = run [[
      local client = mortise.connect {lease = "3s", margin = "100ms"}
      local pid = io.open("/proc/self/stat"):read "n"
      client:with_tree_lock("/w", function(l)
        put(l:bulk(index), 15)
        os.execute(("(sleep 3.5; kill -CONT %d) & kill -STOP %d"):format(pid, pid))
      end)]]
    assert.equal(5, status)
    says(err, "lock_lost", "writer on " .. index .. ": 15 items not sent")
    status, _, err = run [[
      local client = mortise.connect {lease = "3s", margin = "100ms"}
      local pid = io.open("/proc/self/stat"):read "n"
      client:with_tree_lock("/w", function(l)
        put(l:bulk(index), 15)
        pcall(function()
          os.execute(("(sleep 3.5; kill -CONT %d) & kill -STOP %d"):format(pid, pid))
          while true do l:check() end
        end)
      end)]]
    assert.equal(5, status)
    says(err, "lock_lost", "writer on " .. index .. ": 15 items not sent")
    assert.equal(0, stored())
  end)

  it("warns of a lock that is collected, where it was taken by a task or a coroutine too", function()
    local status, _, err = run [[
      mortise.spawn(function()
        mortise.acquire {tree = "/w"}
      end):join()
      local co = coroutine.wrap(function()
        mortise.with_tree_lock("/v", coroutine.yield)
      end)
      co()
      co = nil
      collectgarbage() collectgarbage()
      mortise.with_tree_lock({"/w", "/v"}, {wait = "5s"}, function() end)]]
    assert.equal(0, status, err)
    says(err, "(command line):2: the lock on /w was never released",
      "(command line):5: the lock on /v was never released; it was given back by the garbage collector")
  end)

  it("hears nothing of a lock that it kept until its end, or released", function()
    local status, _, err = run [[
      kept = mortise.acquire {tree = "/w"}
      do mortise.acquire({tree = "/v"}):release() end
      do local l <close> = mortise.acquire {tree = "/v"} end
      collectgarbage() collectgarbage()]]
    assert.same({0, ""}, {status, err})
    is_free()
  end)

  describe("at the prompt", function()
    local function type_in(lines)
      return program.run({also[1], also[2], also[3], also[4], "repl"}, {input = table.concat(lines, "\n")})
    end

    it("has its locks until it releases them", function()
      local status, out, err = type_in {
        "mortise.acquire {tree = '/w'}",
        "l = mortise.acquire {tree = '/v'}",
        "mortise.acquire {tree = '/u'}",
        "l:release()",
        "mortise.with_tree_lock('/t', function() end)",
        "collectgarbage() collectgarbage()",
        "= mortise.connect {}:try_lock {tree = '/w'} or 'still held'",
        "= (mortise.connect {}:try_lock {tree = {'/v', '/t'}}).paths[1]",
      }
      assert.equal(0, status, err)
      says(out, "still held", '"/t"')
      says(err, "mortise: 3 locks are given back:\n  exclusive lock on /w (held",
        "\n  exclusive lock on /u (held", "\n  exclusive lock on /t /v (held")
      assert.not_matches("never released", err)
      is_free()
    end)

    it("has its writers finished at its end", function()
      local status, _, err = type_in {
        ("w = mortise.acquire({tree = '/w'}):bulk '%s'"):format(index), "w:index('x', {n = 1})",
      }
      assert.equal(0, status, err)
      says(err, "1 lock is given back:\n  exclusive lock on /w")
      assert.equal(1, stored())
    end)
  end)
end)
