-- What was typed at the prompt, whole statements, kept in $XDG_STATE_HOME/mortise/history.
local history = {}

local most = 1000

-- nil where there is no home.
function history.file()
  local base = os.getenv "XDG_STATE_HOME"
  local home = os.getenv "HOME"
  if (not base or base == "") and home and home ~= "" then base = home .. "/.local/state" end
  return base and base ~= "" and base .. "/mortise/history" or nil
end

-- A statement is one line of the file.
function history.escape(text)
  return (text:gsub("\\", "\\\\"):gsub("\n", "\\n"))
end

function history.unescape(line)
  return (line:gsub("\\(.)", function(c) return c == "n" and "\n" or c end))
end

-- The statements, oldest first; none where the file cannot be read.
function history.load(file)
  local list = {}
  local handle = file and io.open(file, "rb")
  if not handle then return list end
  for line in handle:lines() do
    list[#list + 1] = history.unescape(line)
    if #list > 2 * most then list = table.move(list, most + 1, #list, 1, {}) end
  end
  handle:close()
  return list
end

-- Makes the folder and the file, for its owner only. -> could it?
local function prepare(file)
  local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end
  local folder = file:match "^(.*)/"
  return os.execute(("umask 077; mkdir -p -- %s && : >> %s"):format(quote(folder), quote(file)))
end

-- Adds a statement; what cannot be kept is forgotten.
function history.add(file, text)
  if not file then return end
  local handle = io.open(file, "ab")
  if not handle and prepare(file) then handle = io.open(file, "ab") end
  if not handle then return end
  handle:write(history.escape(text), "\n")
  handle:close()
end

-- Cuts the file to the newest statements.
function history.trim(file)
  local list = history.load(file)
  if #list <= most then return end
  local handle = io.open(file, "wb")
  if not handle then return end
  for i = #list - most + 1, #list do handle:write(history.escape(list[i]), "\n") end
  handle:close()
end

return history
