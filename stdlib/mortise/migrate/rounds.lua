-- A round reads what can't be taken back any more, copies what is new, sends the deletions that have become
-- certain, and compares all segments with their journals.
local comparing = require "mortise.migrate.comparing"
local copying = require "mortise.migrate.copying"
local core = require "mortise.core"
local source = require "mortise.migrate.source"

local rounds = {}

local function round(m)
  local began = core.now_ms()
  source.flush(m)
  local positions = source.positions(m)
  m.own:refresh(m.source)
  local passed = copying.run(m, positions)
  local deleted = comparing.delete(m, positions)
  m.deleted = m.deleted + deleted
  local differed = comparing.run(m, positions)
  m.state.rounds = m.state.rounds + 1
  m.state.round_ms, m.state.round_passed = core.now_ms() - began, passed
  m:note()
  return {clean = differed == 0 and #m.noted == 0, passed = passed, deleted = deleted,
    ms = core.now_ms() - began}
end

-- -> {clean= (nothing differs), passed= (how many numbers were read), deleted=, ms=}
function rounds.run(m)
  return m:patiently(function() return round(m) end)
end

-- Calls round() until a cut-over, which takes two or three more, would be short enough. A round that is not
-- shorter than the one before will not get shorter.
function rounds.approach(one, max_pause)
  local before
  repeat
    local ms = one().ms
    local stuck = before and ms > before * 9 // 10
    before = ms
  until 3 * ms < max_pause or stuck
end

return rounds
