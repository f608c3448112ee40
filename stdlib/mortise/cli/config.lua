-- mortise config
local config = require "mortise.config"
local output = require "mortise.cli.output"

local command = {
  summary = "show the settings in force and where each came from",
  usage = "[--json]",
  help = [[
Shows every setting of the default client, its value and where it came from: the command line, then
the environment, then the chosen profile of the configuration file. Secrets are not shown.

The configuration file, $XDG_CONFIG_HOME/mortise/config.lua or ~/.config/mortise/config.lua, is Lua
in an empty environment:
  return {
    default = "staging",
    profiles = {
      staging = {store = "http://127.0.0.1:9200"},
      prod = {store = "https://es1:9200,es2:9200", user = "mover", password_file = "/etc/mortise/prod"},
    },
  }
The credentials of the default profile are used with no other store than its own.]],
  options = {output.json_row},
  arguments = {0, 0},
}

local function print_json(resolved, rows)
  local all = {}
  for _, row in ipairs(rows) do all[row.name] = {value = row.value, from = row.from} end
  for name, each in pairs(all) do
    if next(each) == nil then all[name] = nil end
  end
  output.json {
    settings = all, file = resolved.file, profile = resolved.profile ~= "" and resolved.profile or nil,
    warnings = #resolved.warnings > 0 and resolved.warnings or nil,
  }
end

local function print_table(resolved, rows)
  local file = resolved.file or ("%s (not there)"):format(resolved.default_file or "none")
  io.stdout:write("configuration file: ", file, "\n")
  if resolved.profile and resolved.profile ~= "" then
    io.stdout:write("profile: ", resolved.profile, "\n")
  end
  local lines = {{"SETTING", "VALUE", "FROM"}}
  for _, row in ipairs(rows) do
    if row.value then lines[#lines + 1] = {row.name, row.value, row.from} end
  end
  output.columns(lines)
end

function command.run(ctx)
  local resolved = config.resolve()
  local rows = config.describe(resolved)
  if ctx.options.json then print_json(resolved, rows) else print_table(resolved, rows) end
  for _, why in ipairs(resolved.warnings) do config.warn(why) end
end

return command
