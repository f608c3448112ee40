-- A script that is interrupted gets an error, reports it once, and cannot go on for ever.
local core = require "mortise.core"
local process = require "spec.support.process"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP interrupts: MORTISE_BIN is not set"
  return
end

local lease_ms = 10000

local function start(text)
  local file = program.write(text, ".lua")
  local running = process.start(stores.all()[1], stores.name "ns", lease_ms, {file})
  running:said "begun"
  os.remove(file)
  return running
end

local head = [[
local core = require "mortise.core"
local kept <close> = setmetatable({}, {__close = function()
  mortise.sleep(0.05) print "closed" io.stdout:flush()
end})
local function begun() print("begun", core.now_ms()) io.stdout:flush() end
]]

describe("a script that is asked to stop", function()
  for what, code in pairs {
    ["computes"] = "begun() while true do end",
    ["waits"] = "begun() mortise.sleep(600)",
    ["waits for a task"] = "mortise.spawn(function() begun() mortise.sleep(600) end):join()",
    ["waits in a coroutine"] = "coroutine.wrap(function() begun() mortise.sleep(600) end)()",
  } do
    it("says so once where it " .. what, function()
      local running <close> = start(head .. code)
      running:kill "TERM"
      assert.equal(130, running:status())
      assert.matches("closed\n$", running:out())
      local _, times = running:err():gsub("asked to stop", "")
      assert.equal(1, times, running:err())
    end)
  end

  for what, code in pairs {
    ["computes"] = "while true do pcall(function() begun() while true do end end) end",
    ["waits"] = "while true do pcall(function() begun() mortise.sleep(600) end) end",
  } do
    it("ends after the program's patience where it catches that and " .. what, function()
      local running <close> = start(head .. code)
      local began = core.now_ms()
      running:kill "INT"
      assert.equal(130, running:status())
      assert.is_true(core.now_ms() - began >= 4500)
      assert.matches("closed\n$", running:out())
    end)
  end
end)
