-- JSON text for people: its bytes stay as they are, but for the white space between them.
local json_text = {}

local opens, closes = {["{"] = true, ["["] = true}, {["}"] = true, ["]"] = true}

-- The tokens of valid JSON text: strings, marks, and what stands between them (numbers, words).
local function tokens(text)
  local at = 1
  return function()
    at = text:find("[^ \t\r\n]", at)
    if not at then return nil end
    local first, last = text:sub(at, at), at
    if first == '"' then
      repeat
        last = text:find('["\\]', last + 1)
        local is_end = text:sub(last, last) == '"'
        if not is_end then last = last + 1 end
      until is_end
    elseif not first:find "[][{},:]" then
      last = (text:find("[][{},: \t\r\n]", at) or #text + 1) - 1
    end
    local token = text:sub(at, last)
    at = last + 1
    return token
  end
end

-- One member or element a line, indented by two blanks a level. `text` is valid JSON.
function json_text.pretty(text)
  local out, depth, fresh = {}, 0, false -- fresh: right behind an opening
  local function line() out[#out + 1] = "\n" .. ("  "):rep(depth) end
  for token in tokens(text) do
    if closes[token] then
      depth = depth - 1
      if not fresh then line() end
      fresh = false
    elseif fresh then
      line()
      fresh = false
    end
    out[#out + 1] = token
    if opens[token] then
      depth, fresh = depth + 1, true
    elseif token == "," then
      line()
    elseif token == ":" then
      out[#out + 1] = " "
    end
  end
  return table.concat(out)
end

-- Without white space between its tokens.
function json_text.compact(text)
  local out = {}
  for token in tokens(text) do out[#out + 1] = token end
  return table.concat(out)
end

return json_text
