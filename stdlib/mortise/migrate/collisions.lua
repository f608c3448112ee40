-- Two documents that are one in the target: of one id with different routing, where both come into one shard,
-- or of which `change` makes the same one. Of two copies one is lost. Where the counts say that, these are
-- the names.
local core = require "mortise.core"
local segments = require "mortise.migrate.segments"

local collisions = {}

local NAMED <const> = 5
local MOST_IDS <const> = 1000000 -- are held in memory

-- Calls fn(id, routing, what): the target's document, and of which it was made.
local function each_target(m, fn)
  for shard, ledger in pairs(m.ledgers) do
    for number in pairs(ledger.version) do
      local list = segments.peek(m, shard, number)
      for i = 1, list.n do
        local made = list.made[list.seqs[i]] ~= nil
        for _, one in ipairs(segments.targets(list, i)) do fn(one[1], one[2], list.ids[i], made) end
      end
    end
  end
end

local function name_of(id, routing, of)
  return id ~= of and "made of " .. of or routing or "no routing"
end

-- The ids of up to so many documents that have a routing, or are made: as what they are.
local function special_ids(m)
  local names, n = {}, 0
  each_target(m, function(id, routing, of, made)
    if (routing or made) and not names[id] and n < MOST_IDS then
      names[id], n = name_of(id, routing, of), n + 1
    end
  end)
  return names
end

-- Some of them, as text; empty: none was found.
function collisions.find(m)
  local names, found = special_ids(m), core.array {}
  each_target(m, function(id, routing, of)
    local other, name = names[id], name_of(id, routing, of)
    if other and other ~= name and #found < NAMED then
      found[#found + 1] = ("%s (%s and %s)"):format(id, other, name)
      names[id] = nil
    end
  end)
  return found
end

return collisions
