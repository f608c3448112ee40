-- What the board has last seen, for Prometheus: numbers alone, so that no name of anybody is a label but the
-- ids of jobs, which have letters, digits and a few signs.
local core = require "mortise.core"
local metrics = require "mortise.metrics"
local metrics_text = require "mortise.metrics_text"

local board_metrics = {}

local jobs_most = 50

local function gauge(lines, name, text, value)
  lines[#lines + 1] = ("# HELP %s %s"):format(name, text)
  lines[#lines + 1] = ("# TYPE %s gauge"):format(name)
  if value then lines[#lines + 1] = ("%s %d"):format(name, value) end
end

local of_jobs = {
  {"mortise_board_job_done", "documents that a job has done", function(record) return record.done end},
  {"mortise_board_job_left", "documents that a job has left to do", function(record) return record.left end},
  {"mortise_board_job_rate", "documents a second of a job", function(record) return record.rate or 0 end},
  {"mortise_board_job_conflicts", "documents that others had changed meanwhile",
    function(record) return record.counts.conflicts end},
  {"mortise_board_job_rejected", "documents that were refused",
    function(record) return record.counts.rejected end},
}

local function add_jobs(lines, jobs)
  for _, row in ipairs(of_jobs) do
    gauge(lines, row[1], row[2])
    for i = 1, math.min(#jobs, jobs_most) do
      local value = jobs[i].counts and row[3](jobs[i])
      if value then
        lines[#lines + 1] = ('%s{job=%s} %d'):format(row[1], core.json_quote(jobs[i].job), value)
      end
    end
  end
end

-- `found`: the last look, or nil; `is_well`: could the store be read the last time?
function board_metrics.text(found, is_well, readers)
  local lines = {}
  gauge(lines, "mortise_board_up", "could the store be read the last time?", is_well and 1 or 0)
  gauge(lines, "mortise_board_readers", "pages that are open", readers)
  if found then
    gauge(lines, "mortise_board_look_seconds", "when the store was read, since 1970", found.at // 1000)
    gauge(lines, "mortise_board_look_milliseconds", "how long that took", found.took_ms)
    gauge(lines, "mortise_board_locks", "locks in the table", found.locks)
    gauge(lines, "mortise_board_sessions", "sessions in the table", found.n_sessions)
    gauge(lines, "mortise_board_waiting", "who waits for a lock", found.waiting)
    gauge(lines, "mortise_board_jobs_running", "jobs that run", found.running)
    gauge(lines, "mortise_board_jobs_standing", "jobs that stand half-done", found.standing)
    add_jobs(lines, found.jobs)
  end
  return table.concat(lines, "\n") .. "\n" .. metrics_text.of(metrics)
end

return board_metrics
