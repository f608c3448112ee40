-- The module `mortise` for scripts. Its own functions are those of the default client, which is opened at
-- first use; mortise.connect{} makes others.
local by_function = require "mortise.by_function"
local core = require "mortise.core"
local client = require "mortise.client"
local config = require "mortise.config"
local duration = require "mortise.duration"
local later = require "mortise.later"
local names = require "mortise.names"
local options = require "mortise.options"
local settings = require "mortise.settings"
local tasks = require "mortise.tasks"

local job = later "mortise.job"
local metrics_text = later "mortise.metrics_text"
local migrate = later "mortise.migrate"
local records = later "mortise.records"
local rename = later "mortise.rename"
local sandbox = later "mortise.sandbox"
local versions = later "mortise.versions"

local mortise = {
  version = core.version,
  null = core.null,       -- JSON's null
  array = core.array,     -- marks a table as an array, so that it may be empty
  object = core.object,   -- marks a table as an object, so that it may be empty
  json = core.json,       -- strict JSON of a table, view or value
  view = core.view,       -- a view over JSON text
  is_error = core.is_error,
  spawn = tasks.spawn,
  map = tasks.map,
  sleep = tasks.sleep,
  reject = by_function.reject,
  format = require("mortise.printer").format,
}

-- ---- Clients -------------------------------------------------------------------------------------

local connect_rows = options.join(settings.rows, settings.identity)

options.register({"connect"}, connect_rows)

-- Fills in the session's identity.
local function identified(core_options)
  for name, value in pairs(config.identity) do
    if core_options[name] == nil then core_options[name] = value end
  end
  return core_options
end

-- The options to use beside those given, and where each was set.
local function beside(values)
  if values.store then return {}, {} end
  local of_host = core.default_options()
  if of_host then return of_host, {} end
  return config.open_options()
end

-- connect{store=, namespace=, lease=, ...} -> client, closable. With `store`, the environment and the
-- configuration are ignored; without it, the given options override them.
function mortise.connect(given)
  local values = options.check("connect", connect_rows, given)
  config.read_secret_files(values)
  local own = config.to_core(values)
  local all, written = beside(values)
  for _, row in ipairs(connect_rows) do
    local value = row.member and own[row.member]
    if value ~= nil then
      all[row.member], written[row.member] = value, ("connect: option `%s`"):format(row.name)
    end
  end
  return client.open(identified(all), written)
end

local default

-- The default client: from the host's options, else from the command line, the environment and the
-- configuration file.
function mortise.client()
  if not default or not default._core then default = mortise.connect {} end
  return default
end

-- ---- The default client's methods ------------------------------------------------------------------

function client.class:job(given) return job.new(self, given) end
function client.class:get_job(id, given) return job.get(self, id, given) end
function client.class:migrate(given) return migrate.new(self, given) end
function client.class:jobs() return records.list(self) end

for name, method in pairs(client.class) do
  if type(method) == "function" and not name:find "^_" and mortise[name] == nil then
    mortise[name] = function(...) return method(mortise.client(), ...) end
  end
end

-- Closes the default client, if it was opened.
function mortise.close()
  local own = default
  default = nil
  if own then own:close() end
end

-- The default client's session, if there is one already; opens nothing.
function mortise._opened_session()
  return default and default._core and default._core:session()
end

-- rename{index=, field=, from=, to=, lock=, ...}; see mortise.rename.
function mortise.rename(given)
  local lock = type(given) == "table" and given.lock
  return rename(type(lock) == "table" and lock._client or mortise.client(), given)
end

function client.class:rename(given) return rename(self, given) end

-- up{dir=, to=, ...}: see mortise.versions.
function mortise.up(given) return versions.run(given) end

-- sandboxed(code or function, {...}) -> a change that is not trusted, for a job: see mortise.sandbox.
function mortise.sandboxed(what, given) return sandbox.change(what, given) end

-- What this process has counted, as Prometheus' text.
function mortise.metrics() return metrics_text.of(require "mortise.metrics") end

-- Seconds since 1970 by this machine's clock, to the millisecond: for people and for documents. The clock may
-- be set back, and the clocks of two machines differ, so it does not tell which event came first.
function mortise.now()
  return core.wall_ms() / 1000
end

-- "1m30s" -> 90.0 seconds.
function mortise.seconds(time)
  return duration.ms(time, "seconds") / 1000
end

names.class(client.class, "client")
for _, group in ipairs {"lock", "writer", "scan"} do
  names.class(require("mortise." .. group).class, group)
end
names.guard(mortise, "mortise", {"mortise", "client"})
names.guard_tasks()

return mortise
