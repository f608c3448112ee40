-- docs/reference.md: all that can be called and typed.
local core = require "mortise.core"
local described = require "described"
local topics = require "mortise.cli.topics"

local pages = {}

local function cell(text) return (text:gsub("|", "\\|"):gsub("\n", " ")) end

local function code(text) return "`" .. text .. "`" end

local function options_table(rows, name_of)
  local lines = {"| option | | default |", "| --- | --- | --- |"}
  for _, row in ipairs(rows) do
    local default = described.default_of(row)
    lines[#lines + 1] = ("| %s | %s | %s |"):format(cell(name_of(row)), cell(row.help), cell(default or ""))
  end
  return table.concat(lines, "\n") .. "\n"
end

local function flag_of(row)
  return code((row.short and row.short .. ", " or "") .. row.flag .. (row.value and " " .. row.value or ""))
end

local function name_of(row) return code(row.name) end

local function group_text(group)
  local parts = {("### %s: %s\n"):format(group.name, group.what), "| | |", "| --- | --- |"}
  for _, row in ipairs(group.rows) do
    parts[#parts + 1] = ("| %s | %s |"):format(cell(code(row.signature)), cell(row.does))
  end
  parts[#parts + 1] = ""
  for _, row in ipairs(group.rows) do
    if row.options then
      parts[#parts + 1] = ("Options of %s:\n"):format(code(row.signature))
      parts[#parts + 1] = options_table(row.options, name_of)
    end
  end
  return table.concat(parts, "\n")
end

local function command_text(command)
  local parts = {
    ("### mortise %s\n"):format(command.name),
    ("    mortise %s %s"):format(command.name, command.usage):gsub(" +$", "") .. "\n",
    "```text\n" .. (command.help or command.summary):gsub("\n+$", "") .. "\n```\n",
  }
  if #command.rows > 0 then parts[#parts + 1] = options_table(command.rows, flag_of) end
  return table.concat(parts, "\n")
end

local function errors_table()
  local lines = {"| code | exit status | meaning | what to do |", "| --- | --- | --- | --- |"}
  for _, row in ipairs(topics.errors) do
    lines[#lines + 1] = ("| %s | %d | %s | %s |"):format(code(row[1]), core.exit_status(row[1]), cell(row[2]),
      cell(row[3]))
  end
  return table.concat(lines, "\n") .. "\n"
end

function pages.reference()
  local parts = {
    "# Reference\n",
    "<!-- " .. described.note .. " -->\n",
    "What scripts can call, and the program's commands, with all their options: the text of `help NAME` at the prompt and of "
      .. "`mortise help COMMAND`. How it works together is in [scripts.md](scripts.md), [jobs.md](jobs.md) and "
      .. "[operations.md](operations.md), which lists the settings too.\n",
    "## What scripts can call\n",
    "The functions of a client are the module's own, too, for the default client. `[...]` may be left out.\n",
  }
  for _, group in ipairs(described.groups) do parts[#parts + 1] = group_text(group) end
  parts[#parts + 1] = "## Commands\n"
  for _, command in ipairs(described.commands) do parts[#parts + 1] = command_text(command) end
  parts[#parts + 1] = "## Errors\n"
  parts[#parts + 1] = errors_table()
  parts[#parts + 1] = "## Exit statuses\n\n```text\n" .. topics.text "status" .. "```\n"
  parts[#parts + 1] = "## Global options\n"
  parts[#parts + 1] = options_table(described.global_rows, flag_of)
  return (table.concat(parts, "\n"):gsub("\n+$", "\n"))
end

return pages
