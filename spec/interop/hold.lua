-- hold.lua PATH MODE: takes the lock, says `held FENCE`, and at a line on its standard input says
-- `still` or the code of why not, then gives the lock back and says `released`.
local path, mode = ...
io.stdout:setvbuf "line"
local lock = mortise.acquire {tree = path, mode = mode, wait = "30s"}
-- A loss is raised into whatever runs, from now on.
local ok, why = pcall(function()
  print("held " .. lock.fence)
  io.read()
  lock:check()
end)
print(ok and "still" or mortise.is_error(why) and why.code or tostring(why))
pcall(lock.release, lock)
print "released"
