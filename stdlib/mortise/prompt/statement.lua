-- Statements as they are typed.
local statement = {}

-- Is this the parser's message about an incomplete text?
local function is_incomplete(why)
  return why:find "near '?<eof>'?$" ~= nil
end

-- A function for the text; or nil, the message, and true if more lines may complete it. An expression, also
-- after "=", returns its values.
function statement.compile(text, env)
  local expression = text:match "^[ \t\r\n\f\v]*=(.*)$" or text
  local chunk, why_not = load("return " .. expression, "=stdin", "t", env)
  if chunk then return chunk end
  local why
  chunk, why = load(text, "=stdin", "t", env)
  if chunk then return chunk end
  if expression ~= text then why = why_not end
  return nil, why, is_incomplete(why) or is_incomplete(why_not)
end

return statement
