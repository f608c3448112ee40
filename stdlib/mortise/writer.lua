-- The writer bound to a lock: lock:bulk(index). Nothing is sent past the lock's deadline; every item
-- is accounted for.
--   local w <close> = lock:bulk "fs"
--   for doc in lock:scan("fs", {query = q}) do doc.seen = true; w:save(doc) end
--   w:finish()
local core = require "mortise.core"
local errors = require "mortise.errors"
local json = require "mortise.json"
local options = require "mortise.options"
local to_item = require "mortise.item"

local Writer = {__name = "mortise.writer"}
Writer.__index = Writer

local writer = {class = Writer}

local rows = {
  {name = "batch", type = "count", default = 4000, help = "items that are gathered before they are sent"},
  {name = "strength", type = "string", default = "cas", values = {"cas", "stamp", "none"},
    help = "stamp: also put the lock's fence into each document, and change none with a later one; "
      .. "none: compare nothing that names no version"},
  {name = "stamp_field", type = "string", help = "the field of the stamp; mortise_stamp"},
  {name = "bytes", type = "size", default = 8 << 20, help = "bytes that are gathered before they are sent"},
}

function writer.open(lock, index, given)
  local o = options.check("bulk", rows, given)
  local own = lock.held:writer(index, {strength = o.strength, stamp_field = o.stamp_field})
  return setmetatable({
    writer = own, limits = o, items = {}, size = 0,
    counts = {applied = 0, already = 0, unchanged = 0, conflict = 0, rejected = 0},
    conflicts = {}, stamped = {}, rejects = {},
  }, Writer)
end

local function account(self, item, answer)
  local outcome = answer.outcome
  if outcome == "none" then return end
  self.counts[outcome] = self.counts[outcome] + 1
  if outcome == "conflict" then table.insert(self.conflicts, item.id) end
  if answer.type == "stamped" then
    table.insert(self.stamped, {id = item.id, reason = answer.reason})
  end
  if outcome == "rejected" then
    table.insert(self.rejects, {id = item.id, type = answer.type, reason = answer.reason})
  end
end

-- Sends what was gathered and waits for the answers. Raises what stopped it: lock_lost, unavailable.
function Writer:flush()
  if not self.writer then errors.bad("the writer is closed") end
  local items = self.items
  if #items == 0 then return end
  self.items, self.size = {}, 0
  local answers, why = self.writer:write(items)
  for i, answer in ipairs(answers) do account(self, items[i], answer) end
  if why then error(why, 0) end
end

local function put(self, item)
  if not self.writer then errors.bad("the writer is closed") end
  self.items[#self.items + 1] = item
  self.size = self.size + #(item.body or "") + #item.id + 100
  if #self.items >= self.limits.batch or self.size >= self.limits.bytes then self:flush() end
end

-- Writes a changed view back, if nobody else has changed the document since it was read. One without
-- a change is only counted.
function Writer:save(view)
  if core.is_view(view) ~= "document" then
    errors.bad("save: a document that was read, not a %s", type(view))
  end
  if not view:_changed() then
    self.counts.unchanged = self.counts.unchanged + 1
    return
  end
  put(self, {
    kind = "index", id = view._id, index = view._index, routing = view._routing, body = view:_source(),
    seq_no = view._seq_no, term = view._term, skip_pipeline = true, of_source = true,
  })
end

-- {op=, id=, doc=, ...} as of client:bulk.
function Writer:add(given) put(self, to_item(given)) end

-- Writes over whatever the document was when this writer looked at it, under the lock.
function Writer:index(id, doc) put(self, {kind = "index", id = id, body = json.source(doc)}) end
function Writer:create(id, doc) put(self, {kind = "create", id = id, body = json.source(doc)}) end

-- An id, or a view: then only if nobody else has changed the document since it was read.
function Writer:delete(what)
  if core.is_view(what) ~= "document" then return put(self, {kind = "delete", id = what}) end
  put(self, {
    kind = "delete", id = what._id, index = what._index, routing = what._routing,
    seq_no = what._seq_no, term = what._term,
  })
end

-- What has become of the items so far: {applied=, already=, unchanged=, conflict=, rejected=,
-- conflicts = {id, ...}, stamped = {{id=, reason=}, ...}, rejects = {{id=, type=, reason=}, ...}}. Those
-- not yet sent are not in it. `stamped` are those of the conflicts that a later holder has stamped.
function Writer:report()
  local report = {conflicts = self.conflicts, stamped = self.stamped, rejects = self.rejects}
  for name, n in pairs(self.counts) do report[name] = n end
  return core.object(report)
end

local finish_rows = {
  {name = "partial", type = "boolean", default = false, help = "true: do not raise for single items"},
}

local function complain(report)
  local first = report.rejects[1] or report.stamped[1]
  error(core.error {
    code = report.rejects[1] and "rejected" or "conflict",
    message = ("%d items in conflict, %d of them stamped under a later lock, %d rejected; the first is %s")
      :format(report.conflict, #report.stamped, report.rejected, first and first.id or report.conflicts[1]),
    type = first and (first.type or "stamped"), reason = first and first.reason, report = report,
  }, 0)
end

-- Sends the rest and ends. -> the report; raises `conflict` or `rejected` (with err.report) where
-- single items failed, unless `partial`.
function Writer:finish(given)
  local o = options.check("finish", finish_rows, given)
  self:flush()
  self:close()
  local report = self:report()
  if not o.partial and report.conflict + report.rejected > 0 then complain(report) end
  return report
end

-- Drops what was gathered and not sent.
function Writer:close()
  local own = self.writer
  self.writer, self.items = nil, {}
  if own then own:close() end
end

-- Leaving its block finishes it, unless an error does that.
function Writer:__close(why)
  if why ~= nil then
    self:close()
  elseif self.writer then
    self:finish()
  end
end

return writer
