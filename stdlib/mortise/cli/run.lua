-- mortise run FILE|- [ARGS] and mortise -e CODE [ARGS]
local budgets = require "mortise.sandbox.budgets"
local client = require "mortise.client"
local config = require "mortise.config"
local core = require "mortise.core"
local errors = require "mortise.errors"
local failure = require "mortise.cli.failure"
local hint = require "mortise.hint"
local later = require "mortise.later"
local losses = require "mortise.losses"
local printable = require "mortise.printable"
local printer = require "mortise.printer"
local script_text = require "mortise.script_text"

local job = later "mortise.job"
local sandbox = later "mortise.sandbox"
local migrate = later "mortise.migrate"

local run = {
  summary = "run a script (-: standard input)",
  usage = "FILE|- [ARGS] [-- ARGS]",
  help = [[
Runs a Lua script with `mortise` as a global. What follows the script's name, but for options, is the
script's: its `...` and the table `arg`; what follows `--` is, whatever it is. Modules are found beside the
script. `mortise FILE.lua` is the same, also after "#!"; with "#!/usr/bin/env -S mortise run --" all
arguments are the script's. The store is opened when the script first uses it. A script that returns a job
is run by `mortise job run FILE`, which can plan it first, resume it and undo it; here that is refused.

With --sandbox the script is not trusted: it has no files, no programs, no configuration, and of the store
only what --allow names; it ends when it has used up what it may.]],
  options = budgets.script_rows,
  script = true,
  arguments = {1, math.huge},
  takes = {"FILE"},
}

-- Makes `require` search the script's folder first.
local function search_beside(file)
  local folder = file:match "^(.*)/[^/]*$" or "."
  if folder == "" then folder = "/" end
  if folder:find "[;?]" then return end
  package.path = ("%s/?.lua;%s/?/init.lua;%s"):format(folder, folder, package.path)
end

local function itself(why) return why end

-- Joins the script's task, which is separate so that tasks it left behind end with it and an interrupt
-- reaches it before us. -> the results of pcall, packed
local function finish(task)
  local done, results
  repeat -- join again after its end: an error that interrupted an earlier join is not its result
    done = task:done()
    results = table.pack(core.catch(task.join, itself, task))
  until done
  return results
end

local function set_arguments(name, words)
  arg = {[0] = name, table.unpack(words)} -- luacheck: globals arg
end

-- os.exit does not unwind, so writers are finished and locks released first. With a failure status nothing
-- more is written, and unsent items are reported.
local function exit_cleanly(verbose, name)
  local exit = os.exit
  os.exit = function(status, ...) -- luacheck: globals os.exit
    local good = status == nil or status == true or status == 0
    local why = client.end_all(not good and ("os.exit(%s)"):format(status) or nil)
    local lost = losses.error()
    if not good then
      if lost then failure.report(lost, verbose, name) end
    elseif why ~= nil or lost then
      status = failure.report(losses.join(why, lost), verbose, name)
    end
    exit(status, ...)
  end
end

-- (check or nil, chunk, arguments): keeps locks that only its locals refer to while its tasks end. The chunk
-- is called without a name, so that tracebacks show it as the main chunk. `check` gets its first result.
local function call(check, ...)
  local results = table.pack((...)(select(2, ...)))
  if check then check(results[1]) end
  client.hold()
  return table.unpack(results, 1, results.n)
end

-- Runs a chunk. -> exit status. `show` (may be nil) gets the chunk's results and their number, `check` (may
-- be nil) the first of them, before anything is ended.
function run.chunk(chunk, name, words, verbose, show, check)
  config.identity = {program = "mortise", script = name == "(command line)" and "-e" or name}
  set_arguments(name, words)
  losses.keep()
  exit_cleanly(verbose, name)
  local results = finish(core.spawn(call, check, chunk, table.unpack(words)))
  if results[1] and results.n > 1 and show then
    show(table.move(results, 2, results.n, 1, {}), results.n - 1)
  end
  local why
  if not results[1] then why = results[2] end
  if not results[1] and why == nil then why = "(the error is a nil value)" end
  why = client.end_all(why)
  why = losses.join(why, losses.error())
  io.stdout:flush()
  if results[1] and why == nil then return 0 end
  return failure.report(why, verbose, name)
end

local function compiled(chunk, why)
  if chunk then return chunk end
  io.stderr:write("mortise: ", printable(why, true), "\n")
end

local function read_input()
  local lines = {}
  for line in require("mortise.terminal").line do lines[#lines + 1] = line end
  return table.concat(lines, "\n")
end

local function code_of(file) return script_text(file, read_input) end

local function load_file(file)
  local text, name = code_of(file)
  return compiled(load(text, name, "t"))
end

-- A job that was only made. A table may be another script's module.
local function is_unrun_job(value)
  if type(value) ~= "table" then return false end
  if job.is_untouched(value) or migrate.is_untouched(value) then return true end
  return not getmetatable(value) and rawget(value, "index") ~= nil
    and (rawget(value, "change") or rawget(value, "rename")) ~= nil
end

-- A script that returns a job and was to do something would otherwise have done nothing, without a word.
local function refuse_job(ctx, value)
  if not is_unrun_job(value) then return end
  local words = {"job", "run", table.unpack(ctx.arguments)}
  for i = 4, #words do
    if words[i]:sub(1, 1) == "-" then
      table.insert(words, 4, "--")
      break
    end
  end
  errors.bad("%s returns a job, which was not run; to run it: %s", ctx.arguments[1],
    hint.command(nil, table.unpack(words)))
end

local function check_sandbox(o)
  for _, row in ipairs(budgets.script_rows) do
    if row.name ~= "sandbox" and o[row.name] ~= nil then errors.bad("%s belongs to --sandbox", row.flag) end
  end
end

-- -> exit status
local function run_sandbox(ctx)
  local o, file = ctx.options, ctx.arguments[1]
  local code, name = code_of(file)
  local function chunk(...)
    sandbox.run {
      code = code, name = name, arguments = {...}, allow = o.allow, memory = o.memory,
      instructions = o.instructions, time = o.time, client = require("mortise").client,
    }
  end
  return run.chunk(chunk, file == "-" and "stdin" or file, {table.unpack(ctx.arguments, 2)}, ctx.verbose)
end

-- Runs the file that the command line names; `wrap` (may be nil) makes of its chunk what is run.
function run.run(ctx, wrap)
  if ctx.options.sandbox and not wrap then return run_sandbox(ctx) end
  if not wrap then check_sandbox(ctx.options) end
  local file = ctx.arguments[1]
  local chunk = load_file(file)
  if not chunk then return 1 end
  if file ~= "-" then search_beside(file) end
  if wrap then chunk = wrap(chunk) end
  local name, check = file == "-" and "stdin" or file, nil
  if not wrap then check = function(value) refuse_job(ctx, value) end end
  return run.chunk(chunk, name, {table.unpack(ctx.arguments, 2)}, ctx.verbose, nil, check)
end

-- Prints results like the prompt.
local function print_results(values, n)
  io.stdout:write(printer.list(values, n), "\n")
end

function run.run_code(ctx)
  local chunk = compiled(load(ctx.options.execute, "=(command line)", "t"))
  if not chunk then return 1 end
  return run.chunk(chunk, "(command line)", ctx.arguments, ctx.verbose, print_results)
end

return run
