-- The counts of mortise.metrics in Prometheus' text format.
local core = require "mortise.core"

local metrics_text = {}

local of_stats = {
  {"requests", "mortise_requests_total", "requests to stores"},
  {"retries", "mortise_request_retries_total", "requests that were sent again"},
  {"sent_bytes", "mortise_sent_bytes_total", "bytes that were sent to stores"},
  {"received_bytes", "mortise_received_bytes_total", "bytes that came from stores"},
  {"unidentified", "mortise_unidentified_answers_total", "answers that do not say which request they answer"},
  {"lock_batches", "mortise_lock_batches_total", "requests of locks, many in one"},
  {"lock_items", "mortise_lock_items_total", "entries of locks in these requests"},
  {"lock_conflicts", "mortise_lock_conflicts_total", "entries of locks that were sent again"},
  {"denials", "mortise_lock_denials_total", "requests of locks that were denied"},
  {"waits", "mortise_lock_waits_total", "locks that were waited for"},
  {"takeovers", "mortise_takeovers_total", "sessions of others that were found dead"},
  {"janitor", "mortise_janitor_requests_total", "requests to clear away what the dead left"},
  {"cleared", "mortise_cleared_entries_total", "entries of the dead that were removed"},
}

local help = {
  mortise_documents_total = {"outcome", "documents of writers, by what became of them"},
  mortise_job_documents_total = {"outcome", "documents of jobs, as the jobs count them"},
  mortise_jobs_total = {"attempt", "attempts at jobs, by verb and outcome"},
  mortise_lock_failures_total = {"code", "locks that were not had"},
}

-- ---- As text -------------------------------------------------------------------------------------

local function add_head(lines, name, kind, text)
  lines[#lines + 1] = ("# HELP %s %s"):format(name, text)
  lines[#lines + 1] = ("# TYPE %s %s"):format(name, kind)
end

local function seconds(ms) return ("%d.%03d"):format(ms // 1000, ms % 1000) end

local function add_clients(lines, metrics)
  local sums, held, least_ms = {}, 0, nil
  for name, n in pairs(metrics.closed) do sums[name] = n end
  metrics.each_client(function(client, locks)
    local open, stats = pcall(client.stats, client)
    for name, n in pairs(open and stats or {}) do sums[name] = (sums[name] or 0) + n end
    for _, lock in ipairs(locks) do
      local left_ms = math.floor(lock:remaining() * 1000)
      held = held + (left_ms > 0 and 1 or 0)
      least_ms = math.min(least_ms or left_ms, left_ms)
    end
  end)
  for _, row in ipairs(of_stats) do
    add_head(lines, row[2], "counter", row[3])
    lines[#lines + 1] = ("%s %d"):format(row[2], sums[row[1]] or 0)
  end
  add_head(lines, "mortise_locks_held", "gauge", "locks that are held for sure")
  lines[#lines + 1] = ("mortise_locks_held %d"):format(held)
  if not least_ms then return end
  local name = "mortise_lease_remaining_seconds"
  add_head(lines, name, "gauge", "the least that is left of the leases of held locks")
  lines[#lines + 1] = name .. " " .. seconds(math.max(0, least_ms))
end

local function add_waits(lines, waits)
  local name = "mortise_lock_wait_seconds"
  add_head(lines, name, "histogram", "how long it took to get locks that were had")
  for i, bound in ipairs(waits.bounds_ms) do
    lines[#lines + 1] = ('%s_bucket{le="%s"} %d'):format(name, seconds(bound), waits.upto[i])
  end
  lines[#lines + 1] = ('%s_bucket{le="+Inf"} %d'):format(name, waits.n)
  lines[#lines + 1] = ("%s_sum %s"):format(name, seconds(waits.sum_ms))
  lines[#lines + 1] = ("%s_count %d"):format(name, waits.n)
end

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, core.before)
  return keys
end

local function add_counters(lines, counters)
  for _, name in ipairs(sorted_keys(counters)) do
    add_head(lines, name, "counter", help[name][2])
    for _, label in ipairs(sorted_keys(counters[name])) do
      lines[#lines + 1] = ('%s{%s="%s"} %d'):format(name, help[name][1], label, counters[name][label])
    end
  end
end

-- All that mortise.metrics has counted, one sample a line.
function metrics_text.of(metrics)
  local lines = {}
  add_clients(lines, metrics)
  add_waits(lines, metrics.waits)
  add_counters(lines, metrics.counters)
  return table.concat(lines, "\n") .. "\n"
end

return metrics_text
