-- hold.lua PATH MODE: takes the lock, prints `held FENCE`, and at a line on its standard input prints `still`
-- or the error's code, then gives the lock back and prints `released`.
local path, mode = ...
io.stdout:setvbuf "line"
local lock = mortise.acquire {tree = path, mode = mode, wait = "30s"}
-- From now on a loss is raised into whatever runs.
local ok, why = pcall(function()
  print("held " .. lock.fence)
  io.read()
  lock:check()
end)
print(ok and "still" or mortise.is_error(why) and why.code or tostring(why))
pcall(lock.release, lock)
print "released"
