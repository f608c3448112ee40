-- The option max_load: a job pauses itself while its store is under load, and goes on by itself. Not on an
-- embedded store, which serves nobody else.
local core = require "mortise.core"
local errors = require "mortise.errors"
local options = require "mortise.options"

local overload = {}

local rows = {
  {name = "status", type = "string", values = {"yellow", "red"}, help = "the cluster's status, or worse"},
  {name = "disk", type = "integer", least = 1, most = 100, range = "1 to 100",
    help = "a node's disk is fuller than that, in percent"},
  {name = "refused", type = "count", help = "so many write requests were refused since the last look"},
  {name = "every", type = "duration", default = 5000, help = "how often it looks"},
}

overload.row = {
  name = "max_load", type = "table", help = "{status=, disk=, refused=}: it pauses by itself meanwhile",
}

-- The option as it is kept in a job's document.
function overload.check(given)
  if given == nil then return nil end
  local o = options.check("job: max_load", rows, given)
  if not (o.status or o.disk or o.refused) then
    errors.bad "job: max_load: give `status`, `disk` or `refused`"
  end
  return o
end

-- The answer; nil where there is none now, so that nothing is known.
local function ask(client, path)
  local ok, status, text = pcall(client.raw, client, "GET", path)
  if not ok then
    if errors.code(status) == "interrupted" then error(status, 0) end
    return nil
  end
  if status == 401 or status == 403 then
    errors.raise("auth", "max_load: the user may not read the cluster's state: GET %s", path)
  end
  return status == 200 and core.json_decode(text) or nil
end

local rank = {green = 0, yellow = 1, red = 2}

local function bad_status(client, worst)
  local health = ask(client, "/_cluster/health?filter_path=status")
  local status = health and health.status
  if rank[status] and rank[status] >= rank[worst] then return "the cluster is " .. status end
end

local function full_disk(client, most)
  local stats = ask(client, "/_nodes/stats/fs?filter_path=nodes.*.name,nodes.*.fs.total")
  for _, node in pairs(stats and stats.nodes or {}) do
    local total = node.fs and node.fs.total
    local size, free = total and total.total_in_bytes, total and total.available_in_bytes
    if size and free and size > 0 and (size - free) * 100 > size * most then
      local percent = (size - free) * 100 // size
      return ("the disk of %s is full to %d percent"):format(core.tostring(node.name), percent)
    end
  end
end

-- What is exceeded, as text; nil: nothing. `refused`: requests since the last look.
function overload.excess(client, o, refused)
  if o.refused and refused >= o.refused then return ("the store refused %d requests"):format(refused) end
  return o.status and bad_status(client, o.status) or o.disk and full_disk(client, o.disk) or nil
end

local Guard = {}

function Guard:__close()
  self.over = true
  self.task:cancel()
  pcall(self.task.join, self.task)
end

-- An error of the guard's ends the work.
local function watch(client, work, o, may_begin)
  local seen = 0
  while true do
    local refused = work:result().refused
    local why = overload.excess(client, o, refused - seen)
    seen = refused
    if may_begin() then work:pause(why and "waits until it is better: " .. why) end
    core.sleep(o.every)
  end
end

-- Watches the store while `work` runs, until it is closed. `may_begin`: nothing else holds it at its start.
function overload.guard(client, work, o, may_begin)
  if not o or client:_is_embedded() then return nil end
  local self = setmetatable({}, Guard)
  self.task = core.spawn(function()
    local ok, why = pcall(watch, client, work, o, may_begin)
    if ok or self.over then return end
    self.why = why
    work:cancel()
  end)
  return self
end

return overload
