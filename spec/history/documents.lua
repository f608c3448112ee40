-- Protected writes: none after its lock's deadline, none after a successor's; and at the end each document
-- has exactly the acknowledged writes, once each.
local report = require "report"

-- ---- Acknowledged in time? -----------------------------------------------------------------------

local function was_stopped(history, who, from, to)
  for _, stop in ipairs(history.stops[who] or {}) do
    if stop[1] <= to and stop[2] >= from then return true end
  end
  return false
end

-- A client that was stopped between getting the answer and recording it may have recorded it late.
local function check_deadline(history, write, slack)
  local deadline = write.deadline
  if write.outcome ~= "ok" or deadline == -math.huge or write.done <= deadline + slack then return end
  if was_stopped(history, write.hold.who, write.at, write.done) then return end
  report.violation("late-write", "%s: %s was acknowledged at %.0f, the deadline was %.0f", write.where,
    write.w, write.done, deadline)
end

-- ---- Behind a successor's stamp? -----------------------------------------------------------------

-- The observations of each document, by time: stamps read, and the fences of acknowledged writes.
local function sightings(history)
  local docs = {}
  local function add(doc, at, fence, write, from)
    docs[doc] = docs[doc] or {}
    table.insert(docs[doc], {at = at, fence = fence, write = write, from = from})
  end
  for _, stamp in ipairs(history.stamps) do add(stamp.doc, stamp.at, stamp.fence, nil, stamp.where) end
  for _, write in ipairs(history.writes) do
    if write.outcome == "ok" then
      add(write.doc, write.done, write.fence, nil, write.where)
      add(write.doc, write.at, write.fence, write)
    end
  end
  return docs
end

local function check_sightings(list)
  table.sort(list, function(a, b)
    if a.at ~= b.at then return a.at < b.at end
    return a.write ~= nil and b.write == nil -- at the same moment nothing was seen before
  end)
  local largest
  for _, each in ipairs(list) do
    local write = each.write
    if not write then
      if not largest or each.fence > largest.fence then largest = each end
    elseif largest and largest.fence > each.fence then
      report.violation("stale-write", "%s: %s of %s with fence %d, after %d was seen there (%s)", write.where,
        write.w, write.doc, each.fence, largest.fence, largest.from)
    end
  end
end

-- ---- At the end ----------------------------------------------------------------------------------

local function check_log(history, doc, shown, seen)
  local fence = -1
  for _, entry in ipairs(shown.log) do
    local w, write = entry[1], history.by_write[entry[1]]
    if not write or write.doc ~= doc or write.outcome == "fail" then
      report.violation("phantom-write", "%s: %s has %s, which was %s", shown.where, doc, tostring(w),
        write and write.doc == doc and "refused" or "never written there")
    elseif seen[w] then
      report.violation("double-write", "%s: %s has %s twice", shown.where, doc, w)
    end
    seen[w] = true
    if entry[2] < fence then
      report.violation("stale-write", "%s: %s has %s with fence %d behind %d", shown.where, doc, tostring(w),
        entry[2], fence)
    end
    fence = math.max(fence, entry[2])
  end
end

local function check_documents(history)
  local seen = {}
  for doc, shown in pairs(history.documents) do check_log(history, doc, shown, seen) end
  for _, write in ipairs(history.writes) do
    if write.outcome == "ok" and not seen[write.w] then
      report.violation("missing-write", "%s: %s of %s was acknowledged and is not there", write.where,
        write.w, write.doc)
    end
  end
end

return function(history, slack)
  for _, write in ipairs(history.writes) do check_deadline(history, write, slack) end
  for _, list in pairs(sightings(history)) do check_sightings(list) end
  if history.n_documents > 0 then check_documents(history) end
end
