-- The settings of a client: the options that core.options describes, and a file for each secret. The same
-- rows check mortise.connect{}, read the command line, the environment and the configuration file, and
-- print the help of all of them.
--   name     in connect{} and in a profile        type, help   as in mortise.options
--   member   name in core.open{}                  env          environment variable
--   flag     on the command line, with `value` the name of its argument
--   least, most, range    of a number             default_value, default_text   what it is otherwise
--   secret   never in a file of settings or on the command line
--   file_of  names a file that holds that secret
--   private  names a file that holds a secret: a warning where others can read or write it
--   access   belongs to one store: not taken from a profile for another store
local core = require "mortise.core"

local settings = {}

local types = {
  text = "string", file = "string", secret = "string", time = "duration", size = "size", flag = "boolean",
}

-- Names of the flags' arguments; settings without one have no flag.
local values = {
  store = "URL", namespace = "NAME", table = "NAME", lease = "TIME", wait = "TIME", timeout = "TIME",
  user = "NAME", ca_file = "FILE", cert_file = "FILE", key_file = "FILE",
  api_key_command = "COMMAND", bearer_command = "COMMAND", aws_region = "REGION",
  proxy = "URL", unix_socket = "FILE",
}

local access = {
  user = true, password = true, api_key = true, bearer = true, ca_file = true, cert_file = true,
  key_file = true, insecure = true, proxy = true, unix_socket = true, sniff = true,
  api_key_command = true, bearer_command = true, aws = true, aws_region = true,
}

-- Only for connect{} (settings.identity): the session's identity.
local identity = {program = true, script = true, job = true}

-- Texts for defaults that are not a fixed value.
local instead = {
  margin = ("a tenth of the lease, at most %s"):format(core.time_text(core.default_margin(core.time_max))),
  ca_file = "the system's",
  proxy = "the environment's",
}

local function upper(letter) return string.char(letter:byte() - 0x20) end

local function flag_of(word) return "--" .. word:gsub("_", "-") end

local function env_of(word) return "MORTISE_" .. word:gsub("[a-z]", upper) end

local function default_of(option)
  if option.default == nil then return instead[option.name] end
  return option.default_text or core.tostring(option.default)
end

local function row_of(option)
  local name, word, kind = option.name, option.word, option.kind
  return {
    name = name, member = option.member, type = types[kind], help = option.help,
    flag = (values[name] or kind == "flag") and flag_of(word) or nil, value = values[name],
    env = env_of(word), secret = kind == "secret", access = access[name], private = name == "key_file",
    least = option.least, most = option.most, range = option.range,
    default_value = option.default, default_text = default_of(option),
  }
end

local function file_row(secret)
  local name = secret.name .. "_file"
  return {
    name = name, type = "string", flag = flag_of(name), value = "FILE", env = env_of(name),
    file_of = secret.name, access = true, private = true, help = "file with " .. secret.help,
  }
end

settings.rows, settings.identity, settings.by_name = {}, {}, {}

local function add(row)
  settings.rows[#settings.rows + 1], settings.by_name[row.name] = row, row
end

for _, option in ipairs(core.options) do
  local row = row_of(option)
  if identity[row.name] then
    row.env, row.default_text = nil, nil
    settings.identity[#settings.identity + 1] = row
  else
    add(row)
    if row.secret then add(file_row(row)) end
  end
end

-- The ways to name a store, for people.
settings.ways = [[
  --store URL             on the command line
  MORTISE_STORE=URL       in the environment
  return {store = "URL"}  in the configuration file %s
where URL is ]] .. settings.by_name.store.help

return settings
