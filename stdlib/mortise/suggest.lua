-- "did you mean": the nearest of the known names.

-- Edit distance with swaps of neighbours as one step.
local function distance(a, b)
  local before, row = {}, {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local next_row = {[0] = i}
    for j = 1, #b do
      local cost = a:byte(i) == b:byte(j) and 0 or 1
      next_row[j] = math.min(row[j] + 1, next_row[j - 1] + 1, row[j - 1] + cost)
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        next_row[j] = math.min(next_row[j], before[j - 2] + 1)
      end
    end
    before, row = row, next_row
  end
  return row[#b]
end

-- The name in the list `names` that `name` was probably meant to be, or nil; at most `most` steps away
-- (default: depends on its length).
return function(name, names, most)
  if #name > 40 then return nil end
  local best, least = nil, (most or #name // 3 + 1) + 1
  for _, known in ipairs(names) do
    local d = distance(name, known)
    if d < least then best, least = known, d end
  end
  return best
end
