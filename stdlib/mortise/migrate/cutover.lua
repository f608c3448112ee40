-- The cut-over: writes to the source are blocked, the rest is copied, and one request moves the clients'
-- alias.
--
-- Before each block the source gets one more alias, the mark, whose name was never used before. The request
-- that moves the clients' alias removes the mark, which must be there; whoever lifts the block removes the
-- mark first. So no move that comes late, from a process that was thought dead, finds a source that is
-- written to again.
local collisions = require "mortise.migrate.collisions"
local core = require "mortise.core"
local context = require "mortise.migrate.context"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local rounds = require "mortise.migrate.rounds"
local source = require "mortise.migrate.source"

local cutover = {}

local LATE_MS <const> = 5000 -- no block, and no lifting of one, is carried out later (MT_BLOCK_MS)

-- ---- The mark and the aliases --------------------------------------------------------------------

local function mark_name(m)
  return ("mortise-%s-%s%d"):format(core.lower(m.id), m.forth and "back-" or "", m.state.blocks)
end

-- {[alias] = definition} of an index.
local function aliases_of(own, index)
  local found = core.json_decode(own:aliases(index))
  return found[index] and found[index].aliases or {}
end

-- Does the clients' alias name the target?
local function is_swapped(m)
  return m.spec.alias ~= nil and aliases_of(m.to, m.target)[m.spec.alias] ~= nil
end

local function set_mark(m)
  if not m.spec.alias then return end
  m.own:alias_move(mark_name(m), nil, m.source)
end

-- Once this has returned no move can be carried out any more.
local function remove_mark(m)
  if not m.spec.alias then return end
  local ok, why = pcall(m.own.alias_move, m.own, mark_name(m), m.source, nil)
  if not ok and errors.code(why) ~= "not_found" then error(why, 0) end
end

-- ---- Taking it back ------------------------------------------------------------------------------

-- Ends what this or another process has begun. -> was the alias moved? If not, the source is written to
-- again.
local function lift(m)
  m:check_owner()
  remove_mark(m)
  if is_swapped(m) then return true end
  m.own:unblock(m.source)
  return false
end

-- The same, for whoever goes on after a process died. Its requests to block, or to lift the block, have timed
-- out before anybody blocks again.
function cutover.recover(m)
  if m.state.blocks == 0 then return false end
  local swapped = m:patiently(function() return lift(m) end)
  if not swapped and not m.client:_is_embedded() then m:rest(LATE_MS) end
  return swapped
end

-- ---- Doing it ------------------------------------------------------------------------------------

local function check_positions(m, settings)
  local positions = source.positions(m)
  if positions.settings ~= settings then
    errors.raise("conflict", "somebody has changed the settings of %s under its block: nothing was cut over",
      m.source)
  end
  for k, position in ipairs(positions) do
    local done = m.state.done[k]
    if position.max_seq_no + 1 ~= done or position.global_checkpoint + 1 ~= done then
      errors.raise("conflict", "shard %d of %s was written to under its block", k - 1, m.source)
    end
  end
end

-- Both sides have as many documents as the journals say; the target may have so many more that it had before.
local function check_counts(m)
  local sum = m:totals()
  m.to:refresh(m.target)
  local there, here = m.own:count(m.source), m.to:count(m.target)
  local least = sum.n - sum.gone + sum.more
  local most = least + (m.may_have_more or 0)
  if there == sum.n and here >= least and here <= most then return end
  m.counts_differ = true
  errors.raise("conflict", "%s has %d documents and %s has %d, where the journals have %d and %d: nothing "
    .. "was cut over", m.source, there, m.target, here, sum.n, least)
end

-- The same error, with the documents that it is most likely about. Writes are no longer refused.
local function explain(m, why)
  if not m.counts_differ then return why end
  m.counts_differ = nil
  local names = collisions.find(m)
  if #names > 0 then
    why.message = ("%s: some documents are one where they come into one shard of %s: %s"):format(why.message,
      m.target, table.concat(names, ", "))
  end
  return why
end

local function numbers_of(own, index)
  local numbers = core.array {}
  for k, shard in ipairs(own:shards(index)) do numbers[k] = shard.max_seq_no end
  return numbers
end

local function swap(m)
  m.state.swapped_at = numbers_of(m.to, m.target)
  m:keep()
  m:check()
  if m.spec.alias then m.own:alias_move(m.spec.alias, m.source, m.target, mark_name(m)) end
end

-- Under the block, which is set here.
local function converge(m)
  set_mark(m)
  m:check()
  m.blocked = core.now_ms()
  m.deadline = m.blocked + m.spec.max_pause
  m.own:block(m.source)
  local settings = source.positions(m).settings
  repeat local round = rounds.run(m) until round.clean
  for _, fn in ipairs(m.when_still) do fn() end
  check_counts(m)
  check_positions(m, settings)
  swap(m)
end

-- Takes the locks that the clients of the alias take, if there are any. -> did it get them, and the lock
local function lock_clients(m)
  local lock = m.spec.lock
  if not lock then return true end
  local ok, held = pcall(m.session.acquire, m.session, lock.kind, lock.index, lock.paths,
    {wait_ms = m.spec.wait, adopts = true})
  if ok then return true, held end
  if errors.code(held) ~= "lock_timeout" then error(held, 0) end
  return false
end

-- -> was it done? If not, why it is to be tried again later. An error has lifted the block, too, unless it
-- could not; of one whose lock or job is another's nothing more is done.
function cutover.try(m)
  m.state.blocks = m.state.blocks + 1
  m:enter(m.forth and "going back" or "cutting over")
  local has_locks, held = lock_clients(m)
  if not has_locks then return false, "others hold what `lock` names" end
  local ok, why = pcall(converge, m)
  m.deadline = nil
  if not ok and errors.code(why) == "lock_lost" then error(why, 0) end
  local swapped = ok or m:patiently(function() return lift(m) end, true)
  m.state.pause_ms = m.blocked and core.now_ms() - m.blocked or m.state.pause_ms
  if held then held:release() end
  if not swapped and why ~= context.too_slow then error(explain(m, why), 0) end
  return swapped, "writes would have been refused for more than " .. duration.text(m.spec.max_pause)
end

local BETWEEN_MS <const> = 1000
local RETRY_MS <const> = 5000   -- after one that took too long, at first
local RETRY_MOST_MS <const> = 5 * 60 * 1000

-- Tries again with longer and longer rests.
function cutover.until_done(m)
  local wait = RETRY_MS
  while true do
    local swapped, why = cutover.try(m)
    if swapped then return end
    m.work:waits(why)
    local until_ms = core.now_ms() + wait
    repeat
      rounds.run(m)
      m:rest(BETWEEN_MS)
    until core.now_ms() >= until_ms
    wait = math.min(2 * wait, RETRY_MOST_MS)
  end
end

-- ---- Going back ----------------------------------------------------------------------------------

-- How many operations the target has had since the alias came to it.
function cutover.written_since(m)
  local n = 0
  for k, number in ipairs(numbers_of(m.to, m.target)) do n = n + number - (m.state.swapped_at[k]
    or number) end
  return n
end

-- Raises conflict where that is more than `others`, or any.
function cutover.check_lost(target, written, others)
  if written <= (others or 0) then return end
  errors.raise("conflict", "%s has had %d operations since the alias came to it, which going back would lose "
    .. "(--others %d allows that)", target, written, written)
end

-- The alias names the source again, which is written to again. `others`: so many operations on the target may
-- be lost.
function cutover.go_back(m, others)
  if is_swapped(m) then
    m.to:block(m.target)
    local ok, why = pcall(cutover.check_lost, m.target, cutover.written_since(m), others)
    if not ok then
      m.to:unblock(m.target)
      error(why, 0)
    end
    m.own:alias_move(m.spec.alias, m.target, m.source)
  end
  m.own:unblock(m.source)
end

return cutover
