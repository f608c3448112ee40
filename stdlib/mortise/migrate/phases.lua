-- The phases of a migration. Each does its work, which may be done again, and says which one is next; the
-- job's document says which one it is in before it is begun.
local cutover = require "mortise.migrate.cutover"
local errors = require "mortise.errors"
local following = require "mortise.migrate.following"
local hint = require "mortise.hint"
local rounds = require "mortise.migrate.rounds"
local source = require "mortise.migrate.source"
local target = require "mortise.migrate.target"
local verifying = require "mortise.migrate.verifying"

local phases = {}

local LAST_ROUNDS <const> = 4 -- a deletion comes after three
local BETWEEN_MS <const> = 1000 -- two rounds that found little

local steps = {}

function steps.preparing(m)
  target.prepare(m)
  source.begin(m)
  m.state.documents = m.own:count(m.source)
  return "copying"
end

local function check_aside(m)
  local aside = m:totals().aside
  if aside > m.spec.max_rejected then
    errors.raise("rejected", "%d documents were set aside, which index %s cannot have: it is not cut over",
      aside, m.target)
  end
end

-- Until little is left.
function steps.copying(m)
  rounds.approach(function() return rounds.run(m) end, m.spec.max_pause)
  check_aside(m)
  return (m.spec.cutover == "auto" or m.spec.to_store) and "settling" or "in step"
end

local function is_ordered(m, order)
  local view = m.client:get(m.jobs, ("%s:%s:control"):format(m.client:namespace(), m.id))
  return view ~= nil and view.body[order] == true
end

local function finish(m)
  target.finish(m)
  source.leave(m)
  return "finished"
end

local function say_in_step(m)
  m.work:waits(("%s of %s follows until `%s jobs finish %s`, or cutover"):format(m.target, m.to_client:url(),
    hint.mortise(m.client), m.id))
end

-- A step behind, until it is told to cut over; one into another store also until it is told to end.
steps["in step"] = function(m)
  local elsewhere = m.spec.to_store ~= nil
  while not is_ordered(m, "cutover") do
    if elsewhere then say_in_step(m) end
    if elsewhere and is_ordered(m, "finish") then
      for _ = 1, LAST_ROUNDS do
        if rounds.run(m).clean then break end
      end
      verifying.run(m)
      check_aside(m)
      return finish(m)
    end
    rounds.run(m)
    m:rest(BETWEEN_MS)
  end
  m.work:waits(nil)
  return elsewhere and "cutting over" or "settling"
end

function steps.settling(m)
  check_aside(m)
  target.settle(m)
  while true do
    rounds.run(m)
    verifying.run(m)
    if m.back then following.adopt(m) end
    local settled, why = target.is_settled(m)
    m.work:waits(not settled and why or nil)
    if settled then return m.spec.cutover == "manual" and m.spec.to_store and "in step" or "cutting over" end
    m:rest(BETWEEN_MS)
  end
end

steps["cutting over"] = function(m)
  cutover.until_done(m)
  return "swapped"
end

local function say_following(m)
  m.work:waits(("%s follows %s until `%s jobs finish %s`, or rollback"):format(m.source, m.target,
    hint.mortise(m.client), m.id))
end

-- Only of one that keeps the old index in step, as the one below.
function steps.swapped(m)
  say_following(m)
  following.round(m)
  return "following"
end

function steps.following(m)
  while not is_ordered(m, "finish") do
    say_following(m)
    following.round(m)
    m:rest(BETWEEN_MS)
  end
  m.work:waits(nil)
  following.finish(m)
  return finish(m)
end

local function is_over(m)
  local phase = m.state.phase
  return phase == "finished" or phase == "swapped" and not m.spec.keep_old_in_step
end

-- Goes on until the alias is swapped, or it is finished. The caller has the job.
function phases.run(m)
  if m.state.phase == "cutting over" and cutover.recover(m) then m:enter "swapped" end
  if m.state.done then m:load() end
  if m.spec.keep_old_in_step then following.open(m) end
  table.insert(m.when_still, function() verifying.run(m) end)
  if m.state.phase == "cutting over" then m:enter "copying" end
  while not is_over(m) do
    local next_phase = steps[m.state.phase](m)
    if not m.ledgers then m:load() end
    -- The cut-over says by itself when it begins.
    if next_phase == "cutting over" then m.state.phase = next_phase else m:enter(next_phase) end
  end
end

-- ---- Undoing it ----------------------------------------------------------------------------------

local function go_back_in_step(m, others, phase)
  m:load()
  following.open(m)
  if phase == "going back" then return following.go_on_back(m, others) end
  if phase == "cutting over" then m:enter "swapped" end
  following.go_back(m, others)
end

local function go_back(m, others)
  m:enter "going back"
  m:patiently(function() return cutover.go_back(m, others) end)
end

local is_swapped = {swapped = true, following = true, ["going back"] = true}

-- Undoes it: the clients are at the source, which is written to, and there is no target.
function phases.undo(m, others)
  local phase = m.state.phase
  if is_swapped[phase] or cutover.recover(m) then -- it may have been swapped before its process died
    if m.spec.keep_old_in_step then go_back_in_step(m, others, phase) else go_back(m, others) end
  end
  m:patiently(function() return target.drop(m) end)
  source.leave(m)
  m:enter "undone"
end

return phases
