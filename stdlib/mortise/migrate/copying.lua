-- The part of a round that reads what is new and copies it (spec/model/copies.py has the argument): each
-- shard's numbers from where the last round came to up to its checkpoint, a segment at a time. What was found
-- is in the segment's journal before it is sent.
local errors = require "mortise.errors"
local segments = require "mortise.migrate.segments"
local source = require "mortise.migrate.source"
local tasks = require "mortise.tasks"

local copying = {}

local AT_ONCE <const> = 3     -- segments under way
local CHUNK <const> = 96      -- segments between two notes of how far it is
local TERM_BITS <const> = 40  -- the version of a copy is term << 40 | number (store.h)

function copying.version(term, seq) return term << TERM_BITS | seq end

-- ---- Sending it ----------------------------------------------------------------------------------

local busy_tries = 12

-- Calls send() until nothing of it was refused for want of time. -> what is left: answers with `at`
local function send_all(m, send)
  for try = 1, busy_tries do
    local others, busy = send(), nil
    for _, each in ipairs(others) do
      if each.result == "busy" then busy = each end
    end
    if not busy then return others end
    m.refused = m.refused + 1
    if try == busy_tries then
      errors.raise("unavailable", "index %s takes no writes: %s: %s", m.target, busy.type or "", busy.reason
        or "")
    end
    m:rest(math.min(25 << try, 5000))
  end
end

-- What is left of bulk's answers: those that are neither applied nor refused as older than what is there.
local function left_of(answers, is_delete)
  local others = {}
  for i, each in ipairs(answers) do
    local fine = each.result == "applied" or each.result == "conflict" or is_delete
      and each.result == "missing"
    if not fine then
      each.at = i
      others[#others + 1] = each
    end
  end
  return others
end

-- Deletes in the target: items {id=, routing=, version=}.
function copying.delete(m, items)
  local bulk = {}
  for i, each in ipairs(items) do
    bulk[i] = {
      kind = "delete", id = each.id, routing = each.routing or nil, external_gte = each.version,
        skip_pipeline = true,
    }
  end
  local left = #bulk > 0 and send_all(m, function() return left_of(m.to:bulk(m.target, bulk), true) end) or {}
  if left[1] then
    errors.raise("rejected", "index %s: document %s cannot be deleted: %s", m.target, items[left[1].at].id,
      left[1].reason or left[1].result)
  end
end

-- Without a change: the bytes of the page's documents as they are. -> what the target would not take
local function copy_page(m, page)
  return send_all(m, function() return m.to:copy(m.target, page).others end)
end

-- With one: what it makes of each. -> what is not to be in the target, or was not taken
local function change_page(m, page, list)
  local items, gone, others = {}, {}, {}
  for i = 1, #page do
    local how, body, why = m.change(page[i])
    if how == "copy" then
      items[#items + 1] = {
        kind = "index", id = list.ids[i], routing = list.routings[i] or nil, body = body,
          skip_pipeline = true,
        external_gte = copying.version(list.terms[i], list.seqs[i]), at = i,
      }
    elseif how == "drop" then
      gone[#gone + 1] = i
    else
      others[#others + 1] = {at = i, type = "change", reason = why}
    end
  end
  local places = {}
  for j, item in ipairs(items) do places[j], item.at = item.at, nil end
  local left = #items > 0 and send_all(m, function() return left_of(m.to:bulk(m.target, items)) end) or {}
  for _, each in ipairs(left) do
    each.at = places[each.at]
    others[#others + 1] = each
  end
  return others, gone
end

-- ---- A segment -----------------------------------------------------------------------------------

local function item_of(list, i)
  return {id = list.ids[i], routing = list.routings[i], version = copying.version(list.terms[i],
    list.seqs[i])}
end

-- Sends a page whose documents are in the journal. What the target is not to have, or will not take, is
-- deleted there in the same version, lest an earlier copy stay. -> {[number] = true, or {type, reason} of
-- what was set aside}
function copying.send(m, page, list)
  local others, dropped
  if m.change then
    others, dropped = change_page(m, page, list)
  else
    others, dropped = copy_page(m, page), {}
  end
  local gone, deletions = {}, {}
  for _, each in ipairs(others) do
    gone[list.seqs[each.at]] = {each.type or "rejected", each.reason or ""}
    deletions[#deletions + 1] = item_of(list, each.at)
  end
  for _, i in ipairs(dropped) do
    gone[list.seqs[i]] = true
    deletions[#deletions + 1] = item_of(list, i)
  end
  copying.delete(m, deletions)
  return gone
end

-- The numbers of the copies that stand in the target: these documents have moved from there.
local function find_moved(m, list)
  local views = m.to:mget(m.target, list.ids, list.routings, true)
  local mask = (1 << TERM_BITS) - 1
  local found = {}
  for i = 1, list.n do
    local version = views[i] and views[i]._version
    if version and version < copying.version(list.terms[i], list.seqs[i]) then
      found[#found + 1] = version & mask
    end
  end
  return found
end

-- Adds to a journal what was found. What is listed there from here on was read by a process that died, or by
-- this one before an error: if it was not found now, it is not known to have been answered.
local function merge(list, found, from)
  local places = segments.places(found)
  for i = 1, list.n do
    local seq = list.seqs[i]
    if seq >= from and not places[seq] then list.open[seq] = true end
  end
  for i = 1, found.n do
    list.open[found.seqs[i]], list.gone[found.seqs[i]] = nil, nil
  end
  segments.unite(list, found)
  return list
end

-- Reads the numbers [from, to) of one segment, and copies what is there.
local function take(m, part)
  m:check()
  local ledger = m.ledgers[part.shard]
  local page <close> = source.range(m, part.shard, part.from, part.to)
  local number = part.from // segments.width
  local found = segments.of_page(page)
  if found.n == 0 and not ledger.version[number] then return end
  local moved = m.state.rounds > 0 and found.n > 0 and find_moved(m, found) or {}
  segments.update(m, ledger, number, function(list) return merge(list, found, part.from) end, found)
  for _, seq in ipairs(moved) do ledger:forget(seq) end
  if found.n == 0 then return end
  local gone = copying.send(m, page, found)
  if next(gone) then
    segments.update(m, ledger, number, function(list)
      for seq, why in pairs(gone) do list.gone[seq] = why end
      return list
    end)
  end
  m:pace(found.n)
end

-- ---- All of it -----------------------------------------------------------------------------------

-- The next parts to be read, of all shards in turn; each is of one segment. And how far they come.
local function next_parts(m, positions)
  local parts, upto = {}, {}
  for k = 1, #positions do upto[k] = m.state.done[k] end
  local grown = true
  while grown and #parts < CHUNK do
    grown = false
    for k, position in ipairs(positions) do
      local from, last = upto[k], position.global_checkpoint + 1
      if from < last then
        local to = math.min(last, (from // segments.width + 1) * segments.width)
        parts[#parts + 1] = {shard = k - 1, from = from, to = to}
        upto[k], grown = to, true
      end
    end
  end
  return parts, upto
end

-- Copies all that is new up to the checkpoints. -> how many numbers that were
function copying.run(m, positions)
  local passed = 0
  while true do
    local parts, upto = next_parts(m, positions)
    if #parts == 0 then return passed end
    tasks.map(parts, function(part) take(m, part) end, {limit = AT_ONCE})
    for k, at in ipairs(upto) do
      passed = passed + at - m.state.done[k]
      m.state.done[k] = at
    end
    m:note()
  end
end

return copying
