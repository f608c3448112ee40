-- The prompt's loop: reads statements, runs them, prints what they return. It knows no terminal; a
-- front end gives it
--   read(prompt) -> line | nil, "eof" | nil, "interrupt"
--   write(text), complain(text)
--   remember(statement)      for its history; may be nil
--   is_over()                does nobody read what is written? may be nil
local config = require "mortise.config"
local core = require "mortise.core"
local failure = require "mortise.cli.failure"
local printer = require "mortise.printer"

local repl = {}

-- The parser's message about a text that has only begun.
local function is_incomplete(why)
  return why:find "near '?<eof>'?$" ~= nil
end

-- A function for the text; or nil and the message, or nil, the message, true where more lines may
-- make it whole. An expression gives its values, also after "=".
function repl.compile(text, env)
  local expression = text:match "^[ \t\r\n\f\v]*=(.*)$" or text
  local chunk, why_not = load("return " .. expression, "=stdin", "t", env)
  if chunk then return chunk end
  local why
  chunk, why = load(text, "=stdin", "t", env)
  if chunk then return chunk end
  if expression ~= text then why = why_not end
  return nil, why, is_incomplete(why) or is_incomplete(why_not)
end

-- One whole statement: function or nil and message; "eof" or "interrupt" instead when it ended so.
local function read_statement(front, env)
  local lines = {}
  while true do
    local line, event = front.read(#lines == 0 and "> " or ">> ")
    if not line then
      if event == "eof" and #lines > 0 then
        return nil, select(2, repl.compile(table.concat(lines, "\n"), env)), nil, true
      end
      return nil, nil, event
    end
    lines[#lines + 1] = line
    local text = table.concat(lines, "\n")
    if not text:find "[^ \t\r\n\f\v]" then return function() end end
    local chunk, why, more = repl.compile(text, env)
    if chunk or not more then
      if front.remember then front.remember(text) end
      return chunk, why
    end
  end
end

local function run(front, chunk)
  local results = table.pack(core.catch(chunk, failure.handler))
  core.interrupted(true) -- it was for this statement
  if results[1] then
    if results.n > 1 then
      front.write(printer.list(table.move(results, 2, results.n, 1, {}), results.n - 1) .. "\n")
    end
    return true
  end
  if not (front.is_over and front.is_over()) then
    front.complain(failure.text(results[2], config.command_line.verbose) .. "\n")
  end
  return false
end

-- Until the end of input. -> did every statement go well?
function repl.loop(front, env)
  local good = true
  while true do
    local chunk, why, event, last = read_statement(front, env)
    if event == "eof" then return good end
    if why then
      front.complain(why .. "\n")
      good = false
    elseif chunk then
      good = run(front, chunk) and good
    end
    if last or front.is_over and front.is_over() then return good end
  end
end

return repl
