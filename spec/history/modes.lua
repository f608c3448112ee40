-- Gray's modes, and what a set of targets takes on each path.
local modes = {}

local function set(text)
  local s = {}
  for mode in text:gmatch "%S+" do s[mode] = true end
  return s
end

modes.all = {"IS", "IX", "S", "SIX", "X"}
modes.fits = {IS = set "IS IX S SIX", IX = set "IS IX", S = set "IS S", SIX = set "IS", X = {}}
-- modes.covers[a][b]: a holder of a need not ask for b.
modes.covers = {IS = set "IS", IX = set "IS IX", S = set "IS S", SIX = set "IS IX S SIX",
  X = set "IS IX S SIX X"}

modes.clash = {}
for _, a in ipairs(modes.all) do
  modes.clash[a] = {}
  for _, b in ipairs(modes.all) do
    if not modes.fits[a][b] then table.insert(modes.clash[a], b) end
  end
end

local function lub(a, b)
  if not a then return b end
  for _, mode in ipairs(modes.all) do
    if modes.covers[mode][a] and modes.covers[mode][b] then return mode end
  end
end

local function add(paths, path, mode) paths[path] = lub(paths[path], mode) end

-- Iterates over the ancestors of a path.
function modes.ancestors(path)
  if path == "/" then return function() end end
  local at = 0
  return function()
    at = path:find("/", at + 1, true)
    return at and (at == 1 and "/" or path:sub(1, at - 1))
  end
end

-- `/`, or directly below it.
function modes.may_have_stripes(path) return not path:find("/", 2, true) end

-- {[path] = mode} of [[PATH, MODE], ...], with the intentions on all ancestors.
function modes.expand(locks)
  local paths = {}
  for _, lock in ipairs(locks) do
    local path, mode = lock[1], lock[2]
    local above = (mode == "IS" or mode == "S") and "IS" or "IX"
    add(paths, path, mode)
    for each in modes.ancestors(path) do add(paths, each, above) end
  end
  return paths
end

return modes
