-- The program at a terminal, driven by expect.
local program = require "spec.support.program"

local terminal = {}

function terminal.is_there() return (os.execute "command -v expect >/dev/null") end

-- Runs it with these words, and answers each question "(y/N)" so (answer.exp). `environment` (or nil): words
-- of env(1). -> status, all that it wrote, as one text
function terminal.answer(answer, words, environment)
  local quoted = {}
  for _, word in ipairs(environment or {}) do quoted[#quoted + 1] = program.quote(word) end
  quoted[#quoted + 1] = program.quote(program.file)
  for _, word in ipairs(words) do quoted[#quoted + 1] = program.quote(word) end
  local pipe = io.popen(("env -u LD_PRELOAD -u MORTISE_STORE -u MORTISE_PROFILE HOME=/dev/null/home "
    .. "TERM=dumb expect spec/support/answer.exp %s %s %s 2>&1"):format(program.quote(answer),
    environment and "env" or "", table.concat(quoted, " ")))
  local said = pipe:read "a"
  pipe:close()
  local text, status = said:match "^(.*)\n(%d+)\n$"
  return assert(math.tointeger(status), said), text
end

return terminal
