-- Scripts and functions that are not trusted, each in a state of its own (bindings/lua_sandbox.c).
local adoption = require "mortise.sandbox.adoption"
local budgets = require "mortise.sandbox.budgets"
local by_function = require "mortise.by_function"
local core = require "mortise.core"
local documents = require "mortise.documents"
local errors = require "mortise.errors"
local options = require "mortise.options"
local policy = require "mortise.sandbox.policy"
local printable = require "mortise.printable"
local requests = require "mortise.sandbox.requests"
local script_text = require "mortise.script_text"

local sandbox = {}

local function with_defaults(o, defaults)
  local out = {}
  for name, value in pairs(defaults) do
    out[name] = o[name] == nil and value or o[name]
  end
  return out
end

local function make(budget, print_line)
  local limits = {memory = budget.memory, steps = budget.instructions, time_ms = budget.time}
  return core.sandbox(limits, print_line)
end

-- What hands each line on, so that it cannot control a terminal.
local function printer(to)
  return function(line) to(printable(line, true)) end
end

-- Goes on until it ends. -> what the entry returned
local function attend(box, session, step, ...)
  if step == "done" then return ... end
  return attend(box, session, box:answer(session:answer(...)))
end

-- Runs a script. `o`: {code=, name= of its chunk, arguments=, allow=, client= a function that gives one,
-- print=, memory=, instructions=, time=}.
function sandbox.run(o)
  local budget = with_defaults(o, budgets.script)
  local own_policy = policy.of(o.allow)
  local box <close> = make(budget, o.print or printer(print))
  local session <close> = requests.open(own_policy, o.client, box)
  local ok, why = pcall(function()
    attend(box, session, box:start("run", o.code, o.name, table.unpack(o.arguments or {})))
  end)
  if not ok then error(session:whole(why), 0) end
end

-- For a C host: {allow=, memory=, instructions=, time=} -> a function (code or nil, name, print) -> a
-- function that runs the code, or the file of that name ("-": standard input), in a sandbox.
function sandbox.hosted(given)
  local o = options.check("the sandbox", budgets.hosted_rows, given)
  policy.of(o.allow)
  return function(code, name, print_to)
    local chunk = name
    if not code then code, chunk = script_text(name, function() return io.read "a" end) end
    return function(...)
      sandbox.run {
        code = code, name = chunk, arguments = {...}, client = require("mortise").client, allow = o.allow,
        memory = o.memory, instructions = o.instructions, time = o.time,
        print = printer(print_to),
      }
    end
  end
end

-- ---- A change -------------------------------------------------------------------------------------

local change_rows = options.join({
  {name = "name", type = "string", help = "of the code, in errors"},
  {name = "print", type = "function", help = "gets each line that it prints"},
}, budgets.change_rows)

options.register({"sandboxed"}, change_rows)

-- What is asked for by a change, which gets nothing of the store and does not wait.
local nothing = {}

function nothing.answer(_, what, ...)
  if what == "now" or what == "seconds" then return requests.plain(what, ...) end
  local message = "a change asks nothing of the store, and does not wait"
  return false, core.error {code = "unsupported", message = message}
end

local function enter(box, entry, ...) return attend(box, nothing, box:start(entry, ...)) end

local function to_list(list)
  for _, each in ipairs(list) do each._source = core.view(each._source) end
  return list
end

local function assign(view, changes)
  for name, text in pairs(changes) do
    if text then
      view:_set(name, core.view('{"v":' .. text .. "}"):_get "v")
    else
      view:_set(name, nil)
    end
  end
end

-- What by_function takes, of what the entry `change` returned.
local function meant(view, how, what)
  if how == "change" then
    assign(view, what)
  elseif how == "delete" then
    return documents.delete
  elseif how == "reject" then
    return by_function.reject(what)
  elseif how == "list" then
    return to_list(what)
  end
end

-- sandboxed(code or function, {memory=, instructions=, time=, name=, print=}) -> a function of a document,
-- which calls what the code returns, or the function, within a sandbox: for the `change` of a job or a
-- migration. The budgets are those of one document, but for the memory. A function takes along copies of the
-- plain values that it uses.
function sandbox.change(what, given)
  local o = options.check("sandboxed", change_rows, given)
  if type(what) ~= "string" and type(what) ~= "function" then
    errors.bad("sandboxed: it takes code or a function, not a %s", type(what))
  end
  local budget, codes, upvalues = with_defaults(o, budgets.change), nil, nil
  if type(what) == "function" then codes, upvalues = adoption(what) end
  local box

  local function open()
    box = make(budget, o.print or printer(print))
    if codes then
      box:adopt(table.unpack(codes))
      enter(box, "adopt", upvalues)
    else
      enter(box, "load", what, o.name and "@" .. o.name or "=change")
    end
  end

  open() -- so that what is wrong with it is told before anything is changed
  return function(view)
    if not box then open() end
    local ok, how, made = pcall(enter, box, "change", {
      id = view._id, index = view._index, routing = view._routing, seq_no = view._seq_no, term = view._term,
      source = view:_source(),
    })
    if ok then return meant(view, how, made) end
    if errors.code(how) == "interrupted" or core.is_error(how) and how.budget then
      box:close() -- and a new one for the next document
      box = nil
    end
    error(how, 0)
  end
end

-- For commands: from now on the functions of a job or a migration that was just made run in sandboxes.
function sandbox.confine(own, what)
  if not own._function and not own._function_back then
    errors.bad("--sandbox-change: the change of %s is no function", what)
  end
  own._function = own._function and sandbox.change(own._function)
  own._function_back = own._function_back and sandbox.change(own._function_back)
end

return sandbox
