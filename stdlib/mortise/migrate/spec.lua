-- What a migration is: its options and their checks, and the spec that its job's document keeps.
local core = require "mortise.core"
local errors = require "mortise.errors"
local job_spec = require "mortise.job_spec"
local options = require "mortise.options"
local overload = require "mortise.overload"
local request = require "mortise.request"

local spec = {}

spec.rows = {
  {name = "id", type = "string", help = "of its job; else it is made from the names"},
  {name = "from", type = "string", required = true,
    help = "the index whose documents are copied, or its alias"},
  {name = "to", type = "string", required = true, help = "the new index, which is made"},
  {name = "to_store", type = "any",
    help = "where `to` is, if elsewhere: a client, a URL, or a profile of the configuration file"},
  {name = "alias", type = "string", help = "the clients' alias, which is moved from the one to the other"},
  {name = "settings", type = "table", help = "laid over the settings of the source"},
  {name = "mappings", type = "table", help = "laid over the mappings of the source"},
  {name = "given", type = "boolean", help = "true: the new index was made by hand, and has no documents"},
  {name = "change", type = "any",
    help = "a list of transforms, or a function that is called with each document: what they make is copied"},
  {name = "keep_old_in_step", type = "boolean",
    help = "true: once the alias was moved, the old index follows the new one: there is a way back"},
  {name = "change_back", type = "any",
    help = "with both: as `change`, what the old index is to have of a document of the new one"},
  {name = "lock", type = "any", help = "paths, or what acquire takes: locked while writes are blocked"},
  {name = "wait", type = "duration", help = "how long to wait for locks"},
  {name = "cutover", type = "string", values = {"auto", "manual"}, default_text = "auto, elsewhere manual",
    help = "manual: it stays a step behind until `mortise jobs cutover ID`"},
  {name = "max_pause", type = "duration", default = 10000, default_text = "10s",
    help = "how long writes may be refused; if that does not suffice, it tries again later"},
  {name = "verify", type = "string", default = "counts", values = {"counts", "sample", "full"},
    help = "before the alias is moved: compares counts, and contents of some documents, or of all"},
  {name = "max_rejected", type = "integer", default = 0, least = 0, most = 1 << 40,
    range = "a number of documents",
    help = "with more documents set aside it does not cut over"},
  {name = "rate", type = "count", help = "documents a second, at most"},
  overload.row,
  job_spec.patience_row,
  {name = "keep", type = "duration", default_text = "7d",
    help = "how long its job is kept once it is finished"},
  {name = "on_progress", type = "function", help = "called with the numbers done and in all"},
}

options.register({"migrate"}, spec.rows)

spec.get_rows = {
  {name = "wait", type = "duration", help = "how long to wait for locks"},
  {name = "change", type = "function", help = "of one with a function, which only its script has"},
  {name = "change_back", type = "function", help = "the same"},
  {name = "to_store", type = "any", help = "a client of the store into which it copies"},
  {name = "on_progress", type = "function", help = "called with the numbers done and in all"},
  {name = "max_rejected", type = "integer", help = "another one"},
  job_spec.patience_row,
}

-- Two migrations of one index exclude each other.
local CATEGORY <const> = "mortise-migrate"

local function to_lock(lock)
  if lock == nil then return nil end
  local what
  if type(lock) == "table" and #lock == 0 then
    what = request.of("migrate: lock", options.check("migrate: lock", request.rows, lock))
  else
    what = request.tree("migrate: lock", lock)
  end
  return core.object {kind = what.kind, index = what.index, paths = core.array(what.paths)}
end

local function to_change(name, change)
  if change == nil then return nil end
  if type(change) == "function" then return "function" end
  if type(change) ~= "table" then
    errors.bad("migrate: option `%s` is a list of transforms, or a function", name)
  end
  core.transformer(core.json(core.array(change)))
  return core.array(change)
end

-- `o.to_store` is a client by now.
local function to_store(o)
  return o.to_store and core.object {url = o.to_store:url(), profile = o.to_profile} or nil
end

local function check_way_back(o)
  if not o.keep_old_in_step then
    if o.change_back ~= nil then errors.bad "migrate: `change_back` is of one with `keep_old_in_step`" end
  elseif not o.alias then
    errors.bad "migrate: `keep_old_in_step` needs an `alias`, which can come back"
  elseif (o.change ~= nil) ~= (o.change_back ~= nil) then
    errors.bad "migrate: `keep_old_in_step` needs both of `change` and `change_back`, or neither"
  end
end

-- `source`: the index that `from` names. All that another process needs to go on with it.
function spec.of(o, source)
  if o.to_store and o.alias then
    errors.bad "migrate: an `alias` cannot be moved into another store; move its clients while it follows"
  end
  if o.to == source and not o.to_store then
    errors.bad("migrate: `to` is another index than `from`: %s", o.to)
  end
  if o.alias and (o.alias == o.to or o.alias == source) then
    errors.bad("migrate: `alias` is no index: %s", o.alias)
  end
  check_way_back(o)
  return core.object {
    name = o.id, index = source, keep = o.keep, max_load = overload.check(o.max_load), rate = o.rate,
    wait_for_writes = o.wait_for_writes,
    lock = core.object {kind = "named", index = CATEGORY, paths = core.array {source}},
    migrate = core.object {
      from = source, to = o.to, to_store = to_store(o), alias = o.alias, settings = o.settings,
      mappings = o.mappings, given = o.given, keep_old_in_step = o.keep_old_in_step,
      change = to_change("change", o.change), change_back = to_change("change_back", o.change_back),
      lock = to_lock(o.lock), cutover = o.cutover or (o.to_store and "manual" or "auto"),
      max_pause = o.max_pause, max_rejected = o.max_rejected, verify = o.verify,
    },
  }
end

return spec
