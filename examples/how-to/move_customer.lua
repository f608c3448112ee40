#!/usr/bin/env -S mortise run
-- Moves all documents of a customer from one tree to another, in several indices, under one lock: nobody who
-- takes locks sees half of it.
--   mortise run move_customer.lua OLD NEW INDEX...
local old, new = ...
local indices = {select(3, ...)}
if #indices == 0 then error("usage: move_customer.lua OLD NEW INDEX...", 0) end

local from, to = "/customers/" .. old, "/customers/" .. new

mortise.with_tree_lock({from, to}, {wait = "5m"}, function(lock)
  for _, index in ipairs(indices) do
    local result = mortise.rename {
      index = index, from = from, to = to, lock = lock, allow_empty = true,
    }
    print(("%s: %d documents"):format(index, result.changed))
  end
end)
