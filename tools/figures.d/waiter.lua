-- Asks for the lock on /clinton, writes the document that the holder writes, and keeps it for two seconds.
io.stdout:setvbuf "line"
local function say(what, more) print(("%s %.3f %s"):format(what, mortise.now(), more)) end

say("asked", "")
local lock = mortise.acquire {tree = "/clinton", wait = "2m"}
say("granted", lock.fence)
mortise.update("fs", "d1", {by = "waiter"})
mortise.sleep(2)
lock:release()
say("released", "")
