-- writes.lua INDEX FILE: under a lock on /writes, writes document x of INDEX with a growing n through
-- the lock's writer, until that fails. FILE gets a line with each n that was acknowledged.
local index, file = ...
local out = assert(io.open(file, "w"))
out:setvbuf "line"
pcall(mortise.create_index, index)
mortise.with_tree_lock("/writes", function(lock)
  local n = 0
  while true do
    n = n + 1
    local writer <close> = lock:bulk(index)
    writer:index("x", {n = n})
    writer:finish()
    out:write(n, "\n")
    mortise.sleep "20ms"
  end
end)
