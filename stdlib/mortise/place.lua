-- The place in a script from which we were called, "move.lua:12", for later messages about a lock or writer.
local root = debug.getinfo(1, "S").source:match "^@(.*)mortise/place%.lua$" or ""

local function is_own(source)
  local file = source:match "^@(.*)%.lua$"
  if not file or file:sub(1, #root) ~= root then return false end
  local module = file:sub(#root + 1):gsub("/", ".")
  if module ~= "mortise" and not module:find "^mortise%." then return false end
  return package.loaded[module] ~= nil or package.preload[module] ~= nil
end

local levels_max = 100

-- The nearest frame of a script; nil if there is none (a task whose function is in C).
return function()
  for level = 2, levels_max do
    local info = debug.getinfo(level, "Sl")
    if not info then return nil end
    if info.currentline > 0 and not is_own(info.source) then
      return ("%s:%d"):format(info.short_src, info.currentline)
    end
  end
end
