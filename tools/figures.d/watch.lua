-- Says when a session was opened, and when it had ended: the lists of sessions have it no more.
io.stdout:setvbuf "line"
local known = {}
local function say(what, owner) print(("%s %.3f %s"):format(what, mortise.now(), owner)) end
while true do
  local live = {}
  for _, each in ipairs(mortise.list().sessions) do
    if each.state == "live" then live[each.session] = tostring(each.owner.script):match "[^/]*$" end
  end
  for session, owner in pairs(live) do
    if not known[session] then say("opened", owner) end
  end
  for session, owner in pairs(known) do
    if not live[session] then say("ended", owner) end
  end
  known = live
  mortise.sleep(0.02)
end
