-- Commands for people to type: what they typed, with more, or for the same store.
local typed = {}

function typed.quoted(word)
  if word:find "^[0-9A-Za-z_@%%+=:,./-]+$" then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

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
    words[#words + 1] = typed.quoted(word)
  end
  add_wanted()
  return table.concat(words, " ")
end

-- Another command, with those global options of this one that say where and as whom.
function typed.command(ctx, ...)
  local words = {"mortise"}
  for _, row in ipairs(ctx.cli.global_rows) do
    local value = ctx.options[row.name]
    if row.type == "string" and value and row.name ~= "progress" then
      table.move({row.flag, typed.quoted(value)}, 1, 2, #words + 1, words)
    end
  end
  for _, word in ipairs {...} do words[#words + 1] = typed.quoted(word) end
  return table.concat(words, " ")
end

return typed
