-- Verifying that the target has what was copied: of each document, or of a sample, the version and the
-- contents. Between two rounds nothing is under way, so the target must have exactly what the source shows
-- below the numbers that have been read, or what the change makes of that when it is called once more. A
-- document that is written again has a later number, and is verified there. So the most is done before
-- writes are refused, and the rest while they are.
local core = require "mortise.core"
local errors = require "mortise.errors"
local segments = require "mortise.migrate.segments"
local source = require "mortise.migrate.source"
local tasks = require "mortise.tasks"

local verifying = {}

local AT_ONCE <const> = 3
local SAMPLE <const> = 16 -- numbers of a segment
local NAMED <const> = 10

-- ---- A document ----------------------------------------------------------------------------------

-- Members may have another order.
local function is_same(one, other)
  return one == other or core.json(core.json_decode(one)) == core.json(core.json_decode(other))
end

-- Adds what the target is to have of a document of a page: {id=, routing=, version=, body= nil: nothing}.
local function add_expected(found, m, view, list, i, gone)
  local how, made = "copy", nil
  if gone then how = "drop" elseif m.change then how, made = m.change(view) end
  local version = m:version(list.terms[i], list.seqs[i])
  if how == "made" then
    for _, one in ipairs(made) do
      found[#found + 1] = {id = one.id, routing = one.routing, version = version, body = one.body}
    end
    return
  end
  local body = how == "copy" and (made or view:_source()) or nil
  found[#found + 1] = {id = list.ids[i], routing = list.routings[i], version = version, body = body}
end

-- What is wrong with it in the target; nil: nothing.
local function fault(m, wanted, there)
  if not wanted.body then return there and "is there, though it is not to be copied" or nil end
  if not there then return "is missing" end
  if there._version and there._version ~= wanted.version then
    return ("has version %d in place of %d"):format(there._version, wanted.version)
  end
  if is_same(wanted.body, there:_source()) then return nil end
  return m.change and "has other contents than `change` makes now: it must depend on the document alone"
    or "has other contents"
end

-- ---- A segment -----------------------------------------------------------------------------------

local function raise(m, faults)
  local texts = {}
  for i = 1, math.min(NAMED, #faults) do texts[i] = faults[i].id .. " " .. faults[i].what end
  errors.raise("conflict", "index %s is not what was copied, nothing was cut over: document %s%s", m.target,
    table.concat(texts, "; "), #faults > NAMED and "; and more" or "")
end

local function span_of(m, part)
  if m.spec.verify == "full" then return part.from, part.to end
  local number = part.from // segments.width
  local at = number * segments.width + number * 37 % (segments.width // SAMPLE) * SAMPLE
  return math.max(part.from, at), math.min(part.to, at + SAMPLE)
end

-- Some of those that the target is to have. Adds to faults.
local function compare(m, wanted, faults)
  local ids, routings = {}, {}
  for i, each in ipairs(wanted) do ids[i], routings[i] = each.id, each.routing end
  local views = m.to:mget(m.target, ids, routings)
  for i, each in ipairs(wanted) do
    local what = fault(m, each, views[i])
    if what then faults[#faults + 1] = {id = each.id, what = what} end
  end
end

local function verify(m, part)
  m:check()
  local from, to = span_of(m, part)
  if from >= to then return 0 end
  local page <close> = source.range(m, part.shard, from, to)
  local list, wanted, faults = segments.of_page(page), {}, {}
  local number = part.from // segments.width
  local ledger = m.ledgers[part.shard]
  local gone = ledger.gone[number] and segments.peek(m, part.shard, number).gone or {}
  for i = 1, list.n do add_expected(wanted, m, page[i], list, i, gone[list.seqs[i]]) end
  for _, some in segments.chunks(wanted) do compare(m, some, faults) end
  if #faults > 0 then raise(m, faults) end
  return list.n
end

-- ---- All of it -----------------------------------------------------------------------------------

local function run(m)
  if not m.state.verified then
    m.state.verified = core.array {}
    for k = 1, #m.state.done do m.state.verified[k] = 0 end
  end
  while true do
    local parts, upto = segments.next_parts(m.state.verified, m.state.done)
    if #parts == 0 then return end
    local counts = tasks.map(parts, function(part) return verify(m, part) end, {limit = AT_ONCE})
    for _, n in ipairs(counts) do m.state.compared = (m.state.compared or 0) + n end
    m.state.verified = core.array(upto)
    m:note()
  end
end

-- After a round: what was copied since the last time. Raises conflict where the target has something else.
function verifying.run(m)
  if m.spec.verify == "counts" then return end
  m:patiently(function() return run(m) end)
end

return verifying
