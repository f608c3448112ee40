#!/usr/bin/env -S mortise run
-- Fill an index with the listing of a directory: one document for each file, with
--   path   the directory it lies in (keyword)     name   its name
--   size   in bytes                               mtime  seconds since 1970
-- With a number N, the listing is repeated below ROOT/1, ROOT/2, ... until there are N documents, for
-- a demonstration that needs a large tree.
--   mortise --store URL run examples/index_directory.lua INDEX DIRECTORY [N [ROOT]]
local index, directory, wanted, top = ...
if not directory then error("usage: index_directory.lua INDEX DIRECTORY [N [ROOT]]", 0) end
top = top or ""
wanted = wanted and (math.tointeger(tonumber(wanted)) or error("N is a whole number", 0))

local batch_size = 1000

local function quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- Calls see(path, name, size, mtime) for each file. Names may hold anything but NUL, which ends each
-- record; those that are not UTF-8 cannot be in a JSON document and are counted as skipped.
local function each_file(see)
  local format = "%s\\t%T@\\t/%P\\0"
  local start = quote((directory:gsub("^%-", "./-")))
  local find = io.popen(("find %s -mindepth 1 -type f -printf %s"):format(start, quote(format)))
  local rest, skipped, enough = "", 0, false
  for block in function() return find:read(65536) end do
    rest = enough and "" or rest .. block -- read to its end, or `find` complains
    local at = 1
    for record, after in rest:gmatch "([^\0]*)\0()" do
      at = after
      local size, mtime, folder, name = record:match "^(%d+)\t(%d+)[^\t]*\t(.*)/([^/]*)$"
      if name and utf8.len(folder .. name) then
        enough = see(folder == "" and "/" or folder, name, tonumber(size), tonumber(mtime)) == false
        if enough then break end
      else
        skipped = skipped + 1
      end
    end
    rest = rest:sub(at)
  end
  if not find:close() then io.stderr:write("find could not read all of ", directory, "\n") end
  return skipped
end

-- ---- Writing in batches ------------------------------------------------------------------------------

local sent, items = 0, {}

local function flush()
  if #items == 0 then return end
  for i, answer in ipairs(mortise.bulk(index, items)) do
    if answer.result ~= "applied" then
      error(("%s: %s %s"):format(items[i].id, answer.result, answer.reason or ""), 0)
    end
  end
  sent, items = sent + #items, {}
  io.stderr:write(("\r%d documents"):format(sent))
end

local function add(path, name, size, mtime)
  items[#items + 1] = {
    op = "index", id = path .. "/" .. name,
    doc = {path = path, name = name, size = size, mtime = mtime},
  }
  if #items >= batch_size then flush() end
end

local function below(root, path)
  return path == "/" and root or root .. path
end

-- ---- All of it -----------------------------------------------------------------------------------

if not mortise.describe(index).exists then
  mortise.create_index(index, {
    mappings = {
      properties = {
        path = {type = "keyword"}, name = {type = "keyword"}, size = {type = "long"},
        mtime = {type = "long"},
      },
    },
  })
end

local files = {}
local skipped = each_file(function(...)
  files[#files + 1] = {...}
  return not wanted or #files < wanted
end)
if #files == 0 then error("there are no files in " .. directory, 0) end

if wanted then
  local round, count = 0, 0
  while count < wanted do
    round = round + 1
    for i = 1, math.min(#files, wanted - count) do
      local path, name, size, mtime = table.unpack(files[i])
      add(below(top .. "/" .. round, path), name, size, mtime)
      count = count + 1
    end
  end
else
  for _, file in ipairs(files) do add(table.unpack(file)) end
end
flush()
mortise.refresh(index)
io.stderr:write "\r"
print(("%s: %d documents, %d names skipped"):format(index, sent, skipped))
