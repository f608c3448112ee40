-- What holds for every command: its help, wrong words, a store that is away, one that is not there.
local cjson = require "cjson"
local cli = require "mortise.cli"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP the commands: MORTISE_BIN is not set"
  return
end

local script = program.write("mortise.count 'fs'", ".lua")
local job = program.write(
  "return mortise.job {name = 'x', index = 'fs', rename = {from = '/a', to = '/b'}}", ".lua")
local document = program.write('{"path": "/a"}', ".json")
local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir " .. folder)
local version = assert(io.open(folder .. "/V001__first.lua", "w"))
version:write "mortise.count 'fs'"
version:close()

-- The words with which each is called here; `offline`: it needs no store.
local calls = {
  run = {script}, repl = {offline = true}, lock = {"/a", "--wait", "0", "--", "true", away = 125},
  rename = {"fs", "/a", "/b", "--yes"}, migrate = {"fs", "fs-2", "--alias", "a"}, job = {"run", job, "--yes"},
  jobs = {}, up = {folder}, init = {}, locks = {}, sessions = {}, watch = {"--count", "1"},
  board = {"--listen", "0", "--for", "1s"},
  get = {"fs", "1"}, search = {"fs"}, count = {"fs"}, put = {"fs", "1", document, "--yes"},
  edit = {"fs", "1"},
  doctor = {away = 1}, config = {offline = true}, names = {"index", offline = true}, help = {offline = true},
  version = {offline = true},
}

local function words_of(name, ...)
  local words = {name}
  table.move(calls[name], 1, #calls[name], 2, words)
  table.move({...}, 1, select("#", ...), #words + 1, words)
  return words
end

-- Options before the words that are another program's.
local function with(name, option)
  local words = words_of(name)
  table.insert(words, 2, option)
  return words
end

-- The module of a command; of the console, which only the program can load, as much as is asked for here.
local function command_of(name)
  return name == "repl" and {arguments = {0, 0}} or cli.command(name)
end

local function has_option(name, flag)
  for _, row in ipairs(command_of(name).options or {}) do
    if row.flag == flag then return true end
  end
  return false
end

local function lines(text) return select(2, text:gsub("[^\n]+", "")) end

describe("every command", function()
  for _, name in ipairs(cli.commands) do
    it(name .. " is called here", function() assert.is_table(calls[name]) end)

    it(name .. " has help", function()
      local status, out, err = program.run {name, "--help"}
      assert.same({0, ""}, {status, err})
      assert.matches("^usage: mortise " .. name, out)
      for line in out:gmatch "[^\n]+" do assert.is_true(utf8.len(line) <= 110, line) end
      assert.equal(out, (select(2, program.run {"help", name})))
    end)

    it(name .. " refuses an option that it does not have, and one too many words", function()
      local status, out, err = program.run(with(name, "--no-such-option"))
      assert.same({2, ""}, {status, out})
      assert.matches("^mortise: [^\n]*%-%-no%-such%-option[^\n]*\n$", err)
      local most = command_of(name).arguments[2]
      if most == math.huge then return end
      local words = {name}
      for i = 1, most + 2 do words[i + 1] = "w" .. i end
      assert.equal(2, (program.run(words)))
    end)

    it(name .. " says in one line that the store is away", function()
      local env = {MORTISE_STORE = "http://127.0.0.1:1", MORTISE_TIMEOUT = "2s"}
      local status, out, err = program.run(words_of(name), {env = env})
      if calls[name].offline then
        assert.equal(0, status, err)
        return
      end
      assert.equal(calls[name].away or 4, status, out .. err)
      assert.matches("127%.0%.0%.1:1", out .. err)
      assert.is_true(lines(err) <= 1, err)
      if not has_option(name, "--json") then return end
      status, out = program.run(with(name, "--json"), {env = env})
      assert.equal(calls[name].away or 4, status)
      if name ~= "doctor" then assert.equal("unavailable", cjson.decode(out).error.code) end
    end)
  end
end)

stores.each("every command", function(store)
  local namespace

  before_each(function()
    namespace = stores.name "ns"
    stores.connect(store, {namespace = namespace}):close()
  end)

  for _, name in ipairs(cli.commands) do
    it(name .. " ends with a status and never with a traceback, whatever is there", function()
      local words = {"--store", store.store, "--namespace", namespace}
      for _, word in ipairs(words_of(name)) do
        words[#words + 1] = word == "fs" and "no-such-index-of-ours" or word
      end
      if name == "init" or name == "edit" then words[#words + 1] = "--help" end
      local status, out, err = program.run(words)
      assert.is_true(status <= 7, out .. err)
      assert.is_nil(err:find("traceback", 1, true), err)
      assert.is_nil(err:find "%.lua:%d+: attempt", err)
    end)
  end
end)
