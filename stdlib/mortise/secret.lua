-- Secrets kept in files.
local core = require "mortise.core"
local errors = require "mortise.errors"

local secret = {}

local longest = 64 * 1024

-- What is wrong with the file's permissions, or nil. A file of root may be readable by a group.
function secret.exposed(file)
  local access = core.file_access(file)
  if not access then return nil end
  if not access.ours then return ("%s belongs to another user (uid %d)"):format(file, access.owner) end
  local allowed = access.owner == 0 and 0x1e0 or 0x1c0 -- 0740, 0700
  if access.mode & 0x1ff & ~allowed ~= 0 then
    return ("%s can be read or written by others (mode %04o): chmod 600 it"):format(file, access.mode)
  end
end

-- The secret: the file's first line. `what` names the setting.
function secret.read(file, what)
  local text, why = core.read_file(file, longest)
  if not text then errors.bad("%s: %s", what, why) end
  local line = text:match "^([^\r\n]*)"
  if line == "" then errors.bad("%s: %s holds no secret in its first line", what, file) end
  return line
end

return secret
