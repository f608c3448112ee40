-- What a change of many documents needs of its index, looked at before a lock is taken: that the index is
-- there, that whole documents may be written into it, that searches find its paths, that no block is set, and
-- that this user may write.
local core = require "mortise.core"
local duration = require "mortise.duration"
local errors = require "mortise.errors"
local suggest = require "mortise.suggest"
local warn = require "mortise.warn"

local preflight = {}

-- They compare with a version that no document can have, so no store ever does them. But each says first
-- whether it lets this user do that there, and whether the index takes writes.
local id, seq_no, term = "mortise-probe", (1 << 40) - 1, (1 << 23) - 1
local probes = {
  write = {
    kind = "index", id = id, routing = id, body = "{}", skip_pipeline = true, seq_no = seq_no, term = term,
  },
  delete = {kind = "delete", id = id, routing = id, seq_no = seq_no, term = term},
}

local probe_tries = 6

-- One for each index; repeated while the store has no time, since it does no harm.
local function send_probes(client, names, probe)
  local items = {}
  for i, name in ipairs(names) do
    items[i] = {index = name}
    for key, value in pairs(probe) do items[i][key] = value end
  end
  for try = 1, probe_tries do
    local ok, results = pcall(client._open_core(client).bulk, client:_open_core(), nil, items, false)
    if ok then return results end
    if errors.code(results) ~= "unavailable" or try == probe_tries then error(results, 0) end
    core.sleep(25 << try)
  end
end

-- ---- What is wrong -------------------------------------------------------------------------------

local function add(found, code, advice, format, ...)
  found[#found + 1] = {code = code, message = format:format(...), advice = advice}
end

local lift_first = "lift the block, then try again"

local give_role = "give the user the rights on it that `mortise init --print` shows"

local advice_for = {
  auth = give_role,
  unavailable = "wait until it answers again; `mortise doctor` looks at the store",
}

-- Calls fn(...). What it raises is a finding. -> its result, nil where it failed
local function try(found, fn, ...)
  local ok, result = pcall(fn, ...)
  if ok then return result end
  local code = errors.code(result)
  if code == "interrupted" or code == "script_error" then error(result, 0) end
  found[#found + 1] = {
    code = code, message = result.message, status = result.status, type = result.type, reason = result.reason,
    advice = result.type == "cluster_block_exception" and lift_first or advice_for[code],
  }
end

local function lift(name, setting)
  return ("`PUT /%s/_settings {\"%s\": null}` lifts it"):format(name, setting)
end

local function flood(name, setting)
  return "a disk is too full: make room, and the server lifts it; or " .. lift(name, setting)
end

-- In the order of what they mean.
local blocks = {
  {"read_only_allow_delete", "takes no writes", flood},
  {"write", "takes no writes", lift},
  {"read_only", "takes no writes", lift},
  {"read", "cannot be read", lift},
  {"metadata", "does not show its mapping", lift},
}

local function is_set(value) return value == true or value == "true" end

-- Adds the blocks that are set on this index. -> is one?
local function add_blocks(found, name, settings)
  local set = settings.index and settings.index.blocks or {}
  local before = #found
  for _, each in ipairs(blocks) do
    local key, what, advice = table.unpack(each)
    local setting = "index.blocks." .. key
    if is_set(set[key]) or is_set(settings[setting]) then
      add(found, "unavailable", advice(name, setting), "index %s %s: %s is set", name, what, setting)
    end
  end
  return #found > before
end

local denials = {
  write = "this user may not write into index %s: %s",
  delete = "this user may not delete documents of index %s: %s",
}

-- What its probe says.
local function add_answer(found, name, what, answer)
  local blocked = answer.type == "cluster_block_exception"
  if blocked then
    add(found, "unavailable", lift_first, "index %s takes no writes: %s", name,
      answer.reason)
  elseif answer.status == 401 or answer.status == 403 then
    add(found, "auth", give_role, denials[what], name, answer.reason)
  elseif answer.type == "index_closed_exception" then
    add(found, "unavailable", ("`POST /%s/_open` opens it"):format(name), "index %s is closed", name)
  end
end

local function add_probed(found, client, names, what)
  if #names == 0 then return end
  local answers = try(found, send_probes, client, names, probes[what])
  for i, answer in ipairs(answers or {}) do add_answer(found, names[i], what, answer) end
end

-- ---- Fields --------------------------------------------------------------------------------------

local function collect(mapping, above, into)
  for name, each in pairs(mapping.properties or {}) do
    into[#into + 1] = above .. name
    into[above .. name] = each
    collect(each, above .. name .. ".", into)
  end
  return into
end

-- Is it mapped, or does it lie in a field that has its own ways, as flattened ones?
local function is_mapped(mapping, known, field)
  if known[field] or mapping.runtime and mapping.runtime[field] then return true end
  for at in field:gmatch "()%." do
    local above = known[field:sub(1, at - 1)]
    if above and not above.properties then return true end
  end
  return false
end

local function add_missing(found, client, index, field, all)
  local names = {}
  for _, mapping in pairs(all) do
    local known = collect(mapping, "", {})
    if is_mapped(mapping, known, field) then return end
    table.move(known, 1, #known, #names + 1, names)
  end
  local n = try(found, client.count, client, index, {exists = {field = field}})
  if n ~= 0 then return end
  table.sort(names, core.before)
  local near = suggest(field, names)
  local advice = near and ("did you mean `%s`?"):format(near) or "name the field that holds the paths"
  add(found, "not_found", advice, "no document of %s has a field `%s`", index, field)
end

local function add_fields(found, client, description, index, fields)
  local all = {}
  for name, each in pairs(core.json_decode(description.json)) do all[name] = each.mappings or {} end
  for _, field in ipairs(fields) do
    local before = #found
    try(found, core.exact_field, description.json, field)
    if #found == before then add_missing(found, client, index, field, all) end
  end
end

-- ---- All of it -----------------------------------------------------------------------------------

-- What keeps this user from changing documents of `index` (an index or alias), the worst first: a list of
-- {code=, message=, advice=}, and the description. `fields`: those that hold paths, or nil. `deletes`:
-- documents may be deleted, too.
function preflight.findings(client, index, fields, deletes)
  local found = {}
  local description = try(found, client.describe, client, index)
  if not description then return found end
  if not description.exists then
    add(found, "not_found", "is this its name?", "there is no index %s", index)
    return found
  end
  if description.unfit then add(found, "unsupported", nil, "%s", description.unfit) end
  local names = {}
  for name, each in pairs(core.json_decode(description.json)) do
    if not add_blocks(found, name, each.settings or {}) then names[#names + 1] = name end
  end
  table.sort(names, core.before)
  add_probed(found, client, names, "write")
  if deletes and #found == 0 then add_probed(found, client, names, "delete") end
  if fields then add_fields(found, client, description, index, fields) end
  return found, description
end

local look_again_ms = 3000

-- The first of them. One that passes by itself, as a block, is waited out for so long; nil: it is not.
local function lasting(client, index, fields, deletes, wait_ms)
  local until_ms, told = core.now_ms() + (wait_ms or 0), false
  while true do
    local first = preflight.findings(client, index, fields, deletes)[1]
    local left_ms = until_ms - core.now_ms()
    if not first or first.code ~= "unavailable" or left_ms <= 0 then return first end
    if not told then warn("%s; it is waited for up to %s", first.message, duration.text(wait_ms)) end
    told = true
    core.sleep(math.min(look_again_ms, left_ms))
  end
end

-- Raises the first of them. `wait_ms`: how long it waits while the index or the store takes no writes.
function preflight.check(client, index, fields, deletes, wait_ms)
  local first = lasting(client, index, fields, deletes, wait_ms)
  if not first then return end
  local advice = first.advice and ": " .. first.advice or ""
  error(core.error {
    code = first.code, message = first.message .. advice, status = first.status, type = first.type,
    reason = first.reason, retryable = first.code == "unavailable",
  }, 0)
end

return preflight
