-- The process itself: what its threads let through, and what others can see of it.
local program = require "spec.support.program"
local stores = require "spec.support.stores"

local store
before_each(function() store = stores.temporary ".db" end)
after_each(function() os.execute(("rm -f -- '%s'*"):format(store)) end)

describe("a crash", function()
  local crashes = {ILL = 4, TRAP = 5, ABRT = 6, BUS = 7, FPE = 8, SEGV = 11, SYS = 31}

  it("is let through by every thread", function()
    local _, out = program.run {"--store", "sqlite:" .. store, "-e", [[
      mortise.index("x", "1", {a = 1})
      mortise.with_tree_lock("/a", function()
        local pid = io.open("/proc/self/stat"):read "n"
        os.execute("cat /proc/" .. pid .. "/task/*/status")
      end)]]}
    local n = 0
    for mask in out:gmatch "SigBlk:%s*(%x+)" do
      n = n + 1
      for name, number in pairs(crashes) do
        assert.equal(name .. " 0", name .. " " .. (tonumber(mask, 16) >> (number - 1) & 1))
      end
    end
    assert.is_true(n >= 4, "there were " .. n) -- ours, documents', locks', heartbeat's
  end)
end)
