-- mortise search INDEX [QUERY...]
local core = require "mortise.core"
local errors = require "mortise.errors"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local query_words = require "mortise.cli.query_words"
local shown_documents = require "mortise.cli.shown_documents"

local command = {
  summary = "print documents that match",
  usage = "INDEX [QUERY...] [--fields A,B]",
  help = [[
Prints what matches as a table, 20 documents unless --limit says otherwise, with the number of all that match;
--all prints them all. With --json each is one line with its _id, version (seq_no, term) and _source, as they
come. What was written in the last moment is found: the index is refreshed first, where this user may.

]] .. query_words.help,
  options = {
    shown_documents.fields_row,
    {name = "sort", type = "string", flag = "--sort", value = "FIELD[:desc]",
      help = "by this field, or from its end; 10,000 documents at most"},
    {name = "limit", type = "count", flag = "--limit", value = "N", default_text = "20",
      help = "at most so many"},
    {name = "all", type = "boolean", flag = "--all", help = "every document that matches"},
    output.json_row,
  },
  arguments = {1, math.huge},
  takes = {"INDEX", ""},
}

local limit_most, sorted_most = 20, 10000

-- Refreshes where this user may.
local function refresh(client, index)
  local ok, why = pcall(client.refresh, client, index)
  if not ok and errors.code(why) ~= "auth" then error(why, 0) end
end

-- Calls see(view) for at most `most` documents, in the order asked for.
local function each_sorted(client, index, query, o, most, see)
  local field, order = o.sort:match "^(.+):([a-z]+)$"
  if field and order ~= "asc" and order ~= "desc" then
    errors.bad("--sort %s: FIELD:asc or FIELD:desc", o.sort)
  end
  local answer = client:search(index, {
    query = query, size = most, sort = {{[field or o.sort] = order or "asc"}}, _source = false,
  })
  local ids = {}
  for i, hit in ipairs(answer.hits.hits) do ids[i] = hit._id end
  for first = 1, #ids, 500 do
    local part = table.move(ids, first, math.min(first + 499, #ids), 1, {})
    for _, view in ipairs(client:mget(index, part)) do
      if view then see(view) end
    end
  end
end

local function each_found(client, index, query, most, see)
  local n = 0
  for view in client:scan(index, {query = query, page = most < 1000 and most or nil, slices = 1}) do
    see(view)
    n = n + 1
    if n >= most then return end
  end
end

local function most_of(o)
  if o.all and o.limit then errors.bad "--all and --limit contradict each other" end
  local most = o.all and math.huge or o.limit or limit_most
  if o.sort and most > sorted_most then
    if o.limit then errors.bad("--sort: --limit is at most %d then", sorted_most) end
    return sorted_most
  end
  return most
end

function command.run(ctx)
  local index, o = ctx.arguments[1], ctx.options
  local most, fields = most_of(o), shown_documents.fields(o.fields)
  local client <close> = mortise.connect {}
  local query = query_words.parse(client, table.move(ctx.arguments, 2, #ctx.arguments, 1, {}))
  refresh(client, index)
  local views = {}
  local function see(view)
    if not o.json then
      views[#views + 1] = view
    else
      output.begin_json()
      io.stdout:write(core.json(shown_documents.object(view, fields)), "\n")
    end
  end
  if o.sort then
    each_sorted(client, index, query, o, most, see)
  else
    each_found(client, index, query, most, see)
  end
  if o.json then return 0 end
  local all = client:count(index, query)
  if #views == 0 then return output.line(io.stdout, "no document of ", index, " matches") end
  shown_documents.print_table(views, fields)
  if #views < all then
    output.line(io.stderr, ("mortise: note: %d of %d are shown (--limit, --all)"):format(#views, all))
  end
end

return command
