-- Takes the lock on /clinton and writes a document under it, again and again. Says when it got it, when its
-- deadline moved (a heartbeat was acknowledged), and how the write ended that was refused.
io.stdout:setvbuf "line"
local function say(what, more) print(("%s %.3f %s"):format(what, mortise.now(), more)) end

local lock = mortise.acquire {tree = "/clinton"}
say("granted", lock.fence)
local deadline = 0
repeat
  pcall(function()
    local now = mortise.now() + lock:remaining()
    if now > deadline + 0.2 then
      deadline = now
      say("deadline", ("%.3f"):format(deadline))
    end
    mortise.sleep(0.02)
  end)
  local ok, why = pcall(mortise.update, "fs", "d1", {by = "holder"})
until not ok and not say("refused", why.code)
