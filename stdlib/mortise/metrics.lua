-- Counts of this process, and the file where they are kept for Prometheus (`mortise --metrics-file FILE`).
local core = require "mortise.core"
local warn = require "mortise.warn"

local metrics_text = require("mortise.later") "mortise.metrics_text"

local metrics = {}

-- ---- What is counted here ------------------------------------------------------------------------

local counters = {} -- {[name] = {[label] = n}}
local bounds_ms = {1, 5, 10, 50, 100, 500, 1000, 5000, 10000, 30000, 60000, 300000}
local waits = {n = 0, sum_ms = 0, upto = {}, bounds_ms = bounds_ms}
for i = 1, #bounds_ms do waits.upto[i] = 0 end

metrics.counters, metrics.waits = counters, waits

-- Adds n to a counter; `label` is the value of its label, or nil.
function metrics.count(name, n, label)
  local known = counters[name]
  if not known then
    known = {}
    counters[name] = known
  end
  label = label or ""
  known[label] = (known[label] or 0) + n
end

-- Calls fn, which takes a lock, and counts how long that took or what became of it. -> its result
function metrics.timed(fn)
  local began = core.now_ms()
  local ok, result = pcall(fn)
  if not ok then
    metrics.count("mortise_lock_failures_total", 1, core.is_error(result) and result.code or "script_error")
    error(result, 0)
  end
  local ms = core.now_ms() - began
  waits.n, waits.sum_ms = waits.n + 1, waits.sum_ms + ms
  for i, bound in ipairs(bounds_ms) do
    if ms <= bound then waits.upto[i] = waits.upto[i] + 1 end
  end
  metrics.tick()
  return result
end

-- One attempt at a job: its verb, did it go well, its counts.
function metrics.job(verb, ok, counts)
  metrics.count("mortise_jobs_total", 1, verb .. (ok and ", well" or ", failed"))
  for _, name in ipairs {"changed", "deleted", "unchanged", "conflicts", "rejected"} do
    if math.type(counts[name]) == "integer" then
      metrics.count("mortise_job_documents_total", counts[name], name)
    end
  end
  metrics.tick()
end

-- ---- Of clients ----------------------------------------------------------------------------------

-- Calls see(core client, {lock, ...}) for those that are open; set by mortise.client.
metrics.each_client = nil
metrics.closed = {} -- the sums of those that were closed

-- A client of the core is being closed, or is closed already: what it has counted is kept. Raises nothing.
function metrics.ended(client)
  local open, stats = pcall(client.stats, client)
  for name, n in pairs(open and stats or {}) do metrics.closed[name] = (metrics.closed[name] or 0) + n end
end

-- ---- A file --------------------------------------------------------------------------------------

local file, next_ms, failed
local every_ms = 10000

-- From now on it is written there: about every ten seconds while something is counted, and at the end.
function metrics.to_file(name) file, next_ms = name, core.now_ms() + every_ms end

-- Whole or not at all: whoever reads it never finds a part.
function metrics.write()
  if not file then return end
  next_ms = core.now_ms() + every_ms
  local made = file .. ".new"
  local handle, why = io.open(made, "wb")
  local ok = handle
  if handle then
    ok, why = handle:write(metrics_text.of(metrics))
    local closed, reason = handle:close()
    if ok and not closed then ok, why = nil, reason end
    if ok then ok, why = os.rename(made, file) end
    if not ok then os.remove(made) end
  end
  if not ok and not failed then warn("the metrics cannot be written: %s", why) end
  failed = not ok
end

-- Writes it if it is time.
function metrics.tick()
  if file and core.now_ms() >= next_ms then metrics.write() end
end

return metrics
