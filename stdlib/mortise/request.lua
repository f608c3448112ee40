-- What a lock is asked for, acquire{tree= or document= or named= or global=, mode=, wait=}, as the core takes
-- it.
local argument = require "mortise.argument"
local check_path = require "mortise.path"
local errors = require "mortise.errors"
local lock = require "mortise.lock"
local options = require "mortise.options"

local request = {}

request.common_rows = {
  {name = "mode", type = "string", default = "exclusive", values = lock.modes,
    help = "shared: others may share it; SIX: read all, to change some under locks below"},
  {name = "wait", type = "duration", help = "how long to wait; 0: try once"},
}

request.rows = options.join({
  {name = "tree", type = "any", help = "a path or a list of them, each with all below it"},
  {name = "document", type = "string", help = "an index; with `ids`"},
  {name = "ids", type = "table", help = "ids of documents"},
  {name = "named", type = "table", help = "{category, name}"},
  {name = "global", type = "boolean", help = "true: everything"},
}, request.common_rows)

-- Each returns {kind=, index=, paths=, ids=}; `call` names the caller in errors.
function request.tree(call, tree)
  if type(tree) == "string" then tree = {tree} end
  local paths = {}
  for i, path in ipairs(argument.names(call, "path", tree)) do paths[i] = check_path(path) end
  return {kind = "tree", paths = paths}
end

function request.document(call, index, ids)
  argument.name(call, "index", index)
  argument.names(call, "ids", ids)
  return {kind = "document", index = index, paths = ids, ids = ids}
end

function request.named(call, category, name)
  argument.name(call, "category", category)
  argument.name(call, "name", name)
  return {kind = "named", index = category, paths = {name}}
end

-- Of checked options.
function request.of(call, o)
  local given = {}
  for _, kind in ipairs {"tree", "document", "named", "global"} do
    if o[kind] then given[#given + 1] = kind end
  end
  if #given ~= 1 then
    errors.bad("%s: exactly one of `tree`, `document`, `named`, `global`, not %d of them", call, #given)
  end
  if o.ids and not o.document then errors.bad("%s: `ids` belongs to `document`", call) end
  if o.tree then return request.tree(call, o.tree) end
  if o.document then return request.document(call, o.document, o.ids) end
  if o.named then return request.named(call, o.named[1], o.named[2]) end
  return {kind = "global", paths = {}}
end

return request
