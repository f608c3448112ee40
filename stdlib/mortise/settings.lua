-- The settings of a client, one row each. The same rows check mortise.connect{}, read the command
-- line, the environment and the configuration file, and print the help of all of them.
--   name     in connect{} and in a profile        type, help   as in mortise.options
--   core     name in core.open{}, where another   env          environment variable
--   flag     on the command line, with `value` the name of its argument
--   secret   never in a file of settings or on the command line
--   file_of  names a file that holds that secret
--   private  names a file that holds a secret: a warning where others can read or write it
--   access   belongs to one store: not taken from a profile for another store
local settings = {}

settings.rows = {
  {name = "store", type = "string", flag = "--store", value = "URL", env = "MORTISE_STORE",
    help = "http(s)://HOST[:PORT][,...] or sqlite:FILE"},
  {name = "namespace", core = "ns", type = "string", flag = "--namespace", value = "NAME",
    env = "MORTISE_NAMESPACE", default_text = "default", help = "an independent hierarchy of locks"},
  {name = "table", type = "string", flag = "--table", value = "NAME", env = "MORTISE_TABLE",
    default_text = "mortise-locks", help = "the lock table on a server"},
  {name = "lease", core = "lease_ms", type = "duration", flag = "--lease", value = "TIME",
    env = "MORTISE_LEASE", default_text = "60s", help = "how long locks outlive a process that died"},
  {name = "margin", core = "margin_ms", type = "duration", env = "MORTISE_MARGIN",
    default_text = "1s",
    help = "how long before its end a lease counts as lost; of a lease below 10s, a tenth"},
  {name = "wait", core = "wait_ms", type = "duration", flag = "--wait", value = "TIME",
    env = "MORTISE_WAIT", default_text = "30s", help = "how long to wait for a lock; 0: try once"},
  {name = "timeout", core = "request_ms", type = "duration", flag = "--timeout", value = "TIME",
    env = "MORTISE_TIMEOUT", default_text = "30s", help = "for one request"},
  {name = "connect_timeout", core = "connect_ms", type = "duration", env = "MORTISE_CONNECT_TIMEOUT",
    default_text = "5s", help = "for one connection"},
  {name = "answer_max", type = "size", env = "MORTISE_ANSWER_MAX", default_text = "64MB",
    help = "a larger answer is refused"},
  {name = "user", type = "string", flag = "--user", value = "NAME", env = "MORTISE_USER",
    access = true, help = "for basic authentication"},
  {name = "password", type = "string", env = "MORTISE_PASSWORD", secret = true, access = true,
    help = "the user's password"},
  {name = "password_file", type = "string", flag = "--password-file", value = "FILE",
    env = "MORTISE_PASSWORD_FILE", file_of = "password", access = true, private = true,
    help = "file with the user's password"},
  {name = "api_key", type = "string", env = "MORTISE_API_KEY", secret = true, access = true,
    help = "an API key, encoded"},
  {name = "api_key_file", type = "string", flag = "--api-key-file", value = "FILE",
    env = "MORTISE_API_KEY_FILE", file_of = "api_key", access = true,
    private = true, help = "file with an API key"},
  {name = "bearer", type = "string", env = "MORTISE_BEARER", secret = true, access = true,
    help = "a bearer token"},
  {name = "bearer_file", type = "string", flag = "--bearer-file", value = "FILE",
    env = "MORTISE_BEARER_FILE", file_of = "bearer", access = true, private = true,
    help = "file with a bearer token"},
  {name = "ca_file", type = "string", flag = "--ca", value = "FILE", env = "MORTISE_CA",
    access = true, default_text = "the system's", help = "certificates to trust, PEM"},
  {name = "cert_file", type = "string", flag = "--cert", value = "FILE", env = "MORTISE_CERT",
    access = true, help = "the client's certificate, PEM"},
  {name = "key_file", type = "string", flag = "--key", value = "FILE", env = "MORTISE_KEY",
    access = true, private = true, help = "the certificate's key, PEM, without a pass phrase"},
  {name = "insecure", type = "boolean", flag = "--insecure", env = "MORTISE_INSECURE",
    access = true, default_text = "false", help = "do not check the server's certificate"},
}

-- Only for connect{}: who the session says it is.
settings.identity = {
  {name = "program", type = "string", help = "shown to whoever is kept waiting"},
  {name = "script", type = "string", help = "the same"},
  {name = "job", type = "string", help = "the same"},
}

settings.by_name = {}
for _, row in ipairs(settings.rows) do settings.by_name[row.name] = row end

-- Which setting is missing one, for people.
settings.ways = [[
  --store URL             on the command line
  MORTISE_STORE=URL       in the environment
  return {store = "URL"}  in the configuration file %s
where URL is http(s)://HOST[:PORT][,...] or sqlite:FILE]]

return settings
