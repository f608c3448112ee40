-- What a migration's `change` makes of a document. A changer is called with its view, and returns
--   "copy", text     the source of its copy
--   "drop"           it is not copied
--   "aside", nil, why
--   "made", list     several, or one with another id or routing: {{id=, routing= or false, body= text}, ...}
local by_function = require "mortise.by_function"
local core = require "mortise.core"
local errors = require "mortise.errors"

-- ---- A list that a function returns --------------------------------------------------------------

local function text_of(source, view)
  if source == view or source == nil then return view:_source() end
  if core.is_view(source) == "document" then return source:_source() end
  if type(source) ~= "table" then
    errors.bad("`_source` is a table or the document, not %s", core.tostring(source))
  end
  return core.json(core.object(source))
end

local function routing_of(each, view)
  if each._routing == nil then return view._routing or false end
  if each._routing == false or type(each._routing) == "string" then return each._routing end
  errors.bad("`_routing` is a text, or false for none, not %s", core.tostring(each._routing))
end

local function one_of(each, view)
  if type(each) ~= "table" then errors.bad("in its list are tables {_id=, _routing=, _source=}") end
  for name in pairs(each) do
    if name ~= "_id" and name ~= "_routing" and name ~= "_source" then
      errors.bad("in its list are tables {_id=, _routing=, _source=}, and no `%s`", core.tostring(name))
    end
  end
  local id = each._id == nil and view._id or each._id
  if type(id) ~= "string" or id == "" then errors.bad("`_id` is a text, not %s", core.tostring(id)) end
  return {id = id, routing = routing_of(each, view), body = text_of(each._source, view)}
end

local function made_of(view, result)
  local list, seen = {}, {}
  for i, each in ipairs(result) do
    local one = one_of(each, view)
    local name = (one.routing or "") .. "\0" .. one.id
    if seen[name] then errors.bad("its list has two documents with the _id %s", one.id) end
    list[i], seen[name] = one, true
  end
  if #list == 0 then
    if next(result) ~= nil then errors.bad "it returns a list of tables {_id=, _routing=, _source=}" end
    return "drop"
  end
  local first = list[1]
  local is_itself = #list == 1 and first.id == view._id and first.routing == (view._routing or false)
  if is_itself then return "copy", first.body end
  return "made", list
end

-- ---- Both kinds ----------------------------------------------------------------------------------

local function outcome(fn, view, id)
  local result = by_function.call(fn, view, id)
  if by_function.is_list(result) then return made_of(view, result) end
  local how, text = by_function.meant(view, result)
  if how == "keep" then return "copy", view:_source() end
  if how == "change" then return "copy", text end
  if how == "delete" then return "drop" end
  return "aside", nil, text
end

local function by_list(list)
  local transformer = core.transformer(core.json(core.array(list)))
  return function(view)
    local text = view:_source()
    local how, made = transformer:apply(text)
    if how == "reject" then return "aside", nil, made end
    return "copy", made or text
  end
end

-- nil: documents are copied as they are.
return function(change, fn, id)
  if type(change) == "table" then return by_list(change) end
  if not fn then return nil end
  return function(view)
    local ok, how, made, why = pcall(outcome, fn, view, id)
    if ok then return how, made, why end
    if errors.code(how) == "interrupted" then error(how, 0) end
    return "aside", nil, core.tostring(how)
  end
end
