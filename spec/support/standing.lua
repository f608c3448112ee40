-- Makes the document of a job that stands half-done, as core/job/record.c writes it, without doing anything.
local core = require "mortise.core"

return function(client, id, paths, state)
  local index = client:_open_core():jobs_index()
  client:create(index, client:namespace() .. ":" .. id, core.object {
    kind = "job", format = 1, ns = client:namespace(), job = id, state = state or "stopped",
    created = core.wall_ms(), updated = core.wall_ms(),
    body = core.object {
      session = "", reason = "", waits = "", aside = "", orders = 0, batches = core.array {1},
      also = core.array {}, undo = core.array {0, 0}, undo_by = "journal", loose = false, total = 0,
      strategy = "", strategy_why = "", counts = core.object {},
      spec = core.object {
        index = "nowhere", change = core.array {}, lock = {kind = "tree", paths = core.array(paths)},
      },
    },
  })
end
