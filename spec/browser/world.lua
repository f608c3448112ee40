-- Something to look at on a board: locks, who waits for whom, a job that runs, so many documents a second,
-- and one that stands half-done. `hostile`: with names that would do harm where they were taken for anything
-- but text.
local config = require "mortise.config"
local kind, index, rate, documents = ...
rate, documents = math.tointeger(tonumber(rate)), math.tointeger(tonumber(documents))

local hostile = kind == "hostile"
local harm = {
  '<script>window.harm = "script"</script>', '<img src=x onerror="window.harm = 1">',
  '"><svg onload=window.harm=2>', "javascript:window.harm=3",
  "\u{202e}gpj.exe\u{2066}\u{200b}", "${window.harm=4} {{window.harm=5}}",
}

local clients = {}

local function connect(name)
  config.identity = {program = "mortise", script = name}
  local client = mortise.connect {}
  clients[#clients + 1] = client
  return client
end

local function hold(name, paths, mode)
  local client = connect(name)
  return client, client:acquire {tree = paths, mode = mode}
end

local held = {}

local function keep(_, lock) held[#held + 1] = lock end

local waits = {}

local function wait(name, path)
  local client = connect(name)
  waits[#waits + 1] = mortise.spawn(function()
    pcall(client.acquire, client, {tree = path, wait = "1h"})
  end)
end

keep(hold("nightly-import.lua", {"/projects/clinton/letters", "/projects/clinton/maps"}))
keep(hold("reader.lua", {"/projects/clinton/drafts", "/projects/adams"}, "shared"))
keep(hold("reindex.lua", {"/projects/burr/2024/07"}))
for i = 1, 40 do keep(hold(("worker-%d.lua"):format(i), {("/tenants/t%03d/inbox"):format(i)})) end
if hostile then
  for i, each in ipairs(harm) do
    local path = each:gsub("[\u{202e}\u{2066}\u{200b}]", "_")
    keep(hold(each .. ("w"):rep(i == 1 and 4000 or 3), {"/harm/" .. path:gsub("/", "_")}))
  end
  keep(hold("deep", {"/harm/" .. ("long"):rep(250) .. "/" .. ("deep"):rep(700)}))
end
wait("archive.lua", "/projects/clinton")
wait(hostile and harm[2] .. harm[5] or "cleanup.lua", "/projects/clinton/letters")

-- ---- Jobs ----------------------------------------------------------------------------------------

local function fill(name, path)
  mortise.create_index(name, {mappings = {properties = {path = {type = "keyword"}}}})
  local items = {}
  for i = 1, documents do
    items[i] = {op = "index", id = ("d%d"):format(i), doc = {path = ("%s/%d"):format(path, i)}}
  end
  mortise.bulk(name, items)
  mortise.refresh(name)
end

fill(index, "/old")
fill(index .. "-2", "/older")
config.identity = {program = "mortise", script = "move-old.lua"}
local running = mortise.connect {}
local job = running:job {
  id = "move-old", index = index, rename = {from = "/old", to = "/new"}, rate = rate,
  batch = math.max(1, rate // 2),
}
local at_work = mortise.spawn(function() pcall(job.run, job) end)
local standing = running:job {
  id = "stands-half-done", index = index .. "-2", rename = {from = "/older", to = "/archive"}, rate = 100,
  batch = 20,
}
local stopped = mortise.spawn(function() pcall(standing.run, standing) end)
mortise.sleep(2)
pcall(standing.cancel, standing)
pcall(stopped.join, stopped)
print "ready"
io.stdout:flush()

while not at_work:done() do mortise.sleep(0.2) end
mortise.sleep(3600)
