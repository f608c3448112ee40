-- Where the settings of the default client come from: the command line, then the environment, then
-- a profile of the configuration file. The first that has a setting wins.
--
-- The configuration file is Lua without any function, in bounds of steps and memory:
--   return {
--     default = "staging",
--     profiles = {
--       staging = {store = "http://127.0.0.1:9200"},
--       prod = {store = "https://es1:9200,es2:9200", user = "mover", password_file = "/etc/mortise/prod"},
--     },
--   }
-- or, for a single store, its settings at the top: return {store = "..."}.
local core = require "mortise.core"
local errors = require "mortise.errors"
local options = require "mortise.options"
local secret = require "mortise.secret"
local settings = require "mortise.settings"
local suggest = require "mortise.suggest"

local config = {}

local file_max = 1024 * 1024

-- The command line's settings by name, and its `config` and `profile`.
config.command_line = {}
config.getenv = os.getenv -- replaced by the tests
-- How the sessions of this program identify themselves: {program=, script=}.
config.identity = {}

local function env(name)
  local value = config.getenv(name)
  return value ~= "" and value or nil
end

-- The default file; nil if there is no home directory.
function config.default_file()
  local base = env "XDG_CONFIG_HOME"
  if not base and env "HOME" then base = env "HOME" .. "/.config" end
  return base and base .. "/mortise/config.lua"
end

-- ---- The file ------------------------------------------------------------------------------------

-- ENOENT, ENOTDIR: a daemon's home may be /dev/null.
local is_absent <const> = {[2] = true, [20] = true}

-- Whoever can write this file decides where credentials are sent.
local function refuse_others(file, access)
  if not access.ours then
    errors.bad("configuration: %s belongs to another user (uid %d): it is not read", file, access.owner)
  end
  if access.mode & 0x12 ~= 0 then -- 022
    errors.bad("configuration: %s can be written by others (mode %04o): chmod go-w it", file, access.mode)
  end
end

local function read_file(file, must)
  local text, access, number = core.read_file(file, file_max)
  if not text then
    if not must and is_absent[number] then return nil end
    errors.bad("configuration: %s", access)
  end
  refuse_others(file, access)
  return text
end

local function evaluate(text, file)
  local ran, ok, value = pcall(core.settings, text, file)
  if not ran then ok, value = false, core.is_error(ok) and ok.message or core.tostring(ok) end
  if not ok then
    errors.bad("configuration: %s%s", value:find(file, 1, true) and "" or file .. ": ", value)
  end
  if type(value) ~= "table" then
    errors.bad("configuration: %s must return a table, not a %s", file, type(value))
  end
  return value
end

local function all_names(also)
  local names = {table.unpack(also)}
  for _, row in ipairs(settings.rows) do names[#names + 1] = row.name end
  return names
end

local function check_setting(where, name, value)
  local row = type(name) == "string" and settings.by_name[name]
  if not row then
    local near = type(name) == "string" and suggest(name, all_names {"profiles", "default"})
    errors.bad("configuration: %s: unknown setting `%s`%s", where, core.tostring(name),
      near and (": did you mean `%s`?"):format(near) or "")
  end
  if row.secret then
    errors.bad("configuration: %s: `%s` does not belong into this file; put it into a file of its own "
      .. "and name that in `%s_file`", where, name, name)
  end
  local result, why = options.read(row, value)
  if result == nil then errors.bad("configuration: %s: `%s` is %s", where, name, why) end
end

local function check_profile(where, profile)
  if type(profile) ~= "table" then errors.bad("configuration: %s is a table of settings", where) end
  for name, value in pairs(profile) do check_setting(where, name, value) end
end

local function check_file(value, file)
  if value.profiles == nil then
    if value.default ~= nil then errors.bad("configuration: %s has `default` but no `profiles`", file) end
    check_profile(file, value)
    return {profiles = {[""] = value}, default = ""}
  end
  for name in pairs(value) do
    if name ~= "profiles" and name ~= "default" then
      errors.bad("configuration: %s: beside `profiles` there is only `default`, not `%s`", file,
        core.tostring(name))
    end
  end
  if type(value.profiles) ~= "table" then errors.bad("configuration: %s: `profiles` is a table", file) end
  for name, profile in pairs(value.profiles) do
    if type(name) ~= "string" then errors.bad("configuration: %s: a profile's name is a string", file) end
    check_profile(("%s: profile %s"):format(file, name), profile)
  end
  if value.default ~= nil and not value.profiles[value.default] then
    errors.bad("configuration: %s: `default` names no profile: %s", file, core.tostring(value.default))
  end
  return value
end

-- The file's checked content {profiles, default} and its name; nil if it does not exist and was not named.
function config.load()
  local named = config.command_line.config or env "MORTISE_CONFIG"
  local file = named or config.default_file()
  local text = file and read_file(file, named ~= nil)
  if not text then return nil, file end
  return check_file(evaluate(text, file), file), file
end

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, core.before)
  return keys
end

-- The settings of that one.
local function named_profile(content, file, name)
  local profile = content and content.profiles[name]
  if profile then return profile end
  if not content then
    errors.bad("profile `%s`: there is no configuration file %s", name, file or "")
  end
  local names = sorted_keys(content.profiles)
  local near = suggest(name, names)
  errors.bad("there is no profile `%s` in %s%s", name, file,
    near and near ~= "" and (": did you mean `%s`?"):format(near)
      or "; it has: " .. table.concat(names, ", "))
end

-- The profile to use: its settings, its name, and where the name came from; nil if there is none.
local function choose_profile(content, file)
  local name, from = config.command_line.profile, "--profile"
  if not name then name, from = env "MORTISE_PROFILE", "MORTISE_PROFILE" end
  if not name then
    if not content or not content.default then return nil end
    return content.profiles[content.default], content.default, file
  end
  return named_profile(content, file, name), name, from
end

-- The settings of that profile, as connect{} takes them.
function config.profile(name)
  local content, file = config.load()
  local profile = named_profile(content, file, name)
  if not profile.store then errors.bad("profile `%s` in %s names no store", name, file) end
  return profile
end

-- ---- All sources ---------------------------------------------------------------------------------

local function from_text(row, text, where)
  if row.type == "string" then return text end
  if row.type == "boolean" then
    local known = {["1"] = true, ["true"] = true, yes = true, ["0"] = false, ["false"] = false, no = false}
    if known[text] ~= nil then return known[text] end
    errors.bad("%s: true or false, not %q", where, text)
  end
  local result, why = options.read(row, core.number(text) or text)
  if result == nil then errors.bad("%s: %s", where, why) end
  return result
end

-- Value and origin of one setting; `profile` {settings, origin, whole}.
local function find(row, profile)
  local value = config.command_line[row.name]
  if value ~= nil then return value, row.flag end
  value = row.env and env(row.env)
  if value then return from_text(row, value, row.env), row.env end
  if not profile or (row.access and not profile.whole) then return nil end
  value = profile.settings[row.name]
  if value ~= nil then return (options.read(row, value)), profile.origin end
end

-- A secret in the environment wins over a file, unless the command line names that file.
local function read_secrets(found, warn_about)
  for _, row in ipairs(settings.rows) do
    local file = row.file_of and found[row.name]
    if file and (not found[row.file_of] or file.from == row.flag) then
      found[row.file_of] = {
        value = secret.read(file.value, file.from), from = file.value, secret = true,
      }
    end
    if found[row.name] and row.private then warn_about(secret.exposed(found[row.name].value)) end
  end
end

-- All settings in force: {found = {NAME = {value=, from=}}, file=, profile=, warnings={}}. Raises
-- invalid_argument if a source is wrong.
function config.resolve()
  local content, file = config.load()
  local chosen, name, named_by = choose_profile(content, file)
  local result = {found = {}, warnings = {}, file = content and file, profile = name, default_file = file}
  -- A store other than the profile's gets none of its credentials, unless the profile was named explicitly.
  local elsewhere = config.command_line.store or env "MORTISE_STORE"
  local profile = chosen and {
    settings = chosen,
    origin = name == "" and file or ("%s, profile %s"):format(file, name),
    whole = not elsewhere or named_by ~= file,
  }
  for _, row in ipairs(settings.rows) do
    local value, from = find(row, profile)
    if value ~= nil then result.found[row.name] = {value = value, from = from, secret = row.secret} end
  end
  read_secrets(result.found, function(why) result.warnings[#result.warnings + 1] = why end)
  return result
end

-- Adds the secrets from the files that `values`, checked settings, name.
function config.read_secret_files(values)
  for _, row in ipairs(settings.rows) do
    local file = values[row.name]
    if file and row.file_of and values[row.file_of] == nil then
      values[row.file_of] = secret.read(file, row.name)
    end
    local why = file and row.private and secret.exposed(file)
    if why then config.warn(why) end
  end
end

-- Renames checked settings for core.open{}, without those that name a secret's file.
function config.to_core(values)
  local out = {}
  for name, value in pairs(values) do
    local row = settings.by_name[name]
    if not (row and row.file_of) then out[row and row.member or name] = value end
  end
  return out
end

local function refuse_no_store(resolved)
  local ways = settings.ways:format(resolved.default_file or "($HOME/.config/mortise/config.lua)")
  local more = ""
  if resolved.file and resolved.profile == nil then
    more = ("\n%s has profiles, but no `default`: name one with --profile"):format(resolved.file)
  end
  error(core.error {
    code = "invalid_argument", lines = true,
    message = "no store is named. Name one by one of:\n" .. ways .. more,
  }, 0)
end

-- Where the user set it: the flag, the variable, or the file and the name.
local function written_as(row, from)
  if from == row.flag or from == row.env then return from end
  return ("%s: `%s`"):format(from, row.name)
end

-- Options for core.open{} of the default client, and where each was set. Raises invalid_argument without a
-- store.
function config.open_options()
  local resolved = config.resolve()
  if not resolved.found.store then refuse_no_store(resolved) end
  local values, written = {}, {}
  for name, each in pairs(resolved.found) do
    local row = settings.by_name[name]
    values[name] = each.value
    if row.member then written[row.member] = written_as(row, each.from) end
  end
  for _, why in ipairs(resolved.warnings) do config.warn(why) end
  return config.to_core(values), written
end

local warned = {}
-- Writes each warning once, to standard error.
function config.warn(text)
  if warned[text] then return end
  warned[text] = true
  io.stderr:write("mortise: warning: ", text, "\n")
end

-- A store's URL without credentials that were put into it by mistake: a user's before the host, or a token
-- after it. A '@' after a '?' may belong to either, so then the rest is not shown at all.
function config.show_store(url)
  if url:find "^sqlite:" then return url end
  local scheme, hosts, behind = url:match "^([A-Za-z]*:?/*)([^?#]*)(.*)$"
  if behind:find("@", 1, true) then return scheme .. "..." end
  return scheme .. hosts:gsub("^.*@", "...@") .. behind:gsub("^(.).*", "%1...")
end

-- The margin in force, in milliseconds; `found`: of what resolve() returns. Its default depends on the lease.
function config.margin_ms(found)
  if found.margin then return found.margin.value end
  return core.default_margin(found.lease and found.lease.value or settings.by_name.lease.default_value)
end

local function default_text(row, found)
  return row.name == "margin" and core.time_text(config.margin_ms(found)) or row.default_text
end

-- For people and programs: rows {name, value (text), from} of all settings, with defaults but without the
-- values of secrets.
function config.describe(resolved)
  local rows = {}
  for i, row in ipairs(settings.rows) do
    local found = resolved.found[row.name]
    local value = found and core.tostring(found.value) or default_text(row, resolved.found)
    if found and row.type == "duration" then value = require("mortise.duration").text(found.value) end
    if found and row.name == "store" then value = config.show_store(value) end
    if found and found.secret then value = ("(set, from %s)"):format(found.from) end
    rows[i] = {name = row.name, value = value, from = found and found.from or value and "default" or nil}
  end
  return rows
end

return config
