-- What a job shows while it runs: one line that is rewritten, or lines, or JSON (--progress).
local core = require "mortise.core"
local duration = require "mortise.duration"
local output = require "mortise.cli.output"

local progress = {}

local window_ms = 10000 -- the rate is that of so long a time

-- Documents a second over the last samples, nil as long as it is not known.
local function rate_of(samples, now, done)
  samples[#samples + 1] = {now, done}
  while #samples > 2 and now - samples[2][1] >= window_ms do table.remove(samples, 1) end
  local first = samples[1]
  if now - first[1] < 1000 then return nil end
  return (done - first[2]) * 10000 // (now - first[1]) / 10
end

-- 1234567 as "1,234,567"
function progress.grouped(n)
  local text = ("%d"):format(n)
  return (text:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", ""))
end

-- "2,130/s"
function progress.rate_text(rate) return progress.grouped(math.floor(rate + 0.5)) .. "/s" end

-- "[####------]", so many characters between the brackets.
function progress.bar(done, all, width)
  local full = all > 0 and math.min(width, done * width // all) or 0
  return "[" .. ("#"):rep(full) .. ("-"):rep(width - full) .. "]"
end

-- One line for what `now` is: {done=, all=, rate=, seconds_left=, conflicts=, rejected=, limit=, waits=}.
function progress.line(now)
  local parts = {}
  local function add(format, ...) parts[#parts + 1] = format:format(...) end
  add("%d%%  %s of %s documents", now.done * 100 // now.all, progress.grouped(now.done),
    progress.grouped(now.all))
  if now.rate then add("%s", progress.rate_text(now.rate)) end
  if now.limit then add("limited to %s/s", progress.grouped(now.limit)) end
  if now.seconds_left then add("%s left", duration.text(now.seconds_left * 1000)) end
  if now.conflicts > 0 then add("%s conflicts", progress.grouped(now.conflicts)) end
  if now.rejected > 0 then add("%s rejected", progress.grouped(now.rejected)) end
  if now.waits then add("%s", now.waits) end
  return table.concat(parts, ", ")
end

-- A function for `on_progress` of the job of this id (a function that returns it, or the id).
function progress.watcher(id)
  local samples = {}
  return function(done, all, more)
    if all == 0 then return end
    local rate = rate_of(samples, core.now_ms(), done)
    local left = rate and rate > 0 and not more.waits and math.ceil((all - done) / rate) or nil
    local now = core.object {
      job = type(id) == "function" and id() or id, done = done, all = all, rate = rate, seconds_left = left,
      conflicts = more.conflicts, rejected = more.rejected, limit = more.limit, waits = more.waits,
    }
    output.status(progress.line(now), now, more.waits)
  end
end

return progress
