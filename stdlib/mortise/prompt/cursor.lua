-- Where the cursor stands in a statement that is still being typed: in which calls, tables and strings.
local cursor = {}

-- The end of a comment or string that begins at `at`, and where its text begins; nil: nothing begins there.
-- An end of 0: it is still open.
local function quoted(text, at)
  local comment = text:match("^%-%-()", at)
  local first = comment or at
  local level, long = text:match("^%[(=*)%[()", first)
  if level then
    local _, last = text:find("]" .. level .. "]", long, true)
    return last or 0, long, comment ~= nil, true
  end
  if comment then return (text:find("\n", first, true) or 0), comment, true end
  local quote = text:match("^[\"']", at)
  if not quote then return nil end
  local from = at + 1
  while true do
    local found = text:find("[\\" .. quote .. "\n]", from)
    if not found then return 0, at + 1 end
    if text:sub(found, found) ~= "\\" then return found, at + 1 end
    from = found + 2
  end
end

local closes = {[")"] = true, ["}"] = true, ["]"] = true}

-- -> {open = the brackets that are open, {kind=, callee=, argument=, key=} each, innermost last;
--     string = the text of the string that is open, or nil; callee = the name right before that string;
--     comment = true in one; before = the token before the last word: "name", "string" or a character}
-- callee: "a.b:c", what stands before the bracket; of a table that is an argument, before the call's.
-- argument: which argument is being typed, from 1. key: in a table, the field whose value is being typed.
function cursor.read(text)
  local open, at, last, before = {}, 1, nil, nil -- last, before: tokens {kind=, text=, first=, final=}
  local function token(kind, first, final)
    before, last = last, {kind = kind, text = text:sub(first, final), first = first, final = final}
    at = final + 1
  end
  local function callee_of_last() return last and last.kind == "name" and last.text or nil end
  local function opened(kind)
    local top, callee = open[#open], callee_of_last()
    local is_argument = kind == "{" and last and (last.kind == "(" or last.kind == ",")
    if not callee and is_argument and top and top.kind == "(" then callee = top.callee end
    open[#open + 1] = {kind = kind, callee = callee, argument = 1}
  end
  while at <= #text do
    local top, c = open[#open], text:sub(at, at)
    local final, from, is_comment, is_long = quoted(text, at)
    if final == 0 then
      if is_comment then return {open = open, comment = true} end
      return {open = open, string = text:sub(from), callee = callee_of_last(), long = is_long}
    elseif final then
      if is_comment then at = final + 1 else token("string", at, final) end
    elseif c:find "[ \t\r\n]" then
      at = at + 1
    elseif c:find "[A-Za-z_]" then
      local _, final_of_name = text:find("^[0-9A-Za-z_.:]*", at)
      token("name", at, final_of_name)
    else
      if c == "(" or c == "{" or c == "[" then
        opened(c)
      elseif closes[c] then
        open[#open] = nil
      elseif top and (c == "," or c == ";") then
        top.argument, top.key = top.argument + 1, nil
      elseif top and c == "=" then
        top.key = callee_of_last()
      end
      token(c, at, at)
    end
  end
  local in_word = last and last.kind == "name" and last.final == #text
  local previous = last
  if in_word then previous = before end
  return {open = open, before = previous and previous.kind}
end

return cursor
