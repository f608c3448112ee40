-- What bench_jobs runs: job.lua WAY INDEX [DOCUMENTS]. The last line is what it has done, as JSON.
local core = require "mortise.core"
local way, index, documents = ...
documents = math.tointeger(documents)

local from, to = "/clinton", "/projects/clinton"
local rename = {from = from, to = to}
local list = {{replace_prefix = {field = "path", from = from, to = to}}}
local below = {prefix = {path = from .. "/"}}

local ways = {
  none = {rename = rename, journal = false},       -- undone by renaming back
  server = {rename = rename, strategy = "server"}, -- by the server itself, likewise
  auto = {rename = rename, strategy = "auto"},
  tuned = {rename = rename, tune = true},
  ids = {rename = rename},                         -- its inverse restores each document
  images = {change = {list[1], {set = {field = "moved", value = true}}}, query = below, lock = {from, to}},
  lua = {
    change = function(doc) doc.path = to .. doc.path:sub(#from + 1) end,
    query = below, lock = {from, to},
  },
}

local function fill()
  mortise.create_index(index, {mappings = {properties = {path = {type = "keyword"}}}})
  local writer = {}
  for i = 1, documents do
    writer[#writer + 1] = {op = "index", id = ("d%07d"):format(i), doc = {
      path = ("/clinton/%d/%d.txt"):format(i % 1000, i), name = i .. ".txt", size = i,
      contents = "pawu dolu tajo hera fime naso gulo bite rumi kano",
    }}
    if #writer == 5000 or i == documents then
      mortise.bulk(index, writer)
      writer = {}
    end
  end
  return {changed = documents}
end

local function run(given)
  given.index, given.id = index, "bench"
  local job = mortise.job(given)
  return job, job:run()
end

local result
if way == "init" then
  mortise.init()
  result = {changed = 0}
elseif way == "fill" then
  result = fill()
elseif way == "undo" then
  result = mortise.get_job "bench":rollback()
else
  result = select(2, run(ways[way]))
end
-- The most that this program has had in memory, in kB. What wait4 tells begins with the memory of the parent.
local function peak()
  for line in io.lines "/proc/self/status" do
    local kb = line:match "^VmHWM:[ \t]*([0-9]+) kB"
    if kb then return math.tointeger(kb) end
  end
end

print(core.json {
  changed = result.changed, round_trips = result.round_trips or 0, bytes = result.bytes or 0, peak_kb = peak(),
})
