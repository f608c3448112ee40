-- What a command that is told to people begins with, so that it reaches the same store and namespace when it
-- is typed as it is printed, in the same shell: `mortise`, with the options that say where and as whom of the
-- command line that is running; and with the namespace of the client that it is about, where a bare `mortise`
-- would use another. Passwords are not repeated.
local config = require "mortise.config"
local settings = require "mortise.settings"

local hint = {}

local others = {{name = "profile", flag = "--profile"}, {name = "config", flag = "--config"}}

function hint.quoted(word)
  if word:find "^[0-9A-Za-z_@%%+=:,./-]+$" then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- The namespace of a client that is opened with what is in force; nil: that cannot be said.
local function usual_namespace()
  local ok, resolved = pcall(config.resolve)
  if not ok then return nil end
  local found = resolved.found.namespace
  return found and found.value or settings.by_name.namespace.default_value
end

local function add(words, row, value)
  if row.name == "store" then value = config.show_store(value) end
  words[#words + 1] = row.flag
  words[#words + 1] = hint.quoted(value)
end

-- `client`: the one that it is about, or nil: the one that the command line names.
function hint.mortise(client)
  local words, namespace = {"mortise"}, client and client:namespace()
  if namespace == usual_namespace() then namespace = nil end
  for _, rows in ipairs {settings.rows, others} do
    for _, row in ipairs(rows) do
      local value = config.command_line[row.name]
      local is_said = type(value) == "string" and row.flag and not (row.name == "namespace" and namespace)
      if is_said then add(words, row, value) end
    end
  end
  if namespace then add(words, settings.by_name.namespace, namespace) end
  return table.concat(words, " ")
end

-- A whole command line of these words.
function hint.command(client, ...)
  local words = {hint.mortise(client)}
  for _, word in ipairs {...} do words[#words + 1] = hint.quoted(word) end
  return table.concat(words, " ")
end

return hint
