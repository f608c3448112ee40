-- The source of a migration: how far its shards are, and what a search of one of them finds.
local core = require "mortise.core"
local errors = require "mortise.errors"
local segment = require "mortise.segment"
local segments = require "mortise.migrate.segments"

local source = {}

local function refuse_another(m)
  errors.raise("conflict", "index %s was made anew since the migration began: it cannot go on; roll it back",
    m.source)
end

-- What can't be taken back any more: {{term=, max_seq_no=, global_checkpoint=, docs=}, ...}, shard K at K +
-- 1. The checkpoints are read before the terms.
function source.positions(m)
  local found = m.own:shards(m.source)
  if m.state.uuid and found.uuid ~= m.state.uuid then refuse_another(m) end
  m.state.uuid, m.primary = found.uuid, found.primary or nil
  for k, shard in ipairs(found) do
    if not shard.term then
      errors.raise("auth", "the primary term of shard %d of %s cannot be read: the user needs the right "
        .. "cluster:monitor/state", k - 1, m.source)
    end
  end
  return found
end

-- With `index.translog.durability: async` no checkpoint comes to the highest number by itself.
function source.flush(m)
  if not m.state.flushes then return end
  local status, text = m.client:raw("POST", "/" .. segment(m.source) .. "/_flush")
  if status ~= 200 then
    errors.raise("unavailable", "POST /%s/_flush: %d: %s", m.source, status, text:sub(1, 200))
  end
end

-- Does it need that?
function source.is_async(m)
  local described = core.json_decode(m.client:describe(m.source).json)
  local settings = described[m.source].settings or {}
  local index = settings.index or settings
  local translog = index.translog or {}
  return core.lower(translog.durability or settings["index.translog.durability"] or "request") == "async"
end

-- Are the versions of its documents wanted, above which the copies are that come back one day?
local function needs_versions(m) return m.spec.keep_old_in_step and not m.forth end

-- The page of documents with numbers [from, to) of a shard.
function source.range(m, shard, from, to, no_source)
  return m.own:range(m.source, shard, from, to, {primary = m.primary, no_source = no_source,
    revisions = needs_versions(m)})
end

-- What a page has that is to be copied. Keeps the greatest version, where it is wanted.
function source.found(m, page)
  local list = segments.of_page(page, needs_versions(m))
  local greatest = m.state.greatest or 0
  for _, version in ipairs(list.versions or {}) do greatest = math.max(greatest, version or 0) end
  m.state.greatest = greatest > 0 and greatest or nil
  return list
end

-- Nothing of it has been read yet.
function source.begin(m)
  m.state.flushes = source.is_async(m) or nil
  m.state.done = core.array {}
  for k = 1, #source.positions(m) do m.state.done[k] = 0 end
end

-- It is not read by numbers any more; it may be gone.
function source.leave(m)
  local ok, why = pcall(m.own.range_end, m.own, m.spec.from)
  if not ok and errors.code(why) ~= "not_found" then error(why, 0) end
end

return source
