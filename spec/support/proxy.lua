-- The proxy that makes requests go wrong (tools/faultproxy), beside the program MORTISE_BIN.
local core = require "mortise.core"
local program = require "spec.support.program"

local proxy = {}

local file = program.file and program.file:gsub("cli/mortise$", "tools/faultproxy/faultproxy")
local there = file and io.open(file)
if there then there:close() end

-- Is there one?
proxy.file = there and file or nil

local Proxy = {}
Proxy.__index = Proxy

local function read(name)
  local handle = assert(io.open(name))
  local text = handle:read "a"
  handle:close()
  return text
end

-- Starts one before the server with this URL, with these rules (rule.h). -> it has `url`; to be stopped
function proxy.start(upstream, seed, rules)
  local self = setmetatable({out = os.tmpname(), record = os.tmpname()}, Proxy)
  local words = {
    "--upstream", upstream:match "^http://([^/]+)", "--record", self.record, "--seed", tostring(seed),
  }
  table.move(rules, 1, #rules, #words + 1, words)
  for i, word in ipairs(words) do words[i] = program.quote(word) end
  local command = program.quote(proxy.file) .. " " .. table.concat(words, " ")
  local pipe = io.popen(("env -u LD_PRELOAD %s </dev/null >%s 2>&1 & echo $!"):format(command, self.out))
  self.pid = pipe:read "n"
  pipe:close()
  for _ = 1, 100 do
    local port = read(self.out):match "listening on 127%.0%.0%.1:(%d+)"
    if port then
      self.url = "http://127.0.0.1:" .. port
      return self
    end
    core.sleep(50)
  end
  error("the proxy does not start: " .. read(self.out))
end

-- Ends it. -> {rule = how many requests it was applied to, ...}
function Proxy:stop()
  os.execute("kill " .. self.pid)
  local hits = {}
  for line in read(self.record):gmatch "[^\n]+" do
    local rule = core.json_decode(line).rule
    if rule then hits[rule] = (hits[rule] or 0) + 1 end
  end
  os.remove(self.out)
  os.remove(self.record)
  return hits
end

return proxy
