-- What a sandbox may do with the store: rules like "read fs", "write fs under /a in path", "lock /a". In
-- each, `*` stands for any characters of a name, and within a path for those between two slashes.
local budgets = require "mortise.sandbox.budgets"
local check_path = require "mortise.path"
local core = require "mortise.core"
local errors = require "mortise.errors"

local policy = {}

local Policy = {}
Policy.__index = Policy

local default_field = "path"

-- ---- Reading rules -------------------------------------------------------------------------------

local function to_pattern(text, any)
  local function literal(part) return (part:gsub("[^0-9A-Za-z\128-\255]", "%%%0")) end
  return (text:gsub("[^*]+", literal):gsub("%*", any))
end

local function name_pattern(name) return "^" .. to_pattern(name, ".*") .. "$" end

-- "/a/*" -> a function: is the path that, or below it?
local function path_matcher(path)
  local checked = check_path(path, true)
  if checked == "/" then return function(given) return given:byte() == 47 end end
  local pattern = "^" .. to_pattern(checked, "[^/]*")
  return function(given) return given:find(pattern .. "$") ~= nil or given:find(pattern .. "/") ~= nil end
end

local function read_rule(self, text)
  local index = text:match "^read ([^ ]+)$"
  if index then return table.insert(self.reads, name_pattern(index)) end
  local path, field
  index, path = text:match "^write ([^ ]+) under (/.*)$"
  if index then
    local before, named = path:match "^(.*) in ([^ ]+)$"
    if before then path, field = before, named end
    return table.insert(self.writes, {
      index = name_pattern(index), path = path, field = field or default_field, covers = path_matcher(path),
    })
  end
  index = text:match "^write ([^ ]+)$"
  if index then return table.insert(self.writes, {index = name_pattern(index)}) end
  index = text:match "^lock documents ([^ ]+)$"
  if index then return table.insert(self.documents, name_pattern(index)) end
  local category = text:match "^lock name ([^ ]+)$"
  if category then return table.insert(self.names, name_pattern(category)) end
  path = text:match "^lock (/.*)$"
  if path then return table.insert(self.paths, path_matcher(path)) end
  errors.bad("allow: %q is none of: %s", text, table.concat(budgets.forms, ", "))
end

-- `rules`: a list of texts, or nil for none.
function policy.of(rules)
  local self = setmetatable({reads = {}, writes = {}, paths = {}, documents = {}, names = {}}, Policy)
  for _, text in ipairs(rules or {}) do
    if type(text) ~= "string" then errors.bad("allow: a rule is a text, not %s", core.tostring(text)) end
    read_rule(self, (text:gsub("^ +", ""):gsub(" +$", ""):gsub(" +", " ")))
  end
  return self
end

-- ---- Asking --------------------------------------------------------------------------------------

local function refuse(what, rule)
  errors.raise("auth", "the sandbox may not %s: --allow %q would let it", what, rule)
end

local function is_named(patterns, name)
  for _, pattern in ipairs(patterns) do
    if name:find(pattern) then return true end
  end
  return false
end

-- One index or alias, which no part of a request could be taken for. What mortise keeps is never meant.
local function check_index(index, own_table)
  if type(index) ~= "string" or index == "" then
    errors.bad("an index is a name, not %s", core.tostring(index))
  end
  local odd = index:find "[\0-\32\127,*?<>|/\\\"#:%%]" or index:find "^[-_+.]"
  if odd or #index > 255 or not utf8.len(index) then
    errors.bad("in a sandbox an index is one plain name, not %q", index)
  end
  if index:sub(1, #own_table) == own_table then
    errors.raise("auth", "the sandbox may not use %s, in which mortise keeps its locks and jobs", index)
  end
end

function Policy:may_read(index, own_table)
  check_index(index, own_table)
  if not is_named(self.reads, index) then refuse("read " .. index, "read " .. index) end
end

-- -> nil: anything in it; or the rules {path=, field=, covers=} of which each document must meet one
function Policy:may_write(index, own_table)
  check_index(index, own_table)
  local rules = {}
  for _, rule in ipairs(self.writes) do
    if index:find(rule.index) then
      if not rule.covers then return nil end
      rules[#rules + 1] = rule
    end
  end
  if #rules == 0 then refuse("write " .. index, "write " .. index) end
  return rules
end

local function is_under(rule, values)
  for _, value in ipairs(values) do
    if not value or not rule.covers(value) then return false end
  end
  return #values > 0
end

-- Is the document, by its source as JSON text, where one of these rules allows it?
function policy.meets(rules, source)
  for _, rule in ipairs(rules) do
    if is_under(rule, core.field_values(source, rule.field)) then return true end
  end
  return false
end

-- "under /a in path, or under /b in path"
function policy.text(rules)
  local parts = {}
  for i, rule in ipairs(rules) do parts[i] = ("under %s in %s"):format(rule.path, rule.field) end
  return table.concat(parts, ", or ")
end

function Policy:may_lock_path(path)
  for _, covers in ipairs(self.paths) do
    if covers(path) then return end
  end
  refuse("lock " .. path, "lock " .. path)
end

function Policy:may_lock_documents(index, own_table)
  check_index(index, own_table)
  if not is_named(self.documents, index) then
    refuse("lock documents of " .. index, "lock documents " .. index)
  end
end

function Policy:may_lock_name(category)
  if not is_named(self.names, category) then
    refuse("lock names of " .. category, "lock name " .. category)
  end
end

return policy
