-- Reports errors to people: where, what, and who blocked.
local core = require "mortise.core"
local hint = require "mortise.hint"
local output = require "mortise.cli.output"
local printable = require "mortise.printable"

local failure = {}

-- "mortise/locks.lua" is ours if it was compiled in.
local function is_own(file)
  local module = file:gsub("%.lua$", ""):gsub("/", ".")
  return package.preload[module] ~= nil
end

local function plain_text(value)
  local meta = debug.getmetatable(value)
  if type(value) == "string" then return value end
  if meta and meta.__tostring then
    local ok, text = pcall(core.tostring, value)
    return ok and text or "(the error is a value whose __tostring fails)"
  end
  return ("(the error is a %s value)"):format(type(value))
end

-- A handler for xpcall that keeps the traceback beside the message.
function failure.handler(value)
  if core.is_error(value) then
    if not rawget(value, "traceback") then rawset(value, "traceback", debug.traceback("", 2):sub(2)) end
    return value
  end
  return core.error {
    code = "script_error", message = plain_text(value), traceback = debug.traceback("", 2):sub(2),
  }
end

-- The script position nearest to the error, "file:line", or nil.
local function position(traceback)
  for line in traceback:gmatch "[^\n]+" do
    local file, number = line:match "^[ \t]+(.-):(%d+): in "
    if file and file ~= "[C]" and not is_own(file) then return file .. ":" .. number end
  end
end

-- The traceback without our own frames.
local function cut(traceback)
  local lines = {}
  for line in traceback:gmatch "[^\n]+" do
    local file = line:match "^[ \t]+(.-):%d+: in "
    if not (file and is_own(file)) then lines[#lines + 1] = line end
  end
  local function is_outer(line)
    return line:find "^[ \t]+%[C%]: in " or line:find "^[ \t]+%(%.%.%.tail calls"
  end
  while #lines > 1 and is_outer(lines[#lines]) do lines[#lines] = nil end
  return #lines > 1 and table.concat(lines, "\n") or nil
end

-- The text of an error value for a terminal: "file:line: code: message" with its blockers, and the traceback
-- if it is a script's own bug or `verbose`. `where` (may be nil) is used if the traceback has no position, as
-- after a tail call.
function failure.text(value, verbose, where)
  if not core.is_error(value) then return printable(plain_text(value), true) end
  local traceback = rawget(value, "traceback") or ""
  local place = position(traceback) or where
  local bare = value.code == "script_error" or value.code == "invalid_argument" and not place
  local text = core.tostring(value)
  if bare then text = text:sub(#value.code + #": " + 1) end
  -- A script's own text has a position already or should have none.
  if place and value.code ~= "script_error" then text = place .. ": " .. text end
  local shown
  if verbose then
    shown = traceback ~= "" and traceback
  elseif value.code == "script_error" then
    shown = place and cut(traceback)
  end
  local job = value.code == "orphaned_job" and value.job
  if job then
    text = ("%s\n%s jobs show %s says what may be done"):format(text, hint.mortise(), core.tostring(job))
  end
  return printable(shown and text .. "\n" .. shown or text, true)
end

-- Prints failure.text, and JSON if that is expected. -> the exit status.
function failure.report(value, verbose, where)
  local code = core.is_error(value) and value.code or "script_error"
  if code ~= "interrupted" or not output.is_unread() then
    io.stderr:write("mortise: ", failure.text(value, verbose, where), "\n")
    output.failed(value)
  end
  output.last_words(nil) -- everything is reported
  return core.exit_status(code)
end

return failure
