local config = require "mortise.config"
local mortise = require "mortise"
local program = require "spec.support.program"

-- Runs fn with this environment, command line and configuration file.
local function with(given, fn)
  local file = given.file and program.write(given.file, ".lua")
  local variables = given.env or {}
  if file then variables.MORTISE_CONFIG = file end
  local getenv, command_line, warn = config.getenv, config.command_line, config.warn
  config.getenv = function(name) return variables[name] end
  config.command_line = given.line or {}
  config.warn = function() end
  local ok, result = pcall(fn, file)
  config.getenv, config.command_line, config.warn = getenv, command_line, warn
  if file then os.remove(file) end
  if not ok then error(result, 0) end
  return result
end

local function value(resolved, name)
  local found = resolved.found[name]
  return found and found.value, found and found.from
end

local function complaint(given)
  local ok, why = pcall(with, given, config.resolve)
  assert.is_false(ok)
  assert.equal("invalid_argument", why.code)
  return why.message
end

local profiles = [[return {default = "a", profiles = {
  a = {store = "http://a:1", user = "anna", lease = "10s"}, b = {store = "http://b:1", insecure = true}}}]]

describe("configuration", function()
  it("takes the command line first, then the environment, then the file", function()
    local given = {file = profiles, env = {MORTISE_LEASE = "20s", MORTISE_WAIT = "1s"}, line = {wait = 5000}}
    with(given, function(file)
      local r = config.resolve()
      assert.same({"http://a:1", file .. ", profile a"}, {value(r, "store")})
      assert.same({20000, "MORTISE_LEASE"}, {value(r, "lease")})
      assert.same({5000, "--wait"}, {value(r, "wait")})
      assert.equal("anna", (value(r, "user")))
      assert.equal("a", r.profile)
    end)
  end)

  it("chooses a profile by name", function()
    assert.equal("http://b:1",
      (value(with({file = profiles, line = {profile = "b"}}, config.resolve), "store")))
    assert.equal("http://b:1",
      (value(with({file = profiles, env = {MORTISE_PROFILE = "b"}}, config.resolve), "store")))
    assert.matches("no profile `c`", complaint {file = profiles, line = {profile = "c"}})
  end)

  it("gives a store that was named elsewhere no credentials of the default profile", function()
    local r = with({file = profiles, line = {store = "http://evil:1"}}, config.resolve)
    assert.equal("http://evil:1", (value(r, "store")))
    assert.is_nil(r.found.user)
    assert.equal(10000, (value(r, "lease")))
    r = with({file = profiles, line = {store = "http://c:1", profile = "a"}}, config.resolve)
    assert.equal("anna", (value(r, "user")))
  end)

  it("may be one store's settings", function()
    assert.equal("http://x:1",
      (value(with({file = 'return {store = "http://x:1"}'}, config.resolve), "store")))
  end)

  it("runs in an empty environment", function()
    assert.matches("configuration: .*:1: ", complaint {file = "os.exit(1)"})
    assert.matches("runs too long", complaint {file = "while true do end"})
    assert.matches("must return a table", complaint {file = "return 1"})
    assert.matches("configuration: .*:1: .*near", complaint {file = "return {"})
  end)

  it("checks every key", function()
    assert.matches("unknown setting `stroe`: did you mean `store`", complaint {file = 'return {stroe = "x"}'})
    assert.matches("`lease` is a number of seconds", complaint {file = 'return {lease = "x"}'})
    assert.matches("`default` names no profile", complaint {file = 'return {default = "x", profiles = {}}'})
    assert.matches("unknown setting `stor`", complaint {file = "return {profiles = {p = {stor = 1}}}"})
  end)

  it("refuses secrets in the file", function()
    local why = complaint {file = 'return {store = "http://x", password = "hidden-one"}'}
    assert.matches("password_file", why)
    assert.not_matches("hidden", why)
  end)

  it("reads secrets from files, and warns when others can read them", function()
    local secret = program.write "hunter2\n"
    os.execute("chmod 600 " .. secret)
    local given = {line = {store = "http://x", user = "u", password_file = secret}}
    local r = with(given, config.resolve)
    assert.equal("hunter2", (value(r, "password")))
    assert.same({}, r.warnings)
    assert.equal("hunter2", with(given, config.open_options).password)
    assert.is_nil(with(given, config.open_options).password_file)
    os.execute("chmod 644 " .. secret)
    assert.matches("can be read or written by others %(mode 0644%)", with(given, config.resolve).warnings[1])
    os.remove(secret)
    assert.matches("No such file", complaint {line = {password_file = "/nonexistent/x"}})
  end)

  it("never shows a secret", function()
    local r = with({env = {MORTISE_PASSWORD = "hunter2", MORTISE_STORE = "http://x"}}, config.resolve)
    local shown = {}
    for _, row in ipairs(config.describe(r)) do
      assert.not_equal("hunter2", row.value)
      shown[row.name] = row.value
    end
    assert.equal("(set, from MORTISE_PASSWORD)", shown.password)
  end)

  it("hides what someone put into the store's URL", function()
    assert.equal("http://...@h:1", config.show_store "http://u:p/w@h:1")
    assert.equal("https://...@b", config.show_store "https://u:p@a,u:p@b")
    assert.equal("http://h:1,h:2", config.show_store "http://h:1,h:2")
    assert.equal("http://h:1/a?...", config.show_store "http://h:1/a?key=k#f")
    assert.equal("http://...@h#...", config.show_store "http://u:p@h#f")
    assert.equal("http://...", config.show_store "http://h:1?key=k@hunter2")
    assert.equal("http://...", config.show_store "http://u:p?hunter2@h")
    assert.equal("sqlite:a@b.db", config.show_store "sqlite:a@b.db")
    local r = with({env = {MORTISE_STORE = "http://u:p@x"}}, config.resolve)
    for _, row in ipairs(config.describe(r)) do
      if row.name == "store" then assert.equal("http://...@x", row.value) end
    end
  end)

  it("without a store says the three ways to name one", function()
    local ok, why = pcall(with, {env = {HOME = "/dev/null/home"}}, config.open_options)
    assert.is_false(ok)
    for _, way in ipairs {"--store URL", "MORTISE_STORE=URL", "/dev/null/home/.config/mortise/config.lua"} do
      assert.truthy(why.message:find(way, 1, true))
    end
  end)

  it("says which variable is wrong", function()
    assert.matches("MORTISE_WAIT", complaint {env = {MORTISE_WAIT = "x"}})
    assert.matches("MORTISE_INSECURE", complaint {env = {MORTISE_INSECURE = "perhaps"}})
    assert.equal('MORTISE_LEASE: a time from 1s to 1h, not 0', complaint {env = {MORTISE_LEASE = "0"}})
    assert.equal('MORTISE_ANSWER_MAX: a size of 1KiB or more, not "1000B"',
      complaint {env = {MORTISE_ANSWER_MAX = "1000B"}})
  end)

  it("says which key of the file is wrong", function()
    assert.matches("^configuration: /%S+: `lease` is a time from 1s to 1h, not 0$",
      complaint {file = "return {lease = 0}"})
    assert.matches('^configuration: /%S+: profile p: `timeout` is a time from 1ms to 366d, not "0s"$',
      complaint {file = 'return {profiles = {p = {timeout = "0s"}}}'})
  end)

  it("has the margin that belongs to the lease", function()
    local function margin(given)
      for _, row in ipairs(config.describe(with(given, config.resolve))) do
        if row.name == "margin" then return row.value end
      end
    end
    assert.equal("1s", margin {})
    assert.equal("200ms", margin {line = {lease = 2000}})
    assert.equal("500ms", margin {line = {lease = 2000}, env = {MORTISE_MARGIN = "0.5"}})
  end)

  -- A combination of options that is wrong is found when a client is opened.
  it("names what was written where the client is refused", function()
    local server = {store = "http://127.0.0.1:1"}
    local function refused(given, own)
      local ok, why = pcall(with, given, function() return mortise.connect(own or {}) end)
      assert.is_false(ok)
      assert.equal("invalid_argument", why.code)
      return why.message
    end
    assert.equal("MORTISE_MARGIN: at most a third of the lease, 1s, not 2s",
      refused {line = {store = server.store, lease = 3000}, env = {MORTISE_MARGIN = "2s"}})
    assert.equal("--ca /nonexistent/ca: No such file or directory",
      refused {line = {store = server.store, ca_file = "/nonexistent/ca"}})
    assert.equal("--namespace: 1 to 64 of a-z 0-9 _ -, not \"A b\"",
      refused {line = {store = server.store, namespace = "A b"}})
    assert.matches("^/%S+, profile a: `user` is given without password$", refused {file = profiles})
    assert.matches("^MORTISE_STORE: .*neither$", refused {env = {MORTISE_STORE = "gopher:x"}})
    assert.equal("connect: option `margin`: at most a third of the lease, 1s, not 2s",
      refused({line = {store = server.store, lease = 3000}}, {margin = 2}))
    assert.equal("connect: option `password` is given without user",
      refused({}, {store = server.store, password = "p"}))
  end)

  it("of what only a server needs, a store in a file ignores the value", function()
    local file = os.tmpname()
    local client <close> = mortise.connect {
      store = "sqlite:" .. file, table = "no such Table", connect_timeout = "1ms", answer_max = 1024,
      user = "anna", api_key = "k", bearer = "b", ca_file = "/nonexistent/a", key_file = "/nonexistent/b",
      insecure = true,
    }
    assert.equal("sqlite:" .. file, client:url())
    os.remove(file)
  end)
end)
