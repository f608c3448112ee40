-- The part of a round that reads what is new and copies it (spec/model/copies.py has the argument): each
-- shard's numbers from where the last round came to up to its checkpoint, a segment at a time. What was found
-- is in the segment's journal before it is sent.
local core = require "mortise.core"
local errors = require "mortise.errors"
local segments = require "mortise.migrate.segments"
local source = require "mortise.migrate.source"
local tasks = require "mortise.tasks"

local copying = {}

local AT_ONCE <const> = 5     -- segments under way

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

local function delete_some(m, items)
  local bulk = {}
  for i, each in ipairs(items) do
    bulk[i] = {
      kind = "delete", id = each.id, routing = each.routing or nil, external_gte = each.version,
        skip_pipeline = true,
    }
  end
  local left = send_all(m, function() return left_of(m.to:bulk(m.target, bulk), true) end)
  if left[1] then
    errors.raise("rejected", "index %s: document %s cannot be deleted: %s", m.target, items[left[1].at].id,
      left[1].reason or left[1].result)
  end
end

-- Deletes in the target: items {id=, routing=, version=}.
function copying.delete(m, items)
  for _, some in segments.chunks(items) do delete_some(m, some) end
end

-- Without a change: the bytes of the page's documents as they are. -> what the target would not take
local function copy_page(m, page)
  return send_all(m, function() return m.to:copy(m.target, page, m.state.base).others end)
end

-- With one: what it makes of each document of a page, which also goes into the list.
function copying.change_all(m, page, list)
  if not m.change then return nil end
  local outcomes = {}
  for i = 1, #page do
    local how, made, why = m.change(page[i])
    outcomes[i] = {how = how, made = made, why = why}
    if how == "made" then
      local targets = {}
      for j, one in ipairs(made) do targets[j] = core.array {one.id, one.routing} end
      list.made[list.seqs[i]] = targets
      m.state.makes = true
    end
  end
  if m.state.makes and m.spec.keep_old_in_step then
    errors.raise("unsupported", "`change` makes other documents of some, which index %s cannot follow back",
      m.source)
  end
  return outcomes
end

local function add_items(items, places, m, list, i, made)
  for _, one in ipairs(made) do
    items[#items + 1] = {
      kind = "index", id = one.id, routing = one.routing or nil, body = one.body, skip_pipeline = true,
      external_gte = m:version(list.terms[i], list.seqs[i]),
    }
    places[#items] = i
  end
end

-- Sends it. -> what was not taken, or is not to be copied for some reason; what is not to be copied
local function send_changed(m, outcomes, list)
  local items, places, gone, others = {}, {}, {}, {}
  for i, each in ipairs(outcomes) do
    if each.how == "copy" then
      add_items(items, places, m, list, i, {{id = list.ids[i], routing = list.routings[i], body = each.made}})
    elseif each.how == "made" then
      add_items(items, places, m, list, i, each.made)
    elseif each.how == "drop" then
      gone[#gone + 1] = i
    else
      others[#others + 1] = {at = i, type = "change", reason = each.why}
    end
  end
  for first, some in segments.chunks(items) do
    for _, each in ipairs(send_all(m, function() return left_of(m.to:bulk(m.target, some)) end)) do
      each.at = places[first + each.at - 1]
      others[#others + 1] = each
    end
  end
  return others, gone
end

-- ---- A segment -----------------------------------------------------------------------------------

-- The target's documents that are made of the one at place i, to be deleted.
local function add_deletions(deletions, m, list, i)
  local version = m:version(list.terms[i], list.seqs[i])
  for _, one in ipairs(list.made[list.seqs[i]] or {{list.ids[i], list.routings[i]}}) do
    deletions[#deletions + 1] = {id = one[1], routing = one[2], version = version}
  end
end

-- Sends a page whose documents are in the journal; `outcomes`: what the change makes of them. What the target
-- is not to have, or will not take, is deleted there in the same version, lest an earlier copy stay. ->
-- {[number] = true, or {type, reason} of what was set aside}
function copying.send(m, page, list, outcomes)
  local others, dropped
  if outcomes then
    others, dropped = send_changed(m, outcomes, list)
  else
    others, dropped = copy_page(m, page), {}
  end
  local gone, deletions = {}, {}
  for _, each in ipairs(others) do
    gone[list.seqs[each.at]] = {each.type or "rejected", each.reason or ""}
    add_deletions(deletions, m, list, each.at)
  end
  for _, i in ipairs(dropped) do
    gone[list.seqs[i]] = true
    add_deletions(deletions, m, list, i)
  end
  copying.delete(m, deletions)
  return gone
end

-- The numbers of the copies that stand in the target: these documents have moved from there.
local function find_moved(m, list)
  local views = m.to:mget(m.target, list.ids, list.routings, true)
  local found = {}
  for i = 1, list.n do
    local version = views[i] and views[i]._version
    if version and version < m:version(list.terms[i], list.seqs[i]) then
      found[#found + 1] = m:number_of(version)
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
  local page <close> = source.range(m, part.shard, part.from, part.to, m.adopts)
  local number = part.from // segments.width
  local found = source.found(m, page)
  if found.n == 0 and not ledger.version[number] then return end
  local outcomes = not m.adopts and copying.change_all(m, page, found) or nil
  local quick = not m.adopts and not m:has_made() and m.state.rounds > 0
  local moved = quick and found.n > 0 and find_moved(m, found) or {}
  segments.update(m, ledger, number, function(list) return merge(list, found, part.from) end, found)
  for _, seq in ipairs(moved) do ledger:forget(seq) end
  if found.n == 0 or m.adopts then return end
  local gone = copying.send(m, page, found, outcomes)
  if next(gone) then
    segments.update(m, ledger, number, function(list)
      for seq, why in pairs(gone) do list.gone[seq] = why end
      return list
    end)
  end
  m:pace(found.n)
end

-- ---- All of it -----------------------------------------------------------------------------------

-- Copies all that is new up to the checkpoints; where m.adopts is true it only lists it, as what is there
-- already. -> how many numbers that were
function copying.run(m, positions)
  local passed, ends = 0, {}
  for k, position in ipairs(positions) do ends[k] = position.global_checkpoint + 1 end
  while true do
    local parts, upto = segments.next_parts(m.state.done, ends)
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
