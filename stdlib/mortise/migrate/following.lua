-- The old index is kept in step (`keep_old_in_step`): once the alias was moved, the new index is followed
-- into the old one by the same rounds that filled it, with the parts exchanged, until it is finished, or the
-- alias goes back, which loses nothing.
--
-- m.back is the context of that (context.back). Its journals must list what the old index has. So before
-- the alias is moved the new index is read by its numbers as if to be copied, and only listed: the old one
-- has it, since the new one got it from there. Its copies have versions above all that the old index had:
-- `base` is added to them.
--
-- What somebody else writes into the old index is found by its numbers: whatever was written there since has
-- the version of a copy of what the new index has, or is a stranger.
--
-- In state.back, beside what context.lua says:
--   base       is added to the versions of copies; it only grows
--   seen       up to which number each shard of the old index was looked through for strangers
--   strangers  {n=, ids=}: how many there are, and some of them
--   target     of target.lua
local context = require "mortise.migrate.context"
local copying = require "mortise.migrate.copying"
local core = require "mortise.core"
local cutover = require "mortise.migrate.cutover"
local errors = require "mortise.errors"
local rounds = require "mortise.migrate.rounds"
local segments = require "mortise.migrate.segments"
local source = require "mortise.migrate.source"
local target = require "mortise.migrate.target"

local following = {}

-- ---- Before the alias is moved -------------------------------------------------------------------

-- Makes m.back, of which nothing is known or all that the job's document says.
function following.open(m)
  m.back = context.back(m, m.change_back)
  m.back.adopts = m.back.state.base == nil
  table.insert(m.when_still, function() following.adopt_all(m) end)
  if m.back.state.done then m.back:load() end
end

local BASE_MOST <const> = 1 << 62 -- versions have 63 bits

-- Above that version, and above those of what was deleted, which a search does not tell: one write more each.
local function base_above(m, version)
  if version < 1 << context.term_bits then return 0 end
  if version >= BASE_MOST then
    errors.raise("unsupported", "documents of %s have versions up to %d, above which there is no room: it "
      .. "cannot be kept in step", m.source, version)
  end
  return (version >> context.term_bits) + 2 << context.term_bits
end

-- Lists what the new index has got meanwhile. -> is that all that was written to it?
local function adopt(back)
  source.flush(back)
  local positions = source.positions(back)
  back.own:refresh(back.source)
  copying.run(back, positions)
  for k, position in ipairs(positions) do
    if back.state.done[k] ~= position.max_seq_no + 1 then return false end
  end
  return true
end

function following.adopt(m)
  local back = m.back
  return m:patiently(function()
    base_above(m, m.state.greatest or 0) -- raises before anything is moved
    if not back.state.done then
      source.begin(back)
      back:load()
    end
    return adopt(back)
  end)
end

local LOOK_MS <const> = 20

-- Under the block, where nothing more comes.
function following.adopt_all(m)
  while not following.adopt(m) do
    core.sleep(LOOK_MS)
    m:check()
  end
end

-- ---- Once it was moved ---------------------------------------------------------------------------

-- The old index is written to again, by the copies.
local function begin_following(m)
  local back = m.back
  back.state.base = base_above(m, m.state.greatest or 0)
  back.state.seen = back.state.seen or core.array {table.unpack(m.state.done)}
  target.keep_deletions(back)
  m:keep()
  m.own:unblock(m.source)
  back.adopts = nil
  m:enter "following"
end

-- ---- Strangers -----------------------------------------------------------------------------------

local MOST_SUSPECTS <const> = 10000 -- with more it is looked no further for the time being
local LOOKS <const> = 4             -- a deletion comes after three rounds, unless a primary has changed
local NAMED <const> = 10

-- Those of a list, read from a shard of the old index, that are suspected: their version is no copy's, or the
-- new index has no such document (its deletion may be on its way), or not one so late. Where it has a later
-- one, that will come over it. `before`: {[id] = suspects}, as of the last look.
local function suspects_of(back, shard, list, into, before)
  local views = list.n > 0 and back.own:mget(back.source, list.ids, list.routings, true) or {}
  for i = 1, list.n do
    local now, id, version = views[i], list.ids[i], list.versions[i] or 0
    if not now or not back:number_of(version) or version > back:version(now._term, now._seq_no) then
      local known = before and before[id]
      into[#into + 1] = {
        shard = shard, id = id, routing = list.routings[i], seq = list.seqs[i], version = version,
        looks = known and known.version == version and known.looks + 1 or 1,
      }
    end
  end
end

-- Looks again at what was suspected, but for what was written since, which is looked through below.
local function look_again(back, suspects, primary, into)
  local by_shard, known = {}, {}
  for _, each in ipairs(suspects) do
    by_shard[each.shard] = by_shard[each.shard] or {}
    table.insert(by_shard[each.shard], each.id)
    known[each.id] = each
  end
  for shard, ids in pairs(by_shard) do
    for _, some in segments.chunks(ids) do
      local page <close> = back.to:find(back.target, shard, some, {primary = primary, revisions = true})
      local list, later = segments.of_page(page, true), {}
      for i = 1, list.n do later[list.seqs[i]] = list.seqs[i] >= back.looked[shard + 1] or nil end
      suspects_of(back, shard, segments.without(list, later), into, known)
    end
  end
end

-- Reads what was written to a shard of the old index since it was last looked at.
local function look_through(back, shard, upto, primary, suspects)
  local from = back.looked[shard + 1]
  while from < upto and #suspects < MOST_SUSPECTS do
    local to = math.min(upto, from + segments.width)
    local page <close> = back.to:range(back.target, shard, from, to,
      {primary = primary, no_source = true, revisions = true})
    suspects_of(back, shard, segments.of_page(page, true), suspects)
    back:check()
    from = to
  end
  back.looked[shard + 1] = from
end

-- From where whoever goes on after a death has to look.
local function seen(back)
  local numbers = core.array {table.unpack(back.looked)}
  for _, each in ipairs(back.suspects) do
    numbers[each.shard + 1] = math.min(numbers[each.shard + 1], each.seq)
  end
  return numbers
end

local function strangers_of(suspects)
  local n, ids = 0, core.array {}
  for _, each in ipairs(suspects) do
    if each.looks >= LOOKS then
      n = n + 1
      if n <= NAMED then ids[n] = each.id end
    end
  end
  return n > 0 and core.object {n = n, ids = ids} or nil
end

-- After a round.
local function look(back)
  back.looked = back.looked or {table.unpack(back.state.seen)}
  local positions, suspects = back.to:shards(back.target), {}
  local primary = positions.primary or nil
  back.to:refresh(back.target)
  look_again(back, back.suspects or {}, primary, suspects)
  for k, position in ipairs(positions) do
    look_through(back, k - 1, position.global_checkpoint + 1, primary, suspects)
  end
  back.suspects = suspects
  back.state.seen, back.state.strangers = seen(back), strangers_of(suspects)
end

-- ---- Following -----------------------------------------------------------------------------------

-- One round. -> as rounds.run
function following.round(m)
  local back = m.back
  if m.state.phase == "swapped" then m:patiently(function() return begin_following(m) end) end
  local round = rounds.run(back)
  m:patiently(function() return look(back) end)
  m:note()
  return round
end

-- How many operations on the new index the old one does not have yet.
function following.behind(own, index, state)
  local n = 0
  for k, shard in ipairs(own:shards(index)) do
    n = n + math.max(0, shard.max_seq_no + 1 - (state.done[k] or 0))
  end
  return n
end

-- ---- Going back ----------------------------------------------------------------------------------

-- Where the new index has them, their copies are sent again, as if never answered.
local function reopen(back, ids)
  local known = {}
  for k = 0, #back.state.done - 1 do
    local page <close> = back.own:find(back.source, k, ids, {primary = back.primary})
    local found = segments.of_page(page)
    for i = 1, found.n do
      known[found.ids[i]] = true
      local number = found.seqs[i] // segments.width
      segments.update(back, back.ledgers[k], number, function(list)
        list.open[found.seqs[i]] = true
        return list
      end)
    end
  end
  return known
end

-- What others have written is written over, by copies with versions above theirs, or deleted.
local function drop_strangers(back, suspects)
  local greatest, ids, deletions = 0, {}, {}
  for i, each in ipairs(suspects) do
    greatest, ids[i] = math.max(greatest, each.version), each.id
  end
  back.state.base = math.max(back.state.base, base_above(back.forth, greatest))
  back.forth:keep()
  for first, some in segments.chunks(ids) do
    local known = reopen(back, some)
    for i = first, first + #some - 1 do
      local each = suspects[i]
      if not known[each.id] then
        deletions[#deletions + 1] = {id = each.id, routing = each.routing, version = math.max(back.state.base,
          each.version) + 1}
      end
    end
  end
  copying.delete(back, deletions)
end

-- Raises conflict where there are more than `others`, or any.
function following.check_strangers(index, n, first, others)
  if n <= (others or 0) then return end
  errors.raise("conflict", "others have written %d documents to %s since the alias left it, such as %s: they "
    .. "would stay as they are (--others %d writes over them)", n, index, first, n)
end

-- Under the block, after a round that found nothing.
local function settle_strangers(back, others)
  look(back)
  local strangers = back.suspects -- nothing is on its way any more
  if #strangers == 0 then return end
  following.check_strangers(back.target, #strangers, strangers[1].id, others)
  drop_strangers(back, strangers)
  repeat local round = rounds.run(back) until round.clean
  back.suspects = {}
end

-- The alias names the old index again, which has all that the new one has. Writes are refused meanwhile, as
-- at the cut-over.
function following.go_back(m, others)
  local back = m.back
  rounds.approach(function() return following.round(m) end, m.spec.max_pause)
  table.insert(back.when_still, function() settle_strangers(back, others) end)
  back.may_have_more = m:totals().gone
  m:enter "going back"
  cutover.until_done(back)
  target.finish(back)
end

-- The same for whoever goes on with that after a death.
function following.go_on_back(m, others)
  if cutover.recover(m.back) then return target.finish(m.back) end
  following.go_back(m, others)
end

-- ---- The end -------------------------------------------------------------------------------------

-- It is no longer followed: nobody writes to the old index any more.
function following.finish(m)
  m.own:block(m.source)
  target.finish(m.back)
  source.leave(m.back)
end

return following
