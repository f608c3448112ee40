-- What a job is, apart from doing it: its options and their checks, and the spec that its document keeps.
local argument = require "mortise.argument"
local by_function = require "mortise.by_function"
local check_path = require "mortise.path"
local core = require "mortise.core"
local errors = require "mortise.errors"
local hooks = require "mortise.hooks"
local json = require "mortise.json"
local options = require "mortise.options"
local orphans = require "mortise.orphans"
local overload = require "mortise.overload"
local request = require "mortise.request"
local suggest = require "mortise.suggest"
local tune = require "mortise.tune"
local within = require "mortise.within"
local yielding = require "mortise.yielding"

local job_spec = {}

job_spec.default_patience_ms = 5 * 60 * 1000

job_spec.patience_row = {
  name = "wait_for_writes", type = "duration", flag = "--wait-for-writes", value = "TIME",
  default_text = "5m",
  help = "how long it waits while the store takes no writes: a block, a full disk, a shard that is away",
}

job_spec.rows = {
  {name = "name", type = "string", help = "the beginning of its id; needed unless `id` is given"},
  {name = "id", type = "string", help = "its id, if it is not to be made from the name"},
  {name = "once", type = "boolean", help = "its id is its name: a second run of a finished one does nothing"},
  {name = "index", type = "string", required = true, help = "index or alias"},
  {name = "query", type = "query", help = "Query DSL that documents must match, of those that `lock` names"},
  within.row,
  {name = "change", type = "any", help = "a list of transforms, or a function of each document"},
  {name = "rename", type = "table", help = "instead of it: {from=, to=, field=}, as mortise.rename's"},
  {name = "merge", type = "boolean", help = "of a rename: there may be documents below `to` already"},
  {name = "allow_empty", type = "boolean", help = "of a rename: there may be none below `from`"},
  {name = "lock", type = "any", help = "a path, a list of them, or what acquire takes; a rename's own paths"},
  {name = "wait", type = "duration", help = "how long to wait for the lock"},
  orphans.row,
  yielding.row,
  {name = "on_progress", type = "function", help = "called with the numbers done and in all"},
  overload.row,
  job_spec.patience_row,
  {name = "max_rejected", type = "any", default_text = "none; 0 for a rename",
    help = "how many documents may be set aside, or \"1%\" of them: more, and it stops and stands"},
  {name = "keep", type = "duration", default_text = "7d",
    help = "how long it can be undone at least once it is over; then whoever runs a job next removes it"},
  {name = "strategy", type = "string", default = "client", values = {"client", "server", "auto"},
    help = "who makes the change: this process, the server by itself, or whichever is likely to be faster"},
  {name = "journal", type = "boolean", default = true,
    help = "false: of a rename, none where renaming back undoes it, which takes along what others put there"},
  {name = "rate", type = "count", help = "documents a second, at most"},
  {name = "batch", type = "count", help = "documents in a batch; else it adapts to the store"},
  {name = "slices", type = "count", help = "of the scan"},
  {name = "concurrency", type = "count", help = "batches at the same time; else it adapts"},
  {name = "passes", type = "count", help = "at most"},
  tune.row,
}

-- What a rename is: of job's `rename`, and of mortise.rename.
job_spec.rename_rows = {
  {name = "from", type = "string", required = true, help = "the path that is renamed, with all below it"},
  {name = "to", type = "string", required = true, help = "what it becomes"},
  {name = "field", type = "names", default = "path", help = "the field that holds paths, or a list of them"},
  {name = "ids", type = "boolean", help = "an `_id` at or below `from` becomes one below `to`, too"},
}

job_spec.rows = options.join(job_spec.rows, hooks.rows)

options.register({"job"}, job_spec.rows)

job_spec.rollback_rows = {
  {name = "others", type = "integer", help = "of a rename without a journal: how many documents that are not "
    .. "the job's may be renamed along"},
}

options.register({"job:rollback"}, job_spec.rollback_rows)

job_spec.get_rows = {
  {name = "wait", type = "duration", help = "how long to wait for the lock"},
  job_spec.patience_row,
  orphans.row,
  {name = "max_rejected", type = "any", help = "another one for its resume"},
  {name = "on_progress", type = "function", help = "called with the numbers done and in all"},
}

job_spec.get_rows = options.join(job_spec.get_rows, hooks.rows)

options.register({"get_job"}, job_spec.get_rows)

-- ---- The spec -----------------------------------------------------------------------------------

local function random_hex()
  local handle = io.open("/dev/urandom", "rb")
  local bytes = handle and handle:read(4)
  if handle then handle:close() end
  if not bytes then errors.raise("unavailable", "job: there are no random numbers for an id; give `id`") end
  return ("%08x"):format(string.unpack("<I4", bytes))
end

-- The id of a new one.
function job_spec.make_id(o)
  if not (o.id or o.name) then errors.bad "job: option `name` is missing (or `id`)" end
  if o.once and o.id then errors.bad "job: `once` makes the id from the name: give no `id`" end
  local id = o.id or o.once and o.name or o.name .. "-" .. random_hex()
  core.job_id_check(id)
  return id
end

-- The core checks the rest.
local function check_transform_name(i, each)
  local name = type(each) == "table" and next(each)
  if type(name) ~= "string" then return end
  for _, known in ipairs(core.transforms) do
    if known == name then return end
  end
  local near = suggest(name, core.transforms)
  errors.bad("job: transform %d: there is no `%s`%s", i, name, near and (": did you mean `%s`?"):format(near)
    or "; there are: " .. table.concat(core.transforms, ", "))
end

-- What the change is, as JSON text.
local function to_change(change)
  if type(change) == "function" then return '"function"' end
  local list = type(change) == "table" and change or {change}
  for _, each in ipairs(list) do
    if type(each) == "function" then
      errors.bad "job: option `change` is one function, or a list of transforms"
    end
  end
  if list ~= change or next(change) ~= nil and #change == 0 then
    errors.bad "job: option `change` is a list of transforms, like {{set = {field = \"a\", value = 1}}}"
  end
  for i, each in ipairs(change) do check_transform_name(i, each) end
  return #change == 0 and "[]" or json.body(change)
end

local function to_rename(given)
  for _, name in ipairs {"merge", "allow_empty"} do
    if given[name] ~= nil then
      errors.bad("job: `%s` is an option of the job, beside `rename`: {rename = {...}, %s = %s}", name, name,
        argument.shown(given[name]))
    end
  end
  local rename = options.check("job: rename", job_spec.rename_rows, given)
  rename.from, rename.to = check_path(rename.from, true), check_path(rename.to)
  rename.ids = rename.ids or nil
  return rename
end

-- The fields of a rename, as a list, and as the core takes them.
function job_spec.field_list(rename)
  return type(rename.field) == "table" and rename.field or {rename.field}
end

function job_spec.field_lines(rename) return table.concat(job_spec.field_list(rename), "\n") end

-- A spec's list of transforms as JSON text, or nil; is the change a function?
function job_spec.transforms(spec)
  local is_function = by_function.is(spec.change)
  return not is_function and spec.change or nil, is_function
end

-- How many documents may be set aside, as text; nil: it is not said.
function job_spec.to_bound(value)
  if value == nil then return nil end
  local text = type(value) == "number" and core.tostring(math.tointeger(value) or value) or value
  if type(text) ~= "string" or text == "" then
    errors.bad "job: option `max_rejected` is a number of documents, or text like \"1%%\""
  end
  core.bound_check(text)
  return text
end

-- What is locked: {kind=, index=, paths=}
local function to_lock(o, rename)
  local lock = o.lock
  if lock == nil and rename then lock = {rename.from, rename.to} end
  if lock == nil then errors.bad "job: option `lock` is missing: the paths under which it works" end
  local what
  if type(lock) == "table" and #lock == 0 then
    local checked = options.check("job: lock", request.rows, lock)
    if checked.mode ~= "exclusive" then errors.bad "job: its lock is exclusive" end
    what, o.wait = request.of("job: lock", checked), o.wait or checked.wait
  else
    what = request.tree("job: lock", lock)
  end
  return {kind = what.kind, index = what.index, paths = core.array(what.paths)}
end

local function is_inside(path, above)
  return above == "/" or path == above or path:sub(1, #above + 1) == above .. "/"
end

local function covers(lock, path)
  for _, own in ipairs(lock.kind == "tree" and lock.paths or {}) do
    if is_inside(path, own) then return true end
  end
  return lock.kind == "global"
end

local function check_cover(lock, rename)
  for _, path in ipairs {rename.from, rename.to} do
    if not covers(lock, path) then
      errors.bad("job: the lock does not cover %s: both paths of a rename are locked", path)
    end
  end
end

-- In between, others could change what is half moved, and create documents below `to`, where it found none:
-- whoever renames the tree, or undoes that, could then tear it apart.
local function check_yield(o)
  if not o.yield_every then return end
  if o.rename then errors.bad "job: `yield_every` is for a list: what is half renamed must not be let go" end
  if type(o.change) ~= "table" then errors.bad "job: `yield_every` is for a list of transforms" end
  if o.yield_every <= 0 then errors.bad "job: `yield_every` is more than 0" end
end

-- All that another process needs to go on with it; `query` and `change` are JSON text.
function job_spec.of(o)
  if (o.change == nil) == (o.rename == nil) then errors.bad "job: exactly one of `change` and `rename`" end
  check_yield(o)
  local rename = o.rename and to_rename(o.rename)
  local spec = {
    name = o.name, index = o.index, query = json.body(o.query), lock = to_lock(o, rename), rename = rename,
    change = not rename and to_change(o.change) or nil, merge = o.merge, allow_empty = o.allow_empty,
    batch = o.batch, slices = o.slices, concurrency = o.concurrency, passes = o.passes, rate = o.rate,
    keep = o.keep, max_load = overload.check(o.max_load), yield_every = o.yield_every,
    wait_for_writes = o.wait_for_writes,
    max_rejected = job_spec.to_bound(o.max_rejected), tune = o.tune or nil,
    strategy = o.strategy ~= "client" and o.strategy or nil,
  }
  if not o.journal then spec.journal = false end
  if rename then
    if o.field ~= nil then errors.bad "job: `field` belongs into `rename`" end
    check_cover(spec.lock, rename)
  else
    spec.field = within.of(o, spec.lock)
  end
  if not (rename or o.journal) then
    errors.bad "job: only a rename may have no journal: `journal` belongs to `rename`"
  end
  if not rename and (o.merge or o.allow_empty) then
    errors.bad "job: `merge` and `allow_empty` belong to `rename`"
  end
  local transforms, is_function = job_spec.transforms(spec)
  core.change_check {
    transforms = transforms, by_function = is_function,
    fields = rename and job_spec.field_lines(rename), from = rename and rename.from,
    to = rename and rename.to, ids = rename and rename.ids,
  }
  if spec.query and not pcall(core.view, spec.query) then
    errors.bad("job: option `query` is no JSON object: %s", spec.query)
  end
  return spec
end

-- As it is kept in the job's document.
function job_spec.text(spec)
  local parts, rest = {}, core.object {}
  for name, value in pairs(spec) do rest[name] = value end
  for _, name in ipairs {"query", "change"} do
    if spec[name] then parts[#parts + 1] = ('"%s":%s,'):format(name, spec[name]) end
    rest[name] = nil
  end
  return "{" .. table.concat(parts) .. core.json(rest):sub(2)
end

-- The spec in the view of a job's document.
function job_spec.read(view)
  local kept = view.body.spec
  local spec = core.json_decode(core.json(kept))
  spec.query = spec.query and core.json(kept.query)
  spec.change = spec.change and core.json(kept.change)
  return spec
end

-- The functions that it calls.
function job_spec.to_hooks(o)
  local found = {}
  for _, row in ipairs(hooks.rows) do found[row.name] = o[row.name] end
  local verify = found.verify
  if verify ~= nil and verify ~= true and type(verify) ~= "function" then
    errors.bad "job: option `verify` is a function or true"
  end
  if verify == true and type(o.change) == "function" then
    errors.bad "job: `verify = true` would call the function again: give a function that looks at a document"
  end
  return found
end

return job_spec
