-- Manual pages, in the format of scdoc.
local described = require "described"

local topics = require "mortise.cli.topics"

local manual = {}

-- Text in which nothing is marked.
local function plain(text) return (text:gsub("[\\*_#`]", "\\%0")) end

local function bold(text) return "*" .. plain(text) .. "*" end

local function literal(text) return "```\n" .. text:gsub("\n+$", ""):gsub("\\", "\\\\") .. "\n```\n" end

local function option_text(row)
  local head = bold(row.flag)
  if row.short then head = bold(row.short) .. ", " .. head end
  if row.value then head = head .. " " .. plain(row.value) end
  local default = described.default_of(row)
  local about = plain(row.help) .. (default and plain((" (%s)"):format(default)) or "")
  if row.env then about = about .. "; " .. bold(row.env) end
  return ("%s\n\t%s\n"):format(head, about)
end

local function options_text(rows)
  local list = {}
  for i, row in ipairs(rows) do list[i] = option_text(row) end
  return table.concat(list, "\n")
end

local function command_text(command)
  local parts = {("## %s\n"):format(plain(("mortise %s %s"):format(command.name, command.usage):gsub(" +$", "")))}
  parts[#parts + 1] = literal(command.help or command.summary)
  if #command.rows > 0 then parts[#parts + 1] = options_text(command.rows) end
  return table.concat(parts, "\n")
end

local function head(name, section)
  return ("%s(%s)\n\n; %s\n"):format(name, section, described.note)
end

function manual.program()
  local parts = {
    head("mortise", 1),
    "# NAME\n", "mortise - changes large trees of documents in Elasticsearch and OpenSearch, under locks\n",
    "# SYNOPSIS\n",
    "*mortise* _COMMAND_ [_ARGS_] [_OPTIONS_]++",
    "*mortise* _FILE_.lua [_ARGS_] [_OPTIONS_] [-- _ARGS_]++",
    "*mortise* -e _CODE_ [_ARGS_] [_OPTIONS_] [-- _ARGS_]\n",
    "# DESCRIPTION\n",
    "Runs Lua scripts that change documents under locks, and has commands to look at documents, locks and jobs, and to",
    "steer jobs. Alone on a terminal it is a console. Options, those of a command and the global ones, are known",
    "wherever they stand before *--*.\n",
    "# COMMANDS\n",
  }
  for _, command in ipairs(described.commands) do parts[#parts + 1] = command_text(command) end
  parts[#parts + 1] = "# GLOBAL OPTIONS\n"
  parts[#parts + 1] = options_text(described.global_rows)
  parts[#parts + 1] = "# EXIT STATUS\n\n" .. literal(topics.text "status")
  parts[#parts + 1] = "# ERRORS\n\n" .. literal(topics.text "errors")
  parts[#parts + 1] = "# FILES\n\n_~/.config/mortise/config.lua_\n\tprofiles and settings: a Lua file that returns a "
    .. "table\n\n_~/.local/state/mortise/history_\n\tthe console's statements\n"
  parts[#parts + 1] = "# SEE ALSO\n\n*mortise-lua*(3)"
  return table.concat(parts, "\n") .. "\n"
end

local function options_of(rows)
  local list = {}
  for i, row in ipairs(rows) do
    local default = described.default_of(row)
    list[i] = ("\t- *%s*: %s%s"):format(plain(row.name), plain(row.help),
      default and plain((" (%s)"):format(default)) or "")
  end
  return table.concat(list, "\n") .. "\n"
end

function manual.library()
  local parts = {
    head("mortise-lua", 3), "# NAME\n", "mortise-lua - what scripts of mortise can call\n", "# DESCRIPTION\n",
    "Scripts that *mortise*(1) runs have the module as the global *mortise*. The functions of a client are also the",
    "module's own, for the default client: *mortise.get* is *client:get*.\n",
  }
  for _, group in ipairs(described.groups) do
    parts[#parts + 1] = ("# %s\n\n%s.\n"):format(group.name:upper(), plain(group.what))
    for _, row in ipairs(group.rows) do
      parts[#parts + 1] = ("%s\n\t%s\n"):format(bold(row.signature), plain(row.does))
      if row.options then parts[#parts + 1] = options_of(row.options) end
    end
  end
  parts[#parts + 1] = "# SEE ALSO\n\n*mortise*(1)"
  return table.concat(parts, "\n") .. "\n"
end

return manual
