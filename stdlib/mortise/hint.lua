-- What a command that is told to people begins with, so that it reaches the same store and namespace when it
-- is typed as it is printed, in the same shell: `mortise`, with the options that say where and as whom of the
-- command line that is running; and with the namespace and the lock table of the client that it is about,
-- where a bare `mortise` would use others. Passwords are not repeated.
local config = require "mortise.config"
local settings = require "mortise.settings"

local hint = {}

local others = {{name = "profile", flag = "--profile"}, {name = "config", flag = "--config"}}

function hint.quoted(word)
  if word:find "^[0-9A-Za-z_@%%+=:,./-]+$" then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- {NAME = value} of what a client has that is opened with what is in force.
local function usual()
  local ok, resolved = pcall(config.resolve)
  local values = {}
  for _, name in ipairs {"namespace", "table"} do
    local found = ok and resolved.found[name]
    values[name] = found and found.value or settings.by_name[name].default_value
  end
  return values
end

local function add(words, row, value)
  if row.name == "store" then value = config.show_store(value) end
  words[#words + 1] = row.flag
  words[#words + 1] = hint.quoted(value)
end

-- `client`: the one that it is about, or nil: the one that the command line names.
function hint.mortise(client)
  local words, own = {"mortise"}, {}
  if client then own = {namespace = client:namespace(), table = client._table} end
  for name, value in pairs(usual()) do
    if own[name] == value then own[name] = nil end
  end
  for _, rows in ipairs {settings.rows, others} do
    for _, row in ipairs(rows) do
      local typed = config.command_line[row.name]
      local value = own[row.name] or row.flag and type(typed) == "string" and typed
      if value then add(words, row, value) end
    end
  end
  return table.concat(words, " ")
end

-- A whole command line of these words.
function hint.command(client, ...)
  local words = {hint.mortise(client)}
  for _, word in ipairs {...} do words[#words + 1] = hint.quoted(word) end
  return table.concat(words, " ")
end

return hint
