-- A job's hooks, on_start, on_batch, on_done and on_error, and `verify`, as functions of its script.
local context = require "mortise.context"
local core = require "mortise.core"
local errors = require "mortise.errors"
local within = require "mortise.within"

local hooks = {}

hooks.rows = {
  {name = "on_start", type = "function",
    help = "on_start(job, {matched=, beside=}), before anything is written"},
  {name = "on_batch", type = "function", help = "on_batch(job, {done=, all=, ...}) as batches are written"},
  {name = "on_done", type = "function", help = "on_done(job, result), still under its lock"},
  {name = "on_error", type = "function", help = "on_error(job, err)"},
  {name = "verify", type = "any", help = "verify(view) of each document once it is done; true: none is left"},
  {name = "verify_query", type = "query", help = "which; a rename's new tree, or `query`"},
  {name = "verify_sample", type = "count", help = "at most so many"},
}

local function veto(self, name)
  errors.raise("interrupted", "%s of job %s does not let it go on", name, self.id)
end

local function ask(self, name, ...)
  local _ <close> = context.at("%s of job %s", name, self.id)
  if self._hooks[name](self, ...) == false then veto(self, name) end
end

local look_ms = 10

-- What is called before anything is written, for a job of the core that waits; or nil. It ends with
-- `begin()`, which may be nil.
function hooks.starter(self, begin)
  if not (self._hooks.on_start or self._check or begin) then return nil end
  return function(work)
    local matched, beside = work:counts()
    while not matched do
      core.sleep(look_ms)
      matched, beside = work:counts()
    end
    local counts = core.object {matched = matched, beside = beside}
    if self._check then self._check(counts) end
    if self._hooks.on_start then ask(self, "on_start", counts) end
    if begin then begin() end
    self._started = true
    work:pause(nil)
  end
end

-- What is called while it runs: on_progress and on_batch; or nil.
function hooks.watcher(self)
  local own, last = self._on_progress, 0
  if not self._hooks.on_batch then return own end
  return function(done, all, more)
    if own then own(done, all, more) end
    if done == last or more.over then return end
    last = done
    local now = core.object {done = done, all = all}
    for name, value in pairs(more) do now[name] = value end
    ask(self, "on_batch", now)
  end
end

function hooks.done(self, result)
  if self._hooks.on_done then ask(self, "on_done", result) end
end

-- An error in it is told with the one that it was called for.
function hooks.failed(self, why)
  if not self._hooks.on_error then return end
  local ok, other = pcall(self._hooks.on_error, self, why)
  if not ok then context.add(why, "on_error failed: " .. core.tostring(other)) end
end

-- ---- Verifying -----------------------------------------------------------------------------------

local shown_max = 20

local function query_of(self)
  local spec, rename = self._spec, self._spec.rename
  if self._hooks.verify_query then return self._hooks.verify_query end
  if not rename then return (within.narrow(self._client, spec)) end
  local either = {}
  for _, field in ipairs(type(rename.field) == "table" and rename.field or {rename.field}) do
    either[#either + 1] = {term = {[field] = rename.to}}
    either[#either + 1] = {prefix = {[field] = rename.to .. "/"}}
  end
  return {bool = {should = either}}
end

-- Is the document as it should be? nil, or why not.
local function complaint(verify, view)
  local ok, result = pcall(verify, view)
  if not ok then
    if errors.code(result) == "interrupted" then error(result, 0) end
    return core.tostring(core.is_error(result) and result.message or result)
  end
  return result == false and "verify says no" or nil
end

local function look_at_each(self, found)
  local client, index, o = self._client, self._spec.index, self._hooks
  client:refresh(index)
  for view in client:scan(index, {query = query_of(self)}) do
    found.looked = found.looked + 1
    local why = complaint(o.verify, view)
    if why then
      found.wrong = found.wrong + 1
      if #found.list < shown_max then
        found.list[#found.list + 1] = core.object {id = view._id, reason = why}
      end
    end
    if found.looked == o.verify_sample then break end
  end
end

local function look_at_what_is_left(self, found)
  self._begun = true -- a rename that is done finds nothing below its old path
  local plan = self:plan()
  found.looked, found.wrong = plan.matched, plan.changed + plan.rejected
end

local function text_of(found)
  local first = found.list[1]
  if found.looked == 0 and found.wrong == 0 then return "no document was found: give `verify_query`" end
  return ("%d of %d documents%s"):format(found.wrong, found.looked,
    first and (", the first is %s: %s"):format(first.id, first.reason) or " are still to be changed")
end

-- When the job `self` is done, under its lock. -> nil, or the error: the job stays done.
function hooks.verify(self, result)
  local verify = self._hooks.verify
  if not verify then return nil end
  local found = {looked = 0, wrong = 0, list = core.array {}}
  if verify == true then look_at_what_is_left(self, found) else look_at_each(self, found) end
  result.verified = found.looked
  local none = verify ~= true and found.looked == 0 and result.changed > 0
  if found.wrong == 0 and not none then return nil end
  return core.error {
    code = "rejected", retryable = false, unverified = found.list,
    message = ("job %s is done, but its verification failed: %s"):format(self.id, text_of(found)),
  }
end

return hooks
