-- Calling a method with a dot is an error that asks for a colon.
local fails = require "spec.support.fails"
local mortise = require "mortise"
local reference = require "mortise.reference"
local stores = require "spec.support.stores"

describe("a method that is called with a dot", function()
  local file, client
  before_each(function()
    file = stores.temporary ".db"
    client = mortise.connect {store = "sqlite:" .. file}
    client:index("x", "1", {a = 1})
  end)
  after_each(function()
    client:close()
    os.execute(("rm -f -- '%s'*"):format(file))
  end)

  local function each_method(group, value)
    local n = 0
    for _, row in ipairs((reference.group(group))) do
      local method = row.signature:find "%(" and value[row.name]
      if type(method) == "function" then
        n = n + 1
        local wanted = ("%s is called with a colon: %s:%s(...)"):format(row.name,
          group == "document" and "doc" or group, row.name)
        for _, given in ipairs {"", "'x', '1'", "{}"} do
          local call = load(("local value = ... value.%s(%s)"):format(row.name, given))
          assert.equal(wanted, fails("invalid_argument", call, value).message)
        end
      end
    end
    return n
  end

  it("says so, whichever it is", function()
    assert.is_true(each_method("client", client) > 20)
    client:with_tree_lock("/a", function(lock)
      assert.is_true(each_method("lock", lock) > 5)
      assert.is_true(each_method("writer", lock:bulk "x") > 5)
      assert.is_true(each_method("scan", client:scan "x") > 1)
      lock:check()
    end)
    assert.is_true(each_method("task", mortise.spawn(function() end)) > 1)
    assert.is_true(each_method("document", client:get("x", "1")) > 3)
  end)

  it("does nothing", function()
    local lock <close> = client:acquire {tree = "/a"}
    pcall(function() lock.release() end)
    pcall(function() client.close() end)
    lock:check()
  end)

  it("works with the handle as its first argument", function()
    assert.equal(1, client.get(client, "x", "1").a)
    assert.equal(1, mortise.connect({store = "sqlite:" .. file}):get("x", "1").a)
  end)
end)
