-- The descriptions as all the writers need them.
local cli = require "mortise.cli"
local options = require "mortise.options"
local reference = require "mortise.reference"

local described = {}

described.note = "Made by tools/faces from the descriptions in stdlib: change those, not this file."

-- The rows that have a flag.
local function flags(rows)
  local list = {}
  for _, row in ipairs(rows) do
    if row.flag then list[#list + 1] = row end
  end
  return list
end

-- Known to every command, and where there is none.
described.global_rows = flags(options.join(cli.first_rows, cli.global_rows))

-- {name=, summary=, usage=, help=, rows=, takes=} of each command.
described.commands = {}
for i, name in ipairs(cli.commands) do
  local command = cli.command(name)
  described.commands[i] = {
    name = name, summary = command.summary, usage = command.usage or "", help = command.help,
    rows = flags(command.options or {}), takes = command.takes or {},
  }
end

-- What follows an option: words, or FILE, FOLDER, PATH, INDEX, or NONE; nil: it takes no value.
local kinds = {FILE = "FILE", DIR = "FOLDER", FOLDER = "FOLDER", PATH = "PATH", INDEX = "INDEX"}
function described.value_of(row)
  if row.values then return table.concat(row.values, " ") end
  return row.value and (kinds[row.value] or "NONE")
end

-- The groups of what scripts call: {name, what, rows}, whose rows reference.group has with their options.
described.groups = {}
for i, group in ipairs(reference.groups) do
  local rows = reference.group(group[1])
  for k, row in ipairs(rows) do
    local prefix = (group[1] == "client" and "mortise" or group[1]) .. ":"
    for _, found in ipairs(reference.find(prefix .. row.name)) do
      if found.group == group[1] then row.options = found.options end
    end
    row.arguments = group[3][k][2]
  end
  described.groups[i] = {name = group[1], what = group[2], rows = rows}
end

-- The default of an option, as text; nil: none.
function described.default_of(row)
  local default = row.default_text
  if default == nil and row.default ~= nil then default = row.default end
  if default ~= nil then return ("%s"):format(default) end
end

return described
