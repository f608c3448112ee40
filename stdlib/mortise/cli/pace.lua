-- How fast a job goes that a command runs, and what it does about one that is in its way: so that one that is
-- run by cron needs nobody.
local job = require("mortise.later") "mortise.job"
local orphans = require "mortise.orphans"

local pace = {}

pace.orphan_row = {
  name = "on_orphan", type = "string", flag = "--on-orphan", value = "HOW", values = orphans.row.values,
  default_text = "fail", help = "a job that stands half-done in its way: fail, resume or rollback",
}

pace.rows = {
  pace.orphan_row,
  {name = "rate", type = "count", flag = "--rate", value = "N", help = "documents a second, at most"},
  {name = "batch", type = "count", flag = "--batch", value = "N", default_text = "it adapts",
    help = "documents in a batch"},
  {name = "concurrency", type = "count", flag = "--concurrency", value = "N", default_text = "it adapts",
    help = "batches at the same time"},
}

-- Lets a job go like that.
function pace.set(found, o)
  job.adjust(found, {on_orphan = o.on_orphan, rate = o.rate, batch = o.batch, concurrency = o.concurrency})
end

return pace
