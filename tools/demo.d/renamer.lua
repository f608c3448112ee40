-- renamer.lua INDEX INSIDE OUTSIDE RECORDS STOP NUMBER: renames single files, each under its own tree lock,
-- until the file STOP exists. One task renames the files listed in INSIDE, another those in OUTSIDE, so
-- that one does not wait when the other does. Both lists have lines `id TAB ...`. Each rename that was
-- acknowledged becomes a line in RECORDS: fence, id, new name, directory, the ms that it waited, and the
-- pid of the process that it waited for.
local core = require "mortise.core"

local index, inside, outside, records, stop, number = ...

local function read_ids(sample)
  local ids = {}
  for line in io.lines(sample) do ids[#ids + 1] = line:match "^[^\t]+" end
  return ids
end

local function stopped()
  local file = io.open(stop)
  return file and file:close()
end

-- Returns the lock, the ms that it waited for it, and the process that blocked it.
local function take(paths)
  local lock, why = mortise.try_lock {tree = paths}
  if lock then return lock, 0, 0 end
  local started = core.now_ms()
  local blocker = why.blockers and why.blockers[1]
  lock = mortise.acquire {tree = paths, wait = "5m"}
  return lock, core.now_ms() - started, blocker and blocker.pid or 0
end

-- The name without the mark of an earlier rename, with a unique new mark.
local function new_name(name, count)
  return ("%s~%s.%d"):format(name:match "^(.-)~%d+%.%d+$" or name, number, count)
end

-- Changes the name by a compare-and-set through the lock's writer.
local function write(lock, doc, name)
  doc.name = name
  local writer <close> = lock:bulk(index)
  writer:save(doc)
  writer:finish()
end

-- A directory above may be renamed after the path was read and before it is locked. Then the file does not
-- lie below the locked path any more, and everything starts over.
local function rename(id, count)
  local waited, blocker = 0, 0
  while true do
    local seen = assert(mortise.get(index, id), id)
    local path, old = seen.path, seen.name
    local new = new_name(old, count)
    local lock <close>, ms, pid = take {path .. "/" .. old, path .. "/" .. new}
    if ms >= waited then waited, blocker = ms, pid end
    local doc = assert(mortise.get(index, id), id)
    if doc.path == path and doc.name == old then
      write(lock, doc, new)
      return lock.fence, new, path, waited, blocker
    end
  end
end

local out <close> = assert(io.open(records, "w"))
out:setvbuf "line"
local count = 0

local function rename_all(sample)
  local ids, at = read_ids(sample), 0
  while not stopped() do
    count, at = count + 1, at % #ids + 1
    local id = ids[at]
    local fence, name, path, waited, blocker = rename(id, count)
    out:write(table.concat({fence, id, name, path, waited, blocker}, "\t"), "\n")
  end
end

local tasks = {mortise.spawn(rename_all, inside), mortise.spawn(rename_all, outside)}
for _, task in ipairs(tasks) do task:join() end
