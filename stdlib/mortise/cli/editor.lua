-- A person's editor.
local core = require "mortise.core"
local errors = require "mortise.errors"

local editor = {}

local function named(name)
  local value = os.getenv(name)
  return value and value:find "[^ \t]" and value or nil
end

-- $VISUAL, $EDITOR or vi: words of the shell, as other programs take them.
function editor.command() return named "VISUAL" or named "EDITOR" or "vi" end

local function refuse(file, why)
  os.remove(file)
  errors.raise("rejected", "%s: %s", file, why or "it cannot be written")
end

-- A file of our own, readable by its owner alone, with this text. -> its name
function editor.new_file(text, ending)
  local bare = os.tmpname()
  local file = bare .. ending
  if not os.rename(bare, file) then file = bare end
  local handle, why = io.open(file, "wb")
  if not handle then refuse(file, why) end
  local written, reason = handle:write(text)
  local closed, last = handle:close()
  if not (written and closed) then refuse(file, reason or last) end
  return file
end

local function quoted(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

-- The text of a file; nil and why not.
local function read(file)
  local handle, why = io.open(file, "rb")
  if not handle then return nil, why end
  local text = handle:read "a"
  handle:close()
  return text, "it cannot be read"
end

-- Removes the file where it still has this text. -> was it kept?
function editor.keep_if_changed(file, text)
  if read(file) ~= text then return true end
  os.remove(file)
  return false
end

-- Lets a person edit it. The heartbeat goes on meanwhile; other tasks do not. -> its text then
function editor.run(file)
  local command = editor.command()
  local ok, how, status = os.execute(command .. " " .. quoted(file))
  if not ok then
    errors.raise("rejected", "the editor `%s` ended with %s %s", command,
      how == "signal" and "signal" or "status", core.tostring(status))
  end
  local text, why = read(file)
  return text or errors.raise("rejected", "%s: %s", file, why)
end

return editor
