-- A path that many use, `/` or one directly below it, may be several places in the lock table: its stripes.
-- People are shown one path, and a hold that stands in all of them once.
local stripes = {}

stripes.row = {
  name = "stripes", type = "integer", least = 1, most = 64, range = "1 to 64",
  flag = "--stripes", value = "N",
  help = "keep the locks of / and of each path directly below it in so many documents",
}

-- "1 stripe", "16 stripes"
function stripes.text(n) return n == 1 and "1 stripe" or ("%d stripes"):format(n) end

local function may_have(path) return not path:find("/", 2, true) end

-- The names of the places at a path, in a table with `n` stripes.
function stripes.names(path, n)
  local names = {path}
  for stripe = 1, may_have(path) and n - 1 or 0 do
    names[stripe + 1] = (path == "/" and "" or path) .. "//" .. stripe
  end
  return names
end

-- A function(lock, entry, waits) that is false if it has seen a session's entry of that mode in another
-- stripe of the path. It remembers the entries of such paths only.
function stripes.once()
  local seen = {}
  return function(lock, entry, waits)
    if entry.damaged or not may_have(lock.path) then return true end
    local key = ("%s:%s %s %s"):format(lock.ns, lock.path, entry.session, waits and "waits" or entry.mode)
    local stripe = lock.stripe or 0
    seen[key] = seen[key] or stripe
    return seen[key] == stripe
  end
end

return stripes
