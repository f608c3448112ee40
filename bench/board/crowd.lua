-- So many sessions of one process, each with so many locks, until it is interrupted.
local config = require "mortise.config"
local from, sessions, locks = ...
from, sessions, locks = math.tointeger(tonumber(from)), math.tointeger(tonumber(sessions)), math.tointeger(tonumber(locks))

local clients, held = {}, {}
for i = from + 1, from + sessions do
  config.identity = {program = "mortise", script = ("crowd-%04d.lua"):format(i)}
  local client = mortise.connect {lease = "10m"}
  local paths = {}
  for k = 1, locks do paths[k] = ("/tenants/t%02d/session-%04d/document-%05d"):format(i % 40, i, k) end
  clients[#clients + 1], held[#held + 1] = client, client:acquire {tree = paths, wait = "5m"}
end
print "ready"
io.stdout:flush()
mortise.sleep(3600)
