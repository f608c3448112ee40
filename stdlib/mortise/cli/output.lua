-- What commands print with.
local core = require "mortise.core"
local errors = require "mortise.errors"

local output = {}

output.json_row = {name = "json", type = "boolean", flag = "--json", help = "print JSON"}

function output.json(value)
  io.stdout:write(core.json(value), "\n")
end

-- Is the descriptor (0 input, 1 output, 2 errors) a terminal? Only the program can tell.
function output.is_terminal(descriptor)
  local there, terminal = pcall(require, "mortise.terminal")
  return there and terminal.isatty(descriptor)
end

-- Does nobody read our output any more? Then the program ends like others, without a word.
function output.is_unread()
  local there, terminal = pcall(require, "mortise.terminal")
  return there and terminal.unread()
end

-- ---- What goes on ------------------------------------------------------------------------------

-- A line of standard error, which only the program has; see cli/terminal.c.
local function call(name, ...)
  local there, terminal = pcall(require, "mortise.terminal")
  if there then terminal[name](...) end
end

local modes = {auto = true, plain = true, none = true}

-- `how`: auto, plain or none; nil: auto.
function output.progress(how)
  how = how or "auto"
  if not modes[how] then errors.bad("--progress %s: auto, plain or none", how) end
  call("progress", how)
end

-- How far it is; nil: that is over.
function output.status(text) call("status", text) end

-- What is left behind by a second interrupt, which ends the program at once; nil: nothing.
function output.last_words(text) call("last_words", text) end

-- The status line goes, before something else is written.
function output.clear() call "clear" end

-- ---- Tables -------------------------------------------------------------------------------------

-- Rows of cells as columns; the first row is the heading.
function output.columns(rows)
  local widths = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do
      widths[i] = math.max(widths[i] or 0, utf8.len(cell) or #cell)
    end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      cells[i] = i == #row and cell or cell .. (" "):rep(widths[i] - (utf8.len(cell) or #cell))
    end
    io.stdout:write((table.concat(cells, "  "):gsub(" +$", "")), "\n")
  end
end

return output
