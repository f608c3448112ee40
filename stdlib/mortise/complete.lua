-- Completion at the prompt: globals, keywords, fields and methods, and the words after `help`.
local console = require "mortise.console"
local core = require "mortise.core"
local reference = require "mortise.reference"

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat
  return then true until while]]):gmatch "[a-z]+" do keywords[#keywords + 1] = word end

local most = 200

-- The table that provides a value's missing fields. Our userdata have their methods in an upvalue of __index.
local function behind(value)
  local meta = debug.getmetatable(value)
  local index = type(meta) == "table" and rawget(meta, "__index")
  if type(index) == "function" then
    local _, methods = debug.getupvalue(index, 1)
    index = methods
  end
  return type(index) == "table" and index or nil
end

-- Calls see(name, value) for every field with a string name, without running metamethods.
local function each_field(value, see)
  for _ = 1, 8 do
    if type(value) == "table" then
      for name, field in next, value do
        if type(name) == "string" then see(name, field) end
      end
    end
    value = behind(value)
    if value == nil then return end
  end
end

local function field_of(value, name)
  for _ = 1, 8 do
    local found
    if type(value) == "table" then found = rawget(value, name) end
    if found ~= nil then return found end
    if core.is_view(value) then return value[name] end
    value = behind(value)
    if value == nil then return nil end
  end
end

-- "a.b:c" -> the value of a.b, "c", ":"
local function resolve(chain, env)
  local path, separator, word = chain:match "^(.*)([.:])([0-9A-Za-z_]*)$"
  if not path then return env, chain end
  local value = env
  for name in path:gmatch "[^.:]+" do
    value = field_of(value, name)
    if value == nil then return nil, word, separator end
  end
  return value, word, separator
end

local function add_view_fields(value, see)
  if core.is_view(value) ~= "document" and core.is_view(value) ~= "object" then return end
  for name in pairs(value) do
    if type(name) == "string" then see(name, true) end
  end
end

local function beginning_with(word, names)
  local list = {}
  for _, name in ipairs(names) do
    if name:sub(1, #word) == word then list[#list + 1] = name end
  end
  return list
end

-- `text` is the text before the cursor. -> the sorted candidates for its last word, and the position where
-- that begins.
return function(text, env)
  local asked = text:match "^[ \t]*help[ \t]+[\"']?([0-9A-Za-z_]*)$"
    or text:match "^[ \t]*%?[ \t]*([0-9A-Za-z_]*)$"
  if asked then return beginning_with(asked, reference.names()), #text - #asked + 1 end
  local chain = text:match "[A-Za-z_][0-9A-Za-z_.:]*$" or ""
  local value, word, separator = resolve(chain, env)
  local seen, list = {}, {}
  local function see(name, field)
    if seen[name] or #list >= most or name:sub(1, #word) ~= word then return end
    if not name:find "^[A-Za-z_][0-9A-Za-z_]*$" then return end
    if separator == ":" and type(field) ~= "function" then return end
    if name:sub(1, 1) == "_" and word == "" then return end
    seen[name] = true
    list[#list + 1] = name
  end
  if value ~= nil then
    each_field(value, see)
    if separator then add_view_fields(value, see) end
  end
  if not separator and word ~= "" then
    for _, keyword in ipairs(keywords) do see(keyword) end
    if chain == text then
      for _, name in ipairs(console.words) do see(name) end
    end
  end
  table.sort(list, core.before)
  return list, #text - #word + 1
end
