-- later "mortise.job" stands for the module and loads it when it is first used, since a program that runs for
-- milliseconds should not pay for modules that it does not use.
local require = require

return function(name)
  return setmetatable({}, {
    __index = function(_, key) return require(name)[key] end,
    __call = function(_, ...) return require(name)(...) end,
  })
end
