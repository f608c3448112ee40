-- paths.lua HEX...: for each text, as JSON on a line, the path that is locked for it as a name, and the
-- path that is locked for it as a tree (false where it is refused).
for _, hex in ipairs(arg) do
  local text = hex:gsub("%x%x", function(digits) return string.char(tonumber(digits, 16)) end)
  local named <close> = mortise.acquire {named = {"c", text}}
  local ok, tree = pcall(mortise.acquire, {tree = text})
  print(mortise.json {named.paths[1], ok and tree.paths[1]})
  if ok then tree:release() end
end
