-- A folder of versioned scripts: V001__name.lua and so on, each read, checked and compiled before any is run.
local argument = require "mortise.argument"
local core = require "mortise.core"
local errors = require "mortise.errors"
local printable = require "mortise.printable"

local version_files = {}

local form = "^V([0-9]+)__([A-Za-z0-9._-]+)%.lua$"
local digits_most = 18 -- so that each is a whole number of 64 bits

-- The text as Lua reads it: without a byte order mark and the line ends of Windows, which a checkout may add.
local function read_text(file)
  local handle, why = io.open(file, "rb")
  local text
  if handle then
    text, why = handle:read "a"
    handle:close()
  end
  if not text then errors.bad("up: cannot read %s: %s", printable(file), why) end
  return (text:gsub("^\xef\xbb\xbf", ""):gsub("\r\n", "\n"))
end

-- What cannot be run keeps all from being run.
local function check_syntax(script)
  local text = script.text:gsub("^#[^\n]*", "")
  local chunk, why = load(text, "@" .. printable(script.file), "t")
  if not chunk then errors.raise("script_error", "%s", printable(why)) end
end

local function script_of(folder, name)
  local digits, title = name:match(form)
  if not digits or #digits > digits_most then
    errors.bad("up: %s/%s: a versioned script is called like V001__name.lua, with digits and a name of A-Z, "
      .. "a-z, 0-9, '.', '_', '-': rename it; what scripts `require` goes into a folder of its own",
      printable(folder), printable(name))
  end
  local file = folder .. "/" .. name
  local script = {
    version = core.number(digits:match "^0*(.+)$"), name = title, file = file, stem = name:sub(1, -5),
    text = read_text(file),
  }
  core.job_id_check(script.stem)
  script.checksum = core.sha256(script.text)
  check_syntax(script)
  return script
end

local function names_in(folder)
  local text, why = core.folder(folder)
  if not text then errors.bad("up: cannot read the folder %s", why) end
  local names = {}
  for name in text:gmatch "[^/]+" do
    if name:find "%.lua$" and name:sub(1, 1) ~= "." then names[#names + 1] = name end
  end
  table.sort(names, core.before)
  return names
end

local others_shown = 3

-- Most likely it is another folder than was meant.
local function refuse_empty(folder)
  local others = {}
  for name in core.folder(folder):gmatch "[^/]+" do
    if name:sub(1, 1) ~= "." and #others < others_shown then others[#others + 1] = printable(name) end
  end
  table.sort(others, core.before)
  local there = #others > 0 and "; there are: " .. table.concat(others, ", ") or ", which is empty"
  errors.bad("up: there is no versioned script, as V001__name.lua, in %s%s", printable(folder), there)
end

-- Its scripts, the lowest version first: {version=, name=, file=, stem= (of the file's name), text=,
-- checksum=}.
function version_files.read(folder)
  argument.name("up", "dir", folder)
  folder = #folder > 1 and folder:gsub("/+$", "") or folder
  local list = {}
  for i, name in ipairs(names_in(folder)) do list[i] = script_of(folder, name) end
  if #list == 0 then refuse_empty(folder) end
  table.sort(list, function(a, b) return a.version < b.version end)
  for i = 2, #list do
    if list[i].version == list[i - 1].version then
      errors.bad("up: version %d is there twice, as %s and %s: give one of them the next free version",
        list[i].version, printable(list[i - 1].file), printable(list[i].file))
    end
  end
  return list
end

-- The script's function, with globals of its own: what one sets the next does not see.
function version_files.load(script)
  local globals = setmetatable({arg = {[0] = script.file}}, {__index = _G})
  local text = script.text:gsub("^#[^\n]*", "")
  return assert(load(text, "@" .. printable(script.file), "t", globals))
end

return version_files
