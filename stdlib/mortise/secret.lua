-- Secrets kept in files.
local errors = require "mortise.errors"

local secret = {}

local longest = 64 * 1024

-- The file's permissions as text like "-rw-r-----", or nil where they cannot be told. (Lua has no
-- stat; ls is everywhere.)
local function permissions(file)
  local quoted = "'" .. file:gsub("'", "'\\''") .. "'"
  local pipe = io.popen("LC_ALL=C ls -dLl -- " .. quoted .. " 2>/dev/null")
  if not pipe then return nil end
  local line = pipe:read "l"
  pipe:close()
  return line and line:match "^[^ \t]+"
end

-- What is wrong with who may read the file, or nil.
function secret.exposed(file)
  local mode = permissions(file)
  if mode and #mode >= 10 and mode:sub(5, 10):find "[rw]" then
    return ("%s can be read by others (%s): chmod 600 it"):format(file, mode:sub(1, 10))
  end
end

-- The secret: the file's first line. `what` names the setting.
function secret.read(file, what)
  local handle, why = io.open(file, "rb")
  if not handle then errors.bad("%s: %s", what, why) end
  local text
  text, why = handle:read(longest + 1)
  handle:close()
  if not text then errors.bad("%s: %s: %s", what, file, why or "the file is empty") end
  local line = text:match "^([^\r\n]*)"
  if #text > longest or line == "" then errors.bad("%s: %s holds no secret in its first line", what, file) end
  return line
end

return secret
