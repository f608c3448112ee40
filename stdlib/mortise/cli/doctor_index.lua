-- mortise doctor INDEX: can documents of this index be changed under locks, by this user?
local core = require "mortise.core"
local errors = require "mortise.errors"
local preflight = require "mortise.preflight"

local doctor_index = {}

doctor_index.row = {
  name = "field", type = "string", flag = "--field", value = "NAME,...", default_text = "path",
  help = "the fields of INDEX that hold paths",
}

local function fields_of(given)
  local list = {}
  for name in (given or "path"):gmatch "[^,]+" do list[#list + 1] = name end
  return list
end

-- "`path`", or "`path` (searched as path.keyword)"
local function shown(description, field)
  local name = core.exact_field(description.json, field)
  return name == field and ("`%s`"):format(field) or ("`%s` (searched as %s)"):format(field, name)
end

function doctor_index.check_options(ctx)
  if ctx.options.field and not ctx.arguments[1] then
    errors.bad "doctor: --field belongs to an INDEX: mortise doctor INDEX --field NAME"
  end
end

-- Calls add(check, state, message, advice) for each finding; `try(check, fn)` as the doctor's.
function doctor_index.check(client, ctx, add, try)
  local index = ctx.arguments[1]
  if not index then return end
  local check, fields = "index " .. index, fields_of(ctx.options.field)
  local found, description = preflight.findings(client, index, fields)
  for _, each in ipairs(found) do add(check, "wrong", each.message, each.advice) end
  if #found > 0 then return end
  local n = try(check, function()
    client:refresh(index)
    return client:count(index)
  end)
  if not n then return end
  local names = {}
  for i, field in ipairs(fields) do names[i] = shown(description, field) end
  add(check, "fine", ("%d documents, whose paths are in %s; this user may change them"):format(n,
    table.concat(names, ", ")))
end

return doctor_index
