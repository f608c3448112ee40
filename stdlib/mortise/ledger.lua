-- The ledger of versioned scripts: for each namespace one document of the jobs' index, which says what has
-- become of each version. Each write compares it with what was read, so that of two who write one is refused.
local core = require "mortise.core"
local errors = require "mortise.errors"
local records = require "mortise.records"

local Ledger = {}
Ledger.__index = Ledger

local ledger = {}

local FORMAT = 1

-- No job has such an id, so that removing a job's journal concerns no ledger.
local function document_id(namespace) return namespace .. ":@versions" end

local states = {running = true, done = true, failed = true, baseline = true, undone = true}

local function is_entry(entry)
  return math.type(entry.version) == "integer" and type(entry.name) == "string" and states[entry.state]
    and type(entry.checksum) == "string" and math.type(entry.began) == "integer"
    and type(entry.by) == "table"
end

local function entries_of(view)
  assert(view.kind == "versions" and view.format == FORMAT)
  local entries = core.json_decode(core.json(view.body.entries))
  for _, entry in ipairs(entries) do assert(is_entry(entry)) end
  return entries
end

local function take(self, view)
  local ok, entries = pcall(entries_of, view)
  if not ok then
    errors.raise("corrupt_table", "the ledger of namespace %s is not as this program writes it",
      self.namespace)
  end
  self.entries, self._seq_no, self._term = core.array(entries), view._seq_no, view._term
end

-- {namespace=, entries={{version=, name=, state=, checksum=, began= (ms), took= (ms), by=, session=,
-- job=, changed=, reason=, unsettled=, removed=}, ...}}, the lowest version first. `unsettled`: its job is
-- done, but with a complaint; `removed`: its file may be missing.
function ledger.read(client, namespace)
  local self = setmetatable({namespace = namespace, entries = core.array {}, _client = client}, Ledger)
  local index = records.find_index(client)
  local view = index and client:get(index, document_id(namespace))
  if view then take(self, view) end
  return self
end

function Ledger:find(version)
  for i, entry in ipairs(self.entries) do
    if entry.version == version then return entry, i end
  end
end

-- Puts an entry in its place, instead of that of its version.
function Ledger:put(entry)
  local _, at = self:find(entry.version)
  if at then table.remove(self.entries, at) end
  at = 1
  while self.entries[at] and self.entries[at].version < entry.version do at = at + 1 end
  table.insert(self.entries, at, entry)
  return entry
end

function Ledger:remove(version)
  local _, at = self:find(version)
  table.remove(self.entries, at)
end

-- A request whose answer was lost is sent again, and is then refused because of itself.
local function is_written(self, index, text)
  local view = self._client:get(index, document_id(self.namespace))
  if not view or core.json(view.body.entries) ~= text then return false end
  self._seq_no, self._term = view._seq_no, view._term
  return true
end

-- Writes it. Raises conflict where another has written it since it was read.
function Ledger:write()
  local client, index = self._client, records.index(self._client)
  local source = {
    kind = "versions", format = FORMAT, ns = self.namespace, updated = core.wall_ms(),
    body = {entries = self.entries},
  }
  local o = {if_seq_no = self._seq_no, if_term = self._term, pipeline = false, unguarded = true}
  local call = self._seq_no and client.index or client.create
  local ok, result = pcall(call, client, index, document_id(self.namespace), source, o)
  if ok then
    self._seq_no, self._term = result.seq_no, result.term
  elseif errors.code(result) ~= "conflict" then
    error(result, 0)
  elseif not is_written(self, index, core.json(self.entries)) then
    errors.raise("conflict", "the ledger of namespace %s was changed by another meanwhile: run this again",
      self.namespace)
  end
end

return ledger
