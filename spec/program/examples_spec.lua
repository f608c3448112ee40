-- The examples, as a user would run them.
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP the examples: MORTISE_BIN is not set"
  return
end

stores.each("examples", function(store)
  local client, index, namespace
  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    index = stores.name "files"
  end)
  after_each(function()
    pcall(client.drop_index, client, index)
    client:close()
  end)

  local function example(name, ...)
    return program.run {
      "--store", store.store, "--namespace", namespace, "run", "examples/" .. name .. ".lua", ...,
    }
  end

  it("index a directory and rename in it", function()
    local folder = os.tmpname()
    os.remove(folder)
    os.execute(("mkdir -p F/a/b && touch F/top F/a/'quo\"te' F/a/b/'new\nline'"):gsub("F", folder))
    local status, out, err = example("index_directory", index, folder)
    assert.equal(0, status, err)
    assert.matches("3 documents, 0 names skipped", out)
    assert.equal("/a", client:get(index, '/a/quo"te').path)
    assert.equal("new\nline", client:get(index, "/a/b/new\nline").name)
    status, out, err = example("rename", index, "/a", "/z")
    assert.equal(0, status, err)
    assert.matches("/a %-> /z: 2 documents changed", out)
    assert.equal("/z/b", client:get(index, "/a/b/new\nline").path)
    status, out, err = example("index_directory", index, folder, "2500")
    assert.equal(0, status, err)
    assert.matches("2500 documents", out)
    assert.equal(2500 + 3, client:count(index))
    os.execute("rm -r " .. folder)
    assert.equal(1, (example("rename", index)))
    assert.equal(1, (example("index_directory", index)))
  end)

  it("move a customer's tree in several indices", function()
    local other = stores.fill(client, {x = {path = "/customers/acme/x"}})
    stores.fill(client, {})
    client:create_index(index, {mappings = {properties = {path = {type = "keyword"}}}})
    client:create(index, "y", {path = "/customers/acme/deep/y"}, {refresh = true})
    local status, out, err = example("how-to/move_customer", "acme", "globex", index, other)
    assert.same({0, ""}, {status, err})
    assert.equal(("%s: 1 documents\n%s: 1 documents\n"):format(index, other), out)
    assert.equal("/customers/globex/deep/y", client:get(index, "y").path)
    assert.equal("/customers/globex/x", client:get(other, "x").path)
    assert.equal(1, (example("how-to/move_customer", "acme", "globex")))
  end)

  it("reconcile a tree with a list, again and again", function()
    local own = stores.fill(client, {
      a = {path = "/c/a", owner = "ann"}, b = {path = "/c/b", owner = "bob"}, z = {path = "/c/z"},
    })
    local list = program.write("/c/a\tann\n/c/b\tbea\n/c/n\tnew\n", ".tsv")
    local status, out, err = example("how-to/reconcile", own, "/c", list)
    assert.same({0, "not in the list: /c/z\n2 written\n", ""}, {status, out, err})
    assert.equal("bea", client:get(own, "b").owner)
    assert.equal("new", client:get(own, "/c/n").owner)
    client:refresh(own)
    assert.same({0, "not in the list: /c/z\n0 written\n", ""}, {example("how-to/reconcile", own, "/c", list)})
    os.remove(list)
  end)

  it("retry what may succeed later", function()
    local code = [[
      package.path = "examples/how-to/?.lua;" .. package.path
      local retry, calls = require "retry", 0
      local function fails(error_of, options)
        calls = 0
        return (pcall(retry, function()
          calls = calls + 1
          if calls < 3 then error(error_of, 0) end
        end, options)), calls
      end
      local ok, why = pcall(mortise.get, "none-such", "1")
      print(fails(why), fails "mine")
      why.retryable = true
      print(fails(why))
      why.ambiguous = true
      print(fails(why))
      print(fails(why, {twice = true}))]]
    local status, out, err = program.run {"--store", store.store, "--namespace", namespace, "-e", code}
    assert.same({0, ""}, {status, err})
    assert.equal("false\tfalse\t1\ntrue\t3\nfalse\t1\ntrue\t3\n", out)
  end)

  it("serve locks", function()
    local status, out, err = example("service", "run", "invoice", "4711", "--", "echo", "it's mine")
    assert.same({0, "it's mine\n", ""}, {status, out, err})
    local lock <close> = client:acquire {named = {"invoice", "4711"}}
    assert.is_truthy(lock)
    status, out, err = example("service", "run", "invoice", "4711", "--wait", "0", "--", "true")
    assert.equal(3, status)
    assert.equal("", out)
    assert.matches("lock_timeout", err)
    assert.matches("invoice/4711: .*pid %d+", select(2, example("service", "who", "invoice", "4711")))
    assert.matches("invoice/1: free", select(2, example("service", "who", "invoice", "1")))
    status, out, err = example("service", "run", "invoice", "1", "--", "false")
    assert.equal(1, status)
    assert.equal("", out)
    assert.matches("ended with exit 1", err)
  end)
end)
