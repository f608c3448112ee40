-- mortise edit INDEX ID
local confirm = require "mortise.cli.confirm"
local core = require "mortise.core"
local document_lock = require "mortise.cli.document_lock"
local editor = require "mortise.cli.editor"
local errors = require "mortise.errors"
local json_text = require "mortise.cli.json_text"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local pace = require "mortise.cli.pace"
local shown_documents = require "mortise.cli.shown_documents"

local command = {
  summary = "edit one document, under its lock",
  usage = "INDEX ID [--field NAME] [--routing TEXT]",
  help = [[
Opens a document in $VISUAL, $EDITOR or vi, a member a line, and writes it back if it was changed, and if
nobody else has changed it meanwhile. It holds the lock of the document and an intention on its path all the
time, so that a rename of a tree above it waits until the editor ends, or fails in its own time. Text that is
no JSON may be edited again; what could not be written stays in its file, whose name is printed, and the exit
status is not 0.]],
  options = {document_lock.field_row, shown_documents.routing_row, pace.orphan_row},
  arguments = {2, 2},
  takes = {"INDEX", ""},
}

-- Until it is a document or the person gives up. -> a view, or nil and why not
local function edit(file)
  while true do
    local text = editor.run(file)
    local ok, view = pcall(mortise.view, text)
    if ok then return view end
    local why = core.is_error(view) and view.message or core.tostring(view)
    output.line(io.stderr, "mortise: ", why)
    if not (confirm.can_ask {options = {}} and confirm.ask "Edit it again?") then return nil, why end
  end
end

-- -> what became of it, in words
local function change(client, index, id, o, document, file)
  local view, why = edit(file)
  if not view then errors.bad("%s/%s was not written: %s", index, id, why) end
  local text = json_text.compact(view:_source())
  if text == json_text.compact(document:_source()) then return "is as it was" end
  client:index(index, id, text, {
    routing = o.routing, refresh = true, if_seq_no = document._seq_no, if_term = document._term,
    pipeline = false,
  })
  return "changed"
end

function command.run(ctx)
  local index, id, o = ctx.arguments[1], ctx.arguments[2], ctx.options
  local client <close> = mortise.connect {}
  local said, began, file
  local ok, why = pcall(document_lock, client, index, id, o, nil, function(document)
    if not document then errors.raise("not_found", "%s/%s: there is no such document", index, id) end
    began = json_text.pretty(document:_source()) .. "\n"
    file = editor.new_file(began, ".json")
    said = change(client, index, id, o, document, file)
  end)
  if not ok then
    if file and editor.keep_if_changed(file, began) then
      output.line(io.stderr, "mortise: what you have edited is in ", file)
    end
    error(why, 0)
  end
  os.remove(file)
  output.line(io.stdout, ("%s/%s %s"):format(index, id, said))
end

return command
