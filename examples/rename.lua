#!/usr/bin/env -S mortise run
-- Rename a directory: every document of INDEX whose FIELD (default: path) is FROM or lies below it.
--   mortise --store http://127.0.0.1:9200 run examples/rename.lua INDEX FROM TO [FIELD]
local index, from, to, field = ...
if not to then error("usage: rename.lua INDEX FROM TO [FIELD]", 0) end

-- It locks both trees, so nobody who asks for a lock inside of either can interleave. If it is killed, they
-- stay locked until `mortise jobs resume` or `mortise jobs rollback`.
local result = mortise.rename {
  index = index, field = field, from = from, to = to, wait = "1m",
  on_progress = function(done, total)
    io.stderr:write(("\r%d of %d"):format(done, total))
  end,
}

io.stderr:write("\r")
print(("%s -> %s: %d documents changed in %.1f s, %d times over the index"):format(from, to,
  result.changed, result.seconds, result.passes))
