local core = require "mortise.core"

return {core = core, version = core.version, null = core.null, spawn = core.spawn}
