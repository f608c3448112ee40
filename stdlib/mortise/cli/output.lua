-- Output of commands.
local core = require "mortise.core"
local errors = require "mortise.errors"
local printable = require "mortise.printable"

local output = {}

output.json_row = {name = "json", type = "boolean", flag = "--json", help = "print JSON"}

-- If JSON is requested and none was printed yet, an error is also printed as JSON.
local expected, begun = false, false

-- Looks for --json before the words are parsed, so that errors in them are printed as JSON, too.
function output.expect_json(rows, words)
  local known = false
  for _, row in ipairs(rows or {}) do known = known or row == output.json_row end
  for i = 1, known and #words or 0 do
    if words[i] == "--" then break end
    expected = expected or words[i] == "--json"
  end
end

-- JSON is printed from now on.
function output.begin_json() begun = true end

function output.json(value)
  output.begin_json()
  io.stdout:write(core.json(value), "\n")
end

local error_fields = {"message", "status", "type", "reason", "retryable", "ambiguous", "blockers",
  "blockers_total", "job"}

-- An error in its JSON form.
function output.error_object(value)
  if not core.is_error(value) then
    return {code = "script_error", message = type(value) == "string" and value or "an error"}
  end
  local object = {code = value.code}
  for _, name in ipairs(error_fields) do object[name] = rawget(value, name) end
  return object
end

-- Prints {"error": ...} if JSON is expected and none was printed.
function output.failed(value)
  if expected and not begun then output.json {error = output.error_object(value)} end
end

-- Writes the joined texts, which may contain foreign names, as one safe line.
function output.line(handle, ...)
  handle:write(printable(table.concat {...}), "\n")
end

-- The same without the end of the line.
function output.line_part(handle, ...) handle:write((printable(table.concat {...}))) end

-- Is the descriptor (0 input, 1 output, 2 errors) a terminal? Works only in the program.
function output.is_terminal(descriptor)
  local there, terminal = pcall(require, "mortise.terminal")
  return there and terminal.isatty(descriptor)
end

-- The same, and may it have colours? Not if NO_COLOR is set (no-color.org).
function output.is_coloured(descriptor)
  local none = os.getenv "NO_COLOR"
  return output.is_terminal(descriptor) and (not none or none == "") and os.getenv "TERM" ~= "dumb"
end

-- Has everybody stopped reading our output? Then the program ends silently like others.
function output.is_unread()
  local there, terminal = pcall(require, "mortise.terminal")
  return there and terminal.unread()
end

-- ---- What goes on ------------------------------------------------------------------------------

-- Calls a function of cli/terminal.c, which only the program has.
local function call(name, ...)
  local there, terminal = pcall(require, "mortise.terminal")
  if there then terminal[name](...) end
end

local modes = {auto = "auto", plain = "plain", json = "none", none = "none"}
local mode = "auto"

-- `how`: auto, plain, json or none; nil: auto.
function output.progress(how)
  mode = how or "auto"
  if not modes[mode] then errors.bad("--progress %s: auto, plain, json or none", mode) end
  call("progress", modes[mode])
end

local json_every_ms, json_next_ms = 1000, 0

-- A line of standard error, about each second and when `key` changes.
local json_key
local function status_json(object, key)
  local now = core.now_ms()
  if now < json_next_ms and key == json_key and object.done < object.all then return end
  json_next_ms, json_key = now + json_every_ms, key
  io.stderr:write(core.json {progress = object}, "\n")
end

-- Shows the progress: a text, and the same as an object; nil: it is over. A change of `key` is told at once.
function output.status(text, object, key)
  if mode == "json" and object then status_json(object, key) end
  -- With --json a terminal shows nothing else unasked.
  if mode ~= "auto" or not expected then call("status", text, key) end
end

-- Sets what is written if a second interrupt ends the program; nil: nothing.
function output.last_words(text) call("last_words", text) end

-- What is logged from now on: cli/log.h.
function output.log(level, format)
  if level or format then call("log", level, format and format == "json") end
end

-- Logs all of it to a file as well; nil: to none.
function output.log_file(name)
  if name then call("log_file", name) end
end

-- Removes the status line before something else is written.
function output.clear() call "clear" end

-- ---- Tables -------------------------------------------------------------------------------------

-- "1 lock", "3 locks"
function output.counted(n, one, many) return ("%d %s"):format(n, n == 1 and one or many) end

local function length(text) return utf8.len(text) or #text end

-- Shortens text to `width` characters by leaving out the middle.
function output.shortened(text, width)
  local n = length(text)
  if n <= width then return text end
  local left = (width - 1) // 2
  local right = width - 1 - left
  if not utf8.len(text) then return text:sub(1, left) .. "…" .. text:sub(-right) end
  return text:sub(1, utf8.offset(text, left + 1) - 1) .. "…" .. text:sub(utf8.offset(text, -right))
end

-- At most `width` characters of it, from the beginning.
function output.cut(text, width)
  if length(text) <= width then return text end
  if not utf8.len(text) then return text:sub(1, width - 1) .. "…" end
  return text:sub(1, utf8.offset(text, width) - 1) .. "…"
end

local narrowest = 16

-- The widths of the columns; on a terminal the column `flexible` (nil: none) is narrowed so that all fit.
local function widths_of(rows, flexible)
  local widths, all = {}, 0
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, length(cell)) end
  end
  for _, width in ipairs(widths) do all = all + width + 2 end
  if flexible and widths[flexible] and output.is_terminal(1) then
    local over = all - 2 - require("mortise.terminal").width()
    local least = math.min(widths[flexible], narrowest)
    if over > 0 then widths[flexible] = math.max(least, widths[flexible] - over) end
  end
  return widths
end

-- Rows of cells as lines of columns. On a terminal the cells of the column `flexible` are cut, so that all
-- fits.
function output.lines(rows, flexible)
  local lines = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do row[i] = printable(cell) end
  end
  local widths = widths_of(rows, flexible)
  for n, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      if i == flexible then cell = output.shortened(cell, widths[i]) end
      cells[i] = i == #row and cell or cell .. (" "):rep(widths[i] - length(cell))
    end
    lines[n] = table.concat(cells, "  "):gsub(" +$", "")
  end
  return lines
end

-- Prints them; the first row is the heading.
function output.columns(rows, flexible)
  for _, line in ipairs(output.lines(rows, flexible)) do io.stdout:write(line, "\n") end
end

return output
