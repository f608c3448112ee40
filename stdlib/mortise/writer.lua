-- The writer bound to a lock: lock:bulk(index). It sends nothing past the lock's deadline, and accounts
-- for every item: it is finished explicitly, or at the end of its block, its lock or the script, or what
-- it did not send is reported (mortise.losses).
--   local w <close> = lock:bulk "fs"
--   for doc in lock:scan("fs", {query = q}) do doc.seen = true; w:save(doc) end
--   w:finish()
local argument = require "mortise.argument"
local core = require "mortise.core"
local errors = require "mortise.errors"
local json = require "mortise.json"
local losses = require "mortise.losses"
local metrics = require "mortise.metrics"
local options = require "mortise.options"
local place = require "mortise.place"
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

options.register({"lock:bulk"}, rows)

local made = 0

function writer.open(lock, index, given)
  local o = options.check("bulk", rows, given)
  local own = lock._held:writer(index, {strength = o.strength, stamp_field = o.stamp_field})
  made = made + 1
  local self = setmetatable({
    _writer = own, _lock = lock, _target = index, _place = place(), _number = made, _limits = o,
    _items = {}, _size = 0, _sending = 0,
    _counts = {applied = 0, already = 0, unchanged = 0, conflict = 0, rejected = 0},
    _conflicts = core.array {}, _stamped = core.array {}, _rejects = core.array {},
    _unanswered = core.array {},
  }, Writer)
  lock._writers[self] = true
  return self
end

local function check_open(self)
  if self._writer then return end
  errors.bad("the writer on %s is closed%s", self._target,
    self._lock._released and ": its lock was released" or "")
end

-- ---- Sending -------------------------------------------------------------------------------------

local function weight(item) return #(item.body or "") + #item.id + 100 end

local function account(self, item, answer)
  local outcome = answer.outcome
  self._counts[outcome] = self._counts[outcome] + 1
  metrics.count("mortise_documents_total", 1, outcome)
  if outcome == "conflict" then table.insert(self._conflicts, item.id) end
  if answer.type == "stamped" then
    table.insert(self._stamped, {id = item.id, reason = answer.reason})
  end
  if outcome == "rejected" then
    table.insert(self._rejects, {id = item.id, type = answer.type, reason = answer.reason})
  end
end

-- Puts items that were certainly not written back in front of newer ones.
local function take_back(self, left)
  table.move(self._items, 1, #self._items, #left + 1, left)
  self._items, self._size = left, 0
  for _, item in ipairs(left) do self._size = self._size + weight(item) end
end

-- If nothing was sent, the core's writer is still open. Otherwise it was interrupted and closed, and what it
-- sent has no answer.
local function fail(self, items, why)
  if self._writer and pcall(self._writer.write, self._writer, {}) then
    take_back(self, items)
    self._sending = self._sending - #items
  else
    self._broken = true
  end
  error(why, 0)
end

-- At every moment each item is in one of the counts, since an interrupt may come between any two of these
-- lines.
local function send(self, items)
  local own = self._writer or check_open(self) -- a finalizer may close it anywhere
  self._sending = self._sending + #items
  self._items, self._size = {}, 0
  local ok, answers, why = pcall(own.write, own, items)
  if not ok then fail(self, items, answers) end
  local left = {}
  for i, answer in ipairs(answers) do
    if answer.outcome ~= "none" then
      account(self, items[i], answer)
    elseif answer.dirty then
      table.insert(self._unanswered, items[i].id)
    else
      left[#left + 1] = items[i]
    end
  end
  if #left > 0 then take_back(self, left) end
  self._sending = self._sending - #items
  if not why then return end
  self._broken = why.code == "interrupted" -- an interrupt closes the core's writer
  why.report = self:report()
  error(why, 0)
end

-- Sends the gathered items and waits for the answers. Raises the error that stopped it (lock_lost,
-- unavailable, interrupted) with err.report; items not sent stay in the writer for the next flush.
function Writer:flush()
  check_open(self)
  if #self._items == 0 then return end
  self._lock._held:check()
  if self._broken then errors.bad("the writer on %s was cut off while it was sending", self._target) end
  send(self, self._items)
end

-- Flushes a set of writers before their lock admits others.
function writer.flush_all(set)
  local list = {}
  for each in pairs(set) do list[#list + 1] = each end
  for _, each in ipairs(list) do each:flush() end
end

local function is_full(self)
  return #self._items >= self._limits.batch or self._size >= self._limits.bytes
end

local function put(self, item)
  check_open(self)
  if self._finishing then errors.bad("the writer on %s is being finished", self._target) end
  if is_full(self) then self:flush() end -- still full if the last flush failed
  self._items[#self._items + 1] = item
  self._size = self._size + weight(item)
  if is_full(self) then self:flush() end
end

-- Writes a changed view back if nobody else has changed the document since it was read. A view without
-- changes is only counted.
function Writer:save(view)
  if core.is_view(view) ~= "document" then
    errors.bad("save: `view` is a document that was read, not %s", argument.shown(view))
  end
  if not view:_changed() then
    self._counts.unchanged = self._counts.unchanged + 1
    return
  end
  put(self, {
    kind = "index", id = view._id, index = view._index, routing = view._routing, body = view:_source(),
    seq_no = view._seq_no, term = view._term, skip_pipeline = true, of_source = true,
  })
end

-- Adds an item {op=, id=, doc=, ...} as for client:bulk.
function Writer:add(given) put(self, to_item(given)) end

-- Overwrites the version of the document that the writer reads under the lock.
function Writer:index(id, doc)
  argument.name("index", "id", id)
  put(self, {kind = "index", id = id, body = json.source(doc, "index")})
end

function Writer:create(id, doc)
  argument.name("create", "id", id)
  put(self, {kind = "create", id = id, body = json.source(doc, "create")})
end

-- Takes an id, or a view, which is deleted only if nobody else has changed it since it was read.
function Writer:delete(what)
  if core.is_view(what) ~= "document" then
    return put(self, {kind = "delete", id = argument.name("delete", "id", what)})
  end
  put(self, {
    kind = "delete", id = what._id, index = what._index, routing = what._routing,
    seq_no = what._seq_no, term = what._term,
  })
end

-- The results so far: {applied=, already=, unchanged=, conflict=, rejected=, unsent=, conflicts = {id, ...},
-- stamped = {{id=, reason=}, ...}, rejects = {{id=, type=, reason=}, ...}, unanswered = {id, ...}}. `unsent`
-- are gathered or in flight; `stamped` are the conflicts with a later holder's stamp; `unanswered` were sent
-- and may have been written.
function Writer:report()
  local report = {
    conflicts = self._conflicts, stamped = self._stamped, rejects = self._rejects,
    unanswered = self._unanswered, unsent = #self._items + self._sending,
  }
  for name, n in pairs(self._counts) do report[name] = n end
  return core.object(report)
end

-- ---- The end -------------------------------------------------------------------------------------

local finish_rows = {
  {name = "partial", type = "boolean", default = false, help = "true: do not raise for single items"},
}

options.register({"writer:finish"}, finish_rows)

-- "3 items in conflict, 1 of them stamped under a later lock, and 2 rejected"
local function summed(report)
  local parts = {}
  local function add(n, format)
    if n > 0 then parts[#parts + 1] = format:format(n, n == 1 and "" or "s") end
  end
  add(report.conflict, "%d item%s in conflict")
  if #report.stamped > 0 then
    parts[1] = ("%s, %d of them stamped under a later lock"):format(parts[1], #report.stamped)
  end
  add(report.rejected, #parts > 0 and "%d rejected" or "%d item%s rejected")
  return table.concat(parts, ", and ")
end

local function complain(report)
  local first = report.rejects[1] or report.stamped[1]
  error(core.error {
    code = report.rejects[1] and "rejected" or "conflict",
    message = ("%s; the first is %s"):format(summed(report), first and first.id or report.conflicts[1]),
    type = first and (first.type or "stamped"), reason = first and first.reason, report = report,
  }, 0)
end

-- If items are being sent, it is by another task, since this one would wait for itself.
local function check_answered(self)
  if self._sending > 0 then
    errors.bad("finish: %d items of the writer on %s are still being sent by another task: join it first",
      self._sending, self._target)
  end
  if #self._unanswered > 0 then
    error(core.error {
      code = "unavailable", ambiguous = true, report = self:report(),
      message = ("%d items on %s were sent without an answer; the first is %s"):format(#self._unanswered,
        self._target, self._unanswered[1]),
    }, 0)
  end
end

-- Sends the rest and closes. -> the report; raises `conflict` or `rejected` (with err.report) if single items
-- failed, unless `partial`. After an error that kept it from sending it stays open.
function Writer:finish(given)
  local o = options.check("finish", finish_rows, given)
  check_open(self)
  self._finishing = true
  local ok, why = pcall(self.flush, self)
  if ok then ok, why = pcall(check_answered, self) end
  self._finishing = false
  if not ok then error(why, 0) end
  self:close()
  local report = self:report()
  if not o.partial and report.conflict + report.rejected > 0 then complain(report) end
  return report
end

-- What closing it now would lose, or nil.
local function loss_of(self)
  local items, unanswered = #self._items, self._sending + #self._unanswered
  if not self._writer or items + unanswered == 0 then return nil end
  return {index = self._target, items = items, unanswered = unanswered, place = self._place}
end

-- Drops items that were not sent; may be called again.
function Writer:close()
  local own = self._writer
  self._writer, self._items, self._size = nil, {}, 0
  self._lock._writers[self] = nil
  if own then own:close() end
end

-- Closes it and adds what it did not send to the error being raised.
local function give_up(self, why)
  local loss = loss_of(self)
  self:close()
  if loss then losses.add_to(why, loss) end
end

-- Finishes it, or at least closes it. -> nil, or the error.
local function end_one(self)
  local ok, why = pcall(self.finish, self)
  if ok then return nil end
  give_up(self, why)
  return why
end

local of_items = {conflict = true, rejected = true}

-- Ends the writers of a set, newest first. They are finished, unless an error `why` is being raised or one of
-- them cannot send; then unsent items are reported with that error. -> the error to raise, or nil.
function writer.end_all(set, why)
  local list = {}
  for each in pairs(set) do list[#list + 1] = each end
  table.sort(list, function(a, b) return a._number > b._number end)
  local stopped = why ~= nil
  for _, each in ipairs(list) do
    if stopped then
      give_up(each, why)
    elseif each._writer then -- another task may have finished it by now
      local failure = end_one(each)
      stopped = failure ~= nil and not of_items[errors.code(failure)]
      if failure ~= nil then why = losses.join(why, failure) end
    end
  end
  return why
end

-- Leaving its block finishes it, unless an error leaves the block.
function Writer:__close(why)
  if why ~= nil then
    give_up(self, why)
  elseif self._writer then
    local failure = end_one(self)
    if failure ~= nil then error(failure, 0) end
  end
end

-- It is collected together with its lock, which otherwise would have finished it.
function Writer:__gc()
  local loss = loss_of(self)
  if loss then losses.collected(loss) end
end

function Writer:__tostring()
  if not self._writer then return ("writer on %s (closed)"):format(self._target) end
  return ("writer on %s (%d items to be sent)"):format(self._target, #self._items + self._sending)
end

return writer
