-- A module: carries something out again, as long as that may help.
--   local retry = require "retry"
--   retry(function() mortise.update("fs", "1", function(doc) doc.count = doc.count + 1 end) end)
--
-- An error of mortise says whether the same call may succeed later (retryable), and whether a part of it may
-- have been done already (ambiguous). What may be done twice is repeated after either; anything else only
-- where nothing was done. `options`: tries (5), twice = true: it may be done twice.
local mortise = mortise or require "mortise"

return function(fn, options)
  local tries = options and options.tries or 5
  for try = 1, tries do
    local result = table.pack(pcall(fn))
    if result[1] then return table.unpack(result, 2, result.n) end
    local why = result[2]
    local again = mortise.is_error(why) and why.retryable and (not why.ambiguous or options and options.twice)
    if not again or try == tries then error(why, 0) end
    mortise.sleep(0.1 * 2 ^ try * (0.5 + math.random())) -- not all at the same time
  end
end
