-- The prompt's loop: reads statements, runs them, prints what they return. It knows no terminal; a
-- front end gives it
--   read(prompt) -> line | nil, "eof" | nil, "interrupt"
--   write(text), complain(text)
--   remember(statement)      for its history; may be nil
--   is_over()                does nobody read what is written? may be nil
local config = require "mortise.config"
local console = require "mortise.console"
local core = require "mortise.core"
local failure = require "mortise.cli.failure"
local printable = require "mortise.printable"
local printer = require "mortise.printer"

local repl = {}

-- Is this the parser's message about an incomplete text?
local function is_incomplete(why)
  return why:find "near '?<eof>'?$" ~= nil
end

-- A function for the text; or nil, the message, and true if more lines may complete it. An expression, also
-- after "=", returns its values.
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

-- Reads a command of the prompt itself: a function, or nil and "eof"; nil if the text is Lua.
local function read_word(front, env, text)
  local word, wanted = console.read(text, env)
  if word == "quit" then return nil, "eof" end
  if wanted then
    return function() front.write(console.help_text(wanted ~= "" and wanted or nil)) end
  end
end

-- The message, with a hint if there is one.
local function with_hint(why, text, env)
  local hint = console.hint(text, env)
  return hint and why .. "\n" .. hint or why
end

-- Reads a whole statement: a function, or nil and a message; "eof" or "interrupt" if that came instead;
-- whether it was the last; its text.
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
    local chunk, event_of_word, why, more
    if #lines == 1 then chunk, event_of_word = read_word(front, env, text) end
    if not chunk and not event_of_word then chunk, why, more = repl.compile(text, env) end
    if not more then
      if front.remember then front.remember(text) end
      return chunk, why and with_hint(why, text, env), event_of_word, false, text
    end
  end
end

-- Adds a hint about an unknown name, typed alone or reported in an error.
local function hint_at_missing(front, env, text, results)
  local name = text:match "^[ \t]*([A-Za-z_][0-9A-Za-z_]*)"
  local missing = name and env[name] == nil and console.hint(text, env)
  if not missing then return end
  local alone = results[1] and results[2] == nil and text:find "^[ \t]*[A-Za-z_][0-9A-Za-z_]*[ \t]*$"
  local named = not results[1] and core.tostring(results[2]):find("global '" .. name .. "'", 1, true)
  if alone or named then front.complain(missing .. "\n") end
end

local function run(front, chunk, env, text)
  local results = table.pack(core.catch(chunk, failure.handler))
  core.interrupted(true) -- the interrupt was for this statement
  local is_over = front.is_over and front.is_over()
  if results[1] then
    if results.n > 1 then
      front.write(printer.list(table.move(results, 2, results.n, 1, {}), results.n - 1) .. "\n")
    end
  elseif not is_over then
    front.complain(failure.text(results[2], config.command_line.verbose) .. "\n")
  end
  if text and not is_over then hint_at_missing(front, env, text, results) end
  return results[1]
end

-- Runs until the end of input. -> did every statement succeed?
function repl.loop(front, env)
  local good = true
  console.install(env, front.write)
  while true do
    local chunk, why, event, last, text = read_statement(front, env)
    if event == "eof" then return good end
    if why then
      front.complain(printable(why, true) .. "\n")
      good = false
    elseif chunk then
      good = run(front, chunk, env, text) and good
    end
    if last or front.is_over and front.is_over() then return good end
  end
end

return repl
