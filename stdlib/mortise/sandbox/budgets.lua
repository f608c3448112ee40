-- What a sandbox may use up, and the options that say so.
local options = require "mortise.options"

local budgets = {}

budgets.forms = {
  "read INDEX", "write INDEX", "write INDEX under PATH [in FIELD]", "lock PATH", "lock documents INDEX",
  "lock name CATEGORY",
}

local function rows_of(memory, instructions, time)
  return {
    {name = "memory", type = "size", flag = "--memory", value = "SIZE", default_text = memory,
      least = 1 << 20, most = 1 << 30, range = "from 1MB to 1GB", help = "the most a sandbox may have"},
    {name = "instructions", type = "count", flag = "--instructions", value = "N", default_text = instructions,
      help = "how many it may carry out"},
    {name = "time", type = "duration", flag = "--time", value = "TIME", default_text = time,
      help = "how long it may take, waiting included; 0: without limit"},
  }
end

-- Of a script, and of one document's change: bytes, a number, ms.
budgets.script = {memory = 64 << 20, instructions = 1000 * 1000 * 1000, time = 60 * 1000}
budgets.change = {memory = 16 << 20, instructions = 10 * 1000 * 1000, time = 1000}

budgets.hosted_rows = options.join({
  {name = "allow", type = "table", help = "rules, as of --allow"},
}, rows_of("64MB", "1000000000", "1m"))

budgets.change_rows = rows_of("16MB", "10000000", "1s")

budgets.script_rows = options.join({
  {name = "sandbox", type = "boolean", flag = "--sandbox",
    help = "the script is not trusted: it gets only what --allow names"},
  {name = "allow", type = "string", flag = "--allow", value = "RULE", list = true,
    help = "what a sandbox may do with the store, once for each: " .. table.concat(budgets.forms, ", ")},
}, rows_of("64MB", "1000000000", "1m"))

-- Of the commands that run jobs.
budgets.confine_row = {
  name = "sandbox_change", type = "boolean", flag = "--sandbox-change",
  help = "the function that changes the documents is not trusted: it runs in a sandbox",
}

return budgets
