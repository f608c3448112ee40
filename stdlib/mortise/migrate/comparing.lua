-- The part of a round that compares each segment with its journal, by the sums of the hashes of their
-- numbers, and finds what has moved, what must be copied again and what was deleted (spec/model/copies.py has
-- the argument).
local copying = require "mortise.migrate.copying"
local segments = require "mortise.migrate.segments"
local source = require "mortise.migrate.source"
local tasks = require "mortise.tasks"

local comparing = {}

local AT_ONCE <const> = 3
local ROWS <const> = 8192       -- segments in a request
local JOURNALS_KEPT <const> = 32

-- ---- Which differ --------------------------------------------------------------------------------

local function add_differing(found, m, ledger, from, to)
  local counts, _, sums = m.own:intervals(m.source, ledger.shard, from, to, {primary = m.primary})
  local first = from // segments.width
  for i = 1, #counts do
    local number = first + i - 1
    local differs = sums[i] ~= (ledger.sum[number] or 0) or (ledger.open[number] or 0) > 0
    if differs then found[#found + 1] = {ledger = ledger, number = number} end
  end
end

-- {{ledger=, number=}, ...}
local function differing(m)
  local found, span = {}, ROWS * segments.width
  for k, done in ipairs(m.state.done) do
    for from = 0, done - 1, span do
      m:check()
      add_differing(found, m, m.ledgers[k - 1], from, math.min(done, from + span))
    end
  end
  return found
end

-- ---- One that differs ----------------------------------------------------------------------------

local function key(id, routing) return routing and routing .. "\0" .. id or id end

-- Where the documents are now that are not where their copies say: {[key] = number}.
local function find(m, ledger, list, missing)
  local ids, where = {}, {}
  for i, at in ipairs(missing) do ids[i] = list.ids[at] end
  local page <close> = m.own:find(m.source, ledger.shard, ids, {primary = m.primary})
  local found, routings, seqs = page:keys()
  for i = 1, #found do where[key(found[i], routings[i])] = seqs[i] end
  return where
end

-- The journals of the segments that documents have moved to, each read once a round.
local function journal_of(m, ledger, number)
  local cache = m.journals
  local name = ledger.shard .. ":" .. number
  if cache[name] then return cache[name] end
  if cache.n >= JOURNALS_KEPT then
    m.journals = {n = 0}
    cache = m.journals
  end
  local list = segments.peek(m, ledger.shard, number)
  cache[name], cache.n = {list = list, places = segments.places(list)}, cache.n + 1
  return cache[name]
end

-- Does a later journal list this document, there? Only what can't be taken back is in one.
local function is_listed(m, ledger, id, routing, seq, done)
  if seq >= done then return false end
  local journal = journal_of(m, ledger, seq // segments.width)
  local place = journal.places[seq]
  return place ~= nil and journal.list.ids[place] == id and journal.list.routings[place] == routing
end

-- Copies what the source has there once more. It is in the journal, as not answered, before it is sent.
local function copy_again(m, ledger, number, from, to)
  local page <close> = source.range(m, ledger.shard, from, to)
  local found = segments.of_page(page)
  segments.update(m, ledger, number, function(list)
    for i = 1, found.n do list.open[found.seqs[i]] = true end
    segments.unite(list, found)
    return list
  end)
  local gone = copying.send(m, page, found)
  segments.update(m, ledger, number, function(list)
    for i = 1, found.n do
      local seq = found.seqs[i]
      list.open[seq], list.gone[seq] = nil, gone[seq]
    end
    return list
  end)
end

-- Those of a journal that the source does not have at their numbers, as places in the list; must any be
-- copied?
local function compare_lists(list, there)
  local places, missing = segments.places(there), {}
  local again = false
  for i = 1, list.n do
    local seq = list.seqs[i]
    if not places[seq] then missing[#missing + 1] = i end
    again = again or places[seq] ~= nil and list.open[seq] ~= nil
  end
  local listed = segments.places(list)
  for i = 1, there.n do again = again or not listed[there.seqs[i]] end
  return missing, again
end

-- Notes what a search finds nowhere: it was deleted, unless the term changes, once the checkpoint has come to
-- the highest number that is given by now.
local function note_missing(m, ledger, list, missing, done)
  local where, off, absent = find(m, ledger, list, missing), {}, {}
  for _, i in ipairs(missing) do
    local id, routing, seq = list.ids[i], list.routings[i], list.seqs[i]
    local now = where[key(id, routing)]
    if now == nil then
      absent[#absent + 1] = {shard = ledger.shard, id = id, routing = routing, seq = seq,
        term = list.terms[i]}
    elseif now > seq and is_listed(m, ledger, id, routing, now, done) then
      off[seq] = true
    end
  end
  return off, absent
end

local function resolve(m, each, absent)
  m:check()
  local ledger, number = each.ledger, each.number
  local done = m.state.done[ledger.shard + 1]
  local from = number * segments.width
  local to = math.min(done, from + segments.width)
  local page <close> = source.range(m, ledger.shard, from, to, true)
  local there = segments.of_page(page)
  local list = segments.read(m, ledger, number)
  local missing, again = compare_lists(list, there)
  if #missing > 0 then
    local off, gone = note_missing(m, ledger, list, missing, done)
    for _, one in ipairs(gone) do absent[#absent + 1] = one end
    if next(off) then
      segments.update(m, ledger, number, function(now) return segments.without(now, off) end)
    end
  end
  if again then copy_again(m, ledger, number, from, to) end
end

-- -> how many segments differed. What was found nowhere is noted for the next round.
function comparing.run(m, positions)
  local found, absent = differing(m), {}
  m.journals = {n = 0}
  tasks.map(found, function(each) resolve(m, each, absent) end, {limit = AT_ONCE})
  m.journals = nil
  m.noted = {}
  if #absent == 0 then return #found end
  local now = source.positions(m)
  for _, each in ipairs(absent) do
    local shard = each.shard + 1
    each.round_term, each.upto = positions[shard].term, now[shard].max_seq_no
    m.noted[#m.noted + 1] = each
  end
  return #found
end

-- ---- Deletions -----------------------------------------------------------------------------------

-- Sends those that have become certain since they were noted, and takes them off their journals. -> how many
function comparing.delete(m, positions)
  local certain, by_segment = {}, {}
  for _, each in ipairs(m.noted) do
    local now = positions[each.shard + 1]
    if now.term == each.round_term and now.global_checkpoint >= each.upto then
      certain[#certain + 1] = {
        id = each.id, routing = each.routing, version = copying.version(each.term, each.seq) + 1,
      }
      local ledger, number = m.ledgers[each.shard], each.seq // segments.width
      by_segment[ledger] = by_segment[ledger] or {}
      by_segment[ledger][number] = by_segment[ledger][number] or {}
      by_segment[ledger][number][each.seq] = true
    end
  end
  m.noted = {}
  for first = 1, #certain, segments.width do
    copying.delete(m, table.move(certain, first, math.min(first + segments.width - 1, #certain), 1, {}))
  end
  for ledger, numbers in pairs(by_segment) do
    for number, off in pairs(numbers) do
      segments.update(m, ledger, number, function(list) return segments.without(list, off) end)
    end
  end
  return #certain
end

return comparing
