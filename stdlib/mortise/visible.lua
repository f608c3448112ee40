-- A path as people are shown it: in quotes if it ends with a blank, which could not be seen.
return function(path)
  return path:find " $" and '"' .. path .. '"' or path
end
