#!/usr/bin/env -S mortise run
-- Makes the documents below PATH what a list says: lines `path<TAB>owner`. What is missing is made, what
-- differs is corrected, and what the list does not have is reported, not deleted. It may be run again and
-- again.
--   mortise run reconcile.lua INDEX PATH FILE
local index, path, file = ...
if not file then error("usage: reconcile.lua INDEX PATH FILE", 0) end

local wanted = {}
for line in io.lines(file) do
  local each, owner = line:match "^([^\t]+)\t(.*)$"
  if each then wanted[each] = owner end
end

mortise.with_tree_lock(path, {wait = "1m"}, function(lock)
  local writer <close> = lock:bulk(index)
  for doc in lock:scan(index, {query = {prefix = {path = path .. "/"}}}) do
    local owner = wanted[doc.path]
    if owner == nil then
      print("not in the list: " .. doc.path)
    elseif doc.owner ~= owner then
      doc.owner = owner
      writer:save(doc) -- refused if somebody without a lock has changed it since it was read
    end
    wanted[doc.path] = nil
  end
  for each, owner in pairs(wanted) do
    writer:create(each, {path = each, owner = owner}) -- its id is its path: a second run makes no second one
  end
  local report = writer:finish()
  print(("%d written"):format(report.applied))
end)
