-- Asking a person before a command changes or removes much; --yes answers beforehand.
--
-- Somebody can be asked where standard input and standard error are terminals, unless the command prints
-- JSON, which is for programs. The question goes to standard error, so that the output may go to a file.
-- Only "y" or "yes" is a yes: not an empty line, the end of the input, or ^C.
local core = require "mortise.core"
local errors = require "mortise.errors"
local output = require "mortise.cli.output"
local typed = require "mortise.cli.typed"

local confirm = {}

confirm.row = {name = "yes", type = "boolean", flag = "--yes", help = "do not ask"}

function confirm.can_ask(ctx)
  return not ctx.options.json and output.is_terminal(0) and output.is_terminal(2)
end

-- The question itself. -> the answer
function confirm.ask(question)
  output.clear()
  io.stderr:write(question, " (y/N) ")
  local answer = core.lower(require("mortise.terminal").line() or "")
  return answer == "y" or answer == "yes"
end

-- For what nobody may do unasked. -> is it to be done? Where nobody can be asked, an error with what to type.
function confirm.required(ctx, question)
  if ctx.options.yes then return true end
  if not confirm.can_ask(ctx) then
    errors.bad("nobody can be asked whether to do this; to do it unasked: %s", typed.same_with(ctx, "--yes"))
  end
  return confirm.ask(question)
end

return confirm
