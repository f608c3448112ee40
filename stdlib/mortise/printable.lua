-- Text that is not ours, made fit for a terminal: nothing in it commands the terminal, turns the line
-- around, or begins a line that could be taken for one of mortise's own.
local escapes = {["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}

local function escape_byte(c) return escapes[c] or ("\\x%02x"):format(c:byte()) end
local function escape_character(c) return ("\\u{%x}"):format(utf8.codepoint(c)) end

-- C1 controls, then marks of direction and line separators; by their bytes in UTF-8.
local characters = {
  "\xc2[\x80-\x9f]", "\xd8\x9c", "\xe2\x80[\x8e\x8f\xa8-\xae]", "\xe2\x81[\xa6-\xa9]",
}

-- Every such character as an escape of Lua's; bytes that are no UTF-8 too. With `lines`, line breaks and
-- tabs stay.
return function(text, lines)
  text = text:gsub(lines and "[\0-\8\11-\31\127]" or "[\0-\31\127]", escape_byte)
  if not utf8.len(text) then return (text:gsub("[\128-\255]", escape_byte)) end
  for _, pattern in ipairs(characters) do text = text:gsub(pattern, escape_character) end
  return text
end
