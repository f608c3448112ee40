-- Documents as `mortise get` and `mortise search` show them.
local core = require "mortise.core"
local errors = require "mortise.errors"
local output = require "mortise.cli.output"
local printable = require "mortise.printable"

local shown_documents = {}

shown_documents.fields_row = {name = "fields", type = "string", flag = "--fields", value = "A,B",
  help = "only these, with dots into objects"}
shown_documents.routing_row = {name = "routing", type = "string", flag = "--routing", value = "TEXT",
  help = "the document's routing"}

-- "a,b.c" -> {"a", "b.c"}; nil: all
function shown_documents.fields(text)
  if not text then return nil end
  local list = {}
  for name in text:gmatch "[^,]+" do list[#list + 1] = name end
  if #list == 0 then errors.bad "--fields: names with commas between them" end
  return list
end

-- The value at a field's name, whole if it has a dot itself, or through objects; nil where there is none.
local function value_at(view, name)
  local ok, value = pcall(function() return view[name] end)
  return ok and value or nil
end

-- An object with these fields of a view, by their names.
function shown_documents.picked(view, fields)
  local object = core.object {}
  for _, name in ipairs(fields) do object[name] = value_at(view, name) end
  return object
end

-- For programs.
function shown_documents.object(view, fields)
  return core.object {
    _index = view._index, _id = view._id, _routing = view._routing, seq_no = view._seq_no, term = view._term,
    _source = fields and shown_documents.picked(view, fields) or view,
  }
end

-- A text of several lines, safe for a terminal; elsewhere as it is, for whoever reads it as JSON.
function shown_documents.write(text)
  io.stdout:write(output.is_terminal(1) and printable(text, true) or text, "\n")
end

local cell_most = 60

local function cell(value)
  if value == nil then return "" end
  local text = type(value) == "string" and value or core.json(value)
  return output.shortened(text, cell_most)
end

-- The names of the fields of the first documents, the most frequent first, as many as fit a table.
local columns_most, looked_at_most = 6, 100

local function guessed_fields(views)
  local counts, names = {}, {}
  for i = 1, math.min(#views, looked_at_most) do
    for name in pairs(views[i]) do
      if not counts[name] then names[#names + 1] = name end
      counts[name] = (counts[name] or 0) + 1
    end
  end
  local at = {}
  for i, name in ipairs(names) do at[name] = i end
  table.sort(names, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return at[a] < at[b]
  end)
  for i = #names, columns_most + 1, -1 do names[i] = nil end
  return names
end

-- Prints them as a table.
function shown_documents.print_table(views, fields)
  fields = fields or guessed_fields(views)
  local rows = {{"_ID", table.unpack(fields)}}
  for i, view in ipairs(views) do
    local row = {view._id}
    for k, name in ipairs(fields) do row[k + 1] = cell(value_at(view, name)) end
    rows[i + 1] = row
  end
  output.columns(rows, nil)
end

return shown_documents
