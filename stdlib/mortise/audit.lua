-- The audit trail: a line of the log (level info) for each thing that somebody does to locks, jobs and tables
-- of others, with who does it, and from where.
local core = require "mortise.core"
local sessions = require("mortise.later") "mortise.sessions"

-- "audit: ann@host, pid 7, namespace default of http://...: ends session ..."
return function(client, format, ...)
  local text = ("audit: %s, namespace %s of %s: %s"):format(sessions.own_text(), client:namespace(),
    client:url(), format:format(...))
  core.inform((text:gsub("[\0-\x1f\x7f]+", " ")))
end
