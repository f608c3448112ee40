-- A name as one segment of the path of a URL.
return function(text)
  return (text:gsub("[^0-9A-Za-z._-]", function(c) return ("%%%02X"):format(c:byte()) end))
end
