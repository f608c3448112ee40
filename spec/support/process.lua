-- The built program (MORTISE_BIN) in the background, and its output meanwhile.
local mortise = require "mortise"
local program = require "spec.support.program"

local process = {}

local function read(file)
  local handle = io.open(file, "rb")
  if not handle then return "" end
  local text = handle:read "a"
  handle:close()
  return text
end

-- `said` (or nil) returns more to report when the wait was in vain.
function process.wait_for(what, fn, said)
  for _ = 1, 3000 do
    local found = fn()
    if found then return found end
    mortise.sleep(0.02)
  end
  error("waited in vain for " .. what .. (said and ": " .. said() or ""))
end

local Process = {}
Process.__index = Process

-- The program in the background, with a lease of its own; standard output must be flushed to be seen.
function process.start(store, namespace, lease_ms, words)
  local files = {}
  for _, name in ipairs {"out", "err", "pid", "status"} do files[name] = os.tmpname() end
  local quoted = {}
  for i, word in ipairs(words) do quoted[i] = program.quote(word) end
  local command = ([[
    (env -u LD_PRELOAD MORTISE_STORE=%s MORTISE_NAMESPACE=%s %s --lease %dms %s >%s 2>%s </dev/null &
     echo $! >%s; wait $!; echo $? >%s) >/dev/null 2>&1 &]]):format(program.quote(store.store), namespace,
    program.quote(program.file), lease_ms, table.concat(quoted, " "), files.out, files.err,
    files.pid, files.status)
  os.execute(command)
  local self = setmetatable({files = files}, Process)
  self.pid = process.wait_for("a process", function() return read(files.pid):match "%d+" end)
  return self
end

function Process:kill(signal) os.execute(("kill -%s %s 2>/dev/null"):format(signal, self.pid)) end
function Process:out() return read(self.files.out) end
function Process:err() return read(self.files.err) end

-- The time that it said beside this word.
function Process:said(word)
  return process.wait_for(word, function()
    return math.tointeger(tonumber(self:out():match(word .. "\t(%d+)\n")))
  end, function() return self:out() .. self:err() end)
end

function Process:status()
  return process.wait_for("the end of a process", function()
    return math.tointeger(tonumber(read(self.files.status):match "%d+"))
  end)
end

function Process:__close()
  self:kill "CONT"
  self:kill "KILL"
  self:status()
  for _, file in pairs(self.files) do os.remove(file) end
end

return process
