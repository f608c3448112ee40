-- Says ten times a second how many documents lie below /projects/clinton.
io.stdout:setvbuf "line"
while true do
  local n = mortise.count("fs", {prefix = {path = "/projects/clinton/"}})
  print(("documents %.3f %d"):format(mortise.now(), n))
  mortise.sleep(0.1)
end
