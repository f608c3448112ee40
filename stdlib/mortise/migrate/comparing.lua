-- The part of a round that compares each segment with its journal, by the sums of the hashes of their
-- numbers, and finds what has moved, what must be copied again and what was deleted (spec/model/copies.py has
-- the argument).
local copying = require "mortise.migrate.copying"
local core = require "mortise.core"
local segments = require "mortise.migrate.segments"
local source = require "mortise.migrate.source"
local tasks = require "mortise.tasks"

local comparing = {}

local AT_ONCE <const> = 3
local ROWS <const> = 8192       -- in a request for sums
local PART <const> = 16         -- numbers; only the parts of a segment that differ are read
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

-- What is asked about in one request each: all shards in turn, so that they work side by side.
local function blocks_of(m)
  local list, span = {}, ROWS * segments.width
  for first = 0, math.huge, span do
    local before = #list
    for k, done in ipairs(m.state.done) do
      if first < done then
        list[#list + 1] = {ledger = m.ledgers[k - 1], from = first, to = math.min(done, first + span)}
      end
    end
    if #list == before then return list end
  end
end

-- {{ledger=, number=}, ...}
local function differing(m)
  local found = {}
  tasks.map(blocks_of(m), function(block)
    m:check()
    add_differing(found, m, block.ledger, block.from, block.to)
  end, {limit = AT_ONCE})
  return found
end

local WINDOW <const> = ROWS * PART -- numbers, whose parts are asked about in one request

-- The same by windows: {{ledger=, from=, to=, list=}, ...}
local function windows_of(m, found)
  local windows, by_name = {}, {}
  for _, each in ipairs(found) do
    local from = each.number * segments.width // WINDOW * WINDOW
    local name = each.ledger.shard .. ":" .. from
    local window = by_name[name]
    if not window then
      local to = math.min(m.state.done[each.ledger.shard + 1], from + WINDOW)
      window = {ledger = each.ledger, from = from, to = to, list = {}}
      by_name[name], windows[#windows + 1] = window, window
    end
    table.insert(window.list, each)
  end
  return windows
end

-- ---- One that differs ----------------------------------------------------------------------------

-- The parts in which the journal has other numbers than the sums say, or copies that do not count as
-- answered: as {first, last number + 1}, those that adjoin together.
local function differing_parts(window, number, list, upto)
  local numbers, open = {}, {}
  for i = 1, list.n do
    local seq = list.seqs[i]
    local at = seq - seq % PART
    numbers[at] = numbers[at] or {}
    table.insert(numbers[at], seq)
    open[at] = open[at] or list.open[seq]
  end
  local spans = {}
  for at = number * segments.width, upto - 1, PART do
    local sum = window.sums[(at - window.from) // PART + 1]
    if open[at] or core.numbers_hash(numbers[at] or {}) ~= sum then
      local last = spans[#spans]
      if last and last[2] == at then last[2] = at + PART else spans[#spans + 1] = {at, at + PART} end
    end
  end
  return spans
end

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
  local found = source.found(m, page)
  local outcomes = copying.change_all(m, page, found)
  segments.update(m, ledger, number, function(list)
    for i = 1, found.n do list.open[found.seqs[i]] = true end
    segments.unite(list, found)
    return list
  end)
  local gone = copying.send(m, page, found, outcomes)
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

-- What was made of a document, and is not made of its later state, which is in the journal at `seq`: to be
-- deleted in that one's version.
local function add_left(left, m, ledger, list, i, seq)
  if not m:has_made() then return end
  local journal, stays = journal_of(m, ledger, seq // segments.width), {}
  local place = journal.places[seq]
  for _, one in ipairs(segments.targets(journal.list, place)) do stays[key(one[1], one[2])] = true end
  local version = m:version(journal.list.terms[place], seq)
  for _, one in ipairs(segments.targets(list, i)) do
    if not stays[key(one[1], one[2])] then
      left[#left + 1] = {id = one[1], routing = one[2], version = version}
    end
  end
end

-- Notes what a search finds nowhere: it was deleted, unless the term changes, once the checkpoint has come to
-- the highest number that is given by now.
local function note_missing(m, ledger, list, missing, done)
  local where, off, absent, left = find(m, ledger, list, missing), {}, {}, {}
  for _, i in ipairs(missing) do
    local id, routing, seq = list.ids[i], list.routings[i], list.seqs[i]
    local now = where[key(id, routing)]
    if now == nil then
      absent[#absent + 1] = {shard = ledger.shard, id = id, routing = routing, seq = seq,
        term = list.terms[i], made = list.made[seq]}
    elseif now > seq and is_listed(m, ledger, id, routing, now, done) then
      add_left(left, m, ledger, list, i, now)
      off[seq] = true
    end
  end
  copying.delete(m, left)
  return off, absent
end

-- Of a journal those in the spans.
local function within(list, spans)
  local some = segments.empty()
  for i = 1, list.n do
    local seq = list.seqs[i]
    for _, span in ipairs(spans) do
      if seq >= span[1] and seq < span[2] then
        segments.add(some, list.ids[i], list.routings[i], seq, list.terms[i])
        some.open[seq], some.gone[seq], some.made[seq] = list.open[seq], list.gone[seq], list.made[seq]
      end
    end
  end
  return some
end

-- What the source has there now.
local function read_spans(m, shard, spans, upto)
  local there = segments.empty()
  for _, span in ipairs(spans) do
    local page <close> = source.range(m, shard, span[1], math.min(span[2], upto), true)
    segments.unite(there, segments.of_page(page))
  end
  return there
end

local function resolve(m, window, each, absent)
  m:check()
  local ledger, number = each.ledger, each.number
  local done = m.state.done[ledger.shard + 1]
  local from = number * segments.width
  local to = math.min(done, from + segments.width)
  local all = segments.read(m, ledger, number)
  local spans = differing_parts(window, number, all, to)
  local list, there = within(all, spans), read_spans(m, ledger.shard, spans, to)
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
  for _, window in ipairs(windows_of(m, found)) do
    m:check()
    local _, _, sums = m.own:intervals(m.source, window.ledger.shard, window.from, window.to,
      {primary = m.primary, width = PART})
    window.sums = sums
    tasks.map(window.list, function(each) resolve(m, window, each, absent) end, {limit = AT_ONCE})
    window.sums = nil
  end
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

-- Those that have become certain since they were noted: as items to be deleted, by their segments, and how
-- many.
local function certain_of(m, positions)
  local items, list, by_name, n = {}, {}, {}, 0
  for _, each in ipairs(m.noted) do
    local now = positions[each.shard + 1]
    if now.term == each.round_term and now.global_checkpoint >= each.upto then
      local version = m:version(each.term, each.seq) + 1
      for _, one in ipairs(each.made or {{each.id, each.routing}}) do
        items[#items + 1] = {id = one[1], routing = one[2], version = version}
      end
      local number = each.seq // segments.width
      local name = each.shard .. ":" .. number
      if not by_name[name] then
        by_name[name] = {ledger = m.ledgers[each.shard], number = number, off = {}}
        list[#list + 1] = by_name[name]
      end
      by_name[name].off[each.seq] = true
      n = n + 1
    end
  end
  return items, list, n
end

-- Sends those that have become certain, and takes them off their journals. -> how many
function comparing.delete(m, positions)
  local items, list, n = certain_of(m, positions)
  m.noted = {}
  copying.delete(m, items)
  tasks.map(list, function(each)
    segments.update(m, each.ledger, each.number, function(now) return segments.without(now, each.off) end)
  end, {limit = AT_ONCE})
  return n
end

return comparing
