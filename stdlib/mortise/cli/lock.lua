-- mortise lock PATH... -- COMMAND
local child = require("mortise.later") "mortise.child" -- which only the program has
local config = require "mortise.config"
local core = require "mortise.core"
local errors = require "mortise.errors"
local failure = require "mortise.cli.failure"
local mortise = require "mortise"
local pace = require "mortise.cli.pace"

local command = {
  summary = "run a program under a lock",
  usage = "PATH... [--shared] -- COMMAND [ARG ...]",
  help = [[
Locks the paths, each with all below it, runs COMMAND, and gives the lock back when it has ended, together
with all that it has started and that is left. --wait TIME waits so long for the lock. The program finds in
its environment: MORTISE_LOCK_FENCE (larger than that of each earlier holder: store it with what is changed
elsewhere), MORTISE_LOCK_EPOCH, MORTISE_LOCK_PATHS (a line each), MORTISE_LOCK_REMAINING_MS (how long the
lock is sure if the store fell silent now).

When the lock is lost, the program and all of its process group get TERM, and after --grace KILL; also when
this process is killed. Signals are passed on; at a terminal the program has it.

The exit status is the program's, or 128 and its signal. Of ours: 123 the lock was lost, 124 it was not had
in time, 125 another failure, 126 COMMAND cannot be executed, 127 it is not there; 2 wrong words.]],
  options = {
    {name = "shared", type = "boolean", flag = "--shared", help = "others may hold shared locks meanwhile"},
    pace.orphan_row,
    {name = "grace", type = "duration", flag = "--grace", value = "TIME", default_text = "the lease's margin",
      help = "from TERM to KILL, when the lock is lost"},
    {name = "fence_file", type = "string", flag = "--fence-file", value = "FILE",
      help = "has the fence while the lock is held, and is removed at the end"},
  },
  arguments = {1, math.huge},
  takes = {"PATH"},
}

function command.works_on(arguments) return "lock " .. table.concat(arguments, " ") end

local LOST <const>, TIMEOUT <const>, FAILED <const> = 123, 124, 125
local MOST_MS <const>, KILL_MS <const> = 50, 5000

-- ---- The words -----------------------------------------------------------------------------------

-- -> paths, and the words of the program
local function split(ctx)
  local words, n = ctx.arguments, #ctx.arguments - ctx.behind
  if ctx.behind == 0 or n < 1 then errors.bad("usage: mortise lock %s", command.usage) end
  return table.move(words, 1, n, 1, {}), table.move(words, n + 1, #words, 1, {})
end

local function environment(client, lock)
  return {
    "MORTISE_LOCK_FENCE=" .. lock.fence, "MORTISE_LOCK_EPOCH=" .. (lock.epoch or ""),
    "MORTISE_LOCK_PATHS=" .. table.concat(lock.paths, "\n"),
    ("MORTISE_LOCK_REMAINING_MS=%d"):format(lock:remaining() * 1000),
    "MORTISE_LOCK_STORE=" .. client:url(), "MORTISE_LOCK_NAMESPACE=" .. client:namespace(),
  }
end

-- ---- The fence's file ----------------------------------------------------------------------------

-- Written whole or not at all.
local function write_fence(file, fence)
  if not file then return end
  local new = ("%s.%d.new"):format(file, fence)
  local handle, why = io.open(new, "wb")
  if not handle then errors.bad("--fence-file: %s", why) end
  local written = handle:write(fence, "\n")
  local closed, reason = handle:close()
  local ok = written and closed
  if ok then ok, reason = os.rename(new, file) end
  if not ok then
    os.remove(new)
    errors.raise("rejected", "--fence-file: %s: %s", file, reason or "it cannot be written")
  end
end

-- Where it is still this one: once the lock is another's, the file may be, too.
local function remove_fence(file, fence)
  local handle = file and io.open(file, "rb")
  if not handle then return end
  local text = handle:read "a"
  handle:close()
  if text == ("%d\n"):format(fence) then os.remove(file) end
end

-- ---- Running it ----------------------------------------------------------------------------------

-- Looks rarely at what has run for long.
local function wait_for_end()
  local began = core.now_ms()
  while true do
    local how, number = child.poll()
    if how == "exited" then return number end
    if how == "killed" then return 128 + number end
    if how == "stopped" then child.suspend() end
    core.sleep(math.max(1, math.min(MOST_MS, (core.now_ms() - began) // 8)))
  end
end

-- Ends what is left of its process group.
local function end_group(grace_ms)
  if child.is_gone() then return end
  child.signal "TERM"
  child.signal "CONT"
  local began = core.now_ms()
  while not child.is_gone() do
    child.poll()
    local gone_ms = core.now_ms() - began
    if gone_ms > grace_ms then child.signal "KILL" end
    if gone_ms > grace_ms + KILL_MS then return end
    core.sleep(math.max(1, math.min(MOST_MS, gone_ms // 8)))
  end
end

-- Under the lock. -> exit status
local function run(ctx, client, lock, words, grace_ms)
  local file = ctx.options.fence_file
  write_fence(file, lock.fence)
  local pid, number, why = child.start(words, environment(client, lock), file, grace_ms)
  if pid then
    local ok, status = pcall(wait_for_end)
    if not ok then
      child.signal "TERM" -- at once: others may have the lock soon
      error(status, 0)
    end
    number = status
    end_group(grace_ms)
  else
    io.stderr:write(("mortise: %s: %s\n"):format(words[1], why))
  end
  remove_fence(file, lock.fence)
  return number
end

-- What was started has ended, whatever happens.
local function clean_up(ctx, fence, grace_ms)
  end_group(grace_ms)
  child.finish()
  remove_fence(ctx.options.fence_file, fence)
end

local own_status = {lock_lost = LOST, lock_timeout = TIMEOUT}

function command.run(ctx)
  local paths, words = split(ctx)
  local client <close> = mortise.connect {}
  -- So long after a lock is lost here nobody else has it.
  local grace_ms, fence = ctx.options.grace or config.margin_ms(config.resolve().found), nil
  local given = {mode = ctx.options.shared and "shared" or "exclusive", on_orphan = ctx.options.on_orphan}
  local ok, result = pcall(client.with_tree_lock, client, paths, given, function(lock)
    fence = lock.fence
    return run(ctx, client, lock, words, grace_ms)
  end)
  if fence then clean_up(ctx, fence, grace_ms) end
  if ok then return result end
  if errors.code(result) == "interrupted" then error(result, 0) end
  failure.report(result, ctx.verbose)
  return own_status[errors.code(result)] or FAILED
end

return command
