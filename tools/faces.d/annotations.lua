-- Annotations for the Lua language server: what there is, with arguments and options.
local described = require "described"

local annotations = {}

local types = {
  string = "string", boolean = "boolean", integer = "integer", count = "integer", table = "table",
  ["function"] = "function", duration = "number|string", size = "integer|string", any = "any",
  query = "table|string", names = "string|string[]",
}

local function type_of(row)
  if not row.values then return types[row.type] or "any" end
  local list = {}
  for i, value in ipairs(row.values) do list[i] = ("%q"):format(value) end
  return table.concat(list, "|")
end

local argument_types = {
  index = "string", id = "string", name = "string", category = "string", path = "string|string[]",
  time = "number|string", fn = "function", method = "string", content_type = "string", text = "string",
  ids = "string[]|table", items = "table[]", list = "table", query = "table|string",
}

-- "(index, [options], fn)" -> {{name=, optional=, type=}, ...}
local function arguments_of(text, class)
  if text:find "^{" then return {{name = "options", type = class or "table"}} end
  local list, depth = {}, 0
  for part in text:gsub("^%(", ""):gsub("%)$", ""):gmatch "[^,]+" do
    if part:find("[", 1, true) then depth = depth + 1 end
    local name = part:find("...", 1, true) and "..." or part:match "[a-z_]+"
    if name then
      local kind = name == "options" and class or argument_types[name] or "any"
      list[#list + 1] = {name = name, optional = depth > 0, type = kind}
    end
    if part:find("]", 1, true) then depth = depth - 1 end
  end
  return list
end

local function class_of(group, row) return ("mortise.%s.%s_options"):format(group, row.name) end

local function options_class(group, row)
  local lines = {"---@class " .. class_of(group, row)}
  for _, each in ipairs(row.options) do
    local default = described.default_of(each)
    lines[#lines + 1] = ("---@field %s%s %s # %s%s"):format(each.name, each.required and "" or "?", type_of(each),
      each.help, default and (" (%s)"):format(default) or "")
  end
  return table.concat(lines, "\n") .. "\n"
end

local function function_text(holder, separator, group, row)
  local lines, names = {"--- " .. row.does}, {}
  for _, each in ipairs(arguments_of(row.arguments, row.options and class_of(group, row))) do
    lines[#lines + 1] = ("---@param %s%s %s"):format(each.name, each.optional and each.name ~= "..." and "?" or "",
      each.type)
    names[#names + 1] = each.name
  end
  lines[#lines + 1] = ("function %s%s%s(%s) end\n"):format(holder, separator, row.name, table.concat(names, ", "))
  return table.concat(lines, "\n")
end

local function class_text(group, holder)
  local lines = {("--- %s"):format(group.what), "---@class mortise." .. group.name}
  for _, row in ipairs(group.rows) do
    if not row.arguments then lines[#lines + 1] = ("---@field %s any # %s"):format(row.name, row.does) end
  end
  lines[#lines + 1] = ("local %s = {}\n"):format(holder)
  return table.concat(lines, "\n")
end

function annotations.text()
  local parts = {
    "---@meta mortise",
    "-- What scripts of mortise can call, for the Lua language server. " .. described.note .. "\n",
    "---@type mortise.mortise", "mortise = {}\n",
  }
  for _, group in ipairs(described.groups) do
    for _, row in ipairs(group.rows) do
      if row.options then parts[#parts + 1] = options_class(group.name, row) end
    end
  end
  for _, group in ipairs(described.groups) do
    local is_module = group.name == "mortise"
    local holder = is_module and "module" or group.name
    parts[#parts + 1] = class_text(group, holder)
    for _, row in ipairs(group.rows) do
      if row.arguments then
        parts[#parts + 1] = function_text(holder, is_module and "." or ":", group.name, row)
        if group.name == "client" then parts[#parts + 1] = function_text("module", ".", group.name, row) end
      end
    end
  end
  parts[#parts + 1] = "return module"
  return table.concat(parts, "\n") .. "\n"
end

-- What a script may use, for luacheck: a standard `mortise`.
function annotations.luacheck()
  local names = {}
  for _, group in ipairs(described.groups) do
    if group.name == "mortise" or group.name == "client" then
      for _, row in ipairs(group.rows) do names[#names + 1] = row.name end
    end
  end
  table.sort(names)
  local lines = {
    "-- For luacheck: luacheck --config FILE script.lua. " .. described.note, 'std = "lua54+mortise"', "",
    "stds.mortise = {read_globals = {mortise = {fields = {",
  }
  for _, name in ipairs(names) do lines[#lines + 1] = ('  "%s",'):format(name) end
  lines[#lines + 1] = "}}}}"
  return table.concat(lines, "\n") .. "\n"
end

return annotations
