-- The program at a terminal, driven by expect.
local program = require "spec.support.program"

local terminal = {}

function terminal.is_there() return (os.execute "command -v expect >/dev/null") end

-- Runs it with these words, and answers each question "(y/N)" so. -> status, all that it wrote, as one text
function terminal.answer(answer, words)
  local quoted = {}
  for i, word in ipairs(words) do quoted[i] = program.quote(word) end
  local pipe = io.popen(("env -u LD_PRELOAD -u MORTISE_STORE -u MORTISE_PROFILE TERM=dumb HOME=/nonexistent "
    .. "expect spec/support/answer.exp %s %s %s 2>&1"):format(program.quote(answer),
    program.quote(program.file), table.concat(quoted, " ")))
  local said = pipe:read "a"
  pipe:close()
  local text, status = said:match "^(.*)\n(%d+)\n$"
  return assert(math.tointeger(status), said), text
end

return terminal
