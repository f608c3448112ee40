-- The prompt's loop: reads statements, runs them, shows what they return. It knows no terminal; a front end
-- gives it
--   read(prompt) -> line | nil, "eof" | nil, "interrupt"
--   write(text), complain(text)
--   page(text)               writes a result, which may be long; nil: write does
--   prompt() -> text         what stands before "> "; may be nil
--   switch(name, on)         does what \NAME on or off needs beside; may be nil
--   remember(statement)      for its history; may be nil
--   is_over()                does nobody read what is written? may be nil
local config = require "mortise.config"
local core = require "mortise.core"
local failure = require "mortise.cli.failure"
local help = require "mortise.prompt.help"
local names = require "mortise.prompt.names"
local printable = require "mortise.printable"
local shown = require "mortise.prompt.shown"
local statement = require "mortise.prompt.statement"
local words = require "mortise.prompt.words"

local loop = {}

-- Reads a command of the prompt itself: a function, or nil and "eof", or nil, nil and a message, and the text
-- that it stands for; nothing if the text is Lua.
local function read_word(prompt, text)
  if text:find "^[ \t]*\\" then
    local chunk, why, instead = words.read(text, prompt)
    if why == words.leave then return nil, "eof" end
    return chunk, nil, why, instead
  end
  local word, wanted = help.read(text, prompt.env)
  if word == "quit" then return nil, "eof" end
  if wanted then
    return function() prompt.front.write(help.text(wanted ~= "" and wanted or nil)) end
  end
end

-- The message, with a hint if there is one.
local function with_hint(why, text, env)
  local hint = help.hint(text, env)
  return hint and why .. "\n" .. hint or why
end

local function prompt_text(front, is_first)
  if not is_first then return ">> " end
  return (front.prompt and front.prompt() or "") .. "> "
end

-- Reads a whole statement: {chunk=, why=, event=, last=, text=}: a function; or a message; or "eof" or
-- "interrupt" that came instead; was it the last? its text.
local function read_statement(prompt)
  local front, env, lines = prompt.front, prompt.env, {}
  while true do
    local line, event = front.read(prompt_text(front, #lines == 0))
    if not line then
      if event == "eof" and #lines > 0 then
        return {why = select(2, statement.compile(table.concat(lines, "\n"), env)), last = true}
      end
      return {event = event}
    end
    lines[#lines + 1] = line
    local text = table.concat(lines, "\n")
    if not text:find "[^ \t\r\n\f\v]" then return {} end
    local found, more = {text = text}, nil
    if #lines == 1 then found.chunk, found.event, found.why, found.instead = read_word(prompt, text) end
    if not (found.chunk or found.event or found.why) then
      found.chunk, found.why, more = statement.compile(text, env)
      found.is_lua = true
    end
    if not more then
      if front.remember then front.remember(text) end
      if found.why and found.is_lua then found.why = with_hint(found.why, text, env) end
      return found
    end
  end
end

-- Adds a hint about an unknown name, typed alone or reported in an error.
local function hint_at_missing(prompt, text, results)
  local env = prompt.env
  local name = text:match "^[ \t]*([A-Za-z_][0-9A-Za-z_]*)"
  local missing = name and env[name] == nil and help.hint(text, env)
  if not missing then return end
  local alone = results[1] and results[2] == nil and text:find "^[ \t]*[A-Za-z_][0-9A-Za-z_]*[ \t]*$"
  local named = not results[1] and core.tostring(results[2]):find("global '" .. name .. "'", 1, true)
  if alone or named then prompt.front.complain(missing .. "\n") end
end

-- `_` is the first of them, `_1`, `_2`, ... each.
local function keep_results(prompt, results)
  local env, state = prompt.env, prompt.state
  for i = results.n + 1, state.kept or 0 do env["_" .. i] = nil end
  env._ = results[1]
  for i = 1, results.n do env["_" .. i] = results[i] end
  state.kept = results.n
end

local function show(prompt, results)
  local text = shown.text(results)
  if not text then return end
  keep_results(prompt, results)
  local page = prompt.front.page or prompt.front.write
  page(text .. "\n")
end

local function run(prompt, found)
  local front, state = prompt.front, prompt.state
  local began = core.now_ms()
  local results = table.pack(core.catch(found.chunk, failure.handler))
  local took = core.now_ms() - began
  core.interrupted(true) -- the interrupt was for this statement
  local is_over = front.is_over and front.is_over()
  if results[1] then
    show(prompt, table.pack(table.unpack(results, 2, results.n)))
  elseif not is_over then
    front.complain(failure.text(results[2], config.command_line.verbose) .. "\n")
  end
  if found.is_lua and not is_over then hint_at_missing(prompt, found.text, results) end
  if state.timing and not is_over then front.write(("%d ms\n"):format(took)) end
  local good = results[1] and not state.failed
  state.failed = nil
  return good
end

-- Runs until the end of input. -> did every statement succeed?
function loop.run(front, env)
  local good, prompt = true, {front = front, env = env, state = front.state or {}}
  help.install(env, front.write)
  while true do
    local found = read_statement(prompt)
    if found.event == "eof" then return good end
    if found.is_lua or found.instead then
      prompt.state.last = found.instead or found.text
      names.learn(prompt.state.last)
    end
    if found.why then
      front.complain(printable(found.why, true) .. "\n")
      good = false
    elseif found.chunk then
      good = run(prompt, found) and good
    end
    if found.last or front.is_over and front.is_over() then return good end
  end
end

return loop
