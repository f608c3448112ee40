-- Makes foreign text safe for a terminal: it cannot control the terminal, change the direction of the line,
-- or begin a line that looks like one of mortise's own.
local escapes = {["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}

local function escape_byte(c) return escapes[c] or ("\\x%02x"):format(c:byte()) end
local function escape_character(c) return ("\\u{%x}"):format(utf8.codepoint(c)) end

-- C1 controls, then directional marks and line separators, as UTF-8 bytes.
local characters = {
  "\xc2[\x80-\x9f]", "\xd8\x9c", "\xe2\x80[\x8e\x8f\xa8-\xae]", "\xe2\x81[\xa6-\xa9]",
}

-- Replaces every such character, and invalid UTF-8, by a Lua escape. With `lines`, line breaks and tabs stay.
return function(text, lines)
  text = text:gsub(lines and "[\0-\8\11-\31\127]" or "[\0-\31\127]", escape_byte)
  if not utf8.len(text) then return (text:gsub("[\128-\255]", escape_byte)) end
  for _, pattern in ipairs(characters) do text = text:gsub(pattern, escape_character) end
  return text
end
