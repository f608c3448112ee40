-- The statements typed at the prompt, kept in $XDG_STATE_HOME/mortise/history, except those that seem to
-- contain a secret.
local core = require "mortise.core"

local history = {}

local most = 1000

-- nil if there is no home directory.
function history.file()
  local base = os.getenv "XDG_STATE_HOME"
  local home = os.getenv "HOME"
  if (not base or base == "") and home and home ~= "" then base = home .. "/.local/state" end
  return base and base ~= "" and base .. "/mortise/history" or nil
end

-- Makes one line of a statement.
function history.escape(text)
  return (text:gsub("\\", "\\\\"):gsub("\n", "\\n"))
end

function history.unescape(line)
  return (line:gsub("\\(.)", function(c) return c == "n" and "\n" or c end))
end

-- The statements, oldest first; none if the file cannot be read.
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

local prepared = {}

-- Makes the folder and the file if they are missing, and restricts the file to its owner in any case.
local function prepare(file)
  if prepared[file] then return end
  prepared[file] = true
  local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end
  os.execute(("umask 077; { mkdir -p -- %s && : >> %s && chmod 600 %s; } 2>/dev/null"):format(
    quote(file:match "^(.*)/" or "."), quote(file), quote(file)))
end

local secrets = {
  "password", "passwd", "pass_?phrase", "secret", "api_?key", "bearer", "token", "authorization",
}

-- Does the statement contain a secret or a URL with a password? Names of secret files are allowed.
function history.is_secret(text)
  local lower = core.lower(text):gsub("[a-z_]+_file", "")
  for _, word in ipairs(secrets) do
    if lower:find(word) then return true end
  end
  return lower:find "://[^%s/'\"]*:[^%s'\"]*@" ~= nil
end

-- Adds a statement; ignores failures.
function history.add(file, text)
  if not file or history.is_secret(text) then return end
  prepare(file)
  local handle = io.open(file, "ab")
  if not handle then return end
  handle:write(history.escape(text), "\n")
  handle:close()
end

-- Reduces the file to the newest statements.
function history.trim(file)
  local list = history.load(file)
  if #list <= most then return end
  local handle = io.open(file, "wb")
  if not handle then return end
  for i = #list - most + 1, #list do handle:write(history.escape(list[i]), "\n") end
  handle:close()
end

return history
