-- What undoing a job would do. A job whose journal has all that it changed is undone by that: nobody else's
-- document is touched. A rename without one (`journal = false`, or made by the server) is undone by renaming
-- back all that lies below `to` by then, so that others' documents go along.
local core = require "mortise.core"
local errors = require "mortise.errors"
local sweeps = require "mortise.sweeps"

local undoing = {}

local LOOK_MS = 5

-- How many documents lie below `to`.
local function count_beside(client, options)
  local matched, beside
  local work = client:_open_core():plan(options)
  local task = core.spawn(function() return pcall(work.run, work) end)
  repeat
    matched, beside = work:counts()
    if not matched then core.sleep(LOOK_MS) end
  until matched or task:done()
  work:cancel()
  local ok, why = task:join()
  if not matched then matched, beside = work:counts() end
  if not matched then error(ok and "it was not counted" or why, 0) end
  return beside
end

-- Of a job's record; `options`: the core's, for its change. -> {job=, state=, by= ("journal" or "renaming
-- back"), changed= (documents that would be written at most), others= (at least so many of them are not the
-- job's), server= (where the server's own task may be at work for it still: sweeps.look's)}. It does not look
-- at the journal.
--
-- A dead process, or a server still at work for it, may have changed more than the record counts, but no more
-- than was found at first: fewer would call the job's own documents others'.
function undoing.foresee(client, record, options)
  local counts = record.counts
  local own = counts.changed + counts.deleted
  local out = core.object {
    job = record.job, state = record.state, by = "journal", others = 0,
    changed = record.state == "undone" and 0 or own - counts.restored - counts.kept,
  }
  if not record.renames_back or record.state == "undone" then return out end
  if record.state ~= "done" then own = math.max(own, record.found) end
  local server = sweeps.look(client, record)
  out.server = sweeps.goes_on(server) and server or nil
  local below_to = count_beside(client, options)
  out.by, out.changed, out.others = "renaming back", below_to, math.max(0, below_to - own)
  return out
end

-- The same; of a job that is undone by its journal it looks at each document that this lists, batch by batch:
-- `changed` is exact then, as of now, and `kept` how many would stay as others have changed them, or deleted.
function undoing.look(client, record, options)
  local out = undoing.foresee(client, record, options)
  if out.by ~= "journal" then return out end
  options.id = record.job
  local seen = client:_open_core():outlook(options):run()
  out.changed, out.kept = seen.changed, seen.kept
  return out
end

-- Raises conflict if undoing it would take along more than `most` documents that are not the job's.
function undoing.check(seen, most)
  if seen.others <= most then return end
  errors.raise("conflict", "at least %d of the %d documents that undoing job %s would rename back are not "
    .. "the job's, which kept no journal", seen.others, seen.changed, seen.job)
end

return undoing
