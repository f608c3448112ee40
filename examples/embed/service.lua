-- The handlers of service.c: each gets the arguments of its request, and its result, or its error, is the
-- answer. While one waits, for a lock or for the store, the others go on.
-- luacheck: globals handlers
handlers = {}

local function need(arguments, name)
  return arguments[name] or error("the argument `" .. name .. "` is missing", 0)
end

function handlers.rename(arguments)
  local index, from, to = need(arguments, "index"), need(arguments, "from"), need(arguments, "to")
  return mortise.with_tree_lock({from, to}, {wait = arguments.wait or "30s"}, function(lock)
    local result = mortise.rename {index = index, from = from, to = to, lock = lock}
    return ("%d documents renamed under fence %d"):format(result.changed, lock.fence)
  end)
end

-- Holds a path for a while, as work on it would.
function handlers.hold(arguments)
  return mortise.with_tree_lock(need(arguments, "path"), {wait = arguments.wait or "30s"}, function()
    mortise.sleep(arguments.seconds or "1s")
    return "held"
  end)
end
