-- The journals of a migration. 1,024 sequence numbers in a row of one shard are a segment, and each segment
-- has a document in the jobs' index that lists every copy that may have been sent of what was read there:
--
--   NAMESPACE:JOB:segment:SHARD:NUMBER (of the way back `back` in place of `segment`)
--   {"kind":"segment","ns":...,"job":...,"state":"aside" or "","entries":packed,
--    "body":{"shard":K,"segment":I,"n":...,"sum":...,"open":...,"gone":...,"aside":...,"more":...}}
--
-- `n` counts the entries and `sum` adds up the hashes of their numbers, as a store does for the documents
-- that it has there; `open` are those that do not count as answered, `gone` those that the target is not to
-- have, `aside` those of them of which a reason is kept, and of the rest the target has so many `more`
-- documents. The entries are JSON: {"at":[number - 1024 * I, ...],"ids":[...],"routings":[... or false],
-- "terms":[...],"open":[at, ...],"gone":[[at] or [at,type,reason], ...],"made":[[at,[[id,routing or false],
-- ...]], ...]}.
--
-- They are written by compare-and-set. So what a dead process has sent late takes nothing off.
local core = require "mortise.core"
local errors = require "mortise.errors"

local segments = {}

local WIDTH <const> = 1024
segments.width = WIDTH

local CHUNK <const> = 96 -- segments between two notes of how far it is

-- The next parts of [done, ends) of all shards in turn, each of one segment: {{shard=, from=, to=}, ...}. And
-- how far they come.
function segments.next_parts(done, ends)
  local parts, upto = {}, core.array {table.unpack(done)}
  local grown = true
  while grown and #parts < CHUNK do
    grown = false
    for k, last in ipairs(ends) do
      local from = upto[k]
      if from < last then
        local to = math.min(last, (from // WIDTH + 1) * WIDTH)
        parts[#parts + 1] = {shard = k - 1, from = from, to = to}
        upto[k], grown = to, true
      end
    end
  end
  return parts, upto
end

-- Iterates over a list in parts of at most a segment's width: where each begins, and the part.
function segments.chunks(list)
  local first = 1 - WIDTH
  return function()
    first = first + WIDTH
    if first > #list then return nil end
    return first, table.move(list, first, math.min(first + WIDTH - 1, #list), 1, {})
  end
end

-- ---- A segment's entries -------------------------------------------------------------------------

-- {n=, ids=, routings=, seqs=, terms=: arrays, `routings` with false; open=: set of numbers;
-- gone=: {[number] = true or {type, reason}}; made=: {[number] = {{id, routing or false}, ...}}, of those
-- that are other documents in the target}; with `versions` also versions=, of a page that has them
function segments.of_page(page, versions)
  local list = segments.empty()
  list.ids, list.routings, list.seqs, list.terms, list.versions = page:keys(versions)
  list.n = #list.ids
  return list
end

function segments.empty()
  return {n = 0, ids = {}, routings = {}, seqs = {}, terms = {}, versions = {}, open = {}, gone = {},
    made = {}}
end

-- {[number] = place}
function segments.places(list)
  local places = {}
  for i = 1, list.n do places[list.seqs[i]] = i end
  return places
end

function segments.add(list, id, routing, seq, term)
  local n = list.n + 1
  list.n, list.ids[n], list.routings[n], list.seqs[n], list.terms[n] = n, id, routing, seq, term
end

-- Those that are not in the set of numbers.
function segments.without(list, off)
  local rest = segments.empty()
  for i = 1, list.n do
    local seq = list.seqs[i]
    if not off[seq] then
      segments.add(rest, list.ids[i], list.routings[i], seq, list.terms[i])
      rest.open[seq], rest.gone[seq], rest.made[seq] = list.open[seq], list.gone[seq], list.made[seq]
      if list.versions then rest.versions[rest.n] = list.versions[i] end
    end
  end
  return rest
end

-- Adds to `list` what only `other` has. One number is one operation, so both say the same of what both have.
function segments.unite(list, other)
  local places = segments.places(list)
  for i = 1, other.n do
    local seq = other.seqs[i]
    if not places[seq] then segments.add(list, other.ids[i], other.routings[i], seq, other.terms[i]) end
    list.made[seq] = list.made[seq] or other.made[seq]
  end
end

-- The documents of the target that the one at place i is: {{id, routing or false}, ...}
function segments.targets(list, i)
  if list.gone[list.seqs[i]] then return {} end
  return list.made[list.seqs[i]] or {{list.ids[i], list.routings[i]}}
end

-- What the ledger and the document say of it.
local function mark_of(list)
  local mark = {n = list.n, sum = core.numbers_hash(list.seqs), open = 0, gone = 0, aside = 0, more = 0}
  for seq, targets in pairs(list.made) do
    if not list.gone[seq] then mark.more = mark.more + #targets - 1 end
  end
  for _ in pairs(list.open) do mark.open = mark.open + 1 end
  for _, why in pairs(list.gone) do
    mark.gone = mark.gone + 1
    if why ~= true then mark.aside = mark.aside + 1 end
  end
  return mark
end

-- ---- Its document --------------------------------------------------------------------------------

local function kind_of(m) return m.forth and "back" or "segment" end

local function document_id(m, shard, number)
  return ("%s:%s:%s:%d:%d"):format(m.client:namespace(), m.id, kind_of(m), shard, number)
end

local function entries_text(list, base)
  local at, open, gone, made = core.array {}, core.array {}, core.array {}, core.array {}
  for seq, targets in pairs(list.made) do made[#made + 1] = core.array {seq - base, core.array(targets)} end
  for i = 1, list.n do at[i] = list.seqs[i] - base end
  for seq in pairs(list.open) do open[#open + 1] = seq - base end
  for seq, why in pairs(list.gone) do
    gone[#gone + 1] = why == true and core.array {seq - base} or core.array {seq - base, why[1], why[2]}
  end
  return core.json(core.object {
    at = at, ids = core.array(list.ids), routings = core.array(list.routings), terms = core.array(list.terms),
    open = open, gone = gone, made = #made > 0 and made or nil,
  })
end

local function to_document(m, shard, number, list, mark)
  return core.json(core.object {
    kind = kind_of(m), format = 1, ns = m.client:namespace(), job = m.id, updated = core.wall_ms(),
    state = mark.aside > 0 and "aside" or "",
    body = core.object {
      shard = shard, segment = number, n = mark.n, sum = mark.sum, open = mark.open, gone = mark.gone,
      aside = mark.aside, more = mark.more,
    },
    entries = core.pack(entries_text(list, number * WIDTH)),
  })
end

local function read_entries(text, base)
  local kept = core.json_decode(core.unpack(text))
  local list = {
    n = #kept.ids, ids = kept.ids, routings = kept.routings, seqs = {}, terms = kept.terms, open = {},
      gone = {}, made = {},
  }
  for _, each in ipairs(kept.made or {}) do list.made[base + each[1]] = each[2] end
  for i, at in ipairs(kept.at) do list.seqs[i] = base + at end
  for _, at in ipairs(kept.open) do list.open[base + at] = true end
  for _, each in ipairs(kept.gone) do list.gone[base + each[1]] = each[2] and {each[2], each[3]} or true end
  return list
end

-- ---- The ledger ----------------------------------------------------------------------------------
-- What is known of a shard's journals without reading them: {[number] = ...} of each segment that has one.

local Ledger = {}
Ledger.__index = Ledger

function segments.ledger(shard)
  return setmetatable({
    shard = shard, sum = {}, n = {}, open = {}, gone = {}, aside = {}, more = {}, version = {},
    moved = {}, moves = 0, total = {n = 0, gone = 0, aside = 0, more = 0},
  }, Ledger)
end

local function note(ledger, number, mark)
  for name, total in pairs(ledger.total) do
    ledger.total[name] = total + (mark[name] or 0) - (ledger[name][number] or 0)
  end
  ledger.n[number], ledger.sum[number] = mark.n, mark.sum
  for _, name in ipairs {"open", "gone", "aside", "more"} do
    local n = mark[name] or 0
    ledger[name][number] = n ~= 0 and n or nil
  end
end

-- {[shard] = ledger}, from 0, as the journals have them.
function segments.load(m, shards)
  local ledgers = {}
  for k = 0, shards - 1 do ledgers[k] = segments.ledger(k) end
  m.client:refresh(m.jobs)
  local filter = {{term = {kind = kind_of(m)}}, {term = {ns = m.client:namespace()}}, {term = {job = m.id}}}
  for view in m.client:scan(m.jobs, {query = {bool = {filter = filter}}}) do
    local body = view.body
    local ledger = ledgers[body.shard]
    if not ledger then errors.raise("corrupt_table", "%s/%s: there is no such shard", m.jobs, view._id) end
    note(ledger, body.segment, body)
    ledger.version[body.segment] = {view._seq_no, view._term}
  end
  return ledgers
end

local MOVED_MOST <const> = 200000 -- of all shards together

-- A document is in a later journal now: its copy here no longer counts. That is written down when this
-- segment's journal is written the next time; whoever goes on from what is kept finds it out anew.
function Ledger:forget(seq)
  local number = seq // WIDTH
  local moved = self.moved[number] or {}
  if not self.n[number] or moved[seq] then return end
  self.moved[number], moved[seq] = moved, true
  self.moves = self.moves + 1
  self.sum[number] = self.sum[number] - core.numbers_hash {seq}
  self.n[number] = self.n[number] - 1
  self.total.n = self.total.n - 1
  if self.moves > MOVED_MOST then self.moved, self.moves = {}, 0 end
end

local function fetch(m, shard, number)
  local view = m.client:get(m.jobs, document_id(m, shard, number))
  return view and read_entries(view.entries, number * WIDTH) or segments.empty(), view
end

-- A segment's entries as its journal has them, empty where there is none: to be looked at.
function segments.peek(m, shard, number) return (fetch(m, shard, number)) end

-- The same without what has moved, to be changed.
function segments.read(m, ledger, number)
  local list, view = fetch(m, ledger.shard, number)
  if ledger.moved[number] then list = segments.without(list, ledger.moved[number]) end
  ledger.version[number] = view and {view._seq_no, view._term}
  note(ledger, number, mark_of(list))
  return list
end

-- `list` becomes the segment's journal. -> false: somebody else has written it since it was read.
function segments.write(m, ledger, number, list)
  local version = ledger.version[number]
  local mark = mark_of(list)
  local answer = m.own:bulk(m.jobs, {{
    kind = version and "index" or "create", id = document_id(m, ledger.shard, number),
    body = to_document(m, ledger.shard, number, list, mark),
    seq_no = version and version[1], term = version and version[2], skip_pipeline = true,
  }})[1]
  if answer.result == "conflict" then return false end
  if answer.result == "busy" then
    errors.raise("unavailable", "%s: the journal of a segment was not written: %s", m.jobs, answer.reason)
  elseif answer.result ~= "applied" then
    errors.raise("rejected", "%s: the journal of a segment cannot be written: %s", m.jobs, answer.reason
      or answer.result)
  end
  ledger.version[number] = {answer.seq_no, answer.term}
  ledger.moved[number] = nil
  note(ledger, number, mark)
  return true
end

local tries = 8

-- Reads the journal, lets `change(list)` make another of it, and writes that; again where somebody else has
-- written it in between. -> what was written. `list`: what to begin with, where none is known to be there.
function segments.update(m, ledger, number, change, list)
  for _ = 1, tries do
    local known = list and not ledger.version[number] and list or change(segments.read(m, ledger, number))
    list = nil
    if segments.write(m, ledger, number, known) then return known end
    ledger.version[number] = nil
  end
  errors.raise("conflict", "%s: the journal of segment %d of shard %d is changed by others again and again",
    m.jobs,
    number, ledger.shard)
end

-- Iterates over what was set aside: {id=, index=, type=, reason=}.
function segments.aside(client, jobs, id, index)
  local filter = {{term = {kind = "segment"}}, {term = {ns = client:namespace()}}, {term = {job = id}},
    {term = {state = "aside"}}}
  client:refresh(jobs)
  return coroutine.wrap(function()
    for view in client:scan(jobs, {query = {bool = {filter = filter}}, page = 10}) do
      local list = read_entries(view.entries, view.body.segment * WIDTH)
      for i = 1, list.n do
        local why = list.gone[list.seqs[i]]
        if type(why) == "table" then
          coroutine.yield {id = list.ids[i], index = index, type = why[1], reason = why[2]}
        end
      end
    end
  end)
end

return segments
