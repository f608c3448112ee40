-- The phases of a migration. Each does its work, which may be done again, and says which one is next; the
-- job's document says which one it is in before it is begun.
local cutover = require "mortise.migrate.cutover"
local core = require "mortise.core"
local errors = require "mortise.errors"
local rounds = require "mortise.migrate.rounds"
local source = require "mortise.migrate.source"
local target = require "mortise.migrate.target"

local phases = {}

local BETWEEN_MS <const> = 1000 -- two rounds that found little
local RETRY_MS <const> = 5000   -- after a cut-over that took too long, at first
local RETRY_MOST_MS <const> = 5 * 60 * 1000

local steps = {}

function steps.preparing(m)
  target.prepare(m)
  local positions = source.positions(m)
  m.state.flushes = source.is_async(m) or nil
  m.state.documents = m.own:count(m.source)
  m.state.done = core.array {}
  for k = 1, #positions do m.state.done[k] = 0 end
  return "copying"
end

-- Would a cut-over be short enough? It takes two rounds, or three.
local function is_near(m, round)
  return 3 * round.ms < m.spec.max_pause
end

local function check_aside(m)
  local aside = m:totals().aside
  if aside > m.spec.max_rejected then
    errors.raise("rejected", "%d documents were set aside, which index %s cannot have: it is not cut over",
      aside, m.target)
  end
end

-- Until little is left. A round that is not shorter than the one before will not get shorter.
function steps.copying(m)
  local before
  repeat
    local round = rounds.run(m)
    local stuck = before and round.ms > before * 9 // 10
    before = round.ms
  until is_near(m, round) or stuck
  check_aside(m)
  return m.spec.cutover == "auto" and "settling" or "in step"
end

local function is_ordered(m)
  local view = m.client:get(m.jobs, ("%s:%s:control"):format(m.client:namespace(), m.id))
  return view ~= nil and view.body.cutover == true
end

-- A step behind, until it is told to cut over.
steps["in step"] = function(m)
  while not is_ordered(m) do
    rounds.run(m)
    m:rest(BETWEEN_MS)
  end
  return "settling"
end

function steps.settling(m)
  check_aside(m)
  target.settle(m)
  while true do
    rounds.run(m)
    local settled, why = target.is_settled(m)
    m.work:waits(not settled and why or nil)
    if settled then return "cutting over" end
    m:rest(BETWEEN_MS)
  end
end

-- Tries again with longer and longer rests.
steps["cutting over"] = function(m)
  local wait = RETRY_MS
  while true do
    local swapped, why = cutover.try(m)
    if swapped then return "swapped" end
    m.work:waits(why)
    local until_ms = core.now_ms() + wait
    repeat
      rounds.run(m)
      m:rest(BETWEEN_MS)
    until core.now_ms() >= until_ms
    wait = math.min(2 * wait, RETRY_MOST_MS)
  end
end

-- Goes on until the alias is swapped. The caller has the job.
function phases.run(m)
  if m.state.phase == "cutting over" and cutover.recover(m) then m:enter "swapped" end
  if m.state.done then m:load() end
  if m.state.phase == "cutting over" then m:enter "copying" end
  while m.state.phase ~= "swapped" do
    local next_phase = steps[m.state.phase](m)
    if not m.ledgers then m:load() end
    -- The cut-over says by itself when it begins.
    if next_phase == "cutting over" then m.state.phase = next_phase else m:enter(next_phase) end
  end
end

-- Undoes it: the clients are at the source, which is written to, and there is no target.
function phases.undo(m, others)
  if m.state.phase == "swapped" or m.state.phase == "going back" then
    m:enter "going back"
    m:patiently(function() return cutover.go_back(m, others) end)
  elseif cutover.recover(m) then -- it was swapped before its process died
    m:enter "going back"
    m:patiently(function() return cutover.go_back(m, others) end)
  end
  m:patiently(function() return target.drop(m) end)
  source.leave(m)
  m:enter "undone"
end

return phases
