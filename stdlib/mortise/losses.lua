-- Items that a writer gathered and did not send: {index=, items=, unanswered=, place=}. They are reported in
-- the error that stopped it or in a warning, never dropped silently.
local core = require "mortise.core"
local errors = require "mortise.errors"
local warn = require "mortise.warn"

local losses = {}

local function items(n, what)
  return ("%d %s %s"):format(n, n == 1 and "item" or "items", what)
end

-- "writer on wq: 1500 items not sent"; `unanswered` ones were sent and may have been written.
local function text_of(loss)
  local parts = {}
  if loss.items > 0 then parts[1] = items(loss.items, "not sent") end
  if loss.unanswered > 0 then parts[#parts + 1] = items(loss.unanswered, "sent without an answer") end
  return ("writer on %s: %s"):format(loss.index, table.concat(parts, ", "))
end

local function place_of(loss)
  return loss.place and loss.place .. ": " or ""
end

local cause_max = 100

-- Adds it to the error being raised: to its message and its list `unsent`. An error that is not our object
-- stays as it is, and a warning is written instead.
function losses.add_to(why, loss)
  if not core.is_error(why) then
    local cause = type(why) == "string" and why:match "^[^\n]*":sub(1, cause_max) or "an error"
    warn("%s%s: its block was left by %s", place_of(loss), text_of(loss), cause)
    return
  end
  why.message = ("%s (%s)"):format(why.message, text_of(loss))
  why.unsent = why.unsent or core.array {}
  table.insert(why.unsent, loss)
end

-- ---- Writers that were collected -------------------------------------------------------------------

-- Losses kept for the end of the script; nil: each is a warning at once.
local kept, kept_max = nil, 100

function losses.keep() kept = {n = 0} end

-- Called from a finalizer.
function losses.collected(loss)
  if not kept then
    warn("%s%s: nothing refers to it any more", place_of(loss), text_of(loss))
    return
  end
  kept.n = kept.n + 1
  if kept.n <= kept_max then kept[kept.n] = loss end
end

-- The error for the kept losses, or nil.
function losses.error()
  if not kept or kept.n == 0 then return nil end
  local lines, unsent = {}, core.array {}
  for i, loss in ipairs(kept) do
    lines[i] = ("%s%s: the writer was not finished, and nothing referred to it any more")
      :format(place_of(loss), text_of(loss))
    unsent[i] = loss
  end
  if kept.n > #kept then lines[#lines + 1] = ("and %d more"):format(kept.n - #kept) end
  kept = {n = 0}
  return core.error {code = "script_error", message = table.concat(lines, "\n"), unsent = unsent}
end

-- Joins two errors by adding the second to the first. -> the one to raise
function losses.join(first, second)
  if first == nil or second == nil then return first or second end
  if not core.is_error(first) or not core.is_error(second) then
    warn("%s", core.tostring(second))
    return first
  end
  first.message = ("%s; also %s: %s"):format(first.message, errors.code(second), second.message)
  first.others = first.others or core.array {}
  table.insert(first.others, second)
  for _, loss in ipairs(second.unsent or {}) do
    first.unsent = first.unsent or core.array {}
    table.insert(first.unsent, loss)
  end
  return first
end

return losses
