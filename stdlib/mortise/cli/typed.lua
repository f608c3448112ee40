-- What people typed, for them to type it with more.
local hint = require "mortise.hint"

local typed = {}

-- The command as it was typed with these options added, before any "--".
function typed.same_with(ctx, ...)
  local words, wanted = {"mortise"}, {...}
  local function add_wanted()
    for _, flag in ipairs(wanted) do
      local name = flag:sub(3):gsub("-", "_")
      if not ctx.options[name] then words[#words + 1] = flag end
    end
    wanted = {}
  end
  for _, word in ipairs(ctx.words) do
    if word == "--" then add_wanted() end
    words[#words + 1] = hint.quoted(word)
  end
  add_wanted()
  return table.concat(words, " ")
end

return typed
