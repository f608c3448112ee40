-- What the program loads when it starts, and what only when it is used.
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP the program's start: MORTISE_BIN is not set"
  return
end

local run = program.run

-- Runs code, then prints which of these are there: libraries in memory, or modules.
local show = [[
  local handle = io.open "/proc/self/maps"
  local maps = handle:read "a"
  handle:close()
  local there = {}
  for _, name in ipairs {"libcurl", "libcrypto"} do
    there[#there + 1] = maps:find(name, 1, true) and name
  end
  for _, name in ipairs {"job", "records", "rename", "reference"} do
    there[#there + 1] = package.loaded["mortise." .. name] and name
  end
  print(table.concat(there, " "))
]]

local function loaded_after(code, store)
  local status, out, err = run({"-e", code .. show}, {env = store and {MORTISE_STORE = store}})
  assert.same({0, ""}, {status, err})
  return out:gsub("\n$", "")
end

describe("the program's start", function()
  local embedded = "sqlite:" .. stores.temporary ".db"

  it("loads neither the servers' libraries nor the modules of jobs", function()
    assert.equal("", (loaded_after ""))
    assert.equal("", (loaded_after("mortise.with_tree_lock('/a', function() end) ", embedded)))
  end)

  it("loads them when they are used", function()
    assert.matches("^libcurl", (loaded_after "mortise.connect {store = 'http://127.0.0.1:1'} "))
    assert.matches("records", (loaded_after("mortise.init() ", embedded)))
    assert.matches("job records", (loaded_after("mortise.jobs() pcall(mortise.get_job, 'none') ", embedded)))
    assert.matches("reference", (loaded_after "local _ = mortise.no_such_name "))
  end)

  it("opens the documents' file once, not for the heartbeat too", function()
    local file = stores.temporary ".db"
    local status, out, err = run {"--store", "sqlite:" .. file, "-e", [[
      mortise.init()
      mortise.with_tree_lock("/a", function()
        for line in io.popen "ls -l /proc/$PPID/fd":lines() do print(line:match "-> (.*)$") end
      end)
    ]]}
    assert.same({0, ""}, {status, err})
    local _, n = ("\n" .. out):gsub("\n" .. file:gsub("%p", "%%%0") .. "%f[\n]", "")
    assert.equal(1, n, out)
  end)

  it("says which library cannot be loaded", function()
    local folder = stores.temporary ""
    assert(os.execute("mkdir -p " .. folder))
    local real = loaded_after [[
      mortise.connect {store = 'http://127.0.0.1:1'}
      for line in io.lines "/proc/self/maps" do print(line:match "[^/]*(libcurl[^/]*)$") end
    ]]
    local soname = real:match "libcurl[^\n]-%.so%.%d+"
    local handle = assert(io.open(folder .. "/" .. soname, "wb"))
    handle:write "no library"
    handle:close()
    local status, _, err = run({"--store", "http://127.0.0.1:1", "-e", "mortise.url()"},
      {env = {LD_LIBRARY_PATH = folder}})
    os.execute("rm -r " .. folder)
    assert.equal(1, status)
    assert.matches("unsupported: libcurl does not start: .*" .. soname:gsub("%p", "%%%0"), err)
  end)
end)

describe("the compiled standard library", function()
  it("still names files and lines in a traceback", function()
    local _, _, err = run {"-v", "-e", "mortise.rename {}"}
    assert.matches("mortise/config%.lua:%d+: in ", err)
  end)
end)
