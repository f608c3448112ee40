-- The tree lock: an exclusive lock on a directory, and a counted shared lock on each directory
-- above it. So a rename of /clinton excludes a rename inside it, while renames in two other places
-- go on at once. Shared locks are given back from the longest path to the shortest.
package.path = (arg[0]:match("^(.*)/") or ".") .. "/?.lua;" .. package.path
local requests = require "requests"

local LOCKS = "guide-tree-lock"

-- One more holder, unless the directory is locked exclusively.
local SHARE = [[
  if (ctx._source.lock_type == 'exclusive') {
    throw new IllegalStateException('locked exclusively');
  }
  ctx._source.lock_count++;
]]

-- One holder less; the last takes the document away.
local UNSHARE = [[
  if (--ctx._source.lock_count == 0) { ctx.op = 'delete'; }
]]

local function at(kind, path, query)
  return ("/%s/%s/%s%s"):format(LOCKS, kind, requests.escape(path), query or "")
end

local function ancestors(path)
  local list = {"/"}
  for stop in path:gmatch("()/") do
    if stop > 1 then list[#list + 1] = path:sub(1, stop - 1) end
  end
  return list
end

local function share(path)
  local status = requests.send("POST", at("_update", path, "?retry_on_conflict=10"), {
    script = {source = SHARE},
    upsert = {lock_type = "shared", lock_count = 1},
  })
  return status == 200 or status == 201
end

local function unshare(path)
  requests.expect({200}, "POST", at("_update", path, "?retry_on_conflict=10"), {
    script = {source = UNSHARE},
  })
end

local function unlock_tree(path, shared)
  if path then requests.expect({200}, "DELETE", at("_doc", path)) end
  for i = #shared, 1, -1 do unshare(shared[i]) end
end

-- All or nothing: what was taken before a refusal is given back.
local function lock_tree(path)
  local shared = {}
  for _, ancestor in ipairs(ancestors(path)) do
    if not share(ancestor) then
      unlock_tree(nil, shared)
      return nil
    end
    shared[#shared + 1] = ancestor
  end
  local status = requests.expect({201, 409}, "PUT", at("_create", path), {lock_type = "exclusive"})
  if status == 409 then
    unlock_tree(nil, shared)
    return nil
  end
  return shared
end

requests.fresh_index(LOCKS, {"lock_type"})

local directory = assert(lock_tree("/clinton"))
print("/clinton is locked for a rename of the whole directory")

assert(not lock_tree("/clinton/projects/readme"), "a file inside must wait")
print("/clinton/projects/readme: refused while the directory is renamed")

unlock_tree("/clinton", directory)
local one = assert(lock_tree("/clinton/projects/readme"))
local two = assert(lock_tree("/clinton/letters/draft"))
print("two files elsewhere in the tree are renamed at once")

assert(not lock_tree("/clinton"), "the directory must wait for its files")
unlock_tree("/clinton/projects/readme", one)
unlock_tree("/clinton/letters/draft", two)

requests.expect({200}, "POST", "/" .. LOCKS .. "/_refresh")
local _, left = requests.expect({200}, "GET", "/" .. LOCKS .. "/_count")
assert(left.count == 0, "nothing is left behind")
print("all given back, the longest path first")

requests.drop_index(LOCKS)
