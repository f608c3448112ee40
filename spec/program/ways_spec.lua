-- Ways to a server: a proxy, a socket, a path before its own, IPv6.
local mortise = require "mortise"
local between = require "spec.support.between"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

local server = stores.all()[2]
if not program.file or not server then
  print "SKIP ways to a server: MORTISE_BIN or MORTISE_TEST_URLS is not set"
  return
end

local host = server.store:match "^http://([^/]+)"

local function relay(mode, ...) return between.start("relay.py", mode, host, ...) end

describe("a way to a server", function()
  local namespace

  before_each(function()
    namespace = stores.name "ns"
    local client <close> = stores.connect(server, {namespace = namespace})
    stores.use(server, client)
  end)

  local code = "mortise.with_tree_lock('/way', function(lock) print(lock.fence > 0) end)"

  local function run(store, words, env)
    env = env or {}
    for _, name in ipairs {"http_proxy", "https_proxy", "no_proxy"} do env[name] = env[name] or "" end
    return program.run({"--store", store, "--namespace", namespace, "--timeout", "10s", "-e", code,
      table.unpack(words or {})}, {env = env})
  end

  local function works(...)
    assert.same({0, "true\n", ""}, {run(...)})
  end

  it("is a proxy that is named, also for a name that only it knows", function()
    local proxy <close> = relay "proxy"
    works("http://es.example:9200", {"--proxy", "http://127.0.0.1:" .. proxy.place})
    says(proxy:said(), " http://es.example:9200/", "/_bulk")
    works(server.store, {"--proxy", "http://127.0.0.1:" .. proxy.place})
  end)

  it("is a proxy that the environment names, but not to the loopback", function()
    local proxy <close> = relay "proxy"
    local env = function(also)
      also.http_proxy = "http://ann:secret@127.0.0.1:" .. proxy.place
      return also
    end
    works("http://es.example:9200", nil, env {})
    local before = proxy:said()
    says(before, "http://es.example:9200/")
    works(server.store, nil, env {})
    assert.equal(before, proxy:said())
    local status, _, err = run("http://es.example:9200", {"--timeout", "2s"}, env {no_proxy = "es.example"})
    assert.equal(4, status)
    says(err, "es.example")
    assert.equal(before, proxy:said())
    status, _, err = run("http://es.example:9200", {"--timeout", "2s", "--proxy", "none"}, env {})
    assert.equal(4, status)
    says(err, "cannot be resolved")
  end)

  it("says which proxy is away, and shows no password", function()
    local status, _, err = run("http://es.example:9200", {"--timeout", "2s", "--proxy", "http://127.0.0.1:1"})
    assert.equal(4, status)
    says(err, "the proxy http://127.0.0.1:1: connection refused")
    status, _, err = run("http://es.example:9200", {"--timeout", "2s"},
      {http_proxy = "http://ann:secret@127.0.0.1:1"})
    assert.equal(4, status)
    says(err, "the environment's proxy", "connection refused")
    assert.is_nil(err:find("secret", 1, true))
    status, _, err = run("http://es.example:9200", {"--proxy", "http://ann:secret@127.0.0.1:1"})
    assert.equal(2, status)
    says(err, "https_proxy")
    assert.is_nil(err:find("secret", 1, true))
  end)

  it("is a socket", function()
    local name = os.tmpname()
    os.remove(name)
    do
      local socket <close> = relay("unix", name)
      works("http://cluster", {"--unix-socket", name})
      says(socket:said(), "a connection")
    end
    local status, _, err = run("http://cluster", {"--timeout", "2s", "--unix-socket", name .. "-none"})
    assert.equal(4, status)
    says(err, "http://cluster", "the socket " .. name .. "-none", "no such file")
    os.remove(name)
  end)

  it("has a path before the server's own", function()
    local gateway <close> = relay "prefix"
    works(("http://127.0.0.1:%s/behind/it"):format(gateway.place))
    says(gateway:said(), "POST /behind/it/", "/_bulk")
    local status = run(("http://127.0.0.1:%s"):format(gateway.place))
    assert.not_equal(0, status)
  end)

  it("is IPv6", function()
    if not os.execute "test -e /proc/net/if_inet6 && grep -q '^0\\{31\\}1 ' /proc/net/if_inet6" then
      pending "this machine has no IPv6 loopback"
      return
    end
    local gateway <close> = relay("prefix", "v6")
    works(("http://[::1]:%s/behind/it"):format(gateway.place))
  end)

  it("has several nodes, of which some are away", function()
    for _, nodes in ipairs {server.store .. ",http://127.0.0.1:1", "http://127.0.0.1:1," .. server.store} do
      local status, out, err = run(nodes)
      assert.same({0, "true\n"}, {status, out})
      says(err, "http://127.0.0.1:1 is left out for")
    end
  end)

  it("is found by asking a node, which is refused where it is of no use", function()
    local status, out, err = run(server.store, {"--log-level", "debug"}, {MORTISE_SNIFF = "true"})
    assert.same({0, "true\n"}, {status, out}, err)
    says(err, "GET /_nodes/http?")
    assert.is_nil(err:find("warning", 1, true), err)
    status, out = run(server.store, {"--sniff"})
    assert.same({0, "true\n"}, {status, out})
    status, out, err = run("http://cluster", {"--sniff", "--unix-socket", "/run/search.sock"})
    assert.same({2, ""}, {status, out})
    says(err, "--sniff is given with unix_socket", "behind one address")
    status, out, err = run("cloud:here:ZXhhbXBsZSRlcw==", {"--sniff"})
    assert.same({2, ""}, {status, out})
    says(err, "--sniff is given with a cloud's id")
  end)

  it("is a cloud's id", function()
    local proxy <close> = relay "proxy"
    -- The id names es.example at port 443, so that it is TLS, which the server here does not speak.
    local id = "cloud:here:ZXhhbXBsZSRlcw=="
    local status, _, err = run(id, {"--timeout", "2s", "--proxy", "http://127.0.0.1:" .. proxy.place})
    assert.equal(4, status)
    says(err, "https://es.example:443", "no TLS")
    says(proxy:said(), "CONNECT es.example:443")
    assert.equal(2, (run "cloud:here:nonsense!"))
  end)
end)

describe("connect", function()
  it("takes the same", function()
    local proxy <close> = relay "proxy"
    local client <close> = mortise.connect {
      store = "http://es.example:9200", proxy = "http://127.0.0.1:" .. proxy.place,
      namespace = stores.name "ns",
    }
    assert.is_true(client:acquire({tree = "/a"}).fence > 0)
    says(proxy:said(), "http://es.example:9200/")
  end)
end)
