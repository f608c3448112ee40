local mortise = require "mortise"
local stores = require "spec.support.stores"

stores.each("deadlocks", function(store)
  local one, two
  before_each(function() one, two = stores.connect_two(store) end)
  after_each(function()
    one:close()
    two:close()
  end)

  -- Two tasks, each of which holds one tree and then requests the other's: the result of each.
  local function opposite(first, second)
    local holding = 0
    local function both(client, mine, theirs)
      return function()
        return client:with_tree_lock(mine, function()
          holding = holding + 1
          while holding < 2 do mortise.sleep "5ms" end
          local ok, why = pcall(client.with_tree_lock, client, theirs, {wait = "20s"}, function() end)
          return ok or why
        end)
      end
    end
    local a, b = mortise.spawn(both(first, "/d/a", "/d/b")), mortise.spawn(both(second, "/d/b", "/d/a"))
    return a:join(), b:join()
  end

  local function expect_one(a, b)
    local why = a == true and b or a
    assert.is_true(a == true or b == true)
    assert.equal("deadlock", why.code)
    assert.is_true(why.retryable)
    assert.matches("^/d/[ab] wanted in X is held by ", why.message)
    assert.equal(1, #why.blockers)
    assert.is_true(one:with_tree_lock("/d", {wait = "1s"}, function() return true end))
  end

  it("of two clients end one of them, and the other goes on", function()
    expect_one(opposite(one, two))
  end)

  it("of two tasks of one client are found at once", function()
    local start = os.time()
    local a, b = opposite(one, one)
    assert.is_true(os.time() - start <= 5) -- not by a time-out
    assert.is_true(a)
    expect_one(a, b)
  end)
end)
