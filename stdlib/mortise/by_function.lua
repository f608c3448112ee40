-- A job's change that is a Lua function: it gets the view of each document, and what it assigns is written.
local context = require "mortise.context"
local core = require "mortise.core"
local errors = require "mortise.errors"
local hint = require "mortise.hint"

local by_function = {}

local Reject = {__name = "mortise.reject"}

-- Returned by such a function: the document is set aside, and stays as it is.
function by_function.reject(reason)
  if type(reason) ~= "string" or reason == "" then errors.bad "reject: it takes the reason, a text" end
  return setmetatable({reason = reason}, Reject)
end

local function is_delete(result)
  return result == require("mortise").delete or result == require("mortise.documents").delete
end

-- What becomes of the document, as work:put takes it.
function by_function.meant(view, result)
  if result == nil or result == view then
    if view:_changed() then return "change", view:_source() end
    return "keep"
  end
  if is_delete(result) then return "delete" end
  if getmetatable(result) == Reject then return "reject", result.reason end
  errors.bad("it returns nothing, mortise.delete or mortise.reject(reason), not %s", core.tostring(result))
end

-- What it returns.
function by_function.call(fn, view, id)
  local _ <close> = context.at("the function of job %s, at %s/%s", id, view._index, view._id)
  return fn(view)
end

function by_function.outcome(fn, view, id) return by_function.meant(view, by_function.call(fn, view, id)) end

-- Is what it returned a list?
function by_function.is_list(result)
  return type(result) == "table" and getmetatable(result) == nil and not is_delete(result)
end

-- Raises what goes wrong in the function. The task may be cancelled while the function waits.
local function change_page(work, fn, id)
  for view in work.doc, work do work:put(by_function.outcome(fn, view, id)) end
  core.sleep(0) -- what was made is sent
end

-- Like work:run(), with the change made by fn.
function by_function.run(work, fn, id)
  local result = work:run()
  while not result do
    local ok, why = xpcall(change_page, core.traceback, work, fn, id)
    if not ok then
      work:fail(why)
      pcall(work.settle, work)
      error(why, 0)
    end
    result = work:run()
  end
  return result
end

-- Is this the change of a spec, which is JSON text, or of the spec in a record?
function by_function.is(change)
  return change == '"function"' or change == "function"
end

-- What its script must have first, where the job's id was made anew: "" or text.
function by_function.needs(id)
  if not id:find("%-" .. ("[0-9a-f]"):rep(8) .. "$") then return "" end
  return (', once the script gives it `id = "%s"`'):format(id)
end

-- How such a job is gone on with.
function by_function.command(client) return hint.mortise(client) .. " job run FILE --resume" end

function by_function.refuse(client, code, id)
  error(core.error {
    code = code, job = id, retryable = false,
    message = ("job %s cannot be resumed here, since its change is a Lua function, which only its script "
      .. "has: `%s` goes on there%s; `%s jobs rollback %s` undoes it"):format(id, by_function.command(client),
      by_function.needs(id), hint.mortise(client), id),
  }, 0)
end

return by_function
