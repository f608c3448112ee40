-- A file of settings can only compute a value, and neither it nor a secret's file may belong to another user.
local config = require "mortise.config"
local core = require "mortise.core"
local fails = require "spec.support.fails"
local mortise = require "mortise"
local program = require "spec.support.program"

local bombs = {
  ["a pattern"] = {'local s = ("a"):rep(40) return {store = s:find(("a?"):rep(40) .. s)}', "index a string"},
  ["a long string"] = {'return {store = ("x"):rep(3000000000)}', "index a string"},
  ["a loop"] = {"while true do end", "runs too long"},
  ["a loop with goto"] = {"::a:: goto a", "runs too long"},
  ["a doubled string"] = {'local s = "x" while true do s = s .. s end', "too much memory"},
  ["a string that is made again and again"] = {
    'local s = "x" for _ = 1, 22 do s = s .. s end while true do local t = s .. "y" end', "too much memory"},
  ["many strings"] = {'local t = {} for i = 1, 1e9 do t[i] = "x" .. i end', "runs too long"},
  ["many tables"] = {"local t = {} while true do t = {t, t} end", "runs too long"},
  ["recursion"] = {"local function f() return 1 + f() end return f()", "too much memory"},
  ["a tail call"] = {"local function f() return f() end return f()", "runs too long"},
  ["itself"] = {"local t = {} t.profiles = t return t", "nested too deeply"},
  ["deep nesting"] = {"local t = {} for _ = 1, 1000 do t = {t} end return t", "nested too deeply"},
  ["shared tables"] = {
    "local t = {1} for _ = 1, 6 do t = {t, t, t, t, t, t, t, t, t, t} end return t", "too many settings"},
  ["brackets"] = {"return " .. ("("):rep(100000) .. "1" .. (")"):rep(100000), "overflow"},
  ["a function"] = {"return {store = function() end}", "a function is no setting"},
  ["bytecode"] = {string.dump(function() return {} end), "attempt to load a binary chunk"},
  ["the globals"] = {"return {store = _G.os}", "index a nil value"},
  ["_ENV"] = {"return {store = _ENV.string.rep}", "index a nil value"},
  ["another encoding"] = {"\255\254r\0e\0t\0", "near"},
}

local function refused(text)
  local file = program.write(text, ".lua")
  local before = config.command_line
  config.command_line = {config = file}
  local why = fails("invalid_argument", config.load)
  config.command_line = before
  os.remove(file)
  assert.matches(file, why.message, 1, true) -- which of them
  return why.message
end

describe("a file of settings", function()
  for name, row in pairs(bombs) do
    it("ends: " .. name, function() assert.matches(row[2], refused(row[1]), 1, true) end)
  end

  it("changes nothing outside of it", function()
    assert.matches("index a nil value", refused "_G.string.rep = nil return {}")
    assert.matches("nil value", refused "setmetatable({}, {}) return {}")
    assert.equal("xx", ("x"):rep(2))
  end)

  it("computes what it likes", function()
    local ok, value = core.settings(
      [[local host, s = "es1", {} for i = 1, 3 do s[i] = "http://" .. host .. ":" .. 9199 + i end
        return {store = s[1] .. "," .. s[3], lease = 2 * 30, margin = 0.5, insecure = 1 < 2, x = nil}]], "f")
    assert.is_true(ok)
    assert.same({store = "http://es1:9200,http://es1:9202", lease = 60, margin = 0.5, insecure = true}, value)
    assert.equal("integer", math.type(value.lease))
  end)

  it("is not read where others can write it", function()
    local file = program.write('return {store = "sqlite:x.db"}', ".lua")
    for _, mode in ipairs {"660", "606", "620", "602", "666"} do
      os.execute(("chmod %s '%s'"):format(mode, file))
      local status, _, errors = program.run {"--config", file, "config"}
      assert.equal(2, status)
      local wanted = ("%s can be written by others (mode 0%s): chmod go-w it"):format(file, mode)
      assert.matches(wanted, errors, 1, true)
    end
    for _, mode in ipairs {"600", "644", "444"} do
      os.execute(("chmod %s '%s'"):format(mode, file))
      assert.equal(0, (program.run {"--config", file, "config"}))
    end
    os.remove(file)
  end)

  it("is not read where it is another's", function()
    local file = program.write('return {store = "sqlite:x.db"}', ".lua")
    if not os.execute(("chown 65534 '%s' 2>/dev/null"):format(file)) then
      return os.remove(file) -- only root can give a file away
    end
    local status, _, errors = program.run {"--config", file, "config"}
    assert.equal(2, status)
    assert.matches(file .. " belongs to another user (uid 65534)", errors, 1, true)
    os.remove(file)
  end)

  it("may be a pipe", function()
    local file = os.tmpname()
    os.remove(file)
    os.execute(("mkfifo -m 600 '%s'; (echo 'return {store = \"sqlite:x.db\"}' >'%s') &"):format(file, file))
    local status, out = program.run {"--config", file, "config"}
    assert.equal(0, status)
    assert.matches("sqlite:x.db", out, 1, true)
    os.remove(file)
  end)
end)

describe("a file with a secret", function()
  local function warned(name, mode)
    local file = program.write("hunter2\n")
    os.execute(("chmod %s '%s'"):format(mode, file))
    local given = {store = "https://127.0.0.1:1", user = "u", password = "p"}
    if name == "key_file" then given.cert_file = file end
    if name ~= "key_file" then given.user, given.password = name == "password_file" and "u" or nil, nil end
    given[name] = file
    local said = {}
    local warn = config.warn
    config.warn = function(text) said[#said + 1] = text end
    pcall(mortise.connect, given)
    config.warn = warn
    os.remove(file)
    return (table.concat(said, "\n"):gsub(file, "FILE", 1, true))
  end

  for _, name in ipairs {"password_file", "api_key_file", "bearer_file", "key_file"} do
    it("that others can read or write is warned of: " .. name, function()
      for _, mode in ipairs {"644", "604", "620", "602", "660"} do
        local wanted = "can be read or written by others (mode 0" .. mode .. "): chmod 600 it"
        assert.matches(wanted, warned(name, mode), 1, true)
      end
      for _, mode in ipairs {"600", "400", "700"} do assert.equal("", warned(name, mode)) end
    end)
  end
end)
