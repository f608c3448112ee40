-- A function that was compiled outside, for a sandbox: its code and that of the functions it uses, and copies
-- of the plain values that they use.
local core = require "mortise.core"
local errors = require "mortise.errors"

local functions_of_lua = {
  "assert", "error", "getmetatable", "ipairs", "load", "next", "pairs", "pcall", "print", "rawequal",
  "rawget", "rawlen", "rawset", "select", "setmetatable", "tostring", "tonumber", "type", "xpcall",
}

-- The names of what a sandbox has, too.
local function known_names()
  local names = {}
  for _, library in ipairs {"string", "table", "math", "utf8", "coroutine"} do
    local own = _G[library]
    if type(own) == "table" then
      names[own] = library
      for name, value in pairs(own) do
        if type(value) == "function" then names[value] = library .. "." .. name end
      end
    end
  end
  for _, name in ipairs(functions_of_lua) do
    if _G[name] ~= nil then names[_G[name]] = name end
  end
  local mortise = require "mortise"
  names[mortise] = "mortise"
  for name, value in pairs(mortise) do
    if type(value) == "function" then names[value] = "mortise." .. name end
  end
  return names
end

local plain = {["nil"] = true, boolean = true, number = true, string = true, table = true}

local function refuse(name, value)
  errors.bad("the sandbox cannot have the local `%s` of the function, a %s: it takes plain values, functions "
    .. "in Lua, and what a sandbox has itself", name, core.is_view(value) and "document" or type(value))
end

-- -> {code, ...}, {{[upvalue] = {value=} or {fn= number} or {name=} or {of= number, at= its upvalue}}, ...}:
-- the first is fn
return function(fn)
  local names, codes, upvalues, numbers, seen = known_names(), {}, {}, {}, {}
  local add

  local function given(name, value)
    if name == "_ENV" or value == _G then return {name = "_G"} end
    if names[value] then return {name = names[value]} end
    if type(value) == "function" then return {fn = add(value, name)} end
    if not plain[type(value)] and value ~= core.null then refuse(name, value) end
    return {value = value}
  end

  function add(own, name)
    if numbers[own] then return numbers[own] end
    if debug.getinfo(own, "S").what == "C" then refuse(name, own) end
    local number = #codes + 1
    numbers[own], codes[number], upvalues[number] = number, string.dump(own), {}
    local at = 1
    while true do
      local local_name, value = debug.getupvalue(own, at)
      if not local_name then break end
      local id = debug.upvalueid(own, at)
      if seen[id] then
        upvalues[number][at] = {of = seen[id][1], at = seen[id][2]}
      else
        seen[id] = {number, at}
        upvalues[number][at] = given(local_name, value)
      end
      at = at + 1
    end
    return number
  end

  add(fn, "change")
  return codes, upvalues
end
