-- mortise migrate FROM TO
local budgets = require "mortise.sandbox.budgets"
local core = require "mortise.core"
local errors = require "mortise.errors"
local job_spec = require "mortise.job_spec"
local migration = require "mortise.cli.migration"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local progress = require "mortise.cli.progress"
local records = require "mortise.records"

local sandbox = require("mortise.later") "mortise.sandbox"

local command = {
  summary = "copy an index in use into a new one, move its alias",
  usage = "FROM TO --alias NAME [--dry-run]",
  help = [[
Copies the documents of the index FROM into TO, a new index with other mappings or settings, while everybody
goes on writing. When little is left it blocks the writes to FROM, copies the rest, and moves the alias NAME
to TO: for --max-pause at most; if that does not suffice, it lifts the block and tries again later. --cutover
manual follows FROM until `mortise jobs cutover ID`.

FROM then stays as it is, and takes no writes, until `mortise jobs finish ID`, after which there is no way
back, or `mortise jobs rollback ID`. With --keep-old-in-step it follows TO until then, so that going back
loses nothing of what was written meanwhile; the command does not end before.

With --to-store TO is in another store, be it of another kind, and no alias is moved: TO follows FROM, so
that clients can be moved, until `mortise jobs finish ID`; or until `mortise jobs cutover ID`, which first
blocks FROM and copies the rest.

It is a job: `mortise jobs resume ID` goes on with one that was cut off, on any machine. --dry-run says what
it would do, and what keeps it from that (exit status 1).]],
  options = {
    {name = "alias", type = "string", flag = "--alias", value = "NAME", help = "the clients' alias"},
    {name = "mappings", type = "string", flag = "--mappings", value = "FILE",
      help = "JSON that is laid over the mappings of FROM"},
    {name = "settings", type = "string", flag = "--settings", value = "FILE",
      help = "JSON that is laid over the settings of FROM"},
    {name = "change", type = "string", flag = "--change", value = "FILE",
      help = "a script that returns a list of transforms, or a function, which is called with each document"},
    {name = "keep_old_in_step", type = "boolean", flag = "--keep-old-in-step",
      help = "FROM follows TO until `mortise jobs finish ID`, or goes back and loses nothing"},
    {name = "change_back", type = "string", flag = "--change-back", value = "FILE",
      help = "with both: as --change, what FROM is to have of a document of TO"},
    {name = "given", type = "boolean", flag = "--given", help = "TO was made by hand, and is empty"},
    {name = "cutover", type = "string", flag = "--cutover", value = "auto|manual", values = {"auto",
      "manual"},
      default_text = "auto", help = "manual: when `mortise jobs cutover ID` says so"},
    {name = "to_store", type = "string", flag = "--to-store", value = "URL|PROFILE",
      help = "where TO is, if elsewhere; with credentials: a profile of the configuration file"},
    {name = "max_pause", type = "duration", flag = "--max-pause", value = "TIME", default_text = "10s",
      help = "how long writes may be refused"},
    {name = "verify", type = "string", flag = "--verify", value = "counts|sample|full",
      values = {"counts", "sample", "full"}, default = "counts",
      help = "what is compared before the alias is moved: counts, contents of a sample, or all contents"},
    {name = "max_rejected", type = "integer", flag = "--max-rejected", value = "N", default_text = "0",
      help = "with more documents set aside it does not cut over"},
    {name = "lock", type = "string", flag = "--lock", value = "PATH,...",
      help = "paths that are locked while writes are blocked, so that those who lock them wait"},
    {name = "id", type = "string", flag = "--id", value = "ID", default_text = "FROM-to-TO",
      help = "of the job"},
    {name = "rate", type = "count", flag = "--rate", value = "N", help = "documents a second, at most"},
    {name = "resume", type = "boolean", flag = "--resume", help = "go on with one that was cut off"},
    {name = "dry_run", type = "boolean", flag = "--dry-run", help = "only say what it would do"},
    budgets.confine_row, job_spec.patience_row, output.json_row,
  },
  arguments = {2, 2},
  takes = {"INDEX", "INDEX"},
}

function command.works_on(arguments) return "migrate " .. table.concat(arguments, " ") end

-- ---- What it is ----------------------------------------------------------------------------------

local function read_text(file, flag)
  local handle, why = io.open(file, "rb")
  if not handle then errors.bad("%s: %s", flag, why) end
  local text
  text, why = handle:read "a"
  handle:close()
  return text or errors.bad("%s: %s: %s", flag, file, why)
end

local function read_json(file, flag)
  if not file then return nil end
  local ok, found = pcall(core.json_decode, read_text(file, flag))
  if not ok or type(found) ~= "table" then errors.bad("%s: %s is no JSON object", flag, file) end
  return found
end

local function read_change(o, name, flag)
  local file = o[name]
  if not file then return nil end
  if o.sandbox_change then
    return sandbox.change(read_text(file, flag), {name = file})
  end
  local chunk, why = loadfile(file)
  if not chunk then errors.bad("%s: %s", flag, why) end
  local change = chunk()
  if type(change) ~= "function" and type(change) ~= "table" then
    errors.bad("%s: %s returns neither a list of transforms nor a function", flag, file)
  end
  return change
end

-- A list is kept in the job's document.
local function to_function(change) return type(change) == "function" and change or nil end

local function read_paths(text)
  if not text then return nil end
  local list = {}
  for path in text:gmatch "[^,]+" do list[#list + 1] = path end
  return list
end

local function seconds(ms) return ms and ms / 1000 end

-- The one that --resume means; nil: there is none.
local function find(ctx, client)
  local o = ctx.options
  local id = o.id or ("%s-to-%s"):format(table.unpack(ctx.arguments))
  local record = o.resume and records.get(client, id)
  if record and not record.spec.unborn then
    return client:get_job(id, {
      change = to_function(read_change(o, "change", "--change")),
      change_back = to_function(read_change(o, "change_back", "--change-back")),
      max_rejected = o.max_rejected, on_progress = progress.watcher(id),
    })
  end
end

local function make(ctx, client)
  local o, found = ctx.options, nil
  found = client:migrate {
    id = o.id, from = ctx.arguments[1], to = ctx.arguments[2], alias = o.alias, given = o.given,
    to_store = o.to_store, mappings = read_json(o.mappings, "--mappings"),
    settings = read_json(o.settings, "--settings"),
    keep_old_in_step = o.keep_old_in_step, change = read_change(o, "change", "--change"),
    change_back = read_change(o, "change_back", "--change-back"), lock = read_paths(o.lock),
    cutover = o.cutover, verify = o.verify, max_pause = seconds(o.max_pause), max_rejected = o.max_rejected,
    rate = o.rate,
    wait_for_writes = seconds(o.wait_for_writes),
    on_progress = progress.watcher(function() return found.id end),
  }
  return found
end

function command.run(ctx)
  local client <close> = mortise.connect {}
  local function new() return make(ctx, client) end
  local found = find(ctx, client)
  if ctx.options.dry_run then return migration.show_plan(ctx, found or new()) end
  migration.resume_or_run(ctx, found, new)
end

return command
