-- Completion at the prompt: globals, keywords, fields and methods; the options of a call inside its table,
-- and their values; names of indices, jobs and locked paths inside strings; the words after `help`, and those
-- that begin with a backslash.
local core = require "mortise.core"
local cursor = require "mortise.prompt.cursor"
local help = require "mortise.prompt.help"
local names = require "mortise.prompt.names"
local reference = require "mortise.reference"

local words = require("mortise.later") "mortise.prompt.words"

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat
  return then true until while]]):gmatch "[a-z]+" do keywords[#keywords + 1] = word end

local most = 200

-- ---- Values --------------------------------------------------------------------------------------

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

-- The function that a chain names: what `reference` says of it, or nil.
local function described(chain, env)
  local holder, word = resolve(chain, env)
  local value = holder ~= nil and field_of(holder, word)
  if type(value) == "function" then return reference.row_of(value) end
end

-- ---- Inside a call -------------------------------------------------------------------------------

local function option(row, name)
  for _, each in ipairs(row and row.options or {}) do
    if each.name == name then return each end
  end
end

-- Of which kind are the names in this argument or option? By the words of the reference.
local kinds = {
  index = "index", alias = "index", id = false, tree = "path", lock = "path", path = "path", job = "job",
}

-- "(index, id, [options])" -> the name of the argument at a place
local function argument_name(row, at)
  local list = row.signature:match "%((.*)%)" or ""
  for name in list:gmatch "[^,]+" do
    at = at - 1
    if at == 0 then return name:match "[a-z]+" end
  end
end

local own_kinds = { -- where the word alone would say something else
  ["get_job id"] = "job", ["migrate from"] = "index", ["migrate to"] = "index", ["rename from"] = "path",
  ["rename to"] = "path", ["job id"] = "job",
}

local function kind_of(row, name)
  return name and (own_kinds[row.name .. " " .. name] or kinds[name]) or nil
end

-- The candidates for a string that is open.
local function in_string(at, env)
  local top, callee, argument = at.open[#at.open], at.callee, 1
  if not callee and top and top.kind == "(" then callee, argument = top.callee, top.argument end
  if callee then
    local row = described(callee, env)
    local kind = row and kind_of(row, argument_name(row, argument))
    return kind and names.beginning(kind, at.string) or {}
  end
  local outer = top and top.kind == "{" and not top.callee and at.open[#at.open - 1]
  if outer and outer.kind == "{" and outer.key then top = outer end -- tree = {"/a", "/
  local row = top and top.callee and described(top.callee, env)
  if not row then return {} end
  local name = top.key or top.kind == "{" and not outer and argument_name(row, 1)
  local known = option(row, name)
  if known and known.values then return names.starting(known.values, at.string) end
  local kind = kind_of(row, name)
  return kind and names.beginning(kind, at.string) or {}
end

-- The options of the call whose table is open, where a name is being typed; or the values of one.
local function in_table(at, word, env)
  local top = at.open[#at.open]
  local row = top and top.kind == "{" and top.callee and described(top.callee, env)
  if not row or not row.options then return nil end
  if top.key then
    local known = option(row, top.key)
    return known and known.type == "boolean" and names.starting({"false", "true"}, word) or nil
  end
  if at.before ~= "{" and at.before ~= "," and at.before ~= ";" then return nil end
  local list = {}
  for _, each in ipairs(row.options) do
    if each.name:sub(1, #word) == word then list[#list + 1] = each.name .. " = " end
  end
  table.sort(list, core.before)
  return #list > 0 and list or nil
end

-- The line that says how the innermost call is made, or nil.
local function of_call(at, env)
  local top = at.open[#at.open]
  local row = top and top.callee and described(top.callee, env)
  return row and reference.line(row)
end

-- ---- Words ---------------------------------------------------------------------------------------

local function of_chain(text, chain, env)
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
      for _, name in ipairs(help.words) do see(name) end
    end
  end
  table.sort(list, core.before)
  return list, #text - #word + 1
end

-- `text` is the text before the cursor. -> the sorted candidates for its last word, and the position where
-- that begins; or none, that position, and a line that says how what is being called is called.
return function(text, env)
  if text:find "^[ \t]*\\" then return words.complete(text) end
  local asked = text:match "^[ \t]*help[ \t]+[\"']?([0-9A-Za-z_]*)$"
    or text:match "^[ \t]*%?[ \t]*([0-9A-Za-z_]*)$"
  if asked then return names.starting(reference.names(), asked), #text - #asked + 1 end
  local at = cursor.read(text)
  if at.comment then return {}, #text + 1 end
  if at.string then return in_string(at, env), #text - #at.string + 1 end
  local chain = text:match "[A-Za-z_][0-9A-Za-z_.:]*$" or ""
  local list = in_table(at, chain, env)
  if list then return list, #text - #chain + 1 end
  if chain == "" and of_call(at, env) then return {}, #text + 1, of_call(at, env) end
  local found, from = of_chain(text, chain, env)
  local row = #found == 1 and found[1] == text:sub(from) and described(chain, env)
  return found, from, row and reference.line(row) or nil
end
