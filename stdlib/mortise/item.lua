-- One item of a bulk: {op =, id =, doc =, ...}, for client:bulk and lock:bulk.
local errors = require "mortise.errors"
local json = require "mortise.json"
local options = require "mortise.options"

local item_rows = {
  {name = "op", type = "string", default = "index", values = {"index", "create", "delete", "update"},
    help = "what to do"},
  {name = "index", type = "string", help = "where not the call's own"},
  {name = "id", type = "string", required = true, help = "the document's id"},
  {name = "doc", type = "any", help = "its source, but for delete; for update the fields to change"},
  {name = "routing", type = "string", help = "the document's routing"},
  {name = "if_seq_no", type = "integer", help = "only if it still has this version, with if_term"},
  {name = "if_term", type = "integer", help = "the version's primary term"},
  {name = "pipeline", type = "boolean", default = true, help = "false: past the ingest pipelines"},
}

local function body_of(o)
  if o.op == "delete" then return nil end
  if o.doc == nil then errors.bad("bulk: %s of %s without `doc`", o.op, o.id) end
  local source = json.source(o.doc, "bulk")
  return o.op == "update" and '{"doc":' .. source .. "}" or source
end

-- Converts the item for the core; raises invalid_argument.
return function(given)
  local o = options.check("bulk", item_rows, given)
  return {
    kind = o.op, index = o.index, id = o.id, routing = o.routing, body = body_of(o),
    seq_no = o.if_seq_no, term = o.if_term, skip_pipeline = not o.pipeline,
  }
end
