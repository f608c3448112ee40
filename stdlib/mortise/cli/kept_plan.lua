-- Plans that are kept in files: --dry-run --plan FILE writes one, --from-plan FILE runs exactly that, or
-- nothing.
--
-- Before anything is begun it is compared what is to be done: store, namespace, the job, and the script with
-- its arguments. Under the job's lock, before anything is written, it is planned anew, and compared what that
-- would do: how many documents, and their `identity`, which is the same only if each is as it was and would
-- become the same.
local core = require "mortise.core"
local errors = require "mortise.errors"
local holds = require "mortise.cli.holds"
local job = require "mortise.job"

local kept_plan = {}

kept_plan.rows = {
  {name = "plan", type = "string", flag = "--plan", value = "FILE",
    help = "with --dry-run: keep the plan in FILE"},
  {name = "from_plan", type = "string", flag = "--from-plan", value = "FILE",
    help = "do exactly what the plan in FILE says, or nothing"},
}

-- Raises an error where the options do not go together.
function kept_plan.check(o)
  if o.plan and not o.dry_run then errors.bad "--plan FILE belongs to --dry-run" end
  if o.from_plan and (o.dry_run or o.resume or o.rollback) then
    errors.bad "--from-plan FILE runs a job: without --dry-run, --resume or --rollback"
  end
end

-- ---- What is to be done ----------------------------------------------------------------------------

local function slurp(file)
  local handle, why = io.open(file, "rb")
  if not handle then errors.bad("cannot read %s", why) end
  local text = handle:read "a"
  handle:close()
  return text
end

-- `arguments`: the words of `job run`, the script first; nil: there is no script. Of one that came from
-- standard input only the arguments are known.
local function script_of(arguments)
  if not arguments then return nil end
  local file = arguments[1]
  return core.object {
    sha256 = file ~= "-" and core.sha256(slurp(file)) or nil,
    arguments = core.array {table.unpack(arguments, 2)},
  }
end

local function subject_of(client, found, arguments)
  return {
    store = client:url(), namespace = client:namespace(), job = job.is_lasting(found) and found.id or nil,
    spec = job.spec(found), script = script_of(arguments),
  }
end

-- A text that two values from JSON share only if they are the same.
local function canonical(value)
  if type(value) ~= "table" then return type(value) .. ":" .. core.tostring(value) end
  local parts = {}
  for name, each in pairs(value) do parts[#parts + 1] = canonical(name) .. "=" .. canonical(each) end
  table.sort(parts, core.before)
  return "{" .. table.concat(parts, ",") .. "}"
end

-- The first of these members that is not the same in both; nil: all are.
local function difference(a, b, names)
  for _, name in ipairs(names) do
    if canonical(a[name]) ~= canonical(b[name]) then return name end
  end
end

local subjects = {"store", "namespace", "job", "spec", "script"}

-- What of two subjects is not the same, as "spec.query"; nil: nothing.
local function difference_of(a, b)
  local name = difference(a, b, subjects)
  local one, other = a[name], b[name]
  if type(one) ~= "table" or type(other) ~= "table" then return name end
  local names = {}
  for _, of in ipairs {one, other} do
    for each in pairs(of) do names[#names + 1] = each end
  end
  table.sort(names, core.before)
  return name .. "." .. difference(one, other, names)
end

-- ---- What it would do ------------------------------------------------------------------------------

local numbers = {"matched", "changed", "deleted", "rejected", "beside", "identity"}

local function effect_of(result)
  local effect = core.object {}
  for _, name in ipairs(numbers) do effect[name] = result[name] or 0 end
  return effect
end

local function refuse(file, format, ...)
  errors.raise("conflict", "the plan in %s is no longer what would be done: %s; nothing was changed", file,
    format:format(...))
end

local function compare_effects(file, planned, now)
  for _, name in ipairs(numbers) do
    if name == "identity" and planned[name] ~= now[name] then
      refuse(file, "as many documents, but others, or other changes")
    elseif planned[name] ~= now[name] then
      refuse(file, "%s %s documents, planned were %s", name, core.tostring(now[name]),
        core.tostring(planned[name]))
    end
  end
end

-- ---- Files -----------------------------------------------------------------------------------------

local FORMAT = 1

-- `result`: of job.foretell, with its identity.
function kept_plan.write(file, client, found, result, arguments)
  local plan = core.object(subject_of(client, found, arguments))
  plan.mortise_plan, plan.made = FORMAT, holds.iso(core.wall_ms())
  plan.effect = effect_of(result)
  for _, name in ipairs {"bytes", "locks", "samples"} do plan[name] = result[name] end
  local handle, why = io.open(file, "wb")
  if not handle then errors.bad("cannot write %s", why) end
  local ok
  ok, why = handle:write(core.json(plan), "\n")
  if ok then ok, why = handle:close() end
  if not ok then errors.bad("cannot write %s: %s", file, why) end
end

local function read(file)
  local ok, plan = pcall(core.json_decode, slurp(file))
  if not (ok and type(plan) == "table" and type(plan.effect) == "table") then
    errors.bad("%s is no plan that --plan has kept", file)
  end
  if plan.mortise_plan ~= FORMAT then errors.bad("%s: a plan of another version of mortise", file) end
  return plan
end

-- Makes the job run only if that is what the plan says. Raises conflict where it is to do something else.
function kept_plan.expect(file, client, found, arguments)
  local plan = read(file)
  local planned = {}
  for _, name in ipairs(subjects) do planned[name] = plan[name] end
  local now = core.json_decode(core.json(core.object(subject_of(client, found, arguments))))
  local other = difference_of(planned, now)
  if other then refuse(file, "%s is another", other) end
  job.before(found, function(counts)
    if counts.matched == plan.effect.matched then
      counts = job.foretell(found, {identifies = true, quiet = true})
    end
    compare_effects(file, plan.effect, effect_of(counts))
  end)
end

return kept_plan
