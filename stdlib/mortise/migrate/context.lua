-- A migration at work: what its parts share. Whoever has the job makes one; what must outlive it is in
-- `state`, which is kept in the job's document as `work`:
--   phase       a name in phases.lua
--   uuid, done  of the source: its own, and up to which number each shard was read
--   rounds      how many have ended
--   blocks      how often the source was blocked; each block has a mark of that number
--   flushes     its checkpoints need a flush
--   swapped_at  the target's highest numbers when the alias came to it
--   target      what target.lua keeps
local core = require "mortise.core"
local errors = require "mortise.errors"
local segments = require "mortise.migrate.segments"

local Context = {}
Context.__index = Context

local context = {}

-- What is raised where the source would stay blocked for too long.
context.too_slow = setmetatable({}, {__tostring = function() return "the pause is over" end})

local LOOK_MS <const> = 100

-- `work` is the core's job, which the caller has.
function context.new(client, to_client, id, spec, work, change)
  local kept = work:told().work
  return setmetatable({
    client = client, to_client = to_client, own = client:_open_core(), to = to_client:_open_core(),
    jobs = client:_open_core():jobs_index(), id = id, spec = spec, work = work, change = change,
    source = spec.from, target = spec.to, noted = {}, refused = 0, deleted = 0,
    state = kept and core.json_decode(kept) or core.object {phase = "preparing", rounds = 0, blocks = 0},
    paced_ms = core.now_ms(),
  }, Context)
end

function Context:is_embedded() return self.client:url():find "^sqlite:" ~= nil end

-- The ledgers, once it is known how many shards there are.
function Context:load()
  self.ledgers = segments.load(self, #self.state.done)
end

-- Waits while it is paused; raises what is to end it. Under the block nothing waits.
function Context:check()
  local told = self.work:told()
  if told.stop then error(told.stop, 0) end
  if self.deadline then
    if told.paused or core.now_ms() > self.deadline then error(context.too_slow, 0) end
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

-- Sums over all shards: `n` copies, of them `gone` that the target is not to have, of these `aside` with a
-- reason.
function Context:totals()
  local sum = {n = 0, gone = 0, aside = 0}
  for _, ledger in pairs(self.ledgers or {}) do
    for name, total in pairs(ledger.total) do sum[name] = sum[name] + total end
  end
  return sum
end

-- How far it is, as the job's document is to say it next.
function Context:note()
  local sum = self:totals()
  self.state.deleted = (self.state.deleted or 0) + self.deleted
  self.deleted = 0
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
  self.state.phase = phase
  self:keep()
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
