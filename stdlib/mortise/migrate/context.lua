-- A migration at work: what its parts share. Whoever has the job makes one; what must outlive it is in
-- `state`, which is kept in the job's document as `work`:
--   phase       a name in phases.lua
--   uuid, done  of the source: its own, and up to which number each shard was read
--   rounds      how many have ended
--   blocks      how often the source was blocked; each block has a mark of that number
--   flushes     its checkpoints need a flush
--   makes       did `change` make other documents of some, and `made` how many there are in all
--   swapped_at  the target's highest numbers when the alias came to it
--   greatest    the greatest version of a document of the source, where the way back will need it
--   target      what target.lua keeps
--   back        of the way back (following.lua): `uuid` to `blocks` as above, and what that keeps
local core = require "mortise.core"
local errors = require "mortise.errors"
local segments = require "mortise.migrate.segments"

local Context = {}
Context.__index = Context

local context = {}

-- What is raised where the source would stay blocked for too long.
context.too_slow = setmetatable({}, {__tostring = function() return "the pause is over" end})

local LOOK_MS <const> = 100

-- `work` is the core's job, which the caller has. `when_still`: functions that the cut-over calls under the
-- block, when nothing comes any more.
function context.new(client, to_client, id, spec, work, change)
  local kept = work:told().work
  return setmetatable({
    client = client, to_client = to_client, own = client:_open_core(), to = to_client:_open_core(),
    jobs = client:_open_core():jobs_index(), id = id, spec = spec, work = work, change = change,
    source = spec.from, target = spec.to, noted = {}, refused = 0, deleted = 0, when_still = {},
    -- A process that died may have listed some of which its state does not tell.
    may_make = kept ~= nil and spec.change == "function",
    state = kept and core.json_decode(kept) or core.object {phase = "preparing", rounds = 0, blocks = 0},
    paced_ms = core.now_ms(),
  }, Context)
end

-- The same from the target to the source, for which it has a state and journals of its own.
function context.back(m, change)
  m.state.back = m.state.back or core.object {rounds = 0, blocks = 0}
  local spec = setmetatable({from = m.target, to = m.source}, {__index = m.spec})
  return setmetatable({
    client = m.client, to_client = m.client, own = m.own, to = m.own, jobs = m.jobs, id = m.id, spec = spec,
    work = m.work, session = m.session, change = change, source = m.target, target = m.source, noted = {},
    refused = 0, deleted = 0, when_still = {}, state = m.state.back, paced_ms = core.now_ms(), forth = m,
  }, Context)
end

local TERM_BITS <const> = 40
context.term_bits = TERM_BITS

-- The version of a copy of what has that number. `base` is above all that the target had at the beginning.
function Context:version(term, seq) return (self.state.base or 0) + (term << TERM_BITS | seq) end

-- The number of the copy that has this version; nil: it is none of ours.
function Context:number_of(version)
  local own = version - (self.state.base or 0)
  return own >= 1 << TERM_BITS and own & ((1 << TERM_BITS) - 1) or nil
end

-- The ledgers, once it is known how many shards there are.
function Context:load()
  self.ledgers = segments.load(self, #self.state.done)
end

-- Waits while it is paused; raises what is to end it. Under the block nothing waits.
function Context:check()
  local told = self.work:told()
  if told.stop then error(told.stop, 0) end
  local deadline = self.deadline or self.forth and self.forth.deadline
  if deadline then
    if told.paused or core.now_ms() > deadline then error(context.too_slow, 0) end
    return
  end
  while told.paused do
    core.sleep(LOOK_MS)
    told = self.work:told()
    if told.stop then error(told.stop, 0) end
  end
end

-- Raises that the job is another's by now.
function Context:check_owner()
  local stop = self.work:told().stop
  if stop and errors.code(stop) == "lock_lost" then error(stop, 0) end
end

-- Waits so long, unless it is to end.
function Context:rest(ms)
  local until_ms = core.now_ms() + ms
  self:check()
  while core.now_ms() < until_ms do
    core.sleep(math.min(LOOK_MS, math.max(1, until_ms - core.now_ms())))
    self:check()
  end
end

-- So many documents were copied: rests where there is a limit to the rate.
function Context:pace(n)
  local rate = self.work:told().rate
  local now = core.now_ms()
  if not rate or self.deadline then
    self.paced_ms = now
    return
  end
  self.paced_ms = math.max(self.paced_ms, now - 1000) + n * 1000 // rate
  if self.paced_ms > now then self:rest(self.paced_ms - now) end
end

-- May there be documents in the target that are not simply one of the source's?
function Context:has_made() return self.state.makes or self.may_make end

-- Sums over all shards: `n` copies, of them `gone` that the target is not to have, of these `aside` with a
-- reason; and so many `more` documents of the target that were made of the rest.
function Context:totals()
  local sum = {n = 0, gone = 0, aside = 0, more = 0}
  for _, ledger in pairs(self.ledgers or {}) do
    for name, total in pairs(ledger.total) do sum[name] = sum[name] + total end
  end
  return sum
end

-- How far it is, as the job's document is to say it next.
function Context:note()
  self.state.deleted = (self.state.deleted or 0) + self.deleted
  self.deleted = 0
  if self.forth then return self.forth:note() end
  local sum = self:totals()
  if self.state.makes then self.state.made = sum.n - sum.gone + sum.more end
  self.work:note(core.json(self.state), {
    total = math.max(self.state.documents or 0, sum.n), matched = sum.n, changed = sum.n - sum.gone,
    unchanged = sum.gone - sum.aside, rejected = sum.aside,
  })
end

-- The same, and waits until it is written.
function Context:keep()
  self:note()
  self.work:checkpoint()
end

function Context:enter(phase)
  local m = self.forth or self
  m.state.phase = phase
  m:keep()
end

-- ---- Errors that pass ----------------------------------------------------------------------------

local FIRST_MS <const>, MOST_MS <const> = 250, 5000

-- Also where it is not known whether a request was carried out.
local function may_pass(why)
  if not core.is_error(why) or why.code == "interrupted" or why.code == "lock_lost" then return false end
  return why.retryable == true or why.code == "unavailable"
end

-- What fn() returns. Whatever it does may be done again: what fails because the store is away is repeated, as
-- long as `wait_for_writes` allows; under the block until it has been there too long. `stubborn`: also where
-- the job is to end.
function Context:patiently(fn, stubborn)
  local began, wait, told = core.now_ms(), FIRST_MS, false
  while true do
    local ok, result = pcall(fn)
    if ok and told then self.work:waits(nil) end
    if ok then return result end
    told = true
    local gone_ms = core.now_ms() - began
    if not may_pass(result) or gone_ms > self.spec.wait_for_writes then error(result, 0) end
    self.work:waits(("waits for the store: %s"):format(result.message):sub(1, 200))
    if stubborn then core.sleep(wait) else self:rest(wait) end
    wait = math.min(2 * wait, MOST_MS)
  end
end

return context
