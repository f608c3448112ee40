-- A query in words, for the command line: each is a condition, and all must hold.
--   FIELD:VALUE        the field has this value; of a text that is analysed, all of its words
--   FIELD:VALUE*       it begins so
--   FIELD:*            it is there
--   FIELD>=VALUE       also >, <=, <
--   _id:ID             the document's id
--   !...               what follows does not hold
-- One word that begins with { is Query DSL.
local core = require "mortise.core"
local errors = require "mortise.errors"

local query_words = {}

query_words.help = [[
QUERY is words of which all must hold: FIELD:VALUE, FIELD:BEGINNING*, FIELD:* (it is there), FIELD>=VALUE
(also >, <=, <), _id:ID, each with ! in front for the contrary; quote them for the shell. Or it is one word of
Query DSL: '{"term": {"state": "open"}}'. Without it, all documents.]]

local ranges = {[">="] = "gte", [">"] = "gt", ["<="] = "lte", ["<"] = "lt"}

local function by_value(client, field, value)
  if field == "_id" then return {ids = {values = {value}}} end
  if value == "*" then return {exists = {field = field}} end
  if value:sub(-1) == "*" then return {prefix = {[field] = value:sub(1, -2)}} end
  -- The embedded store analyses nothing, and a server's `match` of a keyword or a number is `term`.
  if client:_is_embedded() then return {term = {[field] = value}} end
  return {match = {[field] = {query = value, operator = "and"}}}
end

local function condition(client, word)
  local negated, rest = word:match "^(!?)(.*)$"
  local field, how, value = rest:match "^([^:<>=]+)([:<>]=?)(.*)$"
  if how == ":=" then how, value = ":", "=" .. value end
  if not field or value == "" then
    errors.bad("%s: a condition is FIELD:VALUE, FIELD:BEGINNING*, FIELD:*, FIELD>=VALUE, or Query DSL", word)
  end
  local found = how == ":" and by_value(client, field, value) or {range = {[field] = {[ranges[how]] = value}}}
  return found, negated ~= ""
end

local function parse_dsl(word)
  local ok, query = pcall(core.json_decode, word)
  if not ok then errors.bad("the query is no JSON: %s", core.is_error(query) and query.message or query) end
  return query
end

-- The query of these words; nil: all documents.
function query_words.parse(client, words)
  if #words == 0 then return nil end
  if words[1]:find "^[ \t\n]*{" then
    if #words > 1 then errors.bad("Query DSL is one word: quote it for the shell") end
    return parse_dsl(words[1])
  end
  local filter, must_not = core.array {}, core.array {}
  for _, word in ipairs(words) do
    local found, negated = condition(client, word)
    table.insert(negated and must_not or filter, found)
  end
  return {bool = {filter = filter, must_not = must_not}}
end

return query_words
