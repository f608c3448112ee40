-- mortise migrate FROM TO
local core = require "mortise.core"
local errors = require "mortise.errors"
local job_spec = require "mortise.job_spec"
local migration = require "mortise.cli.migration"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local progress = require "mortise.cli.progress"
local records = require "mortise.records"

local command = {
  summary = "copy an index in use into a new one, move its alias",
  usage = "FROM TO --alias NAME [--dry-run]",
  help = [[
Copies the documents of the index FROM into TO, a new index with other mappings or settings, while everybody
goes on writing. When little is left it blocks the writes to FROM, copies the rest, and moves the alias NAME
to TO: for --max-pause at most; if that does not suffice, it lifts the block and tries again later. --cutover
manual follows FROM until `mortise jobs cutover ID`.

FROM then stays as it is, and takes no writes, until `mortise jobs finish ID`, after which there is no way
back, or `mortise jobs rollback ID`. It is a job: `mortise jobs resume ID` goes on with one that was cut off,
on any machine. --dry-run says what it would do, and what keeps it from that (exit status 1).]],
  options = {
    {name = "alias", type = "string", flag = "--alias", value = "NAME", help = "the clients' alias"},
    {name = "mappings", type = "string", flag = "--mappings", value = "FILE",
      help = "JSON that is laid over the mappings of FROM"},
    {name = "settings", type = "string", flag = "--settings", value = "FILE",
      help = "JSON that is laid over the settings of FROM"},
    {name = "change", type = "string", flag = "--change", value = "FILE",
      help = "a script that returns a list of transforms, or a function, which is called with each document"},
    {name = "given", type = "boolean", flag = "--given", help = "TO was made by hand, and is empty"},
    {name = "cutover", type = "string", flag = "--cutover", value = "auto|manual", values = {"auto",
      "manual"},
      default = "auto", help = "manual: when `mortise jobs cutover ID` says so"},
    {name = "max_pause", type = "duration", flag = "--max-pause", value = "TIME", default_text = "10s",
      help = "how long writes may be refused"},
    {name = "max_rejected", type = "integer", flag = "--max-rejected", value = "N", default_text = "0",
      help = "with more documents set aside it does not cut over"},
    {name = "lock", type = "string", flag = "--lock", value = "PATH,...",
      help = "paths that are locked while writes are blocked, so that those who lock them wait"},
    {name = "id", type = "string", flag = "--id", value = "ID", default_text = "FROM-to-TO",
      help = "of the job"},
    {name = "rate", type = "count", flag = "--rate", value = "N", help = "documents a second, at most"},
    {name = "resume", type = "boolean", flag = "--resume", help = "go on with one that was cut off"},
    {name = "dry_run", type = "boolean", flag = "--dry-run", help = "only say what it would do"},
    job_spec.patience_row, output.json_row,
  },
  arguments = {2, 2},
}

function command.works_on(arguments) return "migrate " .. table.concat(arguments, " ") end

-- ---- What it is ----------------------------------------------------------------------------------

local function read_json(file, flag)
  if not file then return nil end
  local handle, why = io.open(file, "rb")
  if not handle then errors.bad("%s: %s", flag, why) end
  local text = handle:read "a"
  handle:close()
  local ok, found = pcall(core.json_decode, text)
  if not ok or type(found) ~= "table" then errors.bad("%s: %s is no JSON object", flag, file) end
  return found
end

local function read_change(file)
  if not file then return nil end
  local chunk, why = loadfile(file)
  if not chunk then errors.bad("--change: %s", why) end
  local change = chunk()
  if type(change) ~= "function" and type(change) ~= "table" then
    errors.bad("--change: %s returns neither a list of transforms nor a function", file)
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

local function make(ctx, client)
  local o = ctx.options
  local id = o.id or ("%s-to-%s"):format(table.unpack(ctx.arguments))
  if o.resume and records.get(client, id) then
    return client:get_job(id, {
      change = to_function(read_change(o.change)), max_rejected = o.max_rejected,
        on_progress = progress.watcher(id),
    })
  end
  local found
  found = client:migrate {
    id = o.id, from = ctx.arguments[1], to = ctx.arguments[2], alias = o.alias, given = o.given,
    mappings = read_json(o.mappings, "--mappings"), settings = read_json(o.settings, "--settings"),
    change = read_change(o.change), lock = read_paths(o.lock), cutover = o.cutover,
    max_pause = seconds(o.max_pause), max_rejected = o.max_rejected, rate = o.rate,
    wait_for_writes = seconds(o.wait_for_writes),
    on_progress = progress.watcher(function() return found.id end),
  }
  return found
end

function command.run(ctx)
  local client <close> = mortise.connect {}
  local found = make(ctx, client)
  if ctx.options.dry_run then return migration.show_plan(ctx, found) end
  local verb = ctx.options.resume and found:status() and "resume" or "run"
  migration.print(ctx, found, migration.call(found, verb))
end

return command
