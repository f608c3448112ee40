-- mortise put INDEX ID [FILE|-]
local confirm = require "mortise.cli.confirm"
local core = require "mortise.core"
local document_lock = require "mortise.cli.document_lock"
local errors = require "mortise.errors"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local pace = require "mortise.cli.pace"
local shown_documents = require "mortise.cli.shown_documents"

local command = {
  summary = "write one document, under its lock",
  usage = "INDEX ID [FILE|-] [--create | --merge]",
  help = [[
Writes one document from JSON, of FILE or of standard input, under the lock of that document and of its path:
whoever has a tree lock there is waited for (--wait). At a terminal it asks before it replaces a document.
--create writes only a new one, --merge changes only the fields that are given (null removes one), --if only
what is still of that version, as `mortise get --json` shows it.]],
  options = {
    {name = "create", type = "boolean", flag = "--create", help = "only if there is no such document"},
    {name = "merge", type = "boolean", flag = "--merge", help = "change these fields of it, keep the others"},
    {name = "version", type = "string", flag = "--if", value = "SEQ_NO:TERM",
      help = "only this version of it"},
    document_lock.field_row, shown_documents.routing_row, pace.orphan_row,
    confirm.row,
    output.json_row,
  },
  arguments = {2, 3},
  takes = {"INDEX", "", "FILE"},
}

-- ---- What is given -------------------------------------------------------------------------------

local function read_all(name)
  if name ~= "-" then
    local handle, why = io.open(name, "rb")
    if not handle then errors.bad("%s", why) end
    local text = handle:read "a"
    handle:close()
    return text or errors.bad("%s cannot be read", name)
  end
  local lines = {}
  for line in require("mortise.terminal").line do lines[#lines + 1] = line end
  return table.concat(lines, "\n")
end

local function read_document(name)
  local ok, view = pcall(mortise.view, read_all(name))
  if ok then return view end
  local why = core.is_error(view) and view.message or core.tostring(view)
  errors.bad("%s: %s", name == "-" and "the input" or name, why)
end

-- "12:1" -> 12, 1; nil -> nil
local function read_version(text)
  if not text then return nil end
  local seq_no, term = text:match "^(%d+):(%d+)$"
  if not seq_no then errors.bad("--if %s: SEQ_NO:TERM, as `mortise get --json` shows them", text) end
  return math.tointeger(core.number(seq_no)), math.tointeger(core.number(term))
end

local function check(ctx)
  local o, n = ctx.options, 0
  for _, name in ipairs {"create", "merge", "version"} do n = n + (o[name] and 1 or 0) end
  if n > 1 then errors.bad "--create, --merge and --if exclude each other" end
  read_version(o.version)
end

-- ---- Under the locks -----------------------------------------------------------------------------

local function merge(view, given)
  for name, value in pairs(given) do view[name] = value ~= mortise.null and value or nil end
end

-- `before`: the document as it is under the lock, or nil.
local function write(client, index, id, given, o, before)
  local common = {routing = o.routing, refresh = true}
  if o.merge then
    return client:update(index, id, function(view) merge(view, given) end, common)
  end
  if o.create or not before and not o.version then return client:create(index, id, given, common) end
  common.if_seq_no, common.if_term = read_version(o.version)
  if before and not o.version then common.if_seq_no, common.if_term = before._seq_no, before._term end
  return client:index(index, id, given, common)
end

local function agreed(ctx, before)
  if not before or ctx.options.merge or ctx.options.version or ctx.options.yes then return true end
  if not confirm.can_ask(ctx) then return true end
  output.line(io.stderr, ("%s/%s is there:"):format(before._index, before._id))
  output.line(io.stderr, output.shortened(before:_source(), 500))
  return confirm.ask "Replace it?"
end

function command.run(ctx)
  check(ctx)
  local index, id, o = ctx.arguments[1], ctx.arguments[2], ctx.options
  local given = read_document(ctx.arguments[3] or "-")
  local client <close> = mortise.connect {}
  local before, result, no
  document_lock(client, index, id, o, given, function(current)
    before = current
    no = not agreed(ctx, before)
    if not no then result = write(client, index, id, given, o, before) end
  end)
  if no then
    output.line(io.stderr, "not replaced: nothing was done")
    return 1
  end
  local done = result.result == "noop" and "is as it was" or not before and "created"
    or o.merge and "changed" or "replaced"
  if o.json then
    return output.json {index = index, id = id, result = done, seq_no = result.seq_no, term = result.term}
  end
  output.line(io.stdout, ("%s/%s %s (version %d:%d)"):format(index, id, done, result.seq_no, result.term))
end

return command
