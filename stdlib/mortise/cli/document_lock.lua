-- The lock under which a person writes one document: exclusive on the document, and an intention on the paths
-- that it has and gets, so that whoever holds a tree there is waited for, and others beside it are not.
local errors = require "mortise.errors"

local document_lock = {}

document_lock.field_row = {name = "field", type = "string", flag = "--field", value = "NAME",
  default_text = "path", help = "the field that has its path"}

local tries_max = 5

-- A text that is no path is in no tree.
local function path_in(view, field)
  local ok, value = pcall(function() return view and view[field] end)
  if not ok or type(value) ~= "string" then return nil end
  local sound, path = pcall(require "mortise.path", value)
  return sound and path or nil
end

-- Calls fn(document or nil) under the lock of document and paths. `given` (or nil): what it is to become;
-- `o`: {field=, routing=, on_orphan=}.
local function with(client, index, id, o, given, fn)
  local field = o.field or document_lock.field_row.default_text
  local function read() return client:get(index, id, {routing = o.routing}) end
  for _ = 1, tries_max do
    local before = read()
    local paths = {path_in(before, field)}
    paths[#paths + 1] = path_in(given, field)
    local done = client:_with_document(index, id, paths, {on_orphan = o.on_orphan}, function()
      local current = read()
      if path_in(current, field) ~= path_in(before, field) then return false end -- it was moved meanwhile
      fn(current)
      return true
    end)
    if done then return end
  end
  errors.raise("conflict", "%s/%s was moved in each of %d attempts to lock it", index, id, tries_max)
end

return setmetatable(document_lock, {__call = function(_, ...) return with(...) end})
